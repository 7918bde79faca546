use std::collections::BTreeMap;

use clap::Parser;
use engine_record::{CorruptRecord, Offset};
use net_client::{ConsumedRecord, ErrorCode, Stalled};

use super::ends::{Ends, all_known};
use super::*;

#[test]
fn reading_begins_at_an_end_or_at_an_offset() {
    assert_eq!(parse_from("earliest"), Ok(Beginning::Earliest));
    assert_eq!(parse_from("latest"), Ok(Beginning::Latest));
    assert_eq!(parse_from("17"), Ok(Beginning::At(at(17))));
    assert_eq!(parse_from("-1"), Ok(Beginning::Last(1)));
    assert_eq!(parse_from("@1500"), Ok(Beginning::Time(1_500)));
    assert_eq!(parse_from("@1970-01-01T00:00:02Z"), Ok(Beginning::Time(2_000)));
    for wrong in ["now", "-0", "--1", "-x", "@", "@-1", "@noon", ""] {
        assert!(parse_from(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn reading_ends_at_an_offset_or_a_time() {
    assert_eq!(parse_until("17"), Ok(Ending::At(at(17))));
    assert_eq!(parse_until("@1500"), Ok(Ending::Time(1_500)));
    for wrong in ["latest", "-1", "@", ""] {
        assert!(parse_until(wrong).is_err(), "{wrong}");
    }
    let both = Command::try_parse_from(["consume", "orders", "--until", "5", "--until-end"]);
    assert!(both.is_err());
}

#[test]
fn each_partition_that_is_named_is_read_once() {
    let all = || vec![P0, P1];
    assert_eq!(named("t", &[], all()).unwrap(), all());
    assert_eq!(named("t", &[1, 1], all()).unwrap(), [P1]);
    let missing = named("t", &[0, 7], all()).unwrap_err().to_string();
    assert_eq!(missing, "topic t has no partition 7: it has 2, numbered from 0");
}

#[test]
fn what_was_deleted_before_it_was_read_is_told_once() {
    let (partition, at) = (PartitionIndex(0), |offset| Offset::new(offset).unwrap());
    let mut passed = Passed::default();
    assert_eq!(passed.over("t", partition, at(5)), None, "that is where it began");
    passed.moved(partition, at(9));
    assert_eq!(passed.over("t", partition, at(9)), None);
    let told = "t/0: reading goes on at offset 1000: what began at 9 was deleted before it was read";
    assert_eq!(passed.over("t", partition, at(1_000)).as_deref(), Some(told));
    assert_eq!(passed.over("t", partition, at(1_000)), None);
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    arguments: Arguments,
}

#[test]
fn an_offset_that_is_none_is_refused_with_the_range() {
    let from = |from| Command::try_parse_from(["consume", "orders", "--from", from]);
    let last = i64::MAX.to_string();
    assert_eq!(from(&*last).unwrap().arguments.from, Beginning::At(Offset::MAX));
    for beyond in ["-0", "9223372036854775808"] {
        let refused = from(beyond).err().unwrap().to_string();
        assert!(refused.contains("an offset from 0 to 9223372036854775807"), "{refused}");
    }
}

#[test]
fn where_some_partitions_can_not_be_read_those_that_can_are_named() {
    let found = |all: [Result<i64, &'static str>; 3]| {
        let numbered = (0..).map(PartitionIndex).zip(all.map(|found| found.map(at)));
        all_known("t", numbered).map_err(|failure| failure.to_string())
    };
    assert_eq!(found([Ok(1), Ok(2), Ok(3)]), Ok(vec![at(1), at(2), at(3)]));
    assert_eq!(
        found([Ok(1), Err("offline"), Ok(3)]).unwrap_err(),
        "t/1: its offsets can't be told: offline; --partition 0 --partition 2 reads the others"
    );
    assert_eq!(
        found([Err("offline"), Err("gone"), Ok(3)]).unwrap_err(),
        "t/0: its offsets can't be told: offline; t/1: its offsets can't be told: gone; --partition 2 reads the other"
    );
    let none = found([Err("offline"); 3]).unwrap_err();
    assert!(!none.contains("--partition"), "{none}");
}

fn at(offset: i64) -> Offset {
    Offset::new(offset).unwrap()
}

const P0: PartitionIndex = PartitionIndex(0);
const P1: PartitionIndex = PartitionIndex(1);

fn stalled(partition: PartitionIndex, code: ErrorCode) -> Stalled {
    let since = engine_record::Instant::ZERO;
    Stalled { topic: "t".into(), partition, position: Some(at(3)), code, since }
}

fn record(offset: i64, value: &[u8]) -> ConsumedRecord<'_> {
    let (offset, timestamp) = (at(offset), engine_record::Timestamp(0));
    ConsumedRecord { offset, timestamp, key: None, value: Some(value), headers: Default::default() }
}

#[test]
fn a_record_that_can_not_be_read_is_told_with_its_place_and_only_where_it_is_wanted() {
    let records = || [Ok(record(7, b"seven")), Err(CorruptRecord::NullHeaderKey)].into_iter();
    let print = |left, end| {
        let mut printer = Printer { out: Vec::new(), shape: Shape::Values, left };
        let printed = printer.print_all((&"orders".into(), P1), at(5), end, records());
        (printed.map(drop).map_err(|failure| failure.to_string()), printer.out)
    };
    let (refused, out) = print(None, None);
    let refused = refused.unwrap_err();
    assert!(refused.starts_with("orders/1: at offset 8 a record can't be read: a header with"), "{refused}");
    assert_eq!(out, b"seven\n", "what came before it is printed");
    assert!(print(Some(1), None).0.is_ok() && print(None, Some(at(8))).0.is_ok());

    let mut printer = Printer { out: Vec::new(), shape: Shape::Values, left: None };
    let first = printer.print_all((&"orders".into(), P1), at(5), None, records().skip(1));
    assert!(first.unwrap_err().to_string().starts_with("orders/1: at offset 5 "));
}

#[test]
fn the_end_is_reached_when_it_is_in_every_partition() {
    let mut ends = Ends(Some(BTreeMap::from([(P0, at(5)), (P1, at(3))])));
    ends.reach(P0, at(4));
    ends.reach(P1, at(3));
    assert!(!ends.are_reached());
    ends.reach(P0, at(9));
    assert!(ends.are_reached());
    assert_eq!(ends.of(P0), Some(Offset::ZERO), "what came after the end isn't printed");
    assert!(!Ends(None).are_reached(), "reading that has no end");
}

#[test]
fn reading_to_the_end_is_given_up_when_only_stalled_partitions_are_left() {
    let mut ends = Ends(Some(BTreeMap::from([(P0, at(5)), (P1, at(3))])));
    let stalled = [stalled(P1, ErrorCode::KAFKA_STORAGE_ERROR)];
    assert!(ends.out_of_reach(&[]).is_none());
    assert!(ends.out_of_reach(&stalled).is_none(), "the other one is read first");
    ends.reach(P0, at(5));
    let failure = ends.out_of_reach(&stalled).unwrap();
    assert_eq!(failure.code(), 1);
    assert_eq!(failure.to_string(), "1 of 2 partitions can't be read to the end");
    assert!(Ends(None).out_of_reach(&stalled).is_none(), "reading that has no end waits");
}

#[test]
fn a_stall_is_told_once_for_each_reason_and_so_is_its_end() {
    let mut watch = StallWatch::default();
    let storage = [stalled(P1, ErrorCode::KAFKA_STORAGE_ERROR)];
    let line = "t/1: nothing can be read at offset 3: KAFKA_STORAGE_ERROR (56); trying on";
    assert_eq!(watch.news(&storage), [line]);
    assert_eq!(watch.news(&storage), [""; 0]);
    let network = [stalled(P1, ErrorCode::NETWORK_EXCEPTION)];
    assert!(watch.news(&network)[0].contains("NETWORK_EXCEPTION"));
    assert_eq!(watch.news(&[]), ["partition 1 can be read again"]);
    assert_eq!(watch.news(&[]), [""; 0]);
}
