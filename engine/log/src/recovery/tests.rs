use engine_record::{LeaderEpoch, RecordBatch, assign};
use proptest::prelude::*;

use super::*;
use crate::testing::{Disk, EPOCH, NOW, Sent, Stored, at, config, offset, producer, scan_bytes, segment_id};
use crate::{ReadBound, encode_sidecar};

/// A disk whose batches all lie in one segment.
fn one_segment(counts: &[u32]) -> Disk {
    let mut disk = Disk::new(LogConfig { segment_bytes: 1 << 20, ..config() });
    let mut sequence = 0;
    for (round, &count) in (0_i32..).zip(counts) {
        let producer = producer(1, 0, sequence);
        sequence += i32::try_from(count).unwrap();
        disk.append(&Sent { count, producer, timestamp: 100 + i64::from(round), ..Sent::default() });
    }
    disk
}

fn bytes_of(disk: &Disk) -> Vec<u8> {
    disk.files.get(&segment_id(0)).cloned().unwrap_or_default()
}

fn scan(disk: &Disk, durable_position: u32, bytes: &[u8]) -> ScanOutcome {
    let start = Checkpoint { durable_position, ..disk.scan_start() };
    scan_bytes(start, *disk.log.config(), NOW, bytes, 500)
}

/// The batches that lie whole within the first `len` bytes.
fn whole_within(disk: &Disk, len: usize) -> impl Iterator<Item = &Stored> {
    disk.batches.iter().take_while(move |batch| batch.end_position as usize <= len)
}

fn end_within(disk: &Disk, len: usize) -> BatchPosition {
    whole_within(disk, len).last().map_or_else(|| at(0, 0), |batch| at(batch.end.value(), batch.end_position))
}

fn found(outcome: &ScanOutcome) -> BatchPosition {
    BatchPosition {
        offset: outcome.segment.summary.end_offset,
        position: outcome.segment.summary.end_position,
    }
}

#[test]
fn a_whole_segment_is_recovered_as_it_was() {
    let disk = one_segment(&[3, 1, 5, 2, 8, 1, 1, 4]);
    let outcome = scan(&disk, 0, &bytes_of(&disk));
    let before = disk.log.active_segment();
    assert_eq!(outcome.end, ScanEnd::Clean);
    assert_eq!(outcome.segment.summary, *before.summary());
    assert_eq!(outcome.segment.index.as_ref(), before.index());
    assert_eq!(&outcome.leader_epochs, disk.log.leader_epochs());
    assert_eq!(&outcome.producers, disk.log.producers());
}

#[test]
fn padding_is_a_clean_end_however_long() {
    let disk = one_segment(&[3, 1]);
    for zeros in [0, 1, 60, 61, 62, 4_096, 1 << 20] {
        let padded = [bytes_of(&disk), vec![0; zeros]].concat();
        let outcome = scan(&disk, 0, &padded);
        assert_eq!((outcome.end, found(&outcome).offset), (ScanEnd::Clean, offset(4)), "{zeros} zeros");
    }
}

#[test]
fn an_empty_segment_is_clean_at_its_start() {
    let disk = one_segment(&[]);
    let outcome = scan(&disk, 0, &[0; 5_000]);
    assert_eq!((outcome.end, found(&outcome)), (ScanEnd::Clean, at(0, 0)));
}

#[test]
fn a_crash_at_any_byte_leaves_exactly_the_batches_before_it() {
    let disk = one_segment(&[3, 1, 2, 1]);
    let whole = bytes_of(&disk);
    for len in 0..whole.len() {
        for tail in [Vec::new(), vec![0; 4_096], vec![0x5a; 300]] {
            let torn = [&whole[..len], &tail].concat();
            let outcome = scan(&disk, 0, &torn);
            // A batch whose last bytes are zeros loses nothing to a cut that puts zeros there.
            let intact = torn.iter().zip(&whole).take_while(|(torn, whole)| torn == whole).count();
            assert_eq!(found(&outcome), end_within(&disk, intact), "cut at {len}");
            // The first bytes of a first header are zeros, which nothing tells from padding.
            let rest = &torn[end_within(&disk, intact).position as usize..];
            let padding = rest.iter().all(|byte| *byte == 0);
            assert_eq!(outcome.end == ScanEnd::Clean, padding, "cut at {len}: {:?}", outcome.end);
        }
    }
}

