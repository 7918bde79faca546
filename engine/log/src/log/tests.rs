use core::time::Duration;

use engine_record::{BatchHeader, LeaderEpoch, Offset, RecordBatch, Timestamp, TimestampType};
use proptest::prelude::*;

use super::*;
use crate::testing::{Disk, EPOCH, NOW, Sent, Stored, config, offset, producer, segment_id};
use crate::{
    AppendDecision, AppendError, AppendOrigin, BatchPosition, InstallError, ReadBound, TruncateError,
    decode_sidecar, encode_sidecar,
};

mod model;

fn header(sent: &Sent) -> BatchHeader {
    *RecordBatch::parse(&sent.bytes()).unwrap().0.header()
}

#[test]
fn a_new_log_is_empty_at_its_start() {
    let log = Log::create(config(), offset(7), EPOCH);
    assert_eq!(*log.offsets(), LogOffsets::empty(offset(7)));
    assert_eq!(log.active_segment().id(), segment_id(7));
    assert_eq!(log.end_offset_for(EPOCH), Some((EPOCH, offset(7))));
    assert_eq!(log.max_timestamp(), Ok(None));
    assert_eq!(log.find_timestamp(Timestamp(0)), Ok(None));
}

#[test]
fn a_plan_that_is_not_committed_leaves_no_trace() {
    let disk = Disk::with_batches(&[3]);
    let before = format!("{:?}", disk.log);
    let sent = header(&Sent { producer: producer(1, 0, 0), value_bytes: 1_000, ..Sent::default() });
    let planned = disk.log.plan_append(&sent, AppendOrigin::Client, LeaderEpoch(9), NOW);
    assert!(matches!(planned, Ok(AppendDecision::Append(_))));
    assert_eq!(format!("{:?}", disk.log), before);
}

#[test]
fn offsets_are_given_out_without_gap() {
    let mut disk = Disk::new(config());
    let plans: Vec<_> = [3, 1, 5].map(|count| disk.append(&Sent { count, ..Sent::default() })).to_vec();
    let ranges: Vec<_> =
        plans.iter().map(|plan| (plan.base_offset.value(), plan.last_offset.value())).collect();
    assert_eq!(ranges, [(0, 2), (3, 3), (4, 8)]);
    assert_eq!(disk.log.offsets().log_end, offset(9));
    assert_eq!(disk.log.offsets().written, offset(0), "an append isn't a write");
}

#[test]
fn a_segment_that_would_overflow_is_rolled_with_the_batch() {
    let mut disk = Disk::new(config());
    disk.append(&Sent { value_bytes: 1_200, ..Sent::default() });
    let plan = disk.append(&Sent { value_bytes: 1_200, count: 1, ..Sent::default() });
    assert_eq!(plan.roll, Some(segment_id(1)));
    assert_eq!((plan.segment, plan.position), (segment_id(1), 0));
    let ids: Vec<_> = disk.log.segments().map(Segment::id).collect();
    assert_eq!(ids, [segment_id(0), segment_id(1)]);
}

#[test]
fn a_replicated_batch_larger_than_a_segment_gets_one_of_its_own() {
    let mut disk = Disk::with_batches(&[1]);
    let mut bytes = Sent { value_bytes: 5_000, ..Sent::default() }.bytes();
    engine_record::assign(&mut bytes, offset(1), EPOCH);
    let decision = disk.append_bytes(bytes, AppendOrigin::Replication).unwrap();
    assert!(matches!(decision, AppendDecision::Append(plan) if plan.roll == Some(segment_id(1))));
    assert_eq!(disk.append(&Sent::default()).roll, Some(segment_id(2)));
}

#[test]
fn a_clients_batch_above_the_limit_is_refused_and_one_at_the_limit_is_not() {
    let mut disk = Disk::new(config());
    let sent = Sent { value_bytes: 1_000, ..Sent::default() };
    let batch_bytes = header(&sent).batch_bytes;
    disk.log.set_config(LogConfig { max_batch_bytes: batch_bytes - 1, ..config() });
    let refused = AppendError::BatchTooLarge { batch_bytes, max_batch_bytes: batch_bytes - 1 };
    assert_eq!(disk.try_append(&sent).unwrap_err(), refused);
    disk.log.set_config(LogConfig { max_batch_bytes: batch_bytes, ..config() });
    disk.append(&sent);
}

