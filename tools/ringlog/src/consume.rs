//! `ringlog consume`: prints records.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use engine_io::Io;
use engine_record::record::Header;
use engine_record::{CorruptRecord, Offset, PartitionIndex};
use net_client::{
    Admin, Client, ConsumedRecord, Consumer, ConsumerSettings, ErrorCode, FetchedRecords, OffsetReset,
    Stalled, Start,
};
use serde_json::{Value, json};

use crate::client::{self, Cluster, MissingTopics, failed_admin};
use crate::failure::Failure;
use crate::numbers::number;
use crate::output::{Counted, Reader, reader, tell};

/// How long to wait for records before looking around again.
const POLL: Duration = Duration::from_secs(1);
/// How long a partition may fail at every attempt until that is told. A leader that moves takes less.
const STALL: Duration = Duration::from_secs(10);

/// What `ringlog consume` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  ringlog consume events --from earliest --until-end --json")]
pub(crate) struct Arguments {
    /// The topic.
    topic: String,
    #[command(flatten)]
    cluster: Cluster,
    /// Read this partition only, 0 to 2147483647 [default: all].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(0..=i32::MAX))]
    partition: Option<i32>,
    /// Where to begin: earliest, latest, or an offset from 0 to 9223372036854775807.
    #[arg(long, value_name = "WHERE", default_value = "latest", allow_negative_numbers = true)]
    #[arg(value_parser = parse_from)]
    from: Start,
    /// Stop after so many records, 0 to 18446744073709551615.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(0..=u64::MAX))]
    count: Option<u64>,
    /// Stop at what is the end of the partitions now.
    #[arg(long)]
    until_end: bool,
    /// Print one JSON object a record, with key, partition, offset, timestamp and headers.
    #[arg(long)]
    json: bool,
}

fn parse_from(text: &str) -> Result<Start, &'static str> {
    match text {
        "earliest" => Ok(Start::Earliest),
        "latest" => Ok(Start::Latest),
        number => {
            let offset = number.parse().ok().and_then(Offset::new);
            offset
                .map(Start::At)
                .ok_or("it takes earliest, latest, or an offset from 0 to 9223372036854775807")
        }
    }
}

/// Prints records until it has had enough, or the reader of its output has.
///
/// # Errors
/// The topic isn't there or can't be read.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let owned = arguments.clone();
    client::run(&arguments.cluster, MissingTopics::AreErrors, async move |client| {
        consume(&client, &owned).await
    })
}

async fn consume<I: Io>(client: &Client<I>, arguments: &Arguments) -> Result<(), Failure> {
    let partitions = partitions(client, arguments).await?;
    let mut ends = Ends::ask(client, arguments, &partitions).await?;
    if ends.are_reached() {
        return Ok(());
    }
    let consumer = Consumer::new(client.clone(), settings(arguments, client.io().random()));
    for &partition in &partitions {
        consumer.assign(&arguments.topic, partition, arguments.from);
    }
    let mut printer = Printer { out: io::stdout().lock(), json: arguments.json, left: arguments.count };
    let (mut watch, mut passed) = (StallWatch::default(), Passed::default());
    while printer.left != Some(0) {
        let polled = consumer.poll(POLL).await.map_err(|error| client::failed(&error))?;
        let stalled = consumer.stalled(STALL);
        for line in watch.news(&stalled) {
            tell(format_args!("ringlog: {line}"));
        }
        if let Some(records) = polled {
            if printer.print(&records, ends.of(records.partition()))? == Reader::Gone {
                return Ok(());
            }
            passed.moved(records.partition(), records.next_offset());
            ends.reach(records.partition(), records.next_offset());
        }
        for &partition in &partitions {
            if let Ok(Some(position)) = consumer.position(&arguments.topic, partition) {
                if let Some(line) = passed.over(&arguments.topic, partition, position) {
                    tell(format_args!("ringlog: {line}"));
                }
                ends.reach(partition, position);
            }
        }
        if ends.are_reached() {
            return Ok(());
        }
        if let Some(failure) = ends.out_of_reach(&stalled) {
            return Err(failure);
        }
    }
    Ok(())
}

fn settings(arguments: &Arguments, seed: u64) -> ConsumerSettings {
    let reset = match arguments.from {
        Start::Earliest => OffsetReset::Earliest,
        Start::Latest => OffsetReset::Latest,
        // Whoever names an offset wants that one and no other.
        Start::At(_) | Start::Time(_) => OffsetReset::Error,
    };
    ConsumerSettings { reset, seed, ..ConsumerSettings::default() }
}

/// The partitions to read.
async fn partitions<I: Io>(
    client: &Client<I>,
    arguments: &Arguments,
) -> Result<Vec<PartitionIndex>, Failure> {
    let described = Admin::new(client.clone()).describe_topic(&arguments.topic).await;
    let topic = described.map_err(|error| failed_admin(&error))?;
    let all: Vec<_> = (0..).map(PartitionIndex).zip(&topic.partitions).map(|(index, _)| index).collect();
    match arguments.partition.map(PartitionIndex) {
        None => Ok(all),
        Some(one) if all.contains(&one) => Ok(vec![one]),
        Some(one) => Err(Failure::failed(format!(
            "topic {} has no partition {one}: it has {}, numbered from 0",
            arguments.topic,
            all.len()
        ))),
    }
}