#[test]
fn every_flipped_bit_ends_the_scan_at_its_batch() {
    let disk = one_segment(&[2, 3, 1]);
    let whole = bytes_of(&disk);
    // A leader epoch lies outside the checksum: one that falls is found, one that rises looks like a new leader's.
    let in_epoch = |position: &usize| {
        let begin = end_within(&disk, *position).position as usize;
        (12..16).contains(&(position - begin))
    };
    for position in (0..whole.len()).filter(|position| !in_epoch(position)) {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[position] ^= 1 << bit;
            let outcome = scan(&disk, 0, &damaged);
            assert_eq!(found(&outcome), end_within(&disk, position), "bit {bit} of byte {position}");
        }
    }
}

#[test]
fn a_break_below_the_durable_position_is_corruption_and_above_a_torn_tail() {
    let disk = one_segment(&[2, 3, 1]);
    let ends: Vec<_> = disk.batches.iter().map(|batch| batch.end_position).collect();
    let mut damaged = bytes_of(&disk);
    damaged[ends[0] as usize + 70] ^= 1;
    let break_at = at(2, ends[0]);
    for (durable, corrupt) in [(0, false), (ends[0], false), (ends[1], true), (ends[2], true)] {
        match scan(&disk, durable, &damaged).end {
            ScanEnd::Corrupt { at, .. } => assert!(corrupt && at == break_at, "durable {durable}"),
            ScanEnd::Torn { at, .. } => assert!(!corrupt && at == break_at, "durable {durable}"),
            ScanEnd::Clean => panic!("durable {durable}"),
        }
    }
}

#[test]
fn durable_bytes_that_are_gone_or_zero_are_corruption() {
    let disk = one_segment(&[2, 3]);
    let whole = bytes_of(&disk);
    let durable = disk.batches[1].end_position;
    let first = disk.batches[0].end_position as usize;
    let expected = ScanEnd::Corrupt { at: at(2, disk.batches[0].end_position), cause: BrokenChain::Ended };
    assert_eq!(scan(&disk, durable, &whole[..first]).end, expected);
    assert_eq!(scan(&disk, durable, &[&whole[..first], &[0; 4_096]].concat()).end, expected);
}

#[test]
fn each_break_has_its_cause() {
    let disk = one_segment(&[2, 3]);
    let (whole, first) = (bytes_of(&disk), disk.batches[0].end_position as usize);
    let cause = |bytes: &[u8]| match scan(&disk, 0, bytes).end {
        ScanEnd::Torn { cause, .. } => cause,
        end @ (ScanEnd::Clean | ScanEnd::Corrupt { .. }) => panic!("{end:?}"),
    };
    assert_eq!(cause(&whole[..first + 30]), BrokenChain::Cut);
    assert_eq!(cause(&whole[..first + 70]), BrokenChain::Cut);
    let behind_padding = [&whole[..], &[0; 500], &[1]].concat();
    assert_eq!(cause(&behind_padding), BrokenChain::BehindPadding);
    let again = [&whole[..], &whole[..]].concat();
    assert_eq!(cause(&again), BrokenChain::BaseOffset { expected: offset(5), found: 0 });
    let mut old_leader = whole.clone();
    assign(&mut old_leader[first..], offset(2), LeaderEpoch(EPOCH.0 - 1));
    let fell = BrokenChain::LeaderEpoch { known: EPOCH, found: LeaderEpoch(EPOCH.0 - 1) };
    assert_eq!(cause(&old_leader), fell);
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(matches!(cause(&damaged), BrokenChain::Batch(CorruptBatch::Checksum { .. })));
    let mut old_format = whole;
    old_format[first + 16] = 1;
    assert_eq!(cause(&old_format), BrokenChain::Batch(CorruptBatch::Magic(1)));
}