#[test]
fn append_time_is_planned_for_clients_and_not_for_replicas() {
    let mut disk = Disk::new(LogConfig { timestamp_type: TimestampType::LogAppend, ..config() });
    let plan = disk.append(&Sent::default());
    assert_eq!(plan.append_time, Some(NOW));
    assert_eq!(disk.log.active_segment().summary().max_timestamp, NOW);
    let stored = RecordBatch::parse(&disk.batches[0].bytes).unwrap().0;
    assert_eq!(stored.header().max_timestamp, NOW, "a repaired batch passes its checksum");
    let mut bytes = Sent::default().bytes();
    engine_record::assign(&mut bytes, offset(1), EPOCH);
    let decision = disk.append_bytes(bytes, AppendOrigin::Replication).unwrap();
    assert!(matches!(decision, AppendDecision::Append(plan) if plan.append_time.is_none()));
}

#[test]
fn an_older_leader_is_fenced() {
    let mut disk = Disk::with_batches(&[1]);
    disk.epoch = LeaderEpoch(2);
    let fenced = AppendError::FencedLeaderEpoch { known: EPOCH, given: LeaderEpoch(2) };
    assert_eq!(disk.try_append(&Sent::default()).unwrap_err(), fenced);
    assert_eq!(disk.log.start_leader_epoch(LeaderEpoch(2)), Err(fenced));
    let unknown = AppendError::FencedLeaderEpoch { known: EPOCH, given: LeaderEpoch(-1) };
    let mut replicated = Sent::default().bytes();
    engine_record::assign(&mut replicated, offset(1), LeaderEpoch(-1));
    assert_eq!(disk.append_bytes(replicated, AppendOrigin::Replication).unwrap_err(), unknown);
}

#[test]
fn a_new_leader_epoch_begins_at_the_logs_end() {
    let mut disk = Disk::with_batches(&[4]);
    disk.log.start_leader_epoch(LeaderEpoch(8)).unwrap();
    assert_eq!(disk.log.end_offset_for(LeaderEpoch(7)), Some((EPOCH, offset(4))));
    assert_eq!(disk.log.end_offset_for(LeaderEpoch(8)), Some((LeaderEpoch(8), offset(4))));
    disk.epoch = LeaderEpoch(8);
    disk.append(&Sent::default());
    assert_eq!(disk.log.end_offset_for(LeaderEpoch(8)), Some((LeaderEpoch(8), offset(5))));
}

#[test]
fn a_leader_that_appended_nothing_may_follow_a_log_of_an_older_epoch() {
    let mut disk = Disk::with_batches(&[4]);
    disk.log.start_leader_epoch(LeaderEpoch(5)).unwrap();
    assert_eq!(disk.log.last_record_epoch(), Some(EPOCH));
    let fenced = AppendError::FencedLeaderEpoch { known: LeaderEpoch(5), given: LeaderEpoch(4) };
    disk.epoch = LeaderEpoch(4);
    assert_eq!(disk.try_append(&Sent::default()).unwrap_err(), fenced, "as a leader it stays fenced");
    let mut replicated = Sent::default().bytes();
    engine_record::assign(&mut replicated, offset(4), LeaderEpoch(4));
    disk.epoch = LeaderEpoch(6);
    disk.append_bytes(replicated, AppendOrigin::Replication).map(drop).unwrap();
    assert_eq!(disk.log.leader_epochs().latest(), Some(LeaderEpoch(4)));
    assert_eq!(disk.log.end_offset_for(LeaderEpoch(5)), Some((LeaderEpoch(4), offset(5))));
}

