use proptest::prelude::*;

use super::*;

fn partition(number: i32) -> TopicPartition {
    TopicPartition { topic: TopicId([7; 16]), partition: PartitionIndex(number) }
}

fn at(offset: i64) -> Offset {
    Offset::new(offset).unwrap()
}

fn segment(base: i64, bytes: u32) -> SegmentSummary {
    SegmentSummary {
        segment: SegmentId(at(base)),
        end_offset: at(base + 1),
        end_position: bytes,
        max_timestamp: Timestamp(base * 10),
        first_append: None,
        last_append: Some(Timestamp(-2)),
    }
}

fn log(segments: Vec<SegmentSummary>) -> LogEntry {
    LogEntry {
        log_start: at(3),
        high_watermark: at(5),
        segments,
        leader_epochs: b"epochs".to_vec(),
        producers: b"producers".to_vec(),
        is_closed: false,
        active_index: Vec::new(),
    }
}

fn live(segments: Vec<SegmentSummary>) -> Entry {
    Entry { generation: 9, log: Some(log(segments)) }
}

fn applied(payloads: &[Vec<u8>]) -> Entries {
    let mut entries = Entries::new();
    for payload in payloads {
        apply(payload, &mut entries).unwrap();
    }
    entries
}

/// The bytes of version 1, as released. Never edit them: a changed format is a new version and a new fixture.
const ENTRY_VERSION_1: &str = "\
    07070707070707070707070707070707010000000900000000000000010300000000000000050000000000000000000000\
    00000000010000000000000000000000010000000000000000000000000000000000000000000080feffffffffffffff64\
    0000000600000065706f6368730900000070726f64756365727300000000";

#[test]
fn version_1_is_written_as_released() {
    let bytes = encode(partition(1), &live(vec![segment(0, 100)]));
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, ENTRY_VERSION_1);
}

#[test]
fn an_entry_takes_as_many_bytes_as_was_said_before() {
    let deleted = Entry { generation: 10, log: None };
    for entry in [live(vec![segment(0, 100)]), live(vec![segment(0, 100), segment(5, 3)]), deleted] {
        assert_eq!(encode(partition(1), &entry).len(), encoded_bytes(&entry));
    }
}

#[test]
fn a_log_takes_no_more_closed_than_was_said_before() {
    let log = Log::create(engine_log::LogConfig::default(), at(0), engine_record::LeaderEpoch(3));
    let bytes = |log| encoded_bytes(&Entry { generation: 1, log: Some(log) });
    assert!(bytes(LogEntry::open(&log)) <= LogEntry::bytes_max(&log));
    assert!(bytes(LogEntry::closed(&log)) <= LogEntry::bytes_max(&log));
    assert!(LogEntry::bytes_max(&log) + APPEND_BYTES_MAX <= 512, "a short log gets by with one step");
}

#[test]
fn a_change_lists_only_the_segments_that_changed() {
    let before = live((0..50).map(|base| segment(base, 100)).collect());
    let mut after = before.clone();
    let segments = &mut after.log.as_mut().unwrap().segments;
    segments[49].end_position = 200;
    segments.push(segment(50, 1));
    let change = encode_change(partition(1), &after, Some(&before));
    assert!(change.len() < encode(partition(1), &after).len() / 4);
    let entries = applied(&[encode(partition(1), &before), change]);
    assert_eq!(entries[&partition(1)], after);
}

#[test]
fn a_deleted_partition_stays_deleted_until_a_newer_entry() {
    let deleted = Entry { generation: 10, log: None };
    let entries =
        applied(&[encode(partition(1), &live(vec![segment(0, 1)])), encode(partition(1), &deleted)]);
    assert_eq!(entries[&partition(1)], deleted);
}

#[test]
fn of_two_checkpoints_the_newer_entry_counts() {
    let entry = |generation| Entry { generation, log: None };
    let mut entries = Entries::from([(partition(1), entry(4)), (partition(2), entry(6))]);
    let other = Entries::from([(partition(1), entry(5)), (partition(2), entry(5)), (partition(3), entry(1))]);
    merge(&mut entries, other);
    let generations: Vec<u64> = entries.values().map(|entry| entry.generation).collect();
    assert_eq!(generations, [5, 6, 1]);
}

#[test]
fn hostile_counts_are_refused_before_they_are_believed() {
    let bytes = encode(partition(1), &live(vec![segment(0, 100)]));
    let count_at = 16 + 4 + 8 + 1 + 3 * 8;
    let mut hostile = bytes.clone();
    hostile[count_at..count_at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(apply(&hostile, &mut Entries::new()), Err(CorruptCheckpoint::Count));
    let mut hostile = bytes;
    hostile[28] = 7;
    assert_eq!(apply(&hostile, &mut Entries::new()), Err(CorruptCheckpoint::Number));
}

/// A log's segments after some rolls, growth, and loss at the front and at the end.
fn segment_lists() -> impl Strategy<Value = Vec<Vec<SegmentSummary>>> {
    let list = (0_i64..20, 1_usize..20, 0_u32..3).prop_map(|(first, count, bytes)| {
        let list = (first..).take(count).map(|base| segment(base, 100));
        let mut list: Vec<_> = list.collect();
        list.last_mut().unwrap().end_position = bytes;
        list
    });
    prop::collection::vec(list, 1..8)
}

proptest! {
    #[test]
    fn changes_give_what_the_whole_entry_gives(lists in segment_lists()) {
        let mut before: Option<Entry> = None;
        let mut entries = Entries::new();
        for list in lists {
            let entry = live(list);
            apply(&encode_change(partition(1), &entry, before.as_ref()), &mut entries).unwrap();
            prop_assert_eq!(&entries[&partition(1)], &entry);
            before = Some(entry);
        }
    }

    #[test]
    fn an_entry_cut_anywhere_is_an_error(cut in 0_usize..1000) {
        let bytes = encode(partition(1), &live(vec![segment(0, 100), segment(5, 3)]));
        let cut = cut % bytes.len();
        prop_assert_eq!(apply(&bytes[..cut], &mut Entries::new()).is_ok(), cut == 0);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _read_or_refused = apply(&bytes, &mut Entries::new());
    }
}
