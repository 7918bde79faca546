//! Group commit, demand, and the end of a store whose disk fails.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod support;

use core::cell::Cell;
use core::time::Duration;
use std::rc::Rc;

use engine_io::{Io, Task};
use engine_store::{AppendError, DiskOperation, FlushScope, StoreError, WaitError};
use futures_lite::future::{block_on, poll_once};
use sim::CrashMode;
use support::{Machine, SimLog, append, at, batch, end_of, partition};

/// Opens `count` partitions and appends to each, flushed, so that they have descriptors and space.
fn warm(machine: &Machine, store: &support::SimStore, count: i32) -> Vec<SimLog> {
    let logs: Vec<_> = (0..count).map(|number| machine.open(store, partition(number))).collect();
    for log in &logs {
        machine.append_flushed(log, &batch(0, 1, 100));
    }
    logs
}

/// Lets one producer a log append `rounds` batches, each after the last one is flushed.
fn produce(machine: &Machine, logs: &[SimLog], rounds: u64, bytes: usize) {
    let io = machine.node.io();
    let producers: Vec<_> = logs
        .iter()
        .cloned()
        .map(|log| {
            let (slot, done) = engine_io::reply();
            let task = io.spawn(async move {
                for seed in 0..rounds {
                    let appended = append(&log, &batch(seed, 1, bytes)).await.unwrap();
                    log.flushed(end_of(&appended)).await.unwrap();
                }
                slot.answer(());
            });
            (task, done)
        })
        .collect();
    for (_task, done) in producers {
        machine.run(done.wait()).unwrap();
    }
}

#[test]
fn many_partitions_share_their_flushes() {
    let machine = Machine::new(20);
    let (store, _) = machine.start();
    let logs = warm(&machine, &store, 16);
    let before = store.metrics();
    produce(&machine, &logs, 20, 100);
    let after = store.metrics();
    assert_eq!(after.appends - before.appends, 320);
    let turns = after.flush_turns - before.flush_turns;
    assert!(turns <= 120, "320 acknowledged appends took {turns} turns");
    // Batches this small rewrite blocks that were flushed before: one flush of one file covers them all.
    let flushes = after.flushes - before.flushes;
    assert!(flushes <= turns + 40, "{flushes} flushes in {turns} turns");
}

#[test]
fn space_written_ahead_lets_one_flush_serve_many_growing_files() {
    let flushes_per_turn = |zero_ahead_bytes| {
        let mut machine = Machine::new(29);
        machine.config.zero_ahead_bytes = zero_ahead_bytes;
        machine.config.allocation_bytes_min = 256 << 10;
        let (store, _) = machine.start();
        let logs = warm(&machine, &store, 16);
        produce(&machine, &logs, 10, 3_000);
        let before = store.metrics();
        produce(&machine, &logs, 40, 3_000);
        let after = store.metrics();
        (after.flushes - before.flushes) as f64 / (after.flush_turns - before.flush_turns) as f64
    };
    let (with, without) = (flushes_per_turn(128 << 10), flushes_per_turn(0));
    assert!(with < 2.0 && without > 3.0, "{with} flushes a turn, {without} without zeros ahead");
}

#[test]
fn a_flush_for_each_file_is_made_where_one_does_not_cover_the_others() {
    let mut machine = Machine::new(21);
    machine.config.flush_scope = FlushScope::PerFile;
    let (store, _) = machine.start();
    let logs = warm(&machine, &store, 8);
    let before = store.metrics();
    let io = machine.node.io();
    for log in &logs {
        machine.run(append(log, &batch(1, 1, 100))).unwrap();
    }
    machine.run(io.sleep(Duration::from_millis(5)));
    for log in &logs {
        machine.run(log.flushed(at(2))).unwrap();
    }
    assert_eq!(store.metrics().flushes - before.flushes, 8);
}

#[test]
fn what_nobody_waits_for_is_flushed_in_its_own_time() {
    let machine = Machine::new(22);
    let (_store, log) = machine.start_one();
    machine.append_flushed(&log, &batch(0, 1, 100));
    machine.append(&log, &batch(1, 1, 100));
    machine.pause(Duration::from_millis(50));
    assert_eq!((log.offsets().written, log.offsets().flushed), (at(2), at(1)));
    machine.pause(Duration::from_millis(80));
    assert_eq!(log.offsets().flushed, at(2));
}

#[test]
fn much_unflushed_data_is_flushed_before_its_time() {
    let mut machine = Machine::new(23);
    machine.config.flush_interval = Duration::from_hours(1);
    machine.config.flush_bytes = 1 << 20;
    let (_store, log) = machine.start_one();
    for seed in 0..30 {
        let appended = machine.append(&log, &batch(seed, 1, 50_000));
        machine.run(log.written(end_of(&appended))).unwrap();
    }
    machine.pause(Duration::from_millis(50));
    assert!(log.offsets().flushed >= at(20), "{:?}", log.offsets());
}