#[test]
fn a_follower_takes_exactly_the_next_batch() {
    let mut disk = Disk::with_batches(&[2]);
    for (base, epoch) in [(1, 3), (3, 3)] {
        let mut bytes = Sent::default().bytes();
        engine_record::assign(&mut bytes, offset(base), LeaderEpoch(epoch));
        let refused = AppendError::NotContiguous { expected: offset(2), found: base };
        assert_eq!(disk.append_bytes(bytes, AppendOrigin::Replication).unwrap_err(), refused);
    }
    let mut ahead = Sent::default().bytes();
    engine_record::assign(&mut ahead, offset(2), LeaderEpoch(4));
    let refused = AppendError::LeaderEpochAhead { batch: LeaderEpoch(4), leader: EPOCH };
    assert_eq!(disk.append_bytes(ahead.clone(), AppendOrigin::Replication).unwrap_err(), refused);
    disk.epoch = LeaderEpoch(5);
    disk.append_bytes(ahead, AppendOrigin::Replication).map(drop).unwrap();
    assert_eq!(
        disk.log.leader_epochs().latest(),
        Some(LeaderEpoch(4)),
        "the batch's epoch, not the leader's"
    );
}

#[test]
fn the_last_offset_of_all_is_never_given_out() {
    let start = offset(i64::MAX - 2);
    let log = Log::create(config(), start, EPOCH);
    let plan = |count| {
        let batch = header(&Sent { count, ..Sent::default() });
        log.plan_append(&batch, AppendOrigin::Client, EPOCH, NOW)
    };
    assert!(matches!(plan(2), Ok(AppendDecision::Append(plan)) if plan.end_offset() == Offset::MAX));
    assert_eq!(plan(3), Err(AppendError::OffsetOverflow));
}

#[test]
fn written_moves_over_whole_batches_only() {
    let mut disk = Disk::with_batches(&[1, 1, 1]);
    let ends: Vec<_> = disk.batches.iter().map(|batch| batch.end_position).collect();
    let mut written_after = |position| {
        disk.log.complete_write(segment_id(0), position);
        disk.log.offsets().written.value()
    };
    assert_eq!(written_after(ends[0] - 1), 0);
    assert_eq!(written_after(ends[1] - 1), 1);
    assert_eq!(written_after(ends[2]), 3);
    assert_eq!(written_after(ends[0]), 3, "a late completion changes nothing");
}

#[test]
#[should_panic(expected = "only what is appended is written")]
fn a_write_of_padding_stops_the_process() {
    let mut disk = Disk::with_batches(&[1]);
    disk.log.complete_write(segment_id(0), 4_096);
}

#[test]
#[should_panic(expected = "a plan is committed before the next is made")]
fn a_plan_is_committed_once() {
    let mut disk = Disk::new(config());
    let plan = disk.append(&Sent::default());
    disk.log.commit_append(&plan, &header(&Sent::default()));
}

#[test]
fn an_old_segment_is_rolled_without_an_append_and_an_empty_one_is_not() {
    let mut disk = Disk::new(config());
    let later = Timestamp(NOW.0 + 60_000);
    assert_eq!(disk.log.plan_roll(later), None);
    disk.append(&Sent::default());
    assert_eq!(disk.log.plan_roll(Timestamp(later.0 - 1)), None);
    assert_eq!(disk.log.plan_roll(later), Some(segment_id(1)));
    disk.log.complete_roll(segment_id(1));
    assert_eq!(disk.log.plan_roll(later), None);
    assert_eq!(disk.append(&Sent::default()).segment, segment_id(1));
}

#[test]
fn a_segments_age_counts_from_its_first_append() {
    let mut disk = Disk::with_batches(&[1]);
    disk.now = Timestamp(NOW.0 + 59_999);
    assert_eq!(disk.append(&Sent::default()).roll, None);
    disk.now = Timestamp(NOW.0 + 60_000);
    assert_eq!(disk.append(&Sent::default()).roll, Some(segment_id(2)));
}

