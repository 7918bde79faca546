//! Deleting a log's oldest segments, also under the eyes of readers and through crashes.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod support;

use core::cell::Cell;
use core::time::Duration;
use std::path::PathBuf;
use std::rc::Rc;

use engine_io::{Io, Task, reply};
use engine_record::Offset;
use engine_store::{DeleteRecordsError, Deleted, ReadBound, ReadError, ReadRequest, StoreError};
use sim::CrashMode;
use support::client::Client;
use support::model::Model;
use support::{Machine, SimLog, append, at, batch, end_of, partition};

const SEGMENT_BYTES: u32 = 20_000;
const KEPT_BYTES: u64 = 45_000;
/// Longer than the removal of what a test leaves takes.
const REMOVAL: Duration = Duration::from_millis(100);

fn machine(seed: u64) -> Machine {
    let mut machine = Machine::new(seed);
    machine.log_config.segment_bytes = SEGMENT_BYTES;
    machine.log_config.retention_bytes = Some(KEPT_BYTES);
    machine.log_config.retention_age = None;
    machine
}

/// Where everything is too old as soon as clients have seen it: the records are of early 1970.
fn all_too_old(seed: u64) -> Machine {
    let mut machine = machine(seed);
    machine.log_config.retention_bytes = None;
    machine.log_config.retention_age = Some(Duration::from_hours(1));
    machine
}

/// A log of many segments, all of it flushed and below the high watermark.
fn filled(machine: &Machine, log: &SimLog, batches: u64) -> Model {
    let mut model = Model::default();
    for seed in 0..batches {
        let bytes = batch(seed, 2, 3_000);
        model.appended(&machine.append(log, &bytes), &bytes);
    }
    machine.run(log.flushed(model.end())).unwrap();
    log.advance_high_watermark(model.end());
    model
}

fn delete(machine: &Machine, log: &SimLog) -> Deleted {
    machine.run(log.delete_old_segments()).unwrap()
}

/// Everything from the log's start on is what the model has from there.
fn check(machine: &Machine, log: &SimLog, model: &Model) {
    let start = log.offsets().log_start;
    let mut client = machine.run(Client::connect(&machine.node));
    let read = machine.run(client.read_all(log, start, 60_000));
    assert_eq!(read, model.bytes_from(start));
    assert_eq!(log.offsets().log_end, model.end());
}

/// The base offsets of the partition's files with this extension, ascending.
fn files(machine: &Machine, extension: &str) -> Vec<i64> {
    let mut names = machine.run(machine.node.io().list_folder(&machine.folder(partition(0)))).unwrap();
    names.retain(|name| name.extension().is_some_and(|known| known == extension));
    let base = |name: &PathBuf| name.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let mut bases: Vec<i64> = names.iter().map(base).collect();
    bases.sort_unstable();
    bases
}

fn read_at(
    machine: &Machine,
    log: &SimLog,
    offset: Offset,
) -> Result<engine_store::Read<sim::SimIo>, ReadError> {
    machine.run(log.read(ReadRequest {
        offset,
        max_bytes: 1 << 20,
        at_least_one: true,
        bound: ReadBound::LogEnd,
    }))
}

#[test]
fn what_exceeds_the_size_to_keep_goes_with_its_files_and_stays_away_after_a_crash() {
    let machine = machine(300);
    let (store, log) = machine.start_one();
    let model = filled(&machine, &log, 60);
    let bytes_before = log.size_bytes();
    let deleted = delete(&machine, &log);
    assert!(deleted.segments > 3 && deleted.bytes == bytes_before - log.size_bytes(), "{deleted:?}");
    assert!(log.size_bytes() >= KEPT_BYTES && log.size_bytes() < KEPT_BYTES + u64::from(SEGMENT_BYTES));
    let start = log.offsets().log_start;
    assert!(
        matches!(read_at(&machine, &log, at(0)), Err(ReadError::OutOfRange { log_start, .. }) if log_start == start)
    );
    check(&machine, &log, &model);
    assert_eq!(files(&machine, "log").first(), Some(&start.value()));
    assert!(files(&machine, "index").iter().all(|base| *base >= start.value()));
    assert_eq!(store.metrics().segments_deleted, deleted.segments);
    assert_eq!(store.metrics().bytes_deleted, deleted.bytes);
    assert_eq!(delete(&machine, &log), Deleted::default(), "there is nothing left to delete");
    machine.crash(CrashMode::LoseAllUnflushed);
    let (_store, log) = machine.start_one();
    assert_eq!(log.offsets().log_start, start);
    check(&machine, &log, &model);
    assert_eq!(files(&machine, "log").first(), Some(&start.value()));
}

