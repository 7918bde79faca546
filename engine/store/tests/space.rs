//! Disk space, descriptors and memory: taken late, given back, and refused without harm.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod support;

use core::time::Duration;
use std::path::Path;
use std::rc::Rc;

use engine_io::{BLOCK_BYTES, Buffer, DirectFile, Io, OpenMode};
use engine_store::{AppendError, ReadBound, ReadError, ReadRequest};
use sim::CrashMode;
use support::client::Client;
use support::lines::lines_of;
use support::model::Model;
use support::{Machine, append, at, batch, partition};

#[test]
fn a_partition_takes_nothing_until_it_is_appended_to() {
    let machine = Machine::new(40);
    let (store, _) = machine.start();
    let logs: Vec<_> = (0..50).map(|number| machine.open(&store, partition(number))).collect();
    let (used, metrics) = (machine.disk().used_bytes(), store.metrics());
    assert_eq!((metrics.pool_bytes_now, metrics.descriptors_now), (0, 0));
    assert!(used < 50 * 8192, "{used} bytes for 50 empty partitions");
    machine.append(&logs[0], &batch(0, 1, 100));
    assert!(machine.disk().live(machine.segment(partition(0), 0)).is_some());
    assert!(machine.disk().live(machine.segment(partition(1), 0)).is_none());
}