#[test]
fn interest_in_the_flush_makes_it_come_at_once() {
    let machine = Machine::new(24);
    let (_store, log) = machine.start_one();
    machine.append_flushed(&log, &batch(0, 1, 100));
    let interest = log.flush_interest();
    machine.append(&log, &batch(1, 1, 100));
    machine.pause(Duration::from_millis(5));
    assert_eq!(log.offsets().flushed, at(2));
    drop(interest);
    machine.append(&log, &batch(2, 1, 100));
    machine.pause(Duration::from_millis(5));
    assert_eq!(log.offsets().flushed, at(2));
}

#[test]
fn an_idle_store_has_no_task_and_no_timer() {
    let machine = Machine::new(25);
    let (_store, log) = machine.start_one();
    machine.append_flushed(&log, &batch(0, 1, 100));
    machine.sim.run_until_idle();
    let idle_since = machine.sim.now();
    assert!(idle_since.as_nanos() < 400_000_000_000, "the world was busy until {idle_since:?}");
}

#[test]
fn progress_names_the_partitions_that_moved() {
    let machine = Machine::new(26);
    let (store, _) = machine.start();
    let logs = warm(&machine, &store, 3);
    machine.pause(Duration::from_millis(300));
    machine.run(store.progress()).unwrap();
    assert!(block_on(poll_once(store.progress())).is_none());
    machine.append(&logs[1], &batch(1, 1, 100));
    assert_eq!(machine.run(store.progress()).unwrap(), [partition(1)]);
    assert_eq!(logs[1].offsets().written, at(2));
    assert_eq!(machine.run(store.progress()).unwrap(), [partition(1)]);
    assert_eq!(logs[1].offsets().flushed, at(2));
}

#[test]
fn a_failed_flush_ends_the_store_and_acknowledges_nothing() {
    let mut machine = Machine::new(27);
    machine.config.zero_ahead_bytes = 0;
    let (store, _) = machine.start();
    let logs = warm(&machine, &store, 2);
    machine.disk().fail_next_flush();
    let appended = machine.append(&logs[0], &batch(1, 1, 100));
    let waited = machine.run(logs[0].flushed(end_of(&appended)));
    assert!(matches!(waited, Err(WaitError::Failed(_))));
    assert_eq!(logs[0].offsets().flushed, at(1));
    let failure = machine.run(store.failed());
    assert_eq!(failure.0.operation, DiskOperation::Flush);
    machine.disk().heal();
    machine.pause(Duration::from_secs(5));
    assert_eq!(logs[0].offsets().flushed, at(1), "a failed flush is never tried again");
    let refused = machine.run(append(&logs[1], &batch(1, 1, 100)));
    assert!(matches!(refused, Err(AppendError::Failed(_))));
    assert!(matches!(machine.run(store.progress()), Err(WaitError::Failed(_))));
    assert!(matches!(machine.run(store.shutdown()), Err(StoreError::Failed(_))));
    assert!(matches!(machine.try_open(&store, partition(9)), Err(StoreError::Failed(_))));
}

/// A flush that fails may lose whatever was written before it began, also what another one that is under way is about to
/// make durable. So nothing may be acknowledged for a flush beside which another has failed, be it ever so little earlier.
#[test]
fn a_failed_flush_loses_nothing_that_was_acknowledged() {
    for seed in 2_000..2_200 {
        let mut machine = Machine::new(seed);
        machine.config.zero_ahead_bytes = if seed % 2 == 0 { 0 } else { 32 << 10 };
        let (_store, log) = machine.start_one();
        machine.append_flushed(&log, &batch(0, 1, 100));
        let acknowledged = Rc::new(Cell::new(at(1)));
        let producers: Vec<_> = (1..5_u64)
            .map(|number| {
                let (log, acknowledged) = (log.clone(), Rc::clone(&acknowledged));
                machine.node.io().spawn(async move {
                    for seed in 0..1_000 {
                        let Ok(appended) = append(&log, &batch(number << 32 | seed, 1, 3_000)).await else {
                            return;
                        };
                        if log.flushed(end_of(&appended)).await.is_err() {
                            return;
                        }
                        acknowledged.set(acknowledged.get().max(end_of(&appended)));
                    }
                })
            })
            .collect();
        machine.pause(Duration::from_micros(10_000 + seed % 100 * 97));
        machine.disk().fail_next_flush();
        for producer in producers {
            machine.run(producer.join());
        }
        machine.disk().heal();
        machine.crash(CrashMode::LoseAllUnflushed);
        let (_store, log) = machine.start_one();
        assert!(acknowledged.get() > at(10) && acknowledged.get() < at(4_000), "seed {seed}");
        assert!(log.offsets().log_end >= acknowledged.get(), "seed {seed}");
    }
}

#[test]
fn a_failed_write_ends_the_store_and_every_wait() {
    let machine = Machine::new(28);
    let (store, _) = machine.start();
    let logs = warm(&machine, &store, 2);
    machine.disk().fail_writes(|path| path.extension().is_some_and(|extension| extension == "log"), 0);
    let appended = machine.append(&logs[0], &batch(1, 1, 100));
    let waited = machine.run(logs[0].written(end_of(&appended)));
    assert!(matches!(waited, Err(WaitError::Failed(_))));
    assert_eq!(machine.run(store.failed()).0.operation, DiskOperation::Write);
    let other = machine.run(logs[1].flushed(at(5)));
    assert!(matches!(other, Err(WaitError::Failed(_))));
}
