//! What a crash leaves of deleted topics goes with the next start.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod support;

use core::time::Duration;

use engine_io::{Io, reply};
use engine_record::{ShardId, TopicId};
use engine_store::{RecoveryReport, StoreError};
use sim::CrashMode;
use support::{Machine, SimStore, batch, partition};

const TOPIC: TopicId = TopicId([9; 16]);

fn nothing_known(_: TopicId) -> bool {
    false
}

/// Starts the stores of shards 0 and 1.
fn start_both(machine: &mut Machine) -> [(SimStore, RecoveryReport); 2] {
    machine.config.shards = 2;
    [0, 1].map(|shard| {
        machine.config.shard = ShardId(shard);
        machine.start()
    })
}

fn delete_all(machine: &Machine, store: &SimStore) {
    let orphans = store.orphans(nothing_known);
    assert_eq!(orphans, [TOPIC]);
    for topic in orphans {
        machine.run(store.delete_topic(topic)).unwrap();
    }
}

#[test]
fn a_topic_nobody_knows_any_more_is_removed_with_its_entries() {
    let machine = Machine::new(90);
    let (store, _) = machine.start();
    for number in [0, 3] {
        machine.append_flushed(&machine.open(&store, partition(number)), &batch(0, 1, 100));
    }
    machine.crash(CrashMode::LoseAllUnflushed);
    let (store, report) = machine.start();
    assert_eq!((report.partitions, report.is_clean), (2, false));
    delete_all(&machine, &store);
    assert_eq!(store.orphans(nothing_known), [], "they are named once");
    machine.crash(CrashMode::LoseAllUnflushed);
    let (store, report) = machine.start();
    assert_eq!((report.partitions, report.is_clean), (0, true));
    assert_eq!(store.orphans(nothing_known), []);
    let left = machine.run(machine.node.io().list_folder(&machine.config.folder.join("topics"))).unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_was_deleted_stays_deleted_though_another_shard_s_checkpoint_knows_it() {
    let mut machine = Machine::new(91);
    let [_, (store, _)] = start_both(&mut machine);
    machine.append_flushed(&machine.open(&store, partition(1)), &batch(0, 1, 100));
    machine.crash(CrashMode::LoseAllUnflushed);

    let [(first, _), (second, report)] = start_both(&mut machine);
    assert_eq!(report.unclosed, 1);
    assert_eq!(second.orphans(nothing_known), [], "one shard looks for them");
    delete_all(&machine, &first);
    machine.crash(CrashMode::LoseAllUnflushed);

    for _ in 0..3 {
        let [(first, report), (second, _)] = start_both(&mut machine);
        assert_eq!((report.partitions, report.is_clean), (0, true));
        assert_eq!(first.orphans(nothing_known), []);
        // Both shards begin new images.
        for (store, number) in [(&first, 7), (&second, 8)] {
            machine.append_flushed(&machine.open(store, partition(number)), &batch(0, 1, 100));
            machine.run(store.delete_partition(partition(number))).unwrap();
        }
        machine.run(first.delete_topic_folder(TOPIC)).unwrap();
        machine.crash(CrashMode::LoseAllUnflushed);
    }
}

#[test]
fn what_is_known_or_new_or_no_topic_is_left_alone() {
    let machine = Machine::new(92);
    let (store, log) = machine.start_one();
    machine.append_flushed(&log, &batch(0, 1, 100));
    assert_eq!(store.orphans(nothing_known), [], "there was no topic when the store was opened");
    let io = machine.node.io();
    let other = machine.config.folder.join("topics").join("lost+found");
    machine.run(io.create_folder(&other)).unwrap();
    machine.crash(CrashMode::LoseAllUnflushed);
    let (store, _) = machine.start();
    assert_eq!(store.orphans(|topic| topic == TOPIC), []);
    machine.crash(CrashMode::LoseAllUnflushed);
    let (store, _) = machine.start();
    delete_all(&machine, &store);
    let left = machine.run(machine.node.io().list_folder(other.parent().unwrap())).unwrap();
    assert_eq!(left, ["lost+found"].map(std::path::PathBuf::from));
}

#[test]
fn a_removal_that_a_crash_cuts_short_is_done_by_the_next_start() {
    for micros in (0..12_000).step_by(401) {
        let machine = Machine::new(93 + micros);
        let (store, _) = machine.start();
        for number in 0..3 {
            machine.append_flushed(&machine.open(&store, partition(number)), &batch(0, 1, 100));
        }
        machine.crash(CrashMode::LoseAllUnflushed);
        let (store, _) = machine.start();
        let topics = store.orphans(nothing_known);
        let _task = machine.node.io().spawn(async move {
            for topic in topics {
                store.delete_topic(topic).await.unwrap();
            }
        });
        machine.pause(Duration::from_micros(micros));
        machine.crash(CrashMode::KeepRandomSectors);
        let (store, _) = machine.start();
        for topic in store.orphans(nothing_known) {
            machine.run(store.delete_topic(topic)).unwrap();
        }
        machine.crash(CrashMode::LoseAllUnflushed);
        let (store, report) = machine.start();
        assert_eq!((report.partitions, report.is_clean), (0, true), "after {micros} microseconds");
        assert_eq!(store.orphans(nothing_known), []);
    }
}

#[test]
fn a_stop_waits_for_no_removal_and_the_next_start_goes_on_with_it() {
    let mut machine = Machine::new(95);
    machine.log_config.segment_bytes = 20_000;
    let (store, log) = machine.start_one();
    for seed in 0..200 {
        machine.append(&log, &batch(seed, 2, 3_000));
    }
    machine.run(log.flushed(log.offsets().log_end)).unwrap();
    drop(log);
    let io = machine.node.io();
    let left = || machine.run(io.list_folder(&machine.folder(partition(0)))).unwrap().len();
    let (all, deleting) = (left(), store.clone());
    let (slot, answer) = reply();
    let _task = io.spawn(async move { slot.answer(deleting.delete_partition(partition(0)).await) });
    while left() == all {
        machine.pause(Duration::from_micros(20));
    }
    machine.run(store.shutdown()).unwrap();
    let deleted = machine.run(answer.wait()).unwrap();
    assert!(matches!(deleted, Err(StoreError::Closed)), "{deleted:?}");
    assert!(left() > all / 2, "the stop waited");
    machine.crash(CrashMode::LoseAllUnflushed);

    let (store, _) = machine.start();
    delete_all(&machine, &store);
    machine.crash(CrashMode::LoseAllUnflushed);
    let (store, report) = machine.start();
    assert_eq!((report.partitions, report.is_clean), (0, true));
    assert_eq!(store.orphans(nothing_known), []);
}

#[test]
fn a_start_that_finds_logs_no_checkpoint_knows_is_not_clean() {
    let machine = Machine::new(94);
    let (store, log) = machine.start_one();
    machine.open(&store, partition(1));
    machine.append_flushed(&log, &batch(0, 1, 100));
    machine.run(store.shutdown()).unwrap();
    machine.crash(CrashMode::LoseAllUnflushed);
    for slot in ["0.0", "0.1"] {
        let slot = machine.config.folder.join("checkpoints").join(slot);
        machine.run(machine.node.io().remove_file(&slot)).unwrap();
    }
    let (store, report) = machine.start();
    assert_eq!((report.partitions, report.is_clean), (0, false));
    machine.open(&store, partition(0));
    assert_eq!(store.metrics().recoveries, 1);
    machine.run(store.shutdown()).unwrap();
    machine.crash(CrashMode::LoseAllUnflushed);
    let (_store, report) = machine.start();
    assert_eq!((report.partitions, report.is_clean), (1, true), "a log without a record has nothing to lose");
}

#[test]
fn a_deletion_beside_the_sweep_of_idle_partitions_leaves_no_entry() {
    for micros in (0..12_000).step_by(97) {
        let mut machine = Machine::new(8_000 + micros);
        machine.config.idle_after = Duration::from_millis(50);
        let (store, log) = machine.start_one();
        machine.append_flushed(&log, &batch(0, 1, 100));
        let appended = machine.node.io().now();
        drop(log);
        let at = Duration::from_millis(98) + Duration::from_micros(micros);
        machine.pause(at.saturating_sub(machine.node.io().now().since(appended)));
        machine.run(store.delete_partition(partition(0))).unwrap();
        machine.pause(Duration::from_millis(200));
        drop(store);
        machine.crash(CrashMode::LoseAllUnflushed);
        let (_store, report) = machine.start();
        assert_eq!((report.partitions, report.is_clean), (0, true), "after {micros} microseconds");
    }
}