#[test]
fn what_is_too_old_goes_the_active_segment_too_and_the_offsets_go_on() {
    let mut machine = machine(301);
    machine.log_config.retention_bytes = None;
    let since = u64::try_from(machine.node.io().timestamp().0).unwrap();
    machine.log_config.retention_age = Some(Duration::from_millis(since) + Duration::from_hours(1));
    let (_store, log) = machine.start_one();
    let mut model = filled(&machine, &log, 20);
    machine.pause(Duration::from_mins(59));
    assert_eq!(delete(&machine, &log), Deleted::default());
    machine.pause(Duration::from_mins(2));
    let all = files(&machine, "log").len() as u64;
    assert_eq!(delete(&machine, &log).segments, all);
    assert_eq!((log.offsets().log_start, log.size_bytes()), (model.end(), 0));
    assert_eq!(files(&machine, "log"), [model.end().value()]);
    assert_eq!(files(&machine, "index"), [0; 0]);
    assert_eq!(delete(&machine, &log), Deleted::default());
    machine.crash(CrashMode::LoseAllUnflushed);
    let (_store, log) = machine.start_one();
    assert_eq!(log.offsets().log_start, model.end());
    let bytes = batch(99, 2, 3_000);
    model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    check(&machine, &log, &model);
}

#[test]
fn a_full_drive_gets_space_from_what_is_too_old() {
    let machine = all_too_old(305);
    let (_store, log) = machine.start_one();
    let model = filled(&machine, &log, 20);
    machine.pause(Duration::from_secs(1));
    let all = files(&machine, "log").len() as u64;
    machine.disk().set_capacity(0);
    let used = machine.disk().used_bytes();
    assert_eq!(delete(&machine, &log).segments, all);
    assert_eq!(log.offsets().log_start, model.end());
    assert!(machine.disk().used_bytes() < used - 50_000);
}

#[test]
fn nothing_above_the_high_watermark_goes() {
    let machine = machine(302);
    let (_store, log) = machine.start_one();
    let mut model = Model::default();
    for seed in 0..40 {
        let bytes = batch(seed, 2, 3_000);
        model.appended(&machine.append(&log, &bytes), &bytes);
    }
    machine.run(log.flushed(model.end())).unwrap();
    assert_eq!(delete(&machine, &log), Deleted::default());
    log.advance_high_watermark(at(30));
    assert!(delete(&machine, &log).segments > 0);
    assert!(log.offsets().log_start <= at(30));
    check(&machine, &log, &model);
}

#[test]
fn a_crash_at_any_moment_of_a_deletion_leaves_a_whole_log_from_the_old_start_or_the_new() {
    crash_at_any_moment(machine);
}

#[test]
fn so_does_one_while_all_is_deleted() {
    crash_at_any_moment(all_too_old);
}

fn crash_at_any_moment(machine: impl Fn(u64) -> Machine) {
    let mut starts = std::collections::BTreeSet::new();
    for micros in (0..9_000).step_by(61) {
        let machine = machine(400 + micros);
        let (_store, log) = machine.start_one();
        let model = filled(&machine, &log, 40);
        let deleting = log.clone();
        let _task = machine.node.io().spawn(async move {
            deleting.delete_old_segments().await.unwrap();
        });
        machine.pause(Duration::from_micros(micros));
        machine.crash(if micros % 2 == 0 {
            CrashMode::KeepRandomSectors
        } else {
            CrashMode::LoseAllUnflushed
        });
        let (_store, log) = machine.start_one();
        check(&machine, &log, &model);
        let start = log.offsets().log_start.value();
        starts.insert(start);
        machine.pause(REMOVAL);
        assert_eq!(files(&machine, "log").first(), Some(&start), "nothing is left from before the start");
        log.advance_high_watermark(model.end());
        delete(&machine, &log);
        check(&machine, &log, &model);
    }
    assert_eq!(starts.len(), 2, "the old start and the new: {starts:?}");
}

