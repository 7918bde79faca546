//! Random runs with a crash at a random moment, again and again over the same disk.
//!
//! What is checked after each start: nothing flushed is lost, nothing is changed, and the log is what was appended up
//! to some batch. Between any two disk operations of a run lies some moment that some seed crashes at.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod support;

use core::cell::RefCell;
use core::time::Duration;
use std::rc::Rc;

use engine_io::{Io, Task};
use engine_record::Offset;
use engine_store::FlushScope;
use proptest::prelude::*;
use sim::{CrashMode, SimTask};
use support::client::Client;
use support::model::Model;
use support::{Machine, SimLog, append, at, batch, batch_of, partition};

/// What one partition's producer has been promised.
#[derive(Default)]
struct Promises {
    model: Model,
    flushed: Option<Offset>,
}

/// Who appends. What an idempotent producer sends next depends on what the log remembers of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Producers {
    Plain,
    Idempotent,
}

/// How a run of the store goes.
#[derive(Clone, Debug)]
struct Run {
    partitions: i32,
    batch_bytes: usize,
    /// Appends between two waits for the flush.
    appends_per_flush: u64,
    crash_after: Duration,
    mode: CrashMode,
}

fn run() -> impl Strategy<Value = Run> {
    let mode = prop_oneof![
        2 => Just(CrashMode::LoseAllUnflushed),
        4 => Just(CrashMode::KeepRandomSectors),
        1 => Just(CrashMode::KeepAll),
    ];
    let batch_bytes = prop_oneof![10_usize..300, 300_usize..5_000, 5_000_usize..60_000];
    let crash_after = prop_oneof![0_u64..3_000, 3_000_u64..60_000, 60_000_u64..400_000];
    (1_i32..4, batch_bytes, 1_u64..20, crash_after, mode).prop_map(
        |(partitions, batch_bytes, appends_per_flush, micros, mode)| Run {
            partitions,
            batch_bytes,
            appends_per_flush,
            crash_after: Duration::from_micros(micros),
            mode,
        },
    )
}

/// Appends until the machine crashes, and notes what it was promised.
fn produce(
    machine: &Machine,
    log: SimLog,
    run: &Run,
    (number, producers): (u64, Producers),
    promises: &Rc<RefCell<Promises>>,
) -> SimTask {
    let (run, promises, io) = (run.clone(), Rc::clone(promises), machine.node.io());
    let paced = machine.node.io();
    io.spawn(async move {
        for seed in 0..120_u64 {
            let bytes = if producers == Producers::Idempotent {
                let sequence = i32::try_from(promises.borrow().model.end().value()).unwrap();
                batch_of(1, sequence, 2, run.batch_bytes)
            } else {
                batch(number << 32 | seed, 2, run.batch_bytes)
            };
            let appended = append(&log, &bytes).await.unwrap();
            promises.borrow_mut().model.appended(&appended, &bytes);
            if seed % run.appends_per_flush == 0 {
                let end = promises.borrow().model.end();
                log.flushed(end).await.unwrap();
                promises.borrow_mut().flushed = Some(end);
                paced.sleep(Duration::from_micros(300)).await;
            }
        }
    })
}

/// Checks a recovered log against its promises, which then are what is left.
fn check(machine: &Machine, log: &SimLog, promises: &mut Promises, mode: CrashMode) {
    let mut client = machine.run(Client::connect(&machine.node));
    let bytes = machine.run(client.read_all(log, at(0), 100_000));
    let end = promises.model.check_prefix(at(0), &bytes);
    let flushed = promises.flushed.unwrap_or(Offset::ZERO);
    assert!(end >= flushed, "{end} is left of {flushed} flushed, {mode:?}");
    assert_eq!(end, log.offsets().log_end);
    assert_eq!(end, log.offsets().flushed);
    promises.model.truncate(end);
    promises.flushed = Some(end);
}

/// A machine whose store rolls, writes ahead and checkpoints often.
fn busy_machine(seed: u64, segment_bytes: u32, scope: FlushScope) -> Machine {
    let mut machine = Machine::new(seed);
    machine.log_config.segment_bytes = segment_bytes;
    machine.config.flush_scope = scope;
    if scope == FlushScope::Device {
        machine.disk().flush_covers_device();
    }
    machine.config.checkpoint_bytes = 100_000;
    machine.config.zero_ahead_bytes = 32 << 10;
    machine.config.checkpoint_interval = Duration::from_millis(20);
    machine.config.tail_bytes_per_partition = 32 << 10;
    machine
}

