//! `ringlog consume`: prints records.

mod ends;
mod format;
mod printer;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use clap::Args;
use engine_io::Io;
use engine_record::PartitionIndex;
use net_client::{Admin, Client, Consumer, ConsumerSettings};

use self::ends::{Beginning, Ending, Span, parse_from, parse_until, span};
use self::format::Format;
use self::printer::{Printer, Shape};
use self::watch::{Passed, StallWatch};
use crate::client::{self, Cluster, MissingTopics, failed_admin};
use crate::failure::Failure;
use crate::numbers::number;
use crate::output::{Reader, tell};

/// How long to wait for records before looking around again.
const POLL: Duration = Duration::from_secs(1);
/// How long a partition may fail at every attempt until that is told. A leader that moves takes less.
const STALL: Duration = Duration::from_secs(10);

/// What `ringlog consume` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  ringlog consume events --from earliest --until-end --json
  ringlog consume events --from -10 --until-end --format '%p/%o\\t%T\\t%k\\t%s\\n'
  ringlog consume events --partition 0 --partition 3 --from @2026-11-30T12:00:00Z --until @2026-11-30T13:00:00Z")]
pub(crate) struct Arguments {
    /// The topic.
    topic: String,
    #[command(flatten)]
    cluster: Cluster,
    /// Read this partition only, 0 to 2147483647; several may be named so [default: all].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(0..=i32::MAX))]
    partition: Vec<i32>,
    /// Where to begin: earliest, latest, an offset from 0 to 9223372036854775807, -N for the last N of each partition, or
    /// @TIME for the first record of that time or later (RFC 3339, or milliseconds since 1970).
    #[arg(long, value_name = "WHERE", default_value = "latest", allow_negative_numbers = true)]
    #[arg(value_parser = parse_from)]
    from: Beginning,
    /// Stop after so many records, 0 to 18446744073709551615.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(0..=u64::MAX))]
    count: Option<u64>,
    /// Stop at what is the end of the partitions now.
    #[arg(long)]
    until_end: bool,
    /// Stop before this offset of each partition, or with @TIME before what is the first record now of that time or later.
    #[arg(long, value_name = "WHERE", allow_negative_numbers = true, conflicts_with = "until_end")]
    #[arg(value_parser = parse_until)]
    until: Option<Ending>,
    /// Print one JSON object a record, with key, partition, offset, timestamp and headers.
    #[arg(long)]
    json: bool,
    /// Print each record so, as kcat does: %t topic, %p partition, %o offset, %k key, %K its bytes, %s value, %S its bytes,
    /// %R the same in four bytes, %T timestamp, %h headers, %% a percent sign; \n, \t, \r, \0, \xHH [default: '%s\n'].
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "json", value_parser = format::parse)]
    format: Option<Format>,
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
    let until = arguments.until.or_else(|| arguments.until_end.then_some(Ending::End));
    let Span { starts, mut ends } =
        span(client, &arguments.topic, &partitions, (arguments.from, until)).await?;
    if ends.are_reached() {
        return Ok(());
    }
    let seed = client.io().random();
    let settings = ConsumerSettings { reset: arguments.from.reset(), seed, ..ConsumerSettings::default() };
    let consumer = Consumer::new(client.clone(), settings);
    for (&partition, start) in partitions.iter().zip(starts) {
        consumer.assign(&arguments.topic, partition, start);
    }
    let mut printer = Printer { out: io::stdout().lock(), shape: arguments.shape(), left: arguments.count };
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

impl Arguments {
    fn shape(&self) -> Shape {
        match &self.format {
            Some(format) => Shape::Format(format.clone()),
            None if self.json => Shape::Json,
            None => Shape::Values,
        }
    }
}

/// The partitions to read.
async fn partitions<I: Io>(
    client: &Client<I>,
    arguments: &Arguments,
) -> Result<Vec<PartitionIndex>, Failure> {
    let described = Admin::new(client.clone()).describe_topic(&arguments.topic).await;
    let topic = described.map_err(|error| failed_admin(&error))?;
    let all: Vec<_> = (0..).map(PartitionIndex).zip(&topic.partitions).map(|(index, _)| index).collect();
    named(&arguments.topic, &arguments.partition, all)
}

/// The partitions that are named, each once; all where none is.
fn named(topic: &str, named: &[i32], all: Vec<PartitionIndex>) -> Result<Vec<PartitionIndex>, Failure> {
    let count = all.len();
    let wanted: BTreeSet<_> = named.iter().copied().map(PartitionIndex).collect();
    match wanted.iter().find(|wanted| !all.contains(wanted)) {
        Some(missing) => Err(Failure::failed(format!(
            "topic {topic} has no partition {missing}: it has {count}, numbered from 0"
        ))),
        None if wanted.is_empty() => Ok(all),
        None => Ok(wanted.into_iter().collect()),
    }
}