#[test]
fn neither_a_stop_nor_the_next_start_waits_for_the_removal_of_many_segments() {
    let machine = machine(310);
    let (store, log) = machine.start_one();
    let model = filled(&machine, &log, 200);
    let deleting = log.clone();
    let (slot, answer) = reply();
    let _task =
        machine.node.io().spawn(async move { slot.answer(deleting.delete_old_segments().await.unwrap()) });
    let (all, start) = (files(&machine, "log"), || log.offsets().log_start.value());
    while files(&machine, "log").len() == all.len() {
        machine.pause(Duration::from_micros(20));
    }
    machine.run(store.shutdown()).unwrap();
    let deleted = machine.run(answer.wait()).unwrap();
    assert!(deleted.segments > 0 && deleted.held > 10, "{deleted:?}");
    let left = |machine: &Machine| files(machine, "log").into_iter().filter(|base| *base < start()).count();
    assert_eq!(left(&machine) as u64, deleted.held);
    machine.crash(CrashMode::LoseAllUnflushed);

    let (store, report) = machine.start();
    assert!(report.is_clean);
    let next = machine.open(&store, partition(0));
    assert!(left(&machine) > 10, "opening removed them");
    assert_eq!(next.offsets().log_start.value(), start());
    // A stop in the midst of that leaves them to the start after it.
    machine.run(store.shutdown()).unwrap();
    assert!(left(&machine) > 10, "the stop waited");
    machine.crash(CrashMode::LoseAllUnflushed);

    let (_store, next) = machine.start_one();
    check(&machine, &next, &model);
    machine.pause(REMOVAL);
    assert_eq!(left(&machine), 0);
    check(&machine, &next, &model);
}

#[test]
fn a_client_that_deletes_records_does_not_wait_for_space_to_come_back() {
    let machine = machine(311);
    let (_store, log) = machine.start_one();
    let model = filled(&machine, &log, 200);
    let deleting = log.clone();
    let _task = machine.node.io().spawn(async move { drop(deleting.delete_old_segments().await) });
    let all = files(&machine, "log").len();
    while files(&machine, "log").len() == all {
        machine.pause(Duration::from_micros(20));
    }
    let end = model.end().value();
    assert_eq!(delete_records(&machine, &log, end - 1).unwrap(), end - 1);
    let left = files(&machine, "log").len();
    assert!(left > all / 2, "{left} of {all} are left");
    machine.pause(REMOVAL);
    delete(&machine, &log);
    assert_eq!(files(&machine, "log").len(), 1);
    check(&machine, &log, &model);
}

#[test]
fn a_log_may_be_appended_to_and_deleted_while_what_a_stop_has_left_is_removed() {
    for (seed, micros) in (1_500..).zip((0..2_000).step_by(97)) {
        let machine = machine(seed);
        let (store, log) = machine.start_one();
        let mut model = filled(&machine, &log, 100);
        let deleting = log.clone();
        let _task = machine.node.io().spawn(async move { drop(deleting.delete_old_segments().await) });
        while log.offsets().log_start == at(0) {
            machine.pause(Duration::from_micros(20));
        }
        machine.run(store.shutdown()).unwrap();
        machine.crash(CrashMode::LoseAllUnflushed);
        let (store, log) = machine.start_one();
        machine.pause(Duration::from_micros(micros));
        let bytes = batch(seed, 2, 3_000);
        model.appended(&machine.append(&log, &bytes), &bytes);
        machine.run(log.flushed(model.end())).unwrap();
        check(&machine, &log, &model);
        if seed % 2 == 0 {
            log.advance_high_watermark(model.end());
            delete(&machine, &log);
            assert_eq!(files(&machine, "log").first(), Some(&log.offsets().log_start.value()));
            check(&machine, &log, &model);
        } else {
            machine.run(store.delete_partition(partition(0))).unwrap();
            let left = machine.run(machine.node.io().list_folder(&machine.folder(partition(0))));
            assert_eq!(left.map_err(|error| error.kind()), Err(std::io::ErrorKind::NotFound));
        }
    }
}

