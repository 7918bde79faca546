//! Truncating and deleting, also under the eyes of readers.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod support;

use core::time::Duration;

use engine_io::Io;
use engine_store::{AppendError, ReadBound, ReadError, ReadRequest, StoreError};
use sim::CrashMode;
use support::client::Client;
use support::model::Model;
use support::{Machine, SimLog, append, at, batch, batch_of, partition};

fn filled(machine: &Machine, log: &SimLog, batches: u64, bytes: usize) -> Model {
    let mut model = Model::default();
    for seed in 0..batches {
        let bytes = batch(seed, 2, bytes);
        model.appended(&machine.append(log, &bytes), &bytes);
    }
    machine.run(log.flushed(model.end())).unwrap();
    model
}

fn read_all(machine: &Machine, log: &SimLog) -> Vec<u8> {
    let mut client = machine.run(Client::connect(&machine.node));
    machine.run(client.read_all(log, at(0), 60_000))
}

const FIRST: ReadRequest = ReadRequest {
    offset: engine_record::Offset::ZERO,
    max_bytes: 1 << 20,
    at_least_one: true,
    bound: ReadBound::LogEnd,
};

#[test]
fn a_truncated_log_ends_there_and_goes_on_from_there() {
    for to in [0, 1, 2, 7, 30, 79, 80, 81] {
        let mut machine = Machine::new(80);
        machine.log_config.segment_bytes = 60_000;
        let (_store, log) = machine.start_one();
        let mut model = filled(&machine, &log, 40, 5_000);
        machine.pause(Duration::from_secs(2));
        machine.run(log.truncate(at(to))).unwrap();
        model.truncate(at(to));
        assert_eq!(log.offsets().log_end, model.end(), "cut at {to}");
        assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)));
        for seed in 100..130 {
            let bytes = batch(seed, 3, 4_000);
            model.appended(&machine.append(&log, &bytes), &bytes);
        }
        machine.run(log.flushed(model.end())).unwrap();
        assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)));
        machine.crash(CrashMode::LoseAllUnflushed);
        let (_store, log) = machine.start_one();
        assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)), "cut at {to}, after a crash");
    }
}

#[test]
fn a_crash_right_after_a_truncation_brings_nothing_back() {
    let machine = Machine::new(81);
    let (_store, log) = machine.start_one();
    let mut model = filled(&machine, &log, 10, 3_000);
    machine.pause(Duration::from_secs(2));
    machine.run(log.truncate(at(9))).unwrap();
    model.truncate(at(9));
    machine.crash(CrashMode::KeepRandomSectors);
    let (_store, log) = machine.start_one();
    assert_eq!(log.offsets().log_end, at(8));
    assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)));
}

#[test]
fn a_crash_during_a_truncation_leaves_a_log_that_begins_with_what_stays() {
    for micros in (0..6_000).step_by(97) {
        let mut machine = Machine::new(82 + micros);
        machine.log_config.segment_bytes = 20_000;
        let (_store, log) = machine.start_one();
        let model = filled(&machine, &log, 20, 3_000);
        machine.pause(Duration::from_secs(2));
        let cut = log.clone();
        let _task = machine.node.io().spawn(async move {
            cut.truncate(at(9)).await.unwrap();
        });
        machine.pause(Duration::from_micros(micros));
        machine.crash(CrashMode::KeepRandomSectors);
        let (_store, log) = machine.start_one();
        let end = model.check_prefix(at(0), &read_all(&machine, &log));
        assert!(end >= at(8), "{end} is left after {micros} microseconds");
        assert_eq!(end, log.offsets().log_end);
    }
}

#[test]
fn a_truncation_below_the_high_watermark_is_refused() {
    let machine = Machine::new(83);
    let (_store, log) = machine.start_one();
    filled(&machine, &log, 5, 100);
    log.advance_high_watermark(at(6));
    let refused = machine.run(log.truncate(at(5)));
    assert!(matches!(refused, Err(StoreError::Truncate(_))));
    assert_eq!(log.offsets().log_end, at(10));
}

#[test]
fn a_truncation_waits_for_readers_and_gives_up_on_them() {
    let mut machine = Machine::new(84);
    machine.config.readers_deadline = Duration::from_secs(1);
    let (_store, log) = machine.start_one();
    let model = filled(&machine, &log, 5, 5_000);
    let read = machine.run(log.read(FIRST)).unwrap();
    assert_eq!(machine.run(log.truncate(at(4))), Err(StoreError::Held));
    assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)), "nothing was cut");
    drop(read);
    machine.run(log.truncate(at(4))).unwrap();
    assert_eq!(log.offsets().log_end, at(4));
}