#[test]
fn a_batch_sent_twice_has_one_place() {
    let mut disk = Disk::with_batches(&[5]);
    let sent = Sent { count: 2, timestamp: 77, producer: producer(9, 0, 0), ..Sent::default() };
    disk.append(&sent);
    disk.append(&Sent { producer: producer(9, 0, 2), ..sent });
    let duplicate = disk.try_append(&sent).unwrap();
    let (base_offset, last_offset, timestamp) = (offset(5), offset(6), Timestamp(77));
    assert_eq!(duplicate, AppendDecision::Duplicate { base_offset, last_offset, timestamp });
    assert_eq!(disk.log.offsets().log_end, offset(9));
}

#[test]
fn replicas_take_what_the_leader_took_whatever_the_sequence() {
    let mut disk = Disk::new(config());
    for (base, sequence) in [(0, 5), (1, 3)] {
        let mut bytes = Sent { producer: producer(9, 0, sequence), ..Sent::default() }.bytes();
        engine_record::assign(&mut bytes, offset(base), EPOCH);
        disk.append_bytes(bytes, AppendOrigin::Replication).map(drop).unwrap();
    }
    disk.append(&Sent { producer: producer(9, 0, 4), ..Sent::default() });
}

#[test]
fn more_producers_than_may_be_remembered_are_refused_until_one_is_idle() {
    let mut disk = Disk::new(config());
    for id in 0..4 {
        disk.append(&Sent { producer: producer(id, 0, 0), ..Sent::default() });
    }
    let fifth = Sent { producer: producer(4, 0, 0), ..Sent::default() };
    assert_eq!(disk.try_append(&fifth).unwrap_err(), AppendError::TooManyProducers { producers_max: 4 });
    disk.append(&Sent { producer: producer(0, 0, 1), ..Sent::default() });
    disk.now = Timestamp(NOW.0 + 10_000);
    disk.append(&Sent { producer: producer(0, 0, 2), ..Sent::default() });
    disk.append(&fifth);
    assert_eq!(disk.log.producers().len(), 4);
    disk.append(&Sent { producer: producer(0, 0, 3), ..Sent::default() });
}

#[test]
fn idle_producers_expire_and_may_begin_anywhere_then() {
    let mut disk = Disk::new(config());
    disk.append(&Sent { producer: producer(1, 0, 0), ..Sent::default() });
    assert_eq!(disk.log.expire_producers(Timestamp(NOW.0 + 99_999)), 0);
    assert_eq!(disk.log.expire_producers(Timestamp(NOW.0 + 100_000)), 1);
    disk.append(&Sent { producer: producer(1, 0, 50), ..Sent::default() });
}

#[test]
fn records_below_the_log_start_are_out_of_range() {
    let mut disk = Disk::with_batches(&[4, 4]);
    disk.log.advance_high_watermark(offset(4));
    let refused = ReadError::OutOfRange { offset: offset(5), log_start: offset(0), log_end: offset(4) };
    assert_eq!(disk.log.advance_log_start(offset(5)), Err(refused));
    disk.log.advance_log_start(offset(2)).unwrap();
    disk.log.advance_log_start(offset(1)).unwrap();
    assert_eq!(disk.log.offsets().log_start, offset(2), "it never goes back");
    let refused = ReadError::OutOfRange { offset: offset(1), log_start: offset(2), log_end: offset(8) };
    assert_eq!(disk.read(1, 1_000, ReadBound::LogEnd), Err(refused));
    assert_eq!(disk.read(2, 100, ReadBound::LogEnd).unwrap(), disk.batches[0].bytes, "batches aren't cut");
}

#[test]
fn an_index_is_evicted_and_installed_again() {
    let mut disk = Disk::with_batches(&[1; 30]);
    let sealed = disk.log.segments().next().unwrap();
    let (id, summary) = (sealed.id(), *sealed.summary());
    let sidecar = encode_sidecar(&summary, sealed.index().unwrap());
    let before = disk.log.index_memory_bytes();
    disk.log.evict_index(id);
    assert!(disk.log.index_memory_bytes() < before);
    assert_eq!(disk.read(0, 1_000, ReadBound::LogEnd), Err(ReadError::IndexNotLoaded(id)));
    assert_eq!(disk.log.find_timestamp(Timestamp(0)), Err(ReadError::IndexNotLoaded(id)));
    let (covers, index) = decode_sidecar(&sidecar).unwrap();
    disk.log.install_index(index, &covers).unwrap();
    assert_eq!(disk.read(0, 10, ReadBound::LogEnd).unwrap(), disk.batches[0].bytes);
}

