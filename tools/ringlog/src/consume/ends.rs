//! Where reading begins and ends in each partition.

use std::collections::BTreeMap;
use std::fmt;

use engine_io::Io;
use engine_record::{Offset, PartitionIndex};
use net_client::{Admin, Client, OffsetReset, Stalled, Start};

use crate::client::failed_admin;
use crate::failure::Failure;
use crate::output::Counted;
use crate::times;

/// Where reading begins, as it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// At the first record there is.
    Earliest,
    /// At the end.
    Latest,
    /// At this offset.
    At(Offset),
    /// At so many offsets before the end.
    Last(u64),
    /// At the first record made at this time or later, in milliseconds since 1970.
    Time(i64),
}

/// Where reading ends, as it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// At what is the end now.
    End,
    /// Before this offset, once it is there.
    At(Offset),
    /// Before what is the first record now of this time or later; where there is none, at what is the end now.
    Time(i64),
}

/// Reads where to begin.
pub(super) fn parse_from(text: &str) -> Result<Beginning, &'static str> {
    let last = || text.strip_prefix('-').and_then(|count| count.parse().ok()).filter(|count| *count > 0);
    match text {
        "earliest" => Ok(Beginning::Earliest),
        "latest" => Ok(Beginning::Latest),
        _ => {
            let time = text
                .strip_prefix('@')
                .map(times::milliseconds)
                .and_then(Result::ok)
                .map(|time| Beginning::Time(time.0));
            let parsed =
                time.or_else(|| offset(text).map(Beginning::At)).or_else(|| last().map(Beginning::Last));
            parsed.ok_or(
                "it takes earliest, latest, an offset from 0 to 9223372036854775807, -N for the last N of each partition, or \
                 @TIME (RFC 3339 such as @2026-11-30T12:00:00Z, or milliseconds since 1970)",
            )
        }
    }
}

/// Reads where to end.
pub(super) fn parse_until(text: &str) -> Result<Ending, &'static str> {
    let time =
        text.strip_prefix('@').map(times::milliseconds).and_then(Result::ok).map(|time| Ending::Time(time.0));
    time.or_else(|| offset(text).map(Ending::At)).ok_or(
        "it takes an offset from 0 to 9223372036854775807, or @TIME (RFC 3339 such as @2026-11-30T12:00:00Z, or milliseconds \
         since 1970)",
    )
}

fn offset(text: &str) -> Option<Offset> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number).and_then(Offset::new)
}

impl Beginning {
    /// What to do where the log has moved on from what is to be read.
    pub(super) const fn reset(self) -> OffsetReset {
        match self {
            Self::Earliest | Self::Last(_) | Self::Time(_) => OffsetReset::Earliest,
            Self::Latest => OffsetReset::Latest,
            // Whoever names an offset wants that one and no other.
            Self::At(_) => OffsetReset::Error,
        }
    }
}

/// What is to be read of a topic.
pub(super) struct Span {
    /// Where to begin, in the order of the partitions.
    pub(super) starts: Vec<Start>,
    pub(super) ends: Ends,
}

/// Finds where to begin and end, asking where that isn't said.
pub(super) async fn span<I: Io>(
    client: &Client<I>,
    topic: &str,
    partitions: &[PartitionIndex],
    (from, until): (Beginning, Option<Ending>),
) -> Result<Span, Failure> {
    let ask = async |start| offsets(client, topic, partitions, start).await;
    let is_plain = matches!(from, Beginning::Earliest | Beginning::Latest);
    if is_plain && until.is_none() {
        let start = if from == Beginning::Earliest { Start::Earliest } else { Start::Latest };
        return Ok(Span { starts: vec![start; partitions.len()], ends: Ends(None) });
    }
    let logs: Vec<_> = ask(Start::Earliest).await?.into_iter().zip(ask(Start::Latest).await?).collect();
    let starts = match from {
        Beginning::Time(time) => ask(Start::Time(time)).await?,
        Beginning::Earliest | Beginning::Latest | Beginning::At(_) | Beginning::Last(_) => {
            let starts =
                partitions.iter().zip(&logs).map(|(partition, log)| start(topic, *partition, from, *log));
            starts.collect::<Result<_, _>>()?
        }
    };
    let ends = match until {
        None => None,
        Some(Ending::End) => Some(logs.iter().map(|(_, end)| *end).collect()),
        Some(Ending::At(offset)) => Some(vec![offset; partitions.len()]),
        Some(Ending::Time(time)) => Some(ask(Start::Time(time)).await?),
    };
    let ends = Ends(ends.map(|ends| left(partitions, &starts, ends)));
    Ok(Span { starts: starts.into_iter().map(Start::At).collect(), ends })
}