#[test]
fn a_file_that_is_read_stays_until_its_reader_lets_go() {
    let machine = machine(303);
    let (_store, log) = machine.start_one();
    let model = filled(&machine, &log, 40);
    let read = read_at(&machine, &log, at(0)).unwrap();
    assert!(read.holds_segment());
    let deleted = delete(&machine, &log);
    assert!(deleted.segments == 0 && deleted.held > 3, "{deleted:?}");
    assert_eq!(files(&machine, "log").first(), Some(&0));
    assert!(log.offsets().log_start > at(0), "it is no more offered");
    assert!(matches!(read_at(&machine, &log, at(0)), Err(ReadError::OutOfRange { .. })));
    let mut client = machine.run(Client::connect(&machine.node));
    let bytes = machine.run(client.receive(&read));
    drop(read);
    assert_eq!(bytes, model.bytes_from(at(0))[..bytes.len()]);
    assert!(delete(&machine, &log).segments > 3);
    assert_eq!(files(&machine, "log").first(), Some(&log.offsets().log_start.value()));
}

#[test]
fn a_reader_that_takes_nothing_is_not_waited_for_longer_than_readers_may_take() {
    let mut machine = machine(306);
    machine.config.readers_deadline = Duration::from_secs(3);
    let (_store, log) = machine.start_one();
    let model = filled(&machine, &log, 40);
    let read = read_at(&machine, &log, at(0)).unwrap();
    assert!(delete(&machine, &log).held > 3);
    machine.pause(Duration::from_secs(2));
    assert_eq!(delete(&machine, &log).segments, 0);
    machine.pause(Duration::from_secs(2));
    let deleted = delete(&machine, &log);
    assert!(deleted.segments > 3 && deleted.held == 0, "{deleted:?}");
    assert_eq!(files(&machine, "log").first(), Some(&log.offsets().log_start.value()));
    drop(read);
    check(&machine, &log, &model);
}

#[test]
fn a_log_closed_for_idleness_is_cut_short_without_being_opened() {
    let machine = machine(304);
    let (_store, log) = machine.start_one();
    let model = filled(&machine, &log, 40);
    machine.pause(machine.config.idle_after * 3);
    assert!(delete(&machine, &log).segments > 3);
    let start = log.offsets().log_start;
    machine.crash(CrashMode::LoseAllUnflushed);
    let (store, log) = machine.start_one();
    assert_eq!(log.offsets().log_start, start);
    assert_eq!(store.metrics().recoveries, 0, "it was closed all the time");
    check(&machine, &log, &model);
    machine.append_flushed(&log, &batch(99, 2, 3_000));
}

#[test]
fn a_log_may_be_closed_for_idleness_while_it_is_cut_short() {
    for micros in 0..500 {
        let machine = machine(2_000);
        let (_store, log) = machine.start_one();
        let begun = machine.node.io().now();
        let model = filled(&machine, &log, 40);
        let (deleting, io) = (log.clone(), machine.node.io());
        let sweep = begun.after(machine.config.idle_after * 2);
        let after = sweep.since(io.now()) - Duration::from_millis(1) + Duration::from_micros(micros * 20);
        let delete = machine.node.io().spawn(async move {
            io.sleep(after).await;
            deleting.delete_old_segments().await.unwrap();
        });
        machine.run(delete.join());
        machine.pause(Duration::from_millis(50));
        machine.crash(CrashMode::LoseAllUnflushed);
        let (_store, log) = machine.start_one();
        assert!(log.offsets().log_start > at(0));
        check(&machine, &log, &model);
    }
}

#[test]
fn a_closed_log_may_be_appended_to_while_it_is_cut_short() {
    append_meanwhile(machine);
}

#[test]
fn a_closed_log_may_be_appended_to_while_all_of_it_is_deleted() {
    append_meanwhile(all_too_old);
}