/// The moments of a run at which anything happened: between two of them every crash finds the same.
fn recorded_moments(seed: u64, run: &Run, segment_bytes: u32, scope: FlushScope) -> Vec<Duration> {
    let machine = busy_machine(seed, segment_bytes, scope);
    let (store, _) = machine.start();
    let mut tasks = Vec::new();
    for index in 0..4 {
        let log = machine.open(&store, partition(index));
        let promises = Rc::new(RefCell::new(Promises::default()));
        check(&machine, &log, &mut promises.borrow_mut(), CrashMode::KeepAll);
        if index < run.partitions {
            let number = (u64::try_from(index).unwrap(), Producers::Plain);
            tasks.push(produce(&machine, log, run, number, &promises));
        }
    }
    let microsecond = Duration::from_micros(1);
    let mut moments = vec![Duration::ZERO];
    for micros in 1..=u32::try_from(run.crash_after.as_micros()).unwrap() {
        let before = machine.sim.trace_hash();
        machine.pause(microsecond);
        if machine.sim.trace_hash() != before {
            moments.push(micros * microsecond);
        }
    }
    moments
}

fn survive(seed: u64, runs: &[Run], segment_bytes: u32, scope: FlushScope, producers: Producers) {
    let machine = busy_machine(seed, segment_bytes, scope);
    let promises: Vec<_> = (0..4).map(|_| Rc::new(RefCell::new(Promises::default()))).collect();
    let mut mode = CrashMode::KeepAll;
    for (number, run) in runs.iter().enumerate() {
        let (store, _) = machine.start();
        let mut tasks = Vec::new();
        for (index, promises) in promises.iter().enumerate() {
            let log = machine.open(&store, partition(i32::try_from(index).unwrap()));
            check(&machine, &log, &mut promises.borrow_mut(), mode);
            if i32::try_from(index).unwrap() < run.partitions {
                tasks.push(produce(&machine, log, run, ((number * 4 + index) as u64, producers), promises));
            }
        }
        machine.pause(run.crash_after);
        if tasks.iter().all(Task::is_finished) && number % 2 == 0 {
            machine.run(store.shutdown()).unwrap();
        }
        machine.crash(run.mode);
        mode = run.mode;
    }
    let (store, _) = machine.start();
    for (index, promises) in promises.iter().enumerate() {
        let log = machine.open(&store, partition(i32::try_from(index).unwrap()));
        check(&machine, &log, &mut promises.borrow_mut(), mode);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24, failure_persistence: None, max_shrink_iters: 10, ..ProptestConfig::default()
    })]

    #[test]
    fn no_crash_loses_or_changes_what_was_flushed(
        seed: u64,
        runs in prop::collection::vec(run(), 1..5),
        segment_bytes in prop_oneof![20_000_u32..60_000, 60_000_u32..600_000],
        per_file: bool,
        idempotent: bool,
    ) {
        let scope = if per_file { FlushScope::PerFile } else { FlushScope::Device };
        let producers = if idempotent { Producers::Idempotent } else { Producers::Plain };
        survive(seed, &runs, segment_bytes, scope, producers);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 6, failure_persistence: None, max_shrink_iters: 4, ..ProptestConfig::default()
    })]

    /// The run is repeated, which brings the same events at the same times, and crashed after each of them.
    #[test]
    fn every_prefix_of_a_recorded_run_is_recovered(
        seed: u64,
        batch_bytes in prop_oneof![10_usize..300, 2_000_usize..9_000],
        mode in prop_oneof![1 => Just(CrashMode::LoseAllUnflushed), 3 => Just(CrashMode::KeepRandomSectors)],
        per_file: bool,
    ) {
        let scope = if per_file { FlushScope::PerFile } else { FlushScope::Device };
        let whole = Run {
            partitions: 2, batch_bytes, appends_per_flush: 2, crash_after: Duration::from_millis(15), mode,
        };
        let moments = recorded_moments(seed, &whole, 20_000, scope);
        prop_assert!(moments.len() > 40, "{} moments are no run", moments.len());
        for crash_after in moments {
            survive(seed, &[Run { crash_after, ..whole.clone() }], 20_000, scope, Producers::Plain);
        }
    }
}

/// One run, crashed at each of many moments: the first appends, the first rolls, the first checkpoints.
#[test]
fn every_moment_of_a_start_is_a_good_one_to_crash_at() {
    for micros in (0..12_000).step_by(83) {
        let run = Run {
            partitions: 2,
            batch_bytes: 3_000,
            appends_per_flush: 2,
            crash_after: Duration::from_micros(micros),
            mode: CrashMode::KeepRandomSectors,
        };
        survive(7, &[run.clone(), run], 20_000, FlushScope::Device, Producers::Plain);
    }
}
