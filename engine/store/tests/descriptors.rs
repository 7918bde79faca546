//! A process, or a machine, that has no descriptor left for files: what must wait waits, and nothing ends.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod support;

use core::cell::Cell;
use core::time::Duration;
use std::rc::Rc;

use engine_io::{Io, Task};
use engine_store::AppendError;
use sim::CrashMode;
use support::client::Client;
use support::model::Model;
use support::{Machine, SimLog, append, at, batch, batch_of, end_of, partition};

const EMFILE: Option<i32> = Some(24);

/// Segments so small that a roll is always near.
fn machine(seed: u64) -> Machine {
    let mut machine = Machine::new(seed);
    machine.log_config.segment_bytes = 40_000;
    machine.config.checkpoint_interval = Duration::from_millis(5);
    machine
}

/// Appends one batch after the other, each once the last is durable, also where some are refused; how many were.
async fn produce(log: SimLog, io: impl Io, model: Rc<core::cell::RefCell<Model>>, batches: u64) -> u64 {
    let mut refused = 0;
    for seed in 0..batches {
        let bytes = batch(seed, 1, 6_000);
        let appended = loop {
            match append(&log, &bytes).await {
                Ok(appended) => break appended,
                Err(AppendError::Unavailable(error)) => assert_eq!(error.code, EMFILE, "{error}"),
                Err(error) => panic!("{error}"),
            }
            refused += 1;
            io.sleep(Duration::from_millis(3)).await;
        };
        log.flushed(end_of(&appended)).await.unwrap();
        model.borrow_mut().appended(&appended, &bytes);
    }
    refused
}

/// Refuses by chance, and then some in a row.
fn comes_and_goes(seed: u64) -> impl FnMut(&std::path::Path) -> bool {
    let mut asked = 0;
    move |_| {
        asked += 1;
        let draw = asked / (1 + seed % 7) + (seed << 32);
        draw.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 62 == 0
    }
}

#[test]
fn rolls_and_checkpoints_without_descriptors_wait_or_are_refused_and_nothing_is_lost() {
    let mut refused = 0;
    for seed in 0..20 {
        let machine = machine(2_000 + seed);
        let (store, _) = machine.start();
        let logs: Vec<_> = (0..3).map(|number| machine.open(&store, partition(number))).collect();
        machine.disk().refuse_descriptors(comes_and_goes(seed));
        let io = machine.node.io();
        let models: Vec<_> = logs.iter().map(|_| Rc::<core::cell::RefCell<Model>>::default()).collect();
        let producers: Vec<_> = logs
            .iter()
            .zip(&models)
            .map(|(log, model)| {
                let (slot, done) = engine_io::reply();
                let producing = produce(log.clone(), io.clone(), Rc::clone(model), 30);
                (io.spawn(async move { slot.answer(producing.await) }), done)
            })
            .collect();
        for (task, done) in producers {
            refused += machine.run(done.wait()).unwrap();
            machine.run(task.join());
        }
        machine.disk().heal();
        for log in &logs {
            machine.append_flushed(log, &batch(0, 1, 10));
        }
        machine.crash(CrashMode::LoseAllUnflushed);
        let (store, _) = machine.start();
        let mut client = machine.run(Client::connect(&machine.node));
        for (number, model) in (0..3).zip(&models) {
            let log = machine.open(&store, partition(number));
            let model = model.borrow();
            let bytes = machine.run(client.read_all(&log, at(0), 10_000_000));
            let expected = model.bytes_from(at(0));
            assert_eq!(bytes.get(..expected.len()), Some(&expected[..]), "seed {seed}, partition {number}");
        }
    }
    assert!(refused > 0, "some appends met the want");
}

#[test]
fn a_flush_that_found_no_descriptor_acknowledges_nothing_until_there_is_one() {
    let machine = machine(2_100);
    let (store, log) = machine.start_one();
    let folder = machine.folder(partition(0));
    let asked = Rc::new(Cell::new(0));
    machine.disk().refuse_descriptors({
        let asked = Rc::clone(&asked);
        move |path| {
            let is_folder = path == folder;
            asked.set(asked.get() + u32::from(is_folder));
            is_folder
        }
    });
    let appended = machine.append(&log, &batch(0, 1, 100));
    let io = machine.node.io();
    let until = io.now().after(Duration::from_secs(30));
    let flushed = engine_io::deadline(&io, until, log.flushed(end_of(&appended)));
    assert_eq!(machine.run(flushed), None, "its name may be lost");
    assert!((100..1_000).contains(&asked.get()), "tried {} times", asked.get());
    machine.disk().heal();
    machine.run(log.flushed(end_of(&appended))).unwrap();
    assert_eq!(machine.run(store.shutdown()), Ok(()));
}