fn append_meanwhile(machine: impl Fn(u64) -> Machine) {
    for micros in (0..1_500).step_by(13) {
        let machine = machine(900 + micros);
        let (_store, log) = machine.start_one();
        let mut model = filled(&machine, &log, 40);
        machine.pause(machine.config.idle_after * 3);
        let (appending, deleting, io) = (log.clone(), log.clone(), machine.node.io());
        let bytes = batch(99, 2, 3_000);
        let own = bytes.clone();
        let result = Rc::new(Cell::new(None));
        let known = Rc::clone(&result);
        let append = machine.node.io().spawn(async move {
            let appended = append(&appending, &own).await.unwrap();
            appending.flushed(end_of(&appended)).await.unwrap();
            known.set(Some(appended));
        });
        let delete = machine.node.io().spawn(async move {
            io.sleep(Duration::from_micros(micros)).await;
            deleting.delete_old_segments().await.unwrap();
        });
        machine.run(append.join());
        machine.run(delete.join());
        model.appended(&result.take().unwrap(), &bytes);
        machine.crash(CrashMode::KeepRandomSectors);
        let (_store, log) = machine.start_one();
        assert!(log.offsets().log_start > at(0));
        check(&machine, &log, &model);
    }
}

#[test]
fn a_segment_that_is_due_once_it_is_sealed_goes_after_its_sealing_and_leaves_no_index() {
    for seed in 1_000..1_030 {
        let mut machine = machine(seed);
        machine.log_config.retention_bytes = Some(0);
        let (_store, log) = machine.start_one();
        let model = filled(&machine, &log, 20);
        let deleting = log.clone();
        let io = machine.node.io();
        let deletions = machine.node.io().spawn(async move {
            for _ in 0..400 {
                deleting.delete_old_segments().await.unwrap();
                io.sleep(Duration::from_micros(50)).await;
            }
        });
        for number in 0..40 {
            let bytes = batch(1_000 + number, 2, 3_000);
            let end = end_of(&machine.append(&log, &bytes));
            machine.run(log.written(end)).unwrap();
            log.advance_high_watermark(end);
        }
        machine.run(deletions.join());
        assert!(log.offsets().log_start > model.end());
        machine.pause(Duration::from_millis(100));
        assert_eq!(files(&machine, "log").len(), 1, "the active segment: seed {seed}");
        let start = log.offsets().log_start.value();
        assert!(files(&machine, "index").iter().all(|base| *base >= start), "seed {seed}");
    }
}

#[test]
fn appends_go_on_while_segments_are_deleted_from_the_other_end() {
    for seed in 500..540 {
        let machine = machine(seed);
        let (_store, log) = machine.start_one();
        let mut model = filled(&machine, &log, 20);
        for round in 0..12 {
            let deleting = log.clone();
            let task = machine.node.io().spawn(async move {
                deleting.delete_old_segments().await.unwrap();
            });
            for number in 0..8 {
                let bytes = batch(1_000 + round * 8 + number, 2, 3_000);
                model.appended(&machine.append(&log, &bytes), &bytes);
            }
            machine.run(log.flushed(model.end())).unwrap();
            machine.run(task.join());
            log.advance_high_watermark(model.end());
        }
        machine.pause(Duration::from_millis(100));
        delete(&machine, &log);
        check(&machine, &log, &model);
        assert!(log.size_bytes() < KEPT_BYTES + u64::from(SEGMENT_BYTES));
        let start = log.offsets().log_start.value();
        assert!(files(&machine, "index").iter().all(|base| *base >= start), "seed {seed}");
        machine.crash(CrashMode::KeepRandomSectors);
        let (_store, log) = machine.start_one();
        check(&machine, &log, &model);
    }
}

#[test]
fn a_truncation_and_a_deletion_at_once_take_turns() {
    for seed in 600..720 {
        let machine = machine(seed);
        let (_store, log) = machine.start_one();
        let mut model = Model::default();
        for number in 0..40 {
            let bytes = batch(number, 2, 3_000);
            model.appended(&machine.append(&log, &bytes), &bytes);
        }
        machine.run(log.flushed(model.end())).unwrap();
        log.advance_high_watermark(at(40));
        let (cutting, deleting) = (log.clone(), log.clone());
        let (early, late) = (Duration::ZERO, Duration::from_micros((seed - 600) * 40));
        let (cut_after, deleted_after) = if seed % 2 == 0 { (early, late) } else { (late, early) };
        let io = machine.node.io();
        let cut = machine.node.io().spawn(async move {
            io.sleep(cut_after).await;
            cutting.truncate(at(60)).await.unwrap();
        });
        let io = machine.node.io();
        let deleted = machine.node.io().spawn(async move {
            io.sleep(deleted_after).await;
            deleting.delete_old_segments().await.unwrap();
        });
        machine.run(deleted.join());
        machine.run(cut.join());
        model.truncate(at(60));
        check(&machine, &log, &model);
        assert!(log.offsets().log_start > at(0));
        machine.crash(CrashMode::KeepRandomSectors);
        let (_store, log) = machine.start_one();
        check(&machine, &log, &model);
    }
}