#[test]
fn want_of_space_refuses_an_append_and_later_ones_work_once_there_is_some() {
    let mut machine = Machine::new(41);
    machine.config.tail_bytes_per_partition = 32 << 10;
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    let bytes = batch(0, 1, 10_000);
    model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    machine.pause(Duration::from_secs(2));
    machine.disk().set_capacity(machine.disk().used_bytes());
    let refused = loop {
        match machine.run(append(&log, &bytes)) {
            Ok(appended) => model.appended(&appended, &bytes),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, AppendError::StorageFull);
    assert_eq!(log.offsets().log_end, model.end());
    assert_eq!(machine.run(append(&log, &bytes)), Err(AppendError::StorageFull));
    machine.pause(Duration::from_secs(3));
    machine.run(log.flushed(model.end())).unwrap();
    machine.disk().set_capacity(1 << 40);
    for seed in 1..200 {
        let bytes = batch(seed, 1, 10_000);
        model.appended(&machine.append(&log, &bytes), &bytes);
    }
    machine.run(log.flushed(model.end())).unwrap();
    assert!(store.metrics().storage_full_refusals >= 2);
    let mut client = machine.run(Client::connect(&machine.node));
    assert_eq!(machine.run(client.read_all(&log, at(0), 100_000)), model.bytes_from(at(0)));
}

#[test]
fn want_of_space_is_told_once_and_so_is_its_end() {
    let mut machine = Machine::new(51);
    machine.log_config.segment_bytes = 100_000;
    let (store, log) = machine.start_one();
    let bytes = batch(0, 1, 10_000);
    machine.append_flushed(&log, &bytes);
    machine.disk().set_capacity(machine.disk().used_bytes());
    let refused = lines_of(|| {
        while store.metrics().storage_full_refusals < 20 {
            let _appended_or_refused = machine.run(append(&log, &bytes));
        }
        machine.pause(Duration::from_secs(100));
    });
    let [warning] = &refused[..] else { panic!("{refused:#?}") };
    let folder = machine.folder(partition(0));
    for part in [
        "WARN no space left",
        &format!("folder={}", folder.display()),
        &format!("batch_bytes={}", bytes.len()),
    ] {
        assert!(warning.contains(part), "{part} in {warning}");
    }
    let again = lines_of(|| {
        machine.disk().set_capacity(1 << 40);
        for _ in 0..20 {
            machine.append_flushed(&log, &bytes);
        }
    });
    assert_eq!(again, [format!("INFO there is space for appends again folder={}", folder.display())]);
}

#[test]
fn a_first_append_without_space_for_anything_leaves_the_partition_usable() {
    let machine = Machine::new(42);
    let (_store, log) = machine.start_one();
    machine.disk().set_capacity(machine.disk().used_bytes());
    assert_eq!(machine.run(append(&log, &batch(0, 1, 100))), Err(AppendError::StorageFull));
    assert_eq!(machine.run(append(&log, &batch(0, 1, 100))), Err(AppendError::StorageFull));
    machine.disk().set_capacity(1 << 40);
    assert_eq!(machine.append_flushed(&log, &batch(0, 1, 100)).base_offset, at(0));
}

/// Cuts the slot's file that has the older image, as a folder may come from a copy that left out what nobody needs.
fn cut_older_slot(machine: &Machine) {
    let whole = |slot: &str| machine.disk().live(slot).expect("the slot is there");
    let (zero, one) = ("data/checkpoints/0.0", "data/checkpoints/0.1");
    let older = if whole(one).starts_with(b"RLCK") { zero } else { one };
    machine.run(async {
        let file = machine.node.io().open(older.as_ref(), OpenMode::Existing).await.expect("it opens");
        file.truncate(0).await.expect("it is cut");
        file.flush().await.expect("it is flushed");
    });
}

#[test]
fn logs_whose_space_to_be_closed_was_lost_stay_open_and_keep_what_is_appended_after() {
    let machine = Machine::new(46);
    let (store, log) = machine.start_one();
    machine.append_flushed(&log, &batch(0, 1, 100));
    drop(store);
    machine.crash(CrashMode::KeepAll);
    cut_older_slot(&machine);
    machine.disk().set_capacity(machine.disk().used_bytes());
    let (store, log) = machine.start_one();
    assert_eq!(machine.run(append(&log, &batch(1, 1, 100))), Err(AppendError::StorageFull));
    assert!(machine.run(store.shutdown()).is_err(), "the log can't be closed");
    machine.crash(CrashMode::LoseAllUnflushed);
    let (store, report) = machine.start();
    assert!(!report.is_clean);
    let log = machine.open(&store, partition(0));
    machine.disk().set_capacity(1 << 40);
    machine.append_flushed(&log, &batch(1, 1, 100));
    machine.run(store.shutdown()).expect("the store closes");
    let (_, report) = machine.start();
    assert!(report.is_clean);
}

#[test]
fn idle_descriptors_are_closed_beyond_their_limit_and_opened_again() {
    let mut machine = Machine::new(43);
    machine.config.idle_descriptors_max = 4;
    let (store, _) = machine.start();
    let logs: Vec<_> = (0..20).map(|number| machine.open(&store, partition(number))).collect();
    for round in 0..3 {
        for log in &logs {
            machine.append_flushed(log, &batch(round, 1, 300));
        }
        assert!(store.metrics().descriptors_now <= 5, "{:?}", store.metrics());
    }
    for log in &logs {
        assert_eq!(log.offsets().flushed, at(3));
    }
}

#[test]
fn an_idle_partition_gives_back_memory_descriptors_and_space_and_goes_on() {
    let machine = Machine::new(44);
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    for seed in 0..5 {
        let bytes = batch(seed, 2, 3_000);
        model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    }
    machine.pause(Duration::from_secs(200));
    let metrics = store.metrics();
    assert_eq!((metrics.pool_bytes_now, metrics.descriptors_now), (0, 0));
    let size = machine.disk().live(machine.segment(partition(0), 0)).unwrap().len();
    assert_eq!(size, usize::try_from(log.size_bytes()).unwrap().next_multiple_of(4096));
    for seed in 5..10 {
        let bytes = batch(seed, 2, 3_000);
        model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    }
    let mut client = machine.run(Client::connect(&machine.node));
    assert_eq!(machine.run(client.read_all(&log, at(0), 9_000)), model.bytes_from(at(0)));
}

#[test]
fn tails_give_their_memory_to_appends_of_other_partitions() {
    let mut machine = Machine::new(45);
    machine.config.pool_bytes = 7 << 20;
    machine.config.tail_bytes_per_partition = 4 << 20;
    let (store, _) = machine.start();
    for number in 0..12 {
        let log = machine.open(&store, partition(number));
        for seed in 0..4 {
            machine.append_flushed(&log, &batch(seed, 1, 250_000));
        }
    }
    assert!(store.metrics().pool_bytes_now <= 7 << 20);
    let first = store.partition(partition(0)).unwrap();
    let request =
        ReadRequest { offset: at(0), max_bytes: 1 << 20, at_least_one: true, bound: ReadBound::LogEnd };
    let before = store.metrics().bytes_read_tail;
    let read = machine.run(first.read(request)).unwrap();
    assert!(read.bytes > 0);
    assert!(store.metrics().bytes_read_tail - before <= 4096, "the oldest tail went first");
}

#[test]
fn a_read_that_may_have_nothing_is_told_where_the_log_stands_and_touches_no_file() {
    let machine = Machine::new(47);
    let (store, log) = machine.start_one();
    for seed in 0..60 {
        machine.append_flushed(&log, &batch(seed, 1, 30_000));
    }
    machine.pause(Duration::from_secs(200));
    assert_eq!(store.metrics().descriptors_now, 0);
    let nothing =
        |offset| ReadRequest { offset, max_bytes: 0, at_least_one: false, bound: ReadBound::LogEnd };
    for offset in [at(0), at(33), at(60)] {
        let read = machine.run(log.read(nothing(offset))).unwrap();
        assert_eq!((read.bytes, read.next_offset, read.log_start), (0, offset, at(0)));
    }
    let beyond = machine.run(log.read(nothing(at(61))));
    assert!(matches!(beyond, Err(ReadError::OutOfRange { .. })));
    assert_eq!(store.metrics().descriptors_now, 0);
}

/// A log near its segment's end, and a batch too large for that segment that found no space for the next.
fn refused_in_a_roll(seed: u64) -> (Machine, engine_store::Store<sim::SimIo>, support::SimLog, Model) {
    let mut machine = Machine::new(seed);
    machine.log_config.segment_bytes = 60_000;
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    for seed in 0..5 {
        let bytes = batch(seed, 1, 10_000);
        model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    }
    machine.pause(Duration::from_secs(2));
    machine.disk().set_capacity(machine.disk().used_bytes());
    let refused = machine.run(append(&log, &batch(5, 1, 100_000)));
    assert_eq!(refused, Err(AppendError::StorageFull));
    assert!(machine.disk().live(machine.segment(partition(0), 5)).is_some(), "its segment has a name");
    (machine, store, log, model)
}

#[test]
fn a_roll_after_a_refused_one_seals_the_segment_before_and_leaves_no_file_behind() {
    let (machine, store, log, mut model) = refused_in_a_roll(48);
    let bytes = batch(6, 1, 100);
    model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    let sealed_bytes = log.size_bytes();
    machine.disk().set_capacity(1 << 40);
    let bytes = batch(7, 1, 100_000);
    model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    machine.pause(Duration::from_secs(2));
    assert_eq!(store.metrics().segments_sealed, 1);
    let sealed = machine.disk().live(machine.segment(partition(0), 0)).unwrap();
    assert_eq!(sealed.len() as u64, sealed_bytes, "its spare space is given back");
    assert!(machine.disk().live(machine.segment(partition(0), 5)).is_none());
    machine.crash(CrashMode::LoseAllUnflushed);
    let (_store, log) = machine.start_one();
    let mut client = machine.run(Client::connect(&machine.node));
    assert_eq!(machine.run(client.read_all(&log, at(0), 200_000)), model.bytes_from(at(0)));
}

#[test]
fn an_idle_partition_gives_back_the_segment_of_a_refused_roll() {
    let (machine, store, _log, _) = refused_in_a_roll(49);
    machine.disk().set_capacity(1 << 40);
    machine.pause(Duration::from_secs(200));
    assert!(machine.disk().live(machine.segment(partition(0), 5)).is_none());
    assert_eq!(store.metrics().descriptors_now, 0);
}

#[test]
fn an_orderly_end_after_a_refused_roll_is_found_as_it_was_left() {
    let (machine, store, _log, mut model) = refused_in_a_roll(52);
    machine.run(store.shutdown()).expect("the store closes");
    assert!(machine.disk().live(machine.segment(partition(0), 5)).is_some(), "the refused append's file");
    let lines = lines_of(|| {
        let (store, log) = machine.start_one();
        assert_eq!(store.metrics().recoveries, 0, "nothing was scanned");
        assert!(machine.disk().live(machine.segment(partition(0), 5)).is_none(), "nothing was in it");
        machine.disk().set_capacity(1 << 40);
        for (seed, bytes) in [(6, 100), (7, 100_000)] {
            let bytes = batch(seed, 1, bytes);
            model.appended(&machine.append_flushed(&log, &bytes), &bytes);
        }
        machine.run(store.shutdown()).expect("the store closes");
    });
    assert!(lines.is_empty(), "{lines:#?}");
    let (_store, log) = machine.start_one();
    let mut client = machine.run(Client::connect(&machine.node));
    assert_eq!(machine.run(client.read_all(&log, at(0), 200_000)), model.bytes_from(at(0)));
}

#[test]
fn a_partition_appended_to_while_others_are_looked_at_is_looked_at_again() {
    for micros in (0..6_000).step_by(97) {
        let machine = Machine::new(300 + micros);
        let (store, _) = machine.start();
        let logs = [0, 1, 2].map(|number| machine.open(&store, partition(number)));
        for log in &logs {
            machine.append_flushed(log, &batch(0, 1, 300));
        }
        // All are idle when they are looked at for the second time.
        machine.pause(
            machine.config.idle_after * 2 - Duration::from_millis(10) + Duration::from_micros(micros * 4),
        );
        machine.append_flushed(&logs[0], &batch(1, 1, 300));
        machine.pause(machine.config.idle_after * 4);
        let metrics = store.metrics();
        assert_eq!((metrics.pool_bytes_now, metrics.descriptors_now), (0, 0), "{micros}");
    }
}

/// A machine with two partitions whose store has ended, and no byte of space left.
fn ended_full(seed: u64, is_clean: bool) -> (Machine, Model) {
    let machine = Machine::new(seed);
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    for seed in 0..40 {
        let bytes = batch(seed, 2, 10_000);
        model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    }
    machine.append_flushed(&machine.open(&store, partition(1)), &batch(0, 1, 100_000));
    machine.pause(Duration::from_secs(2));
    if is_clean {
        machine.run(store.shutdown()).expect("the store closes");
    }
    machine.crash(CrashMode::LoseAllUnflushed);
    machine.disk().set_capacity(machine.disk().used_bytes());
    (machine, model)
}

#[test]
fn on_a_full_drive_a_start_reads_and_deletes_and_what_is_deleted_makes_room() {
    for is_clean in [true, false] {
        let (machine, mut model) = ended_full(50, is_clean);
        let (store, log) = machine.start_one();
        let _other = machine.open(&store, partition(1));
        let mut client = machine.run(Client::connect(&machine.node));
        assert_eq!(machine.run(client.read_all(&log, at(0), 60_000)), model.bytes_from(at(0)));
        assert_eq!(machine.run(append(&log, &batch(100, 1, 200_000))), Err(AppendError::StorageFull));
        assert_eq!(machine.run(store.delete_partition(partition(7))), Ok(()), "it was never made");
        assert_eq!(machine.run(store.delete_partition(partition(1))), Ok(()), "clean: {is_clean}");
        assert!(machine.disk().live(machine.segment(partition(1), 0)).is_none());
        let bytes = batch(101, 1, 10_000);
        model.appended(&machine.append_flushed(&log, &bytes), &bytes);
        machine.crash(CrashMode::LoseAllUnflushed);
        let (store, report) = machine.start();
        assert_eq!(report.partitions, 1, "clean: {is_clean}");
        let log = machine.open(&store, partition(0));
        let mut client = machine.run(Client::connect(&machine.node));
        assert_eq!(machine.run(client.read_all(&log, at(0), 60_000)), model.bytes_from(at(0)));
    }
}

#[test]
fn a_segment_that_was_copied_with_holes_has_no_space_where_the_drive_has_none() {
    let machine = Machine::new(77);
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    let bytes = batch(1, 2, 3_000);
    model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    machine.run(store.shutdown()).unwrap();
    drop((store, log));
    let path = machine.segment(partition(0), 0);
    machine.run(leave_holes(&machine.node.io(), &path));
    let (_store, log) = machine.start_one();
    machine.disk().set_capacity(machine.disk().used_bytes());
    assert_eq!(machine.run(append(&log, &batch(2, 2, 3_000))), Err(AppendError::StorageFull));
    machine.disk().set_capacity(1 << 40);
    let bytes = batch(3, 2, 3_000);
    model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    let mut client = machine.run(Client::connect(&machine.node));
    assert_eq!(machine.run(client.read_all(&log, at(0), 100_000)), model.bytes_from(at(0)));
}

/// Makes the file one of its first block and a hole.
async fn leave_holes(io: &impl Io, path: &Path) {
    let old = io.open(path, OpenMode::Existing).await.unwrap();
    let size = old.size().await.unwrap();
    let mut block = io.buffer(BLOCK_BYTES);
    block.as_mut_slice().copy_from_slice(old.read(0, BLOCK_BYTES).await.unwrap().as_ref());
    io.remove_file(path).await.unwrap();
    let copy = io.open(path, OpenMode::New).await.unwrap();
    copy.write(0, Rc::new(block)).await.unwrap();
    copy.truncate(size).await.unwrap();
    copy.flush().await.unwrap();
    io.flush_folder(path.parent().unwrap()).await.unwrap();
}