/// Where to begin in a log from the first offset to the end.
fn start(
    topic: &str,
    partition: PartitionIndex,
    from: Beginning,
    (first, end): (Offset, Offset),
) -> Result<Offset, Failure> {
    match from {
        Beginning::Earliest => Ok(first),
        Beginning::Latest | Beginning::Time(_) => Ok(end),
        Beginning::At(offset) if offset < first || offset > end => {
            Err(outside(topic, partition, offset, (first, end)))
        }
        Beginning::At(offset) => Ok(offset),
        Beginning::Last(count) => {
            let back = i64::try_from(count).unwrap_or(i64::MAX);
            Ok(Offset::new(end.value().saturating_sub(back)).unwrap_or(first).max(first))
        }
    }
}

/// What is left to be read: an end that lies at the start or before it is reached.
fn left(
    partitions: &[PartitionIndex],
    starts: &[Offset],
    ends: Vec<Offset>,
) -> BTreeMap<PartitionIndex, Offset> {
    let ends = starts.iter().zip(ends).map(|(start, end)| if *start < end { end } else { Offset::ZERO });
    partitions.iter().copied().zip(ends).collect()
}

/// Where reading ends in each partition, exclusive; zero once that is reached. `None` where reading doesn't end.
#[derive(Debug, Default)]
pub(super) struct Ends(pub(super) Option<BTreeMap<PartitionIndex, Offset>>);

impl Ends {
    pub(super) fn of(&self, partition: PartitionIndex) -> Option<Offset> {
        self.0.as_ref()?.get(&partition).copied()
    }

    pub(super) fn reach(&mut self, partition: PartitionIndex, next_offset: Offset) {
        let end = self.0.as_mut().and_then(|ends| ends.get_mut(&partition));
        if let Some(end) = end.filter(|end| next_offset >= **end) {
            *end = Offset::ZERO;
        }
    }

    pub(super) fn are_reached(&self) -> bool {
        self.0.as_ref().is_some_and(|ends| ends.values().all(|&end| end == Offset::ZERO))
    }

    /// Why reading ends before the ends are reached: nothing but stalled partitions is left to be read.
    pub(super) fn out_of_reach(&self, stalled: &[Stalled]) -> Option<Failure> {
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
    all_known(topic, partitions.iter().copied().zip(found))
}

/// The offsets of all partitions; where some can't be told, which and why, and which can be read nevertheless.
pub(super) fn all_known<E: fmt::Display>(
    topic: &str,
    found: impl Iterator<Item = (PartitionIndex, Result<Offset, E>)>,
) -> Result<Vec<Offset>, Failure> {
    let (mut known, mut working, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (partition, found) in found {
        match found {
            Ok(offset) => {
                known.push(offset);
                working.push(format!("--partition {partition}"));
            }
            Err(code) => failed.push(format!("{topic}/{partition}: its offsets can't be told: {code}")),
        }
    }
    if failed.is_empty() {
        return Ok(known);
    }
    let others = match working.len() {
        0 => String::new(),
        1 => format!("; {} reads the other", working[0]),
        _ => format!("; {} reads the others", working.join(" ")),
    };
    Err(Failure::failed(format!("{}{others}", failed.join("; "))))
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