#[test]
fn the_active_index_is_not_evicted() {
    let mut disk = Disk::with_batches(&[1]);
    disk.log.evict_index(segment_id(0));
    assert!(disk.read(0, 1_000, ReadBound::LogEnd).is_ok());
}

#[test]
fn an_index_of_other_bytes_is_refused() {
    let mut disk = Disk::with_batches(&[1; 30]);
    let sealed = disk.log.segments().next().unwrap();
    let (index, summary) = (sealed.index().unwrap().clone(), *sealed.summary());
    let shorter = SegmentSummary { end_position: summary.end_position - 1, ..summary };
    let mismatch = InstallError::Mismatch {
        segment: summary.segment,
        index_bytes: shorter.end_position,
        segment_bytes: summary.end_position,
    };
    assert_eq!(disk.log.install_index(index.clone(), &shorter), Err(mismatch));
    let gone = SegmentSummary { segment: segment_id(999), ..summary };
    assert_eq!(disk.log.install_index(index, &gone), Err(InstallError::NoSegment(segment_id(999))));
}

#[test]
fn a_truncation_waits_for_writes_and_spares_what_clients_may_have_read() {
    let mut disk = Disk::with_batches(&[2, 2, 2]);
    assert_eq!(disk.truncate(2), Err(TruncateError::WritesInFlight));
    disk.write_and_flush_all();
    disk.log.advance_high_watermark(offset(4));
    let refused = TruncateError::BelowHighWatermark { to: offset(2), high_watermark: offset(4) };
    assert_eq!(disk.truncate(2), Err(refused));
    assert_eq!(disk.truncate(6), Ok(false), "nothing to cut");
    assert_eq!(disk.truncate(4), Ok(true));
    assert!(!disk.log.needs_producers());
    let expected = LogOffsets {
        high_watermark: offset(4),
        flushed: offset(4),
        written: offset(4),
        ..LogOffsets::empty(offset(0))
    };
    assert_eq!(*disk.log.offsets(), LogOffsets { log_end: offset(4), ..expected });
}

#[test]
fn a_truncation_inside_a_batch_takes_the_whole_batch() {
    let mut disk = Disk::with_batches(&[2, 5]);
    disk.write_all();
    disk.truncate(4).unwrap();
    assert_eq!(disk.log.offsets().log_end, offset(2));
    assert_eq!(disk.append(&Sent::default()).base_offset, offset(2));
}

#[test]
fn an_unclean_truncation_goes_below_the_high_watermark_but_not_below_the_start() {
    let mut disk = Disk::with_batches(&[2, 2, 2]);
    disk.write_all();
    disk.show_all();
    disk.log.advance_log_start(offset(2)).unwrap();
    let refused = TruncateError::BelowLogStart { to: offset(1), log_start: offset(2) };
    assert_eq!(disk.log.plan_unclean_truncate(offset(1)).unwrap_err(), refused);
    let plan = disk.log.plan_unclean_truncate(offset(3)).unwrap().unwrap();
    let mut search = plan.search();
    let step = search.feed(disk.window(plan.segment, search.at().position, usize::MAX));
    let crate::BoundaryStep::Found(boundary) = step else { panic!("{step:?}") };
    disk.log.complete_truncate(&plan, &boundary);
    assert!(!disk.log.needs_producers());
    assert_eq!(disk.log.offsets().high_watermark, offset(2));
}

#[test]
fn a_truncation_of_the_batch_that_the_log_starts_in_takes_the_start_along() {
    let mut disk = Disk::with_batches(&[2, 6]);
    disk.write_all();
    disk.show_all();
    disk.log.advance_log_start(offset(4)).unwrap();
    assert_eq!(disk.log.leader_epochs().starts()[0].start_offset, offset(4));
    let plan = disk.log.plan_unclean_truncate(offset(5)).unwrap().unwrap();
    let mut search = plan.search();
    let step = search.feed(disk.window(plan.segment, search.at().position, usize::MAX));
    let crate::BoundaryStep::Found(boundary) = step else { panic!("{step:?}") };
    disk.log.complete_truncate(&plan, &boundary);
    assert!(!disk.log.needs_producers());
    assert_eq!((disk.log.offsets().log_start, disk.log.offsets().log_end), (offset(2), offset(2)));
}