#[test]
fn a_truncation_waits_for_descriptors_once_it_has_begun() {
    for seed in 0..20 {
        let machine = machine(2_200 + seed);
        let (store, log) = machine.start_one();
        let mut model = Model::default();
        for number in 0..30 {
            let bytes = batch(number, 1, 6_000);
            let appended = machine.append_flushed(&log, &bytes);
            if number < 10 {
                model.appended(&appended, &bytes);
            }
        }
        machine.pause(Duration::from_millis(100));
        machine.disk().refuse_descriptors(comes_and_goes(seed));
        while let Err(error) = machine.run(log.truncate(at(10))) {
            assert!(error.to_string().contains("os error 24"), "{error}");
        }
        machine.disk().heal();
        assert_eq!(machine.run(store.shutdown()), Ok(()));
        machine.crash(CrashMode::LoseAllUnflushed);
        let (store, _) = machine.start();
        let log = machine.open(&store, partition(0));
        let mut client = machine.run(Client::connect(&machine.node));
        assert!(machine.run(client.read_all(&log, at(0), 10_000_000)) == model.bytes_from(at(0)), "{seed}");
    }
}

#[test]
fn files_that_nothing_uses_give_their_descriptors_to_those_that_are_made() {
    let machine = machine(2_360);
    let (store, _) = machine.start();
    let logs: Vec<_> = (0..8).map(|number| machine.open(&store, partition(number))).collect();
    let counted = store.clone();
    machine.disk().refuse_descriptors(move |path| {
        path.extension().is_some_and(|extension| extension == "log") && counted.metrics().descriptors_now >= 3
    });
    for seed in 0..30 {
        for log in &logs {
            machine.append_flushed(log, &batch(seed, 1, 6_000));
        }
    }
    assert!(store.metrics().descriptors_now <= 3);
    machine.disk().heal();
    machine.run(store.shutdown()).unwrap();
}

#[test]
fn a_cut_waits_for_descriptors_to_learn_which_producers_are_left() {
    for skipped in 0..12_u64 {
        let mut machine = machine(2_300 + skipped);
        machine.config.tail_bytes_per_partition = 8 << 10;
        let (_store, log) = machine.start_one();
        for number in 0..30 {
            machine.append_flushed(&log, &batch_of(7, number, 1, 6_000));
        }
        machine.pause(machine.config.idle_after * 3);
        let mut asked = 0;
        machine.disk().refuse_descriptors(move |path| {
            let is_segment = path.extension().is_some_and(|extension| extension == "log");
            asked += u64::from(is_segment);
            is_segment && (skipped + 1..skipped + 40).contains(&asked)
        });
        // Before the cut is begun, want of descriptors may refuse it; then it is as if it had never been asked for.
        if let Err(error) = machine.run(log.truncate(at(10))) {
            assert_eq!(log.offsets().log_end, at(30), "{error}");
        }
        machine.disk().heal();
        machine.run(log.truncate(at(10))).unwrap();
        assert_eq!(log.offsets().log_end, at(10));
        machine.append_flushed(&log, &batch_of(7, 10, 1, 100));
    }
}

#[test]
fn a_cut_whose_producers_could_not_be_read_is_mended_by_the_next() {
    let mut machine = machine(2_350);
    machine.config.tail_bytes_per_partition = 8 << 10;
    let (_store, log) = machine.start_one();
    for number in 0..30 {
        machine.append_flushed(&log, &batch_of(7, number, 1, 6_000));
    }
    machine.pause(machine.config.idle_after * 3);
    machine.disk().refuse_descriptors(|path| path.ends_with("00000000000000000000.log"));
    let io = machine.node.io();
    let (cutting, until) = (log.clone(), io.now().after(Duration::from_secs(5)));
    let dropped = machine.run(engine_io::deadline(&io, until, cutting.truncate(at(10))));
    assert!(dropped.is_none() && log.offsets().log_end == at(10), "it waits for a descriptor");
    machine.disk().heal();
    machine.run(log.truncate(at(10))).unwrap();
    machine.append_flushed(&log, &batch_of(7, 10, 1, 100));
}