/// Where reading ends in each partition, exclusive; zero once that is reached. `None` where reading doesn't end.
#[derive(Debug, Default)]
struct Ends(Option<BTreeMap<PartitionIndex, Offset>>);

impl Ends {
    /// Asks for them where that is of use: to stop there, or to see that an offset to begin at is none of the log's.
    async fn ask<I: Io>(
        client: &Client<I>,
        arguments: &Arguments,
        partitions: &[PartitionIndex],
    ) -> Result<Self, Failure> {
        let is_at = matches!(arguments.from, Start::At(_));
        if !arguments.until_end && !is_at {
            return Ok(Self(None));
        }
        let first = if is_at { Start::Earliest } else { arguments.from };
        let firsts = offsets(client, &arguments.topic, partitions, first).await?;
        let ends = offsets(client, &arguments.topic, partitions, Start::Latest).await?;
        let mut left = BTreeMap::new();
        for ((&partition, first), end) in partitions.iter().zip(firsts).zip(ends) {
            let start = match arguments.from {
                Start::At(offset) if offset < first || offset > end => {
                    return Err(outside(&arguments.topic, partition, offset, (first, end)));
                }
                Start::At(offset) => offset,
                Start::Earliest | Start::Latest | Start::Time(_) => first,
            };
            left.insert(partition, if start < end { end } else { Offset::ZERO });
        }
        Ok(Self(arguments.until_end.then_some(left)))
    }

    fn of(&self, partition: PartitionIndex) -> Option<Offset> {
        self.0.as_ref()?.get(&partition).copied()
    }

    fn reach(&mut self, partition: PartitionIndex, next_offset: Offset) {
        let end = self.0.as_mut().and_then(|ends| ends.get_mut(&partition));
        if let Some(end) = end.filter(|end| next_offset >= **end) {
            *end = Offset::ZERO;
        }
    }

    fn are_reached(&self) -> bool {
        self.0.as_ref().is_some_and(|ends| ends.values().all(|&end| end == Offset::ZERO))
    }

    /// Why reading ends before the ends are reached: nothing but stalled partitions is left to be read.
    fn out_of_reach(&self, stalled: &[Stalled]) -> Option<Failure> {
        let is_stalled = |partition| stalled.iter().any(|stalled| stalled.partition == partition);
        let mut left = self.0.as_ref()?.iter().filter(|&(_, &end)| end != Offset::ZERO);
        let all = left.clone().count();
        left.all(|(&partition, _)| is_stalled(partition)).then(|| {
            Failure::failed(format!(
                "{all} of {} can't be read to the end",
                Counted(self.0.iter().flatten().count(), "partition")
            ))
        })
    }
}

async fn offsets<I: Io>(
    client: &Client<I>,
    topic: &str,
    partitions: &[PartitionIndex],
    start: Start,
) -> Result<Vec<Offset>, Failure> {
    let found = Admin::new(client.clone()).offsets(topic, partitions, start).await;
    let found = found.map_err(|error| failed_admin(&error))?;
    let named = partitions.iter().zip(found).map(|(partition, found)| {
        found.map_err(|code| {
            Failure::failed(format!("{topic}/{partition}: its offsets can't be told: {code}"))
        })
    });
    named.collect()
}

fn outside(
    topic: &str,
    partition: PartitionIndex,
    offset: Offset,
    (first, end): (Offset, Offset),
) -> Failure {
    Failure::failed(format!(
        "{topic}/{partition}: offset {offset} is outside {first}..{end} (the next record gets {end}); \
         begin within that, read other partitions with --partition, or use --from earliest"
    ))
}

/// Remembers where each partition was read last, to tell what was deleted before it was read: the consumer goes on behind that
/// without a record.
#[derive(Debug, Default)]
struct Passed(BTreeMap<PartitionIndex, Offset>);

impl Passed {
    fn moved(&mut self, partition: PartitionIndex, to: Offset) {
        self.0.insert(partition, to);
    }

    /// A line where the position is ahead of where it was left.
    fn over(&mut self, topic: &str, partition: PartitionIndex, position: Offset) -> Option<String> {
        let before = self.0.insert(partition, position).filter(|before| *before < position)?;
        Some(format!(
            "{topic}/{partition}: reading goes on at offset {position}: what began at {before} was deleted before it was read"
        ))
    }
}

/// Remembers which stalls have been told.
#[derive(Debug, Default)]
struct StallWatch(BTreeMap<PartitionIndex, ErrorCode>);

