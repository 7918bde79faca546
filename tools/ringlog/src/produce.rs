//! `ringlog produce`: each line of standard input becomes a record, or each file.

mod lines;
mod shape;
mod waiting;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use engine_io::{Io, Receiver};
use engine_record::{Compression, Offset, PartitionIndex};
use net_client::{
    Acks, Client, DeliveryError, DeliveryHandle, Producer, ProducerSettings, RecordMetadata, SendError,
};
use serde_json::json;

use self::lines::{Lines, LinesError, RECORD_BYTES_MAX};
use self::shape::Shape;
use self::waiting::Waiting;
use crate::client::{self, Cluster, MissingTopics, reach};
use crate::failure::Failure;
use crate::numbers::number;
use crate::output::{Counted, print, tell};

/// How long a record may take until it is given up.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// Records whose outcome isn't known yet, at most.
const UNDER_WAY_MAX: usize = 20_000;

/// What `ringlog produce` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  echo 'user-7:signed in' | ringlog produce events --key-separator : --header source=web
  cat events.json | ringlog produce copy --json-lines
  ringlog produce images --file cat.jpg --key cat
  echo | ringlog produce users --key user-7 --null-value=")]
pub(crate) struct Arguments {
    /// The topic. It is created where it isn't there and the broker allows that.
    topic: String,
    #[command(flatten)]
    cluster: Cluster,
    /// Send to this partition, 0 to 2147483647 [default: by key as the Java client does, else in turn by batches].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(0..=i32::MAX))]
    partition: Option<i32>,
    #[command(flatten)]
    shape: Shape,
    /// Each file is a record as a whole; standard input isn't read.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_separator", "json_lines", "delimiter"])]
    file: Vec<PathBuf>,
    /// What a record waits for: all in-sync replicas, the leader, or nothing.
    #[arg(long, value_enum, default_value_t, allow_negative_numbers = true)]
    acks: AcksName,
    /// How batches are compressed.
    #[arg(long, value_enum, default_value_t)]
    compression: CompressionName,
    /// Print a summary of one line of JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// `--acks` as it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcksName {
    /// All in-sync replicas have it, as durably as the topic asks for.
    #[default]
    #[value(alias = "-1")]
    All,
    /// The leader has it.
    #[value(name = "1", alias = "leader")]
    Leader,
    /// The broker doesn't answer.
    #[value(name = "0", alias = "none")]
    None,
}

impl From<AcksName> for Acks {
    fn from(name: AcksName) -> Self {
        match name {
            AcksName::All => Self::All,
            AcksName::Leader => Self::Leader,
            AcksName::None => Self::None,
        }
    }
}

/// `--compression` as it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionName {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl From<CompressionName> for Compression {
    fn from(name: CompressionName) -> Self {
        match name {
            CompressionName::None => Self::None,
            CompressionName::Gzip => Self::Gzip,
            CompressionName::Snappy => Self::Snappy,
            CompressionName::Lz4 => Self::Lz4,
            CompressionName::Zstd => Self::Zstd,
        }
    }
}

/// Sends the lines of standard input until its end.
///
/// # Errors
/// A line can't be read or sent, or wasn't delivered. What was delivered before it stays so.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let lines = if arguments.file.is_empty() {
        lines::read_aside(arguments.shape.delimiter())?
    } else {
        lines::read_files_aside(arguments.file.clone())?
    };
    let owned = arguments.clone();
    let (summary, outcome) =
        client::run(&arguments.cluster, MissingTopics::MayBeCreated, async move |client| {
            produce(&client, &owned, &lines).await
        })?;
    // What was delivered is told whatever became of the rest.
    let told = if arguments.json {
        print(summary.json(&arguments.topic))
    } else {
        tell(summary.text());
        Ok(())
    };
    outcome.and(told)
}

impl Arguments {
    /// Where the record of this number, from 1, comes from: each file is one record.
    fn source_name(&self, number: u64) -> String {
        let index = usize::try_from(number - 1).ok();
        match index.and_then(|index| self.file.get(index)) {
            Some(path) => format!("--file {}", path.display()),
            None => format!("line {number}"),
        }
    }