#[test]
fn a_length_that_lies_costs_no_memory_and_ends_the_scan() {
    let disk = one_segment(&[1]);
    let mut lying = bytes_of(&disk);
    lying[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    let outcome = scan(&disk, 0, &[lying, vec![7; 100_000]].concat());
    assert_eq!(outcome.end, ScanEnd::Torn { at: at(0, 0), cause: BrokenChain::Cut });
}

#[test]
fn a_batch_after_a_hole_never_counts_however_valid() {
    let disk = one_segment(&[2, 2, 2, 2]);
    let mut bytes = bytes_of(&disk);
    let (from, to) = (disk.batches[0].end_position as usize, disk.batches[1].end_position as usize);
    bytes[from..to].fill(0);
    let outcome = scan(&disk, 0, &bytes);
    assert_eq!(found(&outcome).offset, offset(2));
    assert!(matches!(outcome.end, ScanEnd::Torn { cause: BrokenChain::BehindPadding, .. }));
}

#[test]
fn a_scan_from_a_checkpoint_is_a_scan_from_the_start() {
    let counts = [3, 1, 5, 2, 8, 1, 1, 4];
    let disk = one_segment(&counts);
    let whole = bytes_of(&disk);
    let from_start = scan(&disk, 0, &whole);
    for taken in 0..=counts.len() {
        let earlier = one_segment(&counts[..taken]);
        let start = earlier.log.checkpoint();
        let position = start.begin().position as usize;
        assert_eq!(start.durable_position as usize, position);
        let index = earlier.log.active_segment().index().unwrap().clone();
        let mut scan = RecoveryScan::new(start.clone(), *disk.log.config(), NOW).with_index(index);
        assert_eq!(scan.feed(&whole[position..]), ScanProgress::Going);
        let with_index = scan.finish();
        assert_eq!(with_index.segment.summary, from_start.segment.summary);
        assert_eq!(with_index.segment.index, from_start.segment.index);
        assert_eq!(with_index.producers, from_start.producers);
        let without_index = scan_bytes(start, *disk.log.config(), NOW, &whole[position..], 64);
        assert_eq!(without_index.segment.summary, from_start.segment.summary);
        assert_eq!(without_index.producers, from_start.producers);
    }
}

#[test]
fn what_a_checkpoint_has_from_above_its_place_comes_again_with_the_batches() {
    let disk = one_segment(&[2, 2, 2]);
    let earlier = one_segment(&[2]);
    let mut start = Checkpoint { producers: disk.log.producers().clone(), ..earlier.log.checkpoint() };
    start.leader_epochs.note(LeaderEpoch(9), offset(5));
    let position = start.begin().position as usize;
    let outcome = scan_bytes(start, *disk.log.config(), NOW, &bytes_of(&disk)[position..], 100);
    assert_eq!(outcome.end, ScanEnd::Clean);
    assert_eq!(&outcome.producers, disk.log.producers());
    assert_eq!(&outcome.leader_epochs, disk.log.leader_epochs());
}

#[test]
fn of_an_index_that_reaches_above_the_checkpoint_only_the_part_below_is_used() {
    let disk = one_segment(&[2; 12]);
    let start = one_segment(&[2; 5]).log.checkpoint();
    let position = start.begin().position as usize;
    let index = disk.log.active_segment().index().unwrap().clone();
    let torn = &bytes_of(&disk)[position..position + 200];
    let mut scan = RecoveryScan::new(start, *disk.log.config(), NOW).with_index(index);
    let _ = scan.feed(torn);
    let outcome = scan.finish();
    let index = outcome.segment.index.unwrap();
    assert!(index.floor(Offset::MAX).position < outcome.segment.summary.end_position);
    let below = index.floor(offset(9)).position;
    assert!(0 < below && below < u32::try_from(position).unwrap(), "the part below is used");
}

#[test]
fn an_index_of_another_segment_is_not_used() {
    let disk = one_segment(&[3, 1]);
    let other = SegmentIndex::of_first_batch(segment_id(7));
    let mut scan = RecoveryScan::new(disk.scan_start(), *disk.log.config(), NOW).with_index(other);
    let _ = scan.feed(&bytes_of(&disk));
    assert_eq!(scan.finish().segment.index.as_ref(), disk.log.active_segment().index());
}

#[test]
fn a_recovered_log_goes_on_where_it_ended() {
    let mut disk = Disk::new(config());
    for sequence in 0..60 {
        disk.append(&Sent { producer: producer(1, 0, sequence), ..Sent::default() });
    }
    let recovered = recover(&disk);
    let expected = LogOffsets {
        high_watermark: offset(20),
        flushed: offset(60),
        written: offset(60),
        ..*disk.log.offsets()
    };
    assert_eq!(*recovered.offsets(), expected);
    assert_eq!(recovered.producers(), disk.log.producers());
    assert_eq!(recovered.leader_epochs(), disk.log.leader_epochs());
    assert!(recovered.segments().map(Segment::summary).eq(disk.log.segments().map(Segment::summary)));
    let mut disk = Disk { log: recovered, ..disk };
    disk.append(&Sent { producer: producer(1, 0, 60), ..Sent::default() });
    assert_eq!(disk.read(60, 1_000, ReadBound::LogEnd).unwrap(), disk.batches[60].bytes);
}

/// Scans every segment of the disk, and makes a log of what is found.
fn recover(disk: &Disk) -> Log {
    let (mut start, mut segments) = (disk.scan_start(), Vec::new());
    for id in disk.log.segments().map(Segment::id) {
        assert_eq!(start.begin().offset, id.0);
        let bytes = disk.window(id, 0, usize::MAX);
        let outcome = scan_bytes(start, *disk.log.config(), NOW, bytes, 999);
        assert_eq!(outcome.end, ScanEnd::Clean);
        let (segment, following) = outcome.into_following(0);
        segments.push(segment);
        start = following;
    }
    let Checkpoint { leader_epochs, producers, .. } = start;
    let (log_start, high_watermark) = (offset(0), offset(20));
    let found = Recovered { log_start, high_watermark, segments, leader_epochs, producers };
    Log::recovered(*disk.log.config(), found).unwrap()
}

fn recovered_parts(counts: &[u32]) -> (LogConfig, Recovered) {
    let mut disk = Disk::new(config());
    for &count in counts {
        disk.append(&Sent { count, value_bytes: 1_200 / count as usize, ..Sent::default() });
    }
    let segments = disk
        .log
        .segments()
        .map(|segment| RecoveredSegment { summary: *segment.summary(), index: segment.index().cloned() });
    let found = Recovered {
        log_start: offset(0),
        high_watermark: offset(0),
        segments: segments.collect(),
        leader_epochs: disk.log.leader_epochs().clone(),
        producers: Producers::new(),
    };
    (config(), found)
}

#[test]
fn parts_that_make_no_log_are_refused_with_the_reason() {
    let (config, whole) = recovered_parts(&[1, 1, 1]);
    let refused = |found: Recovered| Log::recovered(config, found).unwrap_err();
    assert_eq!(refused(Recovered { segments: Vec::new(), ..whole.clone() }), RecoveredError::NoSegment);
    let mut gap = whole.clone();
    gap.segments.remove(1);
    assert_eq!(refused(gap), RecoveredError::Gap { expected: segment_id(1), found: segment_id(2) });
    let mut empty = whole.clone();
    empty.segments[1].summary = SegmentSummary::empty(segment_id(1));
    assert_eq!(
        refused(empty.clone()),
        RecoveredError::Unsound(segment_id(1)),
        "an index of an empty segment"
    );
    empty.segments[1].index = None;
    assert_eq!(refused(empty), RecoveredError::Empty(segment_id(1)));
    let mut contradicting = whole.clone();
    contradicting.segments[0].summary.end_position = 0;
    assert_eq!(refused(contradicting), RecoveredError::Unsound(segment_id(0)));
    let mut unindexed = whole.clone();
    unindexed.segments[2].index = None;
    assert_eq!(refused(unindexed), RecoveredError::NoActiveIndex(segment_id(2)));
    let mut behind = whole.clone();
    let late = Sent { producer: producer(1, 0, 0), ..Sent::default() }.bytes();
    let header = *RecordBatch::parse(&late).unwrap().0.header();
    behind.producers.record(&header, offset(3), NOW, NOW);
    assert_eq!(refused(behind), RecoveredError::ProducersBehindEnd);
    assert!(Log::recovered(config, whole).is_ok());
}

#[test]
fn stored_offsets_outside_of_what_is_found_are_moved_inside() {
    let (config, mut found) = recovered_parts(&[2, 2]);
    found.log_start = offset(1);
    found.high_watermark = offset(99);
    let log = Log::recovered(config, found.clone()).unwrap();
    assert_eq!((log.offsets().log_start, log.offsets().high_watermark), (offset(1), offset(4)));
    found.high_watermark = offset(0);
    let log = Log::recovered(config, found).unwrap();
    assert_eq!(log.offsets().high_watermark, offset(1));
}

#[test]
fn an_epoch_that_began_at_the_end_survives_and_one_behind_it_does_not() {
    let (config, mut found) = recovered_parts(&[2]);
    found.leader_epochs.note(LeaderEpoch(5), offset(2));
    found.leader_epochs.note(LeaderEpoch(6), offset(3));
    let log = Log::recovered(config, found).unwrap();
    assert_eq!(log.leader_epochs().latest(), Some(LeaderEpoch(5)));
}

#[test]
fn sealed_segments_come_back_without_their_index() {
    let (config, mut found) = recovered_parts(&[1, 1]);
    let sealed = &mut found.segments[0];
    let sidecar = encode_sidecar(&sealed.summary, sealed.index.as_ref().unwrap());
    sealed.index = None;
    sealed.summary = crate::decode_sidecar_summary(&sidecar).unwrap();
    let mut log = Log::recovered(config, found).unwrap();
    assert!(log.plan_read(offset(0), 1, ReadBound::LogEnd).is_err());
    let (covers, index) = crate::decode_sidecar(&sidecar).unwrap();
    log.install_index(index, &covers).unwrap();
    assert!(log.plan_read(offset(0), 1, ReadBound::LogEnd).is_ok());
}

/// An old life of the file: other batches at the same positions, `first` the offset it began at.
fn stale_bytes(counts: &[u32], first: i64, sent: Sent) -> Vec<u8> {
    let mut base = first;
    let batches = counts.iter().map(|&count| {
        let mut bytes = Sent { count, ..sent }.bytes();
        assign(&mut bytes, offset(base), EPOCH);
        base += i64::from(count);
        bytes
    });
    batches.collect::<Vec<_>>().concat()
}

/// The new log's first `len` bytes, over an old life of the file.
fn written_over(old: &[u8], new: &[u8], len: usize) -> Vec<u8> {
    let mut file = old.to_vec();
    file.resize(file.len().max(len), 0);
    file[..len].copy_from_slice(&new[..len]);
    file
}

/// Why the fence is needed: what follows the end may be an old batch of exactly the right offset, and nothing in the
/// bytes tells it from a new one.
#[test]
fn without_the_fence_a_ghost_of_a_truncated_log_would_come_back() {
    let old = one_segment(&[2, 2, 2]);
    let file = bytes_of(&old);
    let end = old.batches[0].end_position as usize;
    let ghost = scan(&old, 0, &file);
    assert_eq!(found(&ghost).offset, offset(6), "truncated to 2, but the bytes are still there");
    let mut fenced = file;
    fenced[end..].fill(0);
    let outcome = scan(&old, 0, &fenced);
    assert_eq!((outcome.end, found(&outcome).offset), (ScanEnd::Clean, offset(2)));
}

/// How much of a header must be new, and how little, to make a stale batch the next one: all of the base offset, and
/// nothing of the checksum.
const TEAR_THAT_MAKES_A_GHOST: core::ops::RangeInclusive<usize> = 8..=17;

/// Why a file used again would have to be zeroed before: a write torn inside a header, over a batch of the same size that lay
/// there before, gives the old records the new offset, and their checksum is right.
#[test]
fn a_header_torn_over_a_stale_batch_gives_the_old_records_a_new_offset() {
    let stale = stale_bytes(&[2, 2], 0, Sent { timestamp: 900, ..Sent::default() });
    let new = stale_bytes(&[2, 2], 4, Sent::default());
    let each = new.len() / 2;
    let start = Checkpoint::segment_start(segment_id(4), 0, LeaderEpochs::new(), Producers::new());
    for torn in 0..each {
        let file = written_over(&stale, &new, each + torn);
        let zeroed = written_over(&[], &new, each + torn);
        let latest = |file: &[u8]| {
            let found = scan_bytes(start.clone(), config(), NOW, file, 100).segment;
            (found.summary.end_offset, found.summary.max_timestamp)
        };
        let ghost = latest(&file) == (offset(8), Timestamp(900));
        assert_eq!(ghost, TEAR_THAT_MAKES_A_GHOST.contains(&torn), "torn at {torn}");
        assert_eq!(latest(&zeroed), (offset(6), Timestamp(500)), "zeroed space has no ghost");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_crash_loses_a_durable_batch_or_brings_an_old_one_back(
        counts in prop::collection::vec(1_u32..5, 1..8),
        old_counts in prop::collection::vec(1_u32..5, 0..12),
        cut in 0_usize..10_000,
        durable in 0_usize..8,
        chunk in 1_usize..400,
    ) {
        let disk = one_segment(&counts);
        let new = bytes_of(&disk);
        // As if the file were used again, its earlier life ended where this one begins: all of it is below.
        let old_total = i64::from(old_counts.iter().sum::<u32>());
        let mut shifted = Disk::new(*disk.log.config());
        shifted.log = Log::create(*disk.log.config(), offset(old_total), EPOCH);
        for batch in &disk.batches {
            shifted.append_bytes(unassigned(&batch.bytes), crate::AppendOrigin::Client).map(drop).unwrap();
        }
        let new = shifted.files.values().next().map_or(new, Clone::clone);
        let durable_batch = shifted.batches.get(durable.min(shifted.batches.len() - 1)).unwrap();
        let durable_position = durable_batch.end_position;
        let len = (durable_position as usize + cut % (new.len() + 1)).min(new.len());
        // A tear inside a header over a stale batch is the test above: such space is zeroed before its use.
        let torn_header = len - end_within(&shifted, len).position as usize;
        prop_assume!(!TEAR_THAT_MAKES_A_GHOST.contains(&torn_header));
        let file = written_over(&stale_bytes(&old_counts, 0, Sent { timestamp: 900, ..Sent::default() }), &new, len);

        let start = Checkpoint { durable_position, ..shifted.scan_start() };
        let outcome = scan_bytes(start, *shifted.log.config(), NOW, &file, chunk);
        let corrupt = matches!(outcome.end, ScanEnd::Corrupt { .. });
        prop_assert!(!corrupt, "{:?}", outcome.end);
        let position = found(&outcome).position as usize;
        prop_assert!(position >= durable_position as usize, "nothing durable is lost");
        // A batch that a cut left as it was, because the same bytes lay there before, is whole.
        let intact = file.iter().zip(&new).take_while(|(file, new)| file == new).count();
        prop_assert_eq!(position, end_within(&shifted, intact).position as usize, "exactly what was written");
        prop_assert_eq!(&file[..position], &new[..position]);
        prop_assert_eq!(found(&outcome), BatchPosition {
            offset: whole_within(&shifted, intact).last().unwrap().end,
            position: u32::try_from(position).unwrap(),
        });
    }

    #[test]
    fn chunks_make_no_difference(
        counts in prop::collection::vec(1_u32..5, 0..8),
        cut in 0_usize..1_000,
        tail in prop::collection::vec(any::<u8>(), 0..100),
        chunk in 1_usize..200,
    ) {
        let disk = one_segment(&counts);
        let mut bytes = bytes_of(&disk);
        bytes.truncate(cut);
        bytes.extend_from_slice(&tail);
        let whole = scan_bytes(disk.scan_start(), *disk.log.config(), NOW, &bytes, usize::MAX);
        let pieces = scan_bytes(disk.scan_start(), *disk.log.config(), NOW, &bytes, chunk);
        prop_assert_eq!(format!("{whole:?}"), format!("{pieces:?}"));
    }

    #[test]
    fn noise_is_never_a_log_and_never_a_panic(noise in prop::collection::vec(any::<u8>(), 1..500)) {
        let disk = one_segment(&[]);
        let outcome = scan(&disk, 0, &noise);
        prop_assert_eq!(found(&outcome), at(0, 0));
    }
}

fn unassigned(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    assign(&mut bytes, offset(0), LeaderEpoch(-1));
    bytes
}