#[test]
fn producers_are_rebuilt_after_their_last_batches_went() {
    let machine = Machine::new(85);
    let (_store, log) = machine.start_one();
    for base_sequence in [0, 2, 4, 6] {
        machine.append_flushed(&log, &batch_of(3, base_sequence, 2, 100));
    }
    machine.run(log.truncate(at(4))).unwrap();
    assert!(machine.append(&log, &batch_of(3, 2, 2, 100)).duplicate);
    let gap = machine.run(append(&log, &batch_of(3, 6, 2, 100)));
    assert!(matches!(gap, Err(AppendError::Refused(_))));
    assert_eq!(machine.append(&log, &batch_of(3, 4, 2, 100)).base_offset, at(4));
}

#[test]
fn a_partition_is_deleted_under_a_reader_who_still_gets_its_bytes() {
    let mut machine = Machine::new(86);
    machine.config.readers_deadline = Duration::from_secs(1);
    machine.config.tail_bytes_per_partition = 4096;
    let (store, log) = machine.start_one();
    let model = filled(&machine, &log, 20, 5_000);
    let read = machine.run(log.read(FIRST)).unwrap();
    machine.run(store.delete_partition(partition(0))).unwrap();
    assert!(machine.disk().live(machine.segment(partition(0), 0)).is_none());
    let mut client = machine.run(Client::connect(&machine.node));
    let bytes = machine.run(client.receive(&read));
    model.check_prefix(at(0), &bytes);
    assert_eq!(machine.run(append(&log, &batch(0, 1, 10))), Err(AppendError::Closed));
    assert_eq!(machine.run(log.read(FIRST)).err(), Some(ReadError::Closed));
    assert!(store.partition(partition(0)).is_none());
}

#[test]
fn a_partition_deleted_in_the_middle_of_appends_ends_them() {
    let machine = Machine::new(87);
    let (store, log) = machine.start_one();
    machine.append_flushed(&log, &batch(0, 1, 100));
    let io = machine.node.io();
    let appender = log;
    let (slot, ended) = engine_io::reply();
    let _task = io.spawn(async move {
        let mut appended = 0;
        let error = loop {
            match append(&appender, &batch(appended, 1, 9_000)).await {
                Ok(_) => appended += 1,
                Err(error) => break error,
            }
            let _ended = appender.written(appender.offsets().log_end).await;
        };
        slot.answer(error);
    });
    machine.pause(Duration::from_millis(20));
    machine.run(store.delete_partition(partition(0))).unwrap();
    assert_eq!(machine.run(ended.wait()), Ok(AppendError::Closed));
    let other = machine.open(&store, partition(1));
    machine.append_flushed(&other, &batch(0, 1, 100));
    machine.run(store.shutdown()).unwrap();
}

#[test]
fn a_topic_s_folder_goes_when_its_partitions_have() {
    let machine = Machine::new(88);
    let (store, log) = machine.start_one();
    machine.append_flushed(&log, &batch(0, 1, 100));
    let topic = partition(0).topic;
    assert!(machine.run(store.delete_topic_folder(topic)).is_err(), "a partition is left");
    machine.run(store.delete_partition(partition(0))).unwrap();
    machine.run(store.delete_topic_folder(topic)).unwrap();
    machine.run(store.delete_topic_folder(topic)).unwrap();
    machine.run(store.delete_partition(partition(5))).unwrap();
}

#[test]
fn a_shutdown_during_a_truncation_records_the_log_as_it_is_left() {
    for micros in (0..6_000).step_by(97) {
        let mut machine = Machine::new(89 + micros);
        machine.log_config.segment_bytes = 20_000;
        let (store, log) = machine.start_one();
        let model = filled(&machine, &log, 20, 3_000);
        machine.pause(Duration::from_secs(2));
        let _task = machine.node.io().spawn(async move {
            let _cut_or_closed = log.truncate(at(9)).await;
        });
        machine.pause(Duration::from_micros(micros));
        machine.run(store.shutdown()).unwrap();
        machine.crash(CrashMode::LoseAllUnflushed);
        let (store, report) = machine.start();
        assert!(report.is_clean);
        let log = machine.open(&store, partition(0));
        let end = model.check_prefix(at(0), &read_all(&machine, &log));
        assert_eq!(end, log.offsets().log_end, "shut down after {micros} microseconds");
        assert!(end == at(8) || end == model.end(), "{end}");
    }
}

#[test]
fn a_checkpoint_during_a_truncation_vouches_for_nothing_that_goes() {
    for micros in (0..8_000).step_by(97) {
        let mut machine = Machine::new(150 + micros);
        machine.log_config.segment_bytes = 20_000;
        machine.config.checkpoint_interval = Duration::from_micros(1_500);
        let (_store, log) = machine.start_one();
        let model = filled(&machine, &log, 20, 3_000);
        // What was flushed last is still to be written to the checkpoint.
        let _task = machine.node.io().spawn(async move {
            log.truncate(at(9)).await.unwrap();
        });
        machine.pause(Duration::from_micros(micros));
        machine.crash(CrashMode::KeepRandomSectors);
        let (_store, log) = machine.start_one();
        let end = model.check_prefix(at(0), &read_all(&machine, &log));
        assert!(end >= at(8), "{end} is left after {micros} microseconds");
    }
}