    fn settings(&self, seed: u64) -> ProducerSettings {
        let mut settings = ProducerSettings {
            acks: self.acks.into(),
            is_idempotent: self.acks == AcksName::All,
            delivery_timeout: DELIVERY_TIMEOUT,
            seed,
            ..ProducerSettings::default()
        };
        settings.batches.compression = self.compression.into();
        // How large a record may be is the topic's to say.
        settings.batches.request_bytes_max = RECORD_BYTES_MAX;
        settings
    }
}

/// The first line that could not be sent, and why.
#[derive(Debug, thiserror::Error)]
enum ProduceError {
    #[error(transparent)]
    Lines(#[from] LinesError),
    #[error("{source_name}: {cause}; it and what follows was not sent")]
    Shape { source_name: String, cause: shape::NoRecord },
    #[error("{source_name} was not sent: {cause}")]
    Send { source_name: String, cause: SendError },
    #[error("{source_name} was not delivered: {cause}")]
    Delivery { source_name: String, cause: DeliveryError },
}

/// What came of it, also where it ended early.
async fn produce<I: Io>(
    client: &Client<I>,
    arguments: &Arguments,
    lines: &Receiver<Result<Lines, LinesError>>,
) -> Result<(Summary, Result<(), Failure>), Failure> {
    reach(client).await?;
    let producer = Producer::new(client.clone(), arguments.settings(client.io().random()));
    let producer = producer.map_err(|error| client::failed(&error))?;
    let mut sending = Sending {
        producer,
        waiting: Waiting::new(client, arguments),
        under_way: VecDeque::new(),
        summary: Summary::default(),
        line: 0,
    };
    let sent = sending.send_all(arguments, lines).await;
    let delivered = sending.settle(arguments, 0).await;
    let outcome = sent.and(delivered).map_err(|error| client::failed(&error));
    sending.producer.close(DELIVERY_TIMEOUT).await;
    Ok((sending.summary, outcome))
}

struct Sending<I: Io> {
    producer: Producer<I>,
    waiting: Waiting<I>,
    /// In the order of the lines.
    under_way: VecDeque<UnderWay>,
    summary: Summary,
    /// Lines taken so far.
    line: u64,
}

struct UnderWay {
    line: u64,
    bytes: u64,
    handle: DeliveryHandle,
}

impl<I: Io> Sending<I> {
    async fn send_all(
        &mut self,
        arguments: &Arguments,
        lines: &Receiver<Result<Lines, LinesError>>,
    ) -> Result<(), ProduceError> {
        while let Ok(chunk) = lines.receive().await {
            for line in chunk?.iter() {
                self.send(arguments, line).await?;
            }
            self.settle(arguments, UNDER_WAY_MAX).await?;
        }
        Ok(())
    }

    async fn send(&mut self, arguments: &Arguments, line: &[u8]) -> Result<(), ProduceError> {
        self.line += 1;
        let shaped = arguments.shape.record(line);
        let shaped = shaped
            .map_err(|cause| ProduceError::Shape { source_name: arguments.source_name(self.line), cause })?;
        let headers = shaped.headers();
        let mut record = shaped.record(&arguments.topic, &headers);
        record.partition = arguments.partition.map(PartitionIndex).or(record.partition);
        let sent = self.waiting.until(self.producer.send(&record)).await;
        let handle = sent
            .map_err(|cause| ProduceError::Send { source_name: arguments.source_name(self.line), cause })?;
        let bytes = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
        self.under_way.push_back(UnderWay { line: self.line, bytes: bytes as u64, handle });
        Ok(())
    }

