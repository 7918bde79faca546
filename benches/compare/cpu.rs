//! How much processor time the shard takes for a GiB.
//!
//! The shard's thread, and all of the process: opening files, prefetching and part of the flushing happen beside the
//! shard. The kernel counts time in ticks of 10 ms, of which a measurement must take many.

use std::path::Path;
use std::time::Duration;

use crate::Arguments;
use crate::append::BATCH_BYTES;
use crate::broker::Broker;
use crate::client::Taking;
use crate::error::CompareError;
use crate::load::{Carried, Fetches, Log, fetch_all, fetch_newest, make_log, produce_for};
use crate::processors::{Pinned, Processors};
use crate::report::{Section, per_second, seconds};
use crate::rounds::{Figures, in_turn};

/// Batches of the log that is read: 1 GiB.
const BATCHES: usize = (1 << 30) / BATCH_BYTES;
/// Produces under way.
const PRODUCES: usize = 8;
/// Fetches of the whole log, two under way so that the shard always has work.
const FETCHES: Fetches = Fetches { bytes: 1 << 20, under_way: 2, taking: Taking::Discarded };
/// Fetches of what is newest: less than a partition keeps in memory.
const NEWEST: Fetches = Fetches { bytes: 512 << 10, ..FETCHES };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Produce,
    Tail,
    Warm,
    Cold,
}

impl Work {
    const ALL: [Self; 4] = [Self::Produce, Self::Tail, Self::Warm, Self::Cold];

    const fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce, 8 under way, each durable",
            Self::Tail => "fetch from memory",
            Self::Warm => "fetch from the page cache",
            Self::Cold => "fetch from the drive",
        }
    }
}

/// The brokers measured: one is produced to, so that the other's log stays as it is.
struct Brokers {
    produced_to: Broker,
    read: Broker,
    log: Log,
}

/// Measures all rows.
pub(crate) fn compare(arguments: &Arguments, folder: &Path) -> Result<Section, CompareError> {
    let processors = Processors::choose()?;
    let start = |name: &str| Broker::start(&arguments.broker, &folder.join(name), processors.server);
    let (produced_to, read) = (start("produced-to")?, start("read")?);
    make_log(&produced_to, 1, 1)?;
    let log = make_log(&read, BATCHES, PRODUCES)?;
    let brokers = Brokers { produced_to, read, log };
    let measured = in_turn(arguments.rounds, &Work::ALL, |work| {
        let _here = Pinned::to(processors.client)?;
        brokers.measure(*work, Duration::from_secs(arguments.seconds.into()))
    })?;
    Ok(section(&measured))
}

impl Brokers {
    /// Processor seconds of shard and process for a GiB, bytes a second, and how much of the bytes came from memory,
    /// was in the page cache when asked for, and had to be fetched first.
    fn measure(&self, work: Work, time: Duration) -> Result<[f64; 6], CompareError> {
        self.prepare(work)?;
        let broker = if work == Work::Produce { &self.produced_to } else { &self.read };
        let (read, used) = (broker.bytes_read()?, broker.cpu_time()?);
        let carried = self.carry_out(work, time)?;
        let used_after = broker.cpu_time()?;
        let per_gibibyte = |time: Duration| time.as_secs_f64() / carried.gibibytes();
        let read_after = broker.bytes_read()?;
        let part = |bytes: u64| bytes as f64 / carried.bytes as f64;
        Ok([
            per_gibibyte(used_after.shards - used.shards),
            per_gibibyte(used_after.process - used.process),
            carried.rate(),
            part(read_after.tail - read.tail),
            part(read_after.warm - read.warm),
            part(read_after.cold - read.cold),
        ])
    }

    fn prepare(&self, work: Work) -> Result<(), CompareError> {
        match work {
            Work::Produce | Work::Tail => Ok(()),
            Work::Warm => fetch_all(&self.read, &self.log, FETCHES).map(drop),
            Work::Cold => self.read.make_cold(),
        }
    }

    fn carry_out(&self, work: Work, time: Duration) -> Result<Carried, CompareError> {
        match work {
            Work::Produce => produce_for(&self.produced_to, PRODUCES, time),
            Work::Tail => fetch_newest(&self.read, &self.log, NEWEST, time),
            Work::Warm | Work::Cold => fetch_all(&self.read, &self.log, FETCHES),
        }
    }
}

fn section(measured: &[[Figures; 6]]) -> Section {
    let lines = Work::ALL.into_iter().zip(measured).map(|(work, figures)| {
        let [shard, process, rate, tail, warm, cold] = figures;
        let parts = [tail, warm, cold].map(|part| format!("{:.0}", part.median() * 100.0)).join(" / ");
        let parts = if work == Work::Produce { "-".to_owned() } else { parts };
        vec![work.name().to_owned(), seconds(shard), seconds(process), per_second(rate), parts]
    });
    Section {
        title: "Processor time for a GiB",
        goal: "none; compare rows of one run. A reader that goes on is read ahead for, so what it fetches from the \
               drive is partly in the page cache when it asks",
        header: &[
            "work",
            "shard, s/GiB",
            "process, s/GiB",
            "MB/s meanwhile",
            "% from memory / page cache / drive",
        ],
        lines: lines.collect(),
    }
}
