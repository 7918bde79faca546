//! `ringlog consume`: prints records.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use engine_io::Io;
use engine_record::record::Header;
use engine_record::{CorruptRecord, Offset, PartitionIndex};
use net_client::{
    Admin, AdminError, Client, ConsumedRecord, Consumer, ConsumerSettings, FetchedRecords, OffsetReset, Start,
};
use serde_json::{Value, json};

use crate::client::{self, Cluster, MissingTopics, failed_admin};
use crate::failure::Failure;

/// How long to wait for records before looking around again.
const POLL: Duration = Duration::from_secs(1);

/// What `ringlog consume` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  ringlog consume events --from earliest --until-end --json")]
pub(crate) struct Arguments {
    /// The topic.
    topic: String,
    #[command(flatten)]
    cluster: Cluster,
    /// Read this partition only [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// Where to begin: earliest, latest, or an offset.
    #[arg(long, value_name = "WHERE", default_value = "latest", value_parser = parse_from)]
    from: Start,
    /// Stop after so many records.
    #[arg(long, value_name = "N")]
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
            offset.map(Start::At).ok_or("earliest, latest, or an offset of 0 or more")
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
    let mut ends = Ends::default();
    if arguments.until_end {
        ends = Ends::ask(client, arguments, &partitions).await.map_err(|error| failed_admin(&error))?;
        if ends.are_reached() {
            return Ok(());
        }
    }
    let consumer = Consumer::new(client.clone(), settings(arguments, client.io().random()));
    for &partition in &partitions {
        consumer.assign(&arguments.topic, partition, arguments.from);
    }
    let mut printer = Printer { out: io::stdout().lock(), json: arguments.json, left: arguments.count };
    while printer.left != Some(0) {
        let polled = consumer.poll(POLL).await.map_err(|error| client::failed(&error))?;
        let Some(records) = polled else { continue };
        match printer.print(&records, ends.of(records.partition())) {
            Err(PrintError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(client::failed(&error)),
            Ok(()) => {}
        }
        ends.reach(records.partition(), records.next_offset());
        if arguments.until_end && ends.are_reached() {
            return Ok(());
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

/// Where reading ends in each partition, exclusive; zero once that is reached. Empty where reading doesn't end.
#[derive(Debug, Default)]
struct Ends(BTreeMap<PartitionIndex, Offset>);

impl Ends {
    async fn ask<I: Io>(
        client: &Client<I>,
        arguments: &Arguments,
        partitions: &[PartitionIndex],
    ) -> Result<Self, AdminError> {
        let admin = Admin::new(client.clone());
        let mut ends = BTreeMap::new();
        for &partition in partitions {
            let start = admin.offset(&arguments.topic, partition, arguments.from).await?;
            let end = admin.offset(&arguments.topic, partition, Start::Latest).await?;
            ends.insert(partition, if start < end { end } else { Offset::ZERO });
        }
        Ok(Self(ends))
    }

    fn of(&self, partition: PartitionIndex) -> Option<Offset> {
        self.0.get(&partition).copied()
    }

    fn reach(&mut self, partition: PartitionIndex, next_offset: Offset) {
        if self.of(partition).is_some_and(|end| next_offset >= end) {
            self.0.insert(partition, Offset::ZERO);
        }
    }

    fn are_reached(&self) -> bool {
        self.0.values().all(|&end| end == Offset::ZERO)
    }
}

#[derive(Debug, thiserror::Error)]
enum PrintError {
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
    #[error("partition {partition}: a record can't be read: {cause}")]
    Record { partition: PartitionIndex, cause: CorruptRecord },
}

struct Printer<W> {
    out: W,
    json: bool,
    /// Records to be printed yet; `None` where there is no limit.
    left: Option<u64>,
}

impl<W: Write> Printer<W> {
    /// Prints the records before `end`, as many as are wanted.
    fn print(&mut self, records: &FetchedRecords, end: Option<Offset>) -> Result<(), PrintError> {
        let partition = records.partition();
        for record in records.records() {
            let record = record.map_err(|cause| PrintError::Record { partition, cause })?;
            if self.left == Some(0) || end.is_some_and(|end| record.offset >= end) {
                break;
            }
            self.print_record(partition, &record)?;
            self.left = self.left.map(|left| left - 1);
        }
        Ok(self.out.flush()?)
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
    fn bytes_that_are_no_text_keep_every_bit() {
        assert_eq!(bytes(Some(b"text")), json!("text"));
        assert_eq!(bytes(Some(&[0xff, 0x00])), json!({ "hex": "ff00" }));
        assert_eq!(bytes(Some(b"")), json!(""));
        assert_eq!(bytes(None), Value::Null);
    }

    #[test]
    fn the_end_is_reached_when_it_is_in_every_partition() {
        let at = |offset| Offset::new(offset).unwrap();
        let (zero, one) = (PartitionIndex(0), PartitionIndex(1));
        let mut ends = Ends(BTreeMap::from([(zero, at(5)), (one, at(3))]));
        ends.reach(zero, at(4));
        ends.reach(one, at(3));
        assert!(!ends.are_reached());
        ends.reach(zero, at(9));
        assert!(ends.are_reached());
        assert_eq!(ends.of(zero), Some(Offset::ZERO), "what came after the end isn't printed");
    }
}