    /// Awaits the oldest until at most `left` are under way. After a failure the rest is awaited all the same: what was
    /// delivered is to be counted.
    async fn settle(&mut self, arguments: &Arguments, left: usize) -> Result<(), ProduceError> {
        let mut outcome = Ok(());
        while self.under_way.len() > left {
            let Some(UnderWay { line, bytes, handle }) = self.under_way.pop_front() else { break };
            match self.waiting.until(handle).await {
                Ok(place) => self.summary.count(&place, bytes),
                Err(cause) => {
                    let source_name = arguments.source_name(line);
                    outcome = outcome.and(Err(ProduceError::Delivery { source_name, cause }));
                }
            }
        }
        outcome
    }
}

/// What was delivered.
#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    records: u64,
    /// Of keys and values.
    bytes: u64,
    /// By partition; `None` where the broker didn't say.
    last_offsets: BTreeMap<PartitionIndex, Option<Offset>>,
}

impl Summary {
    fn count(&mut self, place: &RecordMetadata, bytes: u64) {
        self.records += 1;
        self.bytes += bytes;
        let last = self.last_offsets.entry(place.partition).or_default();
        *last = (*last).max(place.offset);
    }

    fn text(&self) -> String {
        let mut text = format!("{}, {}", Counted(self.records, "record"), Counted(self.bytes, "byte"));
        let head = if self.last_offsets.len() == 1 { ", last offset: " } else { ", last offsets: " };
        for (index, (partition, last)) in self.last_offsets.iter().enumerate() {
            text.push_str(if index == 0 { head } else { ", " });
            let last = last.map_or_else(|| "unknown".to_owned(), |last| last.to_string());
            write!(text, "{last} in partition {partition}").expect("text can be written to");
        }
        text
    }

    fn json(&self, topic: &str) -> serde_json::Value {
        let last_offsets: serde_json::Map<_, _> = self
            .last_offsets
            .iter()
            .map(|(partition, last)| (partition.to_string(), json!(last.map(Offset::value))))
            .collect();
        json!({ "topic": topic, "records": self.records, "bytes": self.bytes, "last_offsets": last_offsets })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn arguments(line: &str) -> Arguments {
        let words = std::iter::once("produce").chain(line.split_whitespace());
        Command::try_parse_from(words).unwrap().arguments
    }

    #[test]
    fn acks_have_the_names_of_the_protocol() {
        let acks = |line: &str| Acks::from(arguments(line).acks);
        assert_eq!(acks("t"), Acks::All);
        assert_eq!(acks("t --acks=-1"), Acks::All);
        assert_eq!(acks("t --acks -1"), Acks::All);
        assert_eq!(acks("t --acks 1"), Acks::Leader);
        assert_eq!(acks("t --acks 0"), Acks::None);
        for line in ["t", "t --acks 1", "t --acks 0", "t --compression zstd"] {
            assert_eq!(arguments(line).settings(7).check(), Ok(()), "{line}");
        }
    }

    #[test]
    fn a_failure_names_the_file_or_the_line() {
        let files = arguments("t --file a.json --file b.json");
        assert_eq!(
            (files.source_name(1), files.source_name(2)),
            ("--file a.json".into(), "--file b.json".into())
        );
        assert_eq!(arguments("t").source_name(3), "line 3");
    }

    #[test]
    fn the_summary_names_the_last_offset_of_each_partition() {
        let mut summary = Summary::default();
        assert_eq!(summary.text(), "0 records, 0 bytes");
        let place = |partition, offset: Option<i64>| RecordMetadata {
            partition: PartitionIndex(partition),
            offset: offset.and_then(Offset::new),
            append_time: None,
        };
        summary.count(&place(0, Some(8)), 1);
        assert_eq!(summary.text(), "1 record, 1 byte, last offset: 8 in partition 0");
        for (partition, offset) in [(1, Some(4)), (0, Some(9)), (1, Some(5)), (2, None)] {
            summary.count(&place(partition, offset), 10);
        }
        assert_eq!(
            summary.text(),
            "5 records, 41 bytes, last offsets: 9 in partition 0, 5 in partition 1, unknown in partition 2"
        );
        assert_eq!(summary.json("t")["last_offsets"]["1"], 5);
    }
}