#[test]
fn a_truncation_removes_later_segments_and_their_epochs_and_goes_on_in_the_one_that_stays() {
    let mut disk = Disk::with_batches(&[1; 15]);
    disk.epoch = LeaderEpoch(4);
    let first_of_epoch = disk.append(&Sent::default()).base_offset.value();
    for _ in 0..60 {
        disk.append(&Sent::default());
    }
    disk.write_all();
    assert!(disk.log.segments().count() > 2);
    disk.truncate(first_of_epoch - 3).unwrap();
    assert_eq!(disk.log.segments().count(), 1);
    assert_eq!(disk.log.leader_epochs().latest(), Some(EPOCH));
    assert_eq!(disk.append(&Sent::default()).base_offset, offset(first_of_epoch - 3));
}

#[test]
fn a_truncation_forgets_the_latest_time_of_what_it_takes() {
    let mut disk = Disk::new(config());
    for timestamp in [10, 30, 20] {
        disk.append(&Sent { timestamp, ..Sent::default() });
    }
    disk.write_all();
    disk.truncate(2).unwrap();
    assert_eq!(disk.log.active_segment().summary().max_timestamp, Timestamp(30));
    disk.truncate(1).unwrap();
    assert_eq!(disk.log.active_segment().summary().max_timestamp, Timestamp(10));
    disk.truncate(0).unwrap();
    assert_eq!(disk.log.max_timestamp(), Ok(None));
}

#[test]
fn producers_cut_by_a_truncation_append_only_after_a_rebuild() {
    let mut disk = Disk::new(config());
    for sequence in 0..8 {
        disk.append(&Sent { producer: producer(1, 0, sequence), ..Sent::default() });
    }
    disk.write_all();
    assert_eq!(disk.truncate(4), Ok(true));
    assert!(disk.log.needs_producers());
    let again = |sequence| Sent { producer: producer(1, 0, sequence), ..Sent::default() };
    assert_eq!(disk.try_append(&again(1)).unwrap_err(), AppendError::ProducersIncomplete);
    disk.append(&Sent::default());
    disk.write_all();
    disk.log.install_producers(disk.replayed_producers(), disk.log.offsets().log_end);
    // Sequence 1 had left the five remembered before the cut, and is one of them now.
    assert!(matches!(disk.try_append(&again(1)), Ok(AppendDecision::Duplicate { base_offset, .. })
        if base_offset == offset(1)));
    disk.append(&again(4));
}

#[test]
fn a_reset_log_begins_anew_elsewhere() {
    let mut disk = Disk::with_batches(&[3, 3]);
    disk.write_all();
    disk.show_all();
    disk.log.reset(offset(100));
    assert_eq!(*disk.log.offsets(), LogOffsets::empty(offset(100)));
    assert_eq!(disk.log.leader_epochs().latest(), None);
    assert_eq!(disk.log.active_segment().id(), segment_id(100));
}

fn three_segments() -> Disk {
    let mut disk = Disk::new(config());
    for timestamp in [100, 200, 300] {
        disk.append(&Sent { value_bytes: 1_200, timestamp, ..Sent::default() });
    }
    disk
}

#[test]
fn retention_by_size_keeps_at_least_the_size_and_the_active_segment() {
    let mut disk = three_segments();
    disk.write_all();
    disk.show_all();
    let each = u64::from(disk.log.active_segment().end_position());
    let mut deleted = |keep| {
        disk.log.set_config(LogConfig { retention_bytes: Some(keep), ..config() });
        disk.log.delete_plan(NOW).segments.len()
    };
    assert_eq!([deleted(2 * each + 1), deleted(2 * each), deleted(each), deleted(0)], [0, 1, 2, 2]);
}