#[test]
fn a_partition_is_deleted_while_its_old_segments_are() {
    for seed in 800..840 {
        let machine = machine(seed);
        let (store, log) = machine.start_one();
        let _model = filled(&machine, &log, 40);
        let deleting = log.clone();
        let task = machine.node.io().spawn(async move {
            match deleting.delete_old_segments().await {
                Ok(_) | Err(StoreError::Closed) => {}
                Err(error) => panic!("{error}"),
            }
        });
        machine.pause(Duration::from_micros((seed - 800) * 70));
        machine.run(store.delete_partition(partition(0))).unwrap();
        machine.run(task.join());
        let left = machine.run(machine.node.io().list_folder(&machine.folder(partition(0))));
        assert_eq!(left.map_err(|error| error.kind()), Err(std::io::ErrorKind::NotFound));
    }
}

#[test]
fn a_log_that_no_checkpoint_knows_may_be_emptied_and_crash() {
    let mut starts = std::collections::BTreeSet::new();
    for micros in (0..9_000).step_by(61) {
        let machine = all_too_old(400 + micros);
        let (store, log) = machine.start_one();
        let model = filled(&machine, &log, 40);
        machine.run(store.shutdown()).unwrap();
        drop((store, log));
        let (io, checkpoints) = (machine.node.io(), machine.config.folder.join("checkpoints"));
        for slot in ["0.0", "0.1"] {
            machine.run(io.remove_file(&checkpoints.join(slot))).unwrap();
        }
        machine.run(io.flush_folder(&checkpoints)).unwrap();
        let (store, log) = machine.start_one();
        assert_eq!(store.metrics().recoveries, 1, "it was looked through");
        log.advance_high_watermark(model.end());
        let deleting = log.clone();
        let _task = machine.node.io().spawn(async move {
            deleting.delete_old_segments().await.unwrap();
        });
        machine.pause(Duration::from_micros(micros));
        machine.crash(CrashMode::KeepRandomSectors);
        let (_store, log) = machine.start_one();
        starts.insert(log.offsets().log_start);
        check(&machine, &log, &model);
        assert_eq!(machine.append_flushed(&log, &batch(99, 2, 3_000)).base_offset, model.end());
    }
    assert!(starts.len() > 1, "before and after: {starts:?}");
}

#[test]
fn without_a_descriptor_for_a_new_segment_the_sealed_ones_go() {
    let machine = all_too_old(320);
    let (_store, log) = machine.start_one();
    let model = filled(&machine, &log, 40);
    let sealed = files(&machine, "log").len() as u64 - 1;
    // Without a spare one.
    machine.pause(machine.config.idle_after * 3);
    let next = format!("{:020}.log", model.end().value());
    machine.disk().refuse_descriptors(move |path| path.ends_with(&next));
    assert_eq!(delete(&machine, &log).segments, sealed);
    machine.disk().heal();
    assert_eq!(delete(&machine, &log).segments, 1);
    assert_eq!((log.offsets().log_start, log.size_bytes()), (model.end(), 0));
}

/// Where every segment is kept for good.
fn unlimited(seed: u64) -> Machine {
    let mut machine = machine(seed);
    machine.log_config.retention_bytes = None;
    machine
}

fn delete_records(machine: &Machine, log: &SimLog, before: i64) -> Result<i64, DeleteRecordsError> {
    machine.run(log.delete_records(Some(at(before)))).map(Offset::value)
}