impl StallWatch {
    /// A line for each partition that stalls newly or for another reason, or goes on.
    fn news(&mut self, stalled: &[Stalled]) -> Vec<String> {
        let told = std::mem::take(&mut self.0);
        self.0 = stalled.iter().map(|stalled| (stalled.partition, stalled.code)).collect();
        let ended = told.keys().filter(|&partition| !self.0.contains_key(partition));
        let ended = ended.map(|partition| format!("partition {partition} can be read again"));
        let news = stalled.iter().filter(|stalled| told.get(&stalled.partition) != Some(&stalled.code));
        let news = news.map(|Stalled { topic, partition, position, code, .. }| {
            let at = position.map_or_else(String::new, |position| format!(" at offset {position}"));
            format!("{topic}/{partition}: nothing can be read{at}: {code}; trying on")
        });
        news.chain(ended).collect()
    }
}

/// A record that can't be printed.
#[derive(Debug, thiserror::Error)]
#[error(
    "{topic}/{partition}: at offset {offset} a record can't be read: {cause}; what follows its batch can, with \
     --partition {partition} --from OFFSET"
)]
struct Unreadable {
    topic: Rc<str>,
    partition: PartitionIndex,
    offset: Offset,
    cause: CorruptRecord,
}

struct Printer<W> {
    out: W,
    json: bool,
    /// Records to be printed yet; `None` where there is no limit.
    left: Option<u64>,
}

impl<W: Write> Printer<W> {
    /// Prints the records before `end`, as many as are wanted.
    fn print(&mut self, records: &FetchedRecords, end: Option<Offset>) -> Result<Reader, Failure> {
        let place = (records.topic(), records.partition());
        self.print_all(place, records.position(), end, records.records())
    }

    /// `next` is where the first record is to be looked for.
    fn print_all<'a>(
        &mut self,
        (topic, partition): (&Rc<str>, PartitionIndex),
        mut next: Offset,
        end: Option<Offset>,
        records: impl Iterator<Item = Result<ConsumedRecord<'a>, CorruptRecord>>,
    ) -> Result<Reader, Failure> {
        for record in records {
            if self.left == Some(0) || end.is_some_and(|end| next >= end) {
                break;
            }
            let unreadable = |cause| Unreadable { topic: Rc::clone(topic), partition, offset: next, cause };
            let record = record.map_err(|cause| client::failed(&unreadable(cause)))?;
            if end.is_some_and(|end| record.offset >= end) {
                break;
            }
            if reader(self.print_record(partition, &record))? == Reader::Gone {
                return Ok(Reader::Gone);
            }
            self.left = self.left.map(|left| left - 1);
            next = record.offset.checked_add(1).unwrap_or(Offset::MAX);
        }
        reader(self.out.flush())
    }

    fn print_record(&mut self, partition: PartitionIndex, record: &ConsumedRecord<'_>) -> io::Result<()> {
        if self.json {
            return writeln!(self.out, "{}", as_json(partition, record));
        }
        self.out.write_all(record.value.unwrap_or_default())?;
        self.out.write_all(b"\n")
    }
}

fn as_json(partition: PartitionIndex, record: &ConsumedRecord<'_>) -> Value {
    let header = |header: Header<'_>| json!({ "key": bytes(Some(header.key)), "value": bytes(header.value) });
    json!({
        "partition": partition.0,
        "offset": record.offset.value(),
        "timestamp": record.timestamp.0,
        "key": bytes(record.key),
        "value": bytes(record.value),
        "headers": record.headers.map(header).collect::<Vec<_>>(),
    })
}

/// Text where it is text; else an object with the bytes in hexadecimal, so that nothing is lost.
fn bytes(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Null, |bytes| match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() }),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn reading_begins_at_an_end_or_at_an_offset() {
        assert_eq!(parse_from("earliest"), Ok(Start::Earliest));
        assert_eq!(parse_from("latest"), Ok(Start::Latest));
        assert_eq!(parse_from("17"), Ok(Start::At(Offset::new(17).unwrap())));
        assert!(parse_from("-1").is_err());
        assert!(parse_from("now").is_err());
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
        assert_eq!(from(&*last).unwrap().arguments.from, Start::At(Offset::MAX));
        for beyond in ["-1", "9223372036854775808"] {
            let refused = from(beyond).err().unwrap().to_string();
            assert!(refused.contains("an offset from 0 to 9223372036854775807"), "{refused}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_keep_every_bit() {
        assert_eq!(bytes(Some(b"text")), json!("text"));
        assert_eq!(bytes(Some(&[0xff, 0x00])), json!({ "hex": "ff00" }));
        assert_eq!(bytes(Some(b"")), json!(""));
        assert_eq!(bytes(None), Value::Null);
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
            let mut printer = Printer { out: Vec::new(), json: false, left };
            let printed = printer.print_all((&"orders".into(), P1), at(5), end, records());
            (printed.map(drop).map_err(|failure| failure.to_string()), printer.out)
        };
        let (refused, out) = print(None, None);
        let refused = refused.unwrap_err();
        assert!(
            refused.starts_with("orders/1: at offset 8 a record can't be read: a header with"),
            "{refused}"
        );
        assert_eq!(out, b"seven\n", "what came before it is printed");
        assert!(print(Some(1), None).0.is_ok() && print(None, Some(at(8))).0.is_ok());

        let mut printer = Printer { out: Vec::new(), json: false, left: None };
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
}