#[test]
fn retention_by_age_goes_by_record_time_and_deletes_from_the_front() {
    let mut disk = three_segments();
    disk.write_all();
    disk.show_all();
    let retention_age = Some(Duration::from_millis(50));
    disk.log.set_config(LogConfig { retention_age, ..config() });
    assert!(disk.log.delete_plan(Timestamp(149)).is_empty());
    assert_eq!(disk.log.delete_plan(Timestamp(150)).segments, [segment_id(0)]);
    let plan = disk.log.delete_plan(Timestamp(250));
    assert_eq!(
        plan,
        crate::DeletePlan { segments: vec![segment_id(0), segment_id(1)], log_start: offset(2) }
    );
    disk.log.complete_delete(&plan);
    assert_eq!(disk.log.offsets().log_start, offset(2));
    assert_eq!(disk.log.leader_epochs().starts()[0].start_offset, offset(2));
    assert_eq!(disk.log.segments().count(), 1);
}

#[test]
fn retention_goes_by_append_time_where_record_times_are_absurd() {
    for timestamp in [-1, i64::MAX] {
        let mut disk = Disk::new(LogConfig { retention_age: Some(Duration::from_millis(50)), ..config() });
        for _ in 0..2 {
            disk.append(&Sent { value_bytes: 1_200, timestamp, ..Sent::default() });
        }
        disk.write_all();
        disk.show_all();
        assert!(disk.log.delete_plan(Timestamp(NOW.0 + 49)).is_empty(), "{timestamp}");
        assert_eq!(disk.log.delete_plan(Timestamp(NOW.0 + 50)).segments.len(), 1, "{timestamp}");
    }
}

#[test]
fn retention_keeps_what_clients_have_not_seen_or_the_device_not_written() {
    let mut disk = three_segments();
    disk.log.set_config(LogConfig { retention_bytes: Some(0), ..config() });
    disk.show_all();
    assert!(disk.log.delete_plan(NOW).is_empty(), "nothing is written");
    let mut unseen = three_segments();
    unseen.log.set_config(LogConfig { retention_bytes: Some(0), ..config() });
    unseen.write_all();
    unseen.log.advance_high_watermark(offset(1));
    assert_eq!(unseen.log.delete_plan(NOW).segments, [segment_id(0)]);
}

#[test]
fn the_active_segment_is_rolled_for_retention_once_all_was_seen_and_all_is_due() {
    let mut disk = three_segments();
    disk.write_all();
    disk.log.advance_high_watermark(offset(2));
    disk.log.set_config(LogConfig { retention_age: Some(Duration::from_millis(50)), ..config() });
    assert_eq!(disk.log.plan_retention_roll(Timestamp(350)), None, "its record wasn't seen");
    disk.show_all();
    assert_eq!(disk.log.plan_retention_roll(Timestamp(349)), None, "it is too young");
    assert_eq!(disk.log.plan_retention_roll(Timestamp(350)), Some(segment_id(3)));
    disk.log.complete_roll(segment_id(3));
    let plan = disk.log.delete_plan(Timestamp(350));
    assert_eq!((plan.segments.len(), plan.log_start), (3, offset(3)));
    disk.log.complete_delete(&plan);
    assert_eq!(disk.log.plan_retention_roll(Timestamp(350)), None, "it is empty");
    let mut young_front = Disk::new(LogConfig { retention_age: Some(Duration::from_millis(50)), ..config() });
    for timestamp in [900, 100] {
        young_front.append(&Sent { value_bytes: 1_200, timestamp, ..Sent::default() });
    }
    young_front.write_all();
    young_front.show_all();
    assert_eq!(young_front.log.plan_retention_roll(Timestamp(940)), None, "what is before it stays");
}

#[test]
fn segments_below_the_log_start_go_without_any_retention() {
    let mut disk = three_segments();
    disk.write_all();
    disk.show_all();
    disk.log.advance_log_start(offset(1)).unwrap();
    assert_eq!(disk.log.delete_plan(NOW).segments, [segment_id(0)]);
}