#[test]
fn deleted_records_are_offered_no_more_and_their_segments_go_like_others() {
    let machine = unlimited(310);
    let (_store, log) = machine.start_one();
    let mut model = filled(&machine, &log, 40);
    assert_eq!(delete_records(&machine, &log, 31), Ok(31), "within a batch");
    assert!(matches!(read_at(&machine, &log, at(30)), Err(ReadError::OutOfRange { .. })));
    assert_eq!(delete_records(&machine, &log, 0), Ok(31), "that is deleted already");
    assert_eq!(files(&machine, "log").first(), Some(&0));
    assert!(delete(&machine, &log).segments > 1);
    let first = files(&machine, "log")[0];
    assert!(first > 0 && first <= 31, "{first}");
    machine.crash(CrashMode::LoseAllUnflushed);
    let (_store, log) = machine.start_one();
    assert_eq!(log.offsets().log_start, at(31));
    log.advance_high_watermark(model.end());
    // Everything: the offsets go on behind it.
    assert_eq!(machine.run(log.delete_records(None)), Ok(model.end()));
    delete(&machine, &log);
    assert_eq!((log.size_bytes(), files(&machine, "log")), (0, vec![model.end().value()]));
    let bytes = batch(99, 2, 3_000);
    model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    check(&machine, &log, &model);
}

#[test]
fn what_clients_have_not_seen_is_not_deleted() {
    let machine = unlimited(311);
    let (_store, log) = machine.start_one();
    let model = filled(&machine, &log, 10);
    let (end, bytes) = (model.end(), batch(99, 2, 3_000));
    machine.append(&log, &bytes);
    let refused = DeleteRecordsError::OutOfRange { before: at(end.value() + 1), high_watermark: end };
    assert_eq!(delete_records(&machine, &log, end.value() + 1), Err(refused));
    assert_eq!(log.offsets().log_start, at(0));
    assert_eq!(delete_records(&machine, &log, end.value()), Ok(end.value()));
}

#[test]
fn a_log_that_never_had_a_record_has_none_to_delete() {
    let machine = unlimited(312);
    let (_store, log) = machine.start_one();
    assert_eq!(machine.run(log.delete_records(None)), Ok(at(0)));
    assert!(delete_records(&machine, &log, 1).is_err());
}

#[test]
fn records_that_were_deleted_stay_so_through_a_crash_at_any_moment() {
    let mut starts = std::collections::BTreeSet::new();
    for micros in (0..4_000).step_by(37) {
        let machine = unlimited(5_000 + micros);
        let (_store, log) = machine.start_one();
        let model = filled(&machine, &log, 20);
        if micros % 3 == 0 {
            machine.pause(machine.config.idle_after * 3);
        }
        let (deleting, done) = (log.clone(), Rc::new(Cell::new(false)));
        let known = Rc::clone(&done);
        let _task = machine.node.io().spawn(async move {
            deleting.delete_records(Some(at(13))).await.unwrap();
            known.set(true);
            deleting.delete_old_segments().await.unwrap();
        });
        machine.pause(Duration::from_micros(micros));
        machine.crash(if micros % 2 == 0 {
            CrashMode::KeepRandomSectors
        } else {
            CrashMode::LoseAllUnflushed
        });
        let (_store, log) = machine.start_one();
        let start = log.offsets().log_start;
        assert!(start == at(13) || (!done.get() && start == at(0)), "{start} after {micros} us");
        starts.insert((done.get(), start));
        let mut client = machine.run(Client::connect(&machine.node));
        let read = machine.run(client.read_all(&log, start, 60_000));
        assert_eq!(read, model.bytes_from(start));
    }
    assert!(starts.len() >= 2, "before and after: {starts:?}");
}

#[test]
fn what_is_deleted_already_costs_nothing_unless_it_is_not_durable_yet() {
    let machine = unlimited(313);
    let (store, log) = machine.start_one();
    filled(&machine, &log, 20);
    assert_eq!(delete_records(&machine, &log, 13), Ok(13));
    let written = store.metrics().checkpoint_entries;
    for before in [13, 5, 0] {
        assert_eq!(delete_records(&machine, &log, before), Ok(13));
    }
    assert_eq!(store.metrics().checkpoint_entries, written);
    machine.disk().refuse_descriptors(|path| path.starts_with("data/checkpoints"));
    machine.disk().set_capacity(machine.disk().used_bytes());
    let first = delete_records(&machine, &log, 17);
    machine.disk().heal();
    machine.disk().set_capacity(1 << 40);
    assert_eq!(delete_records(&machine, &log, 17), Ok(17), "after {first:?}");
    machine.crash(CrashMode::LoseAllUnflushed);
    let (_store, log) = machine.start_one();
    assert_eq!(log.offsets().log_start, at(17));
}
