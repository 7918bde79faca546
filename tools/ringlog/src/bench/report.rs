//! What a bench came to, as a table and as JSON.

use std::fmt;
use std::path::PathBuf;

use loadgen::plan::OVERRUN_MAX;
use loadgen::report::Throughput;
use loadgen::{Bottleneck, LoadPlan, Percentiles, ProcessorShare, Report};
use serde::Serialize;

use super::broker::RoutingName;
use super::load::{Incident, Loaded};
use super::meter::{BrokerUsage, Usage};
use crate::output::Counted;

/// Of what couldn't be read again, so much is said in the table.
const GAPS_SHOWN: usize = 4;

/// Everything there is to tell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct BenchReport {
    /// Where the load went.
    pub(super) bootstrap: Vec<String>,
    /// About the broker that was started for the bench; absent with any other.
    pub(super) embedded: Option<EmbeddedReport>,
    /// A generator shard on each of these CPUs.
    pub(super) generator_cpus: Vec<u32>,
    /// The loads, in their order.
    pub(super) phases: Vec<PhaseReport>,
}

/// The broker that was started for the bench.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct EmbeddedReport {
    pub(super) folder: PathBuf,
    pub(super) is_kept: bool,
    /// A shard on each.
    pub(super) cpus: Vec<u32>,
    pub(super) routing: RoutingName,
    /// Whether the generator lives on the same cores.
    pub(super) shares_cores: bool,
    /// How long the drive's own flush took before the load: its p99, in microseconds.
    pub(super) drive_flush_p99_us: u64,
}

/// One load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PhaseReport {
    pub(super) name: &'static str,
    /// Whether the broker was killed in the middle.
    pub(super) broker_was_killed: bool,
    /// What the generator measured; latencies in nanoseconds.
    pub(super) load: Report,
    /// What it cost.
    pub(super) usage: Usage,
    /// What became of its topic.
    pub(super) topic_is: Topic,
}

/// What became of a load's topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Topic {
    /// It is deleted.
    Deleted,
    /// It was left where it is: told to, or since it couldn't be deleted.
    LeftBehind,
}

impl PhaseReport {
    pub(super) fn new(name: &'static str, plan: &LoadPlan, loaded: &Loaded, incident: Incident) -> Self {
        let load = Report::new(plan, &loaded.outcome, &loaded.threads);
        let broker_was_killed = incident == Incident::Kill;
        Self { name, broker_was_killed, load, usage: loaded.usage.clone(), topic_is: Topic::LeftBehind }
    }

    pub(super) fn with_topic(self, topic_is: Topic) -> Self {
        Self { topic_is, ..self }
    }

    /// So many percent of the acknowledged rate, in records a second; `None` where that is none.
    pub(super) fn part_of_rate(&self, percent: u64) -> Option<u64> {
        let rate = self.load.acknowledged.records_per_second;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is neither negative nor beyond 2^63"
        )]
        let rate = rate as u64;
        Some(rate.saturating_mul(percent) / 100).filter(|&part| part > 0)
    }

    /// What to say where no rate can be told.
    pub(super) fn why_nothing_was_acknowledged(&self) -> String {
        let nothing = "no record was acknowledged within the measured time";
        match &self.load.first_failure {
            Some(why) => format!("{nothing}; {} could not be delivered, the first: {why}", self.load.failed),
            None => format!("{nothing}; try a longer --duration"),
        }
    }

    /// Whether every acknowledged record was read back once and in order, and there were any.
    fn is_ok(&self) -> bool {
        let has_promises = self.load.verdict.is_some_and(|verdict| verdict.acknowledged > 0);
        has_promises && self.load.is_clean() && self.load.is_drained
    }
}

impl BenchReport {
    /// Whether every promise was kept.
    pub(super) fn is_ok(&self) -> bool {
        self.phases.iter().all(PhaseReport::is_ok)
    }

    /// For programs.
    pub(super) fn to_json(&self) -> String {
        let mut json = serde_json::to_value(self).expect("a report has only keys and numbers that JSON has");
        json["ok"] = self.is_ok().into();
        json.to_string()
    }
}

/// Lines of the table: a label, and a cell for each load. A line without cells is a heading.
struct Table<'a> {
    phases: &'a [PhaseReport],
    rows: Vec<(&'static str, Vec<String>)>,
}

impl<'a> Table<'a> {
    fn heading(&mut self, text: &'static str) {
        self.rows.push((text, Vec::new()));
    }

    fn row(&mut self, label: &'static str, cell: impl Fn(&'a PhaseReport) -> String) {
        self.rows.push((label, self.phases.iter().map(cell).collect()));
    }

    fn broker_row(&mut self, label: &'static str, cell: impl Fn(&PhaseReport, &BrokerUsage) -> String) {
        self.row(label, |phase| {
            phase.usage.broker.as_ref().map_or_else(|| "-".to_owned(), |broker| cell(phase, broker))
        });
    }
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.setting())?;
        let mut table = Table { phases: &self.phases, rows: Vec::new() };
        table.row("", |phase| phase.title());
        table.row("", |phase| phase.pace());
        add_throughput(&mut table);
        add_latencies(&mut table);
        if let Some(embedded) = &self.embedded {
            add_broker(&mut table, embedded);
        }
        table.heading("generator");
        table.row("  processor time, cores", |phase| thousands(phase.usage.generator_cores, 2));
        table.row("  busiest thread ran / waited, %", |phase| busiest_thread(phase.load.processors));
        table.row("  bottleneck", |phase| bottleneck(phase.load.bottleneck).to_owned());
        writeln!(f, "\n{table}")?;
        self.phases.iter().try_for_each(|phase| phase.fmt_findings(f))?;
        self.fmt_verdict(f)
    }
}

impl BenchReport {
    fn setting(&self) -> String {
        let generator = list(&self.generator_cpus);
        match &self.embedded {
            None => format!(
                "loaded {} from CPU {generator}; what the broker itself did is not known",
                self.bootstrap.join(", ")
            ),
            Some(embedded) => {
                let cpus = list(&embedded.cpus);
                let shared =
                    if embedded.shares_cores { "; THEY SHARE THEM: the figures are of both" } else { "" };
                let kept = if embedded.is_kept { ", kept" } else { "" };
                let folder = embedded.folder.display();
                let port = if embedded.routing == RoutingName::Node { " behind one port" } else { "" };
                format!(
                    "broker on CPU {cpus}{port}, generator on CPU {generator}{shared}\ndata in {folder}{kept}"
                )
            }
        }
    }

    fn fmt_verdict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, phase) in self.phases.iter().enumerate() {
            let Some(verdict) = &phase.load.verdict else { continue };
            let end = if index + 1 == self.phases.len() { "" } else { "\n" };
            write!(f, "{}: {verdict}{end}", phase.title())?;
        }
        Ok(())
    }
}

impl PhaseReport {
    fn title(&self) -> String {
        match (self.load.rate, self.broker_was_killed) {
            (None, _) => "maximum".to_owned(),
            (Some(_), false) => "at a rate".to_owned(),
            (Some(_), true) => "at a rate, killed".to_owned(),
        }
    }

    fn pace(&self) -> String {
        if self.load.rate.is_some() { "open loop" } else { "closed loop" }.to_owned()
    }

    /// What makes the figures worth less.
    fn fmt_findings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = self.title();
        if self.load.failed > 0 {
            let why = self.load.first_failure.as_deref().unwrap_or("unknown");
            let failed = Counted(self.load.failed, "record");
            writeln!(f, "{title}: {failed} could not be delivered, the first: {why}")?;
        }
        if !self.load.is_drained {
            writeln!(
                f,
                "{title}: not everything that is there could be read again: what counts as lost may only be late"
            )?;
        }
        for gap in self.load.gaps.iter().take(GAPS_SHOWN) {
            writeln!(f, "{title}: {gap}")?;
        }
        if let more @ 1.. = self.load.gaps.len().saturating_sub(GAPS_SHOWN) {
            writeln!(f, "{title}: and {more} more like these; --json has them all")?;
        }
        if let Some(why) = &self.load.reading_ended {
            writeln!(f, "{title}: end-to-end latencies are those of what came before this: {why}")?;
        }
        if self.load.never_sent > 0 {
            let (never_sent, seconds) = (Counted(self.load.never_sent, "record"), OVERRUN_MAX.as_secs());
            writeln!(
                f,
                "{title}: NEVER SENT: {never_sent} that were still to be sent {seconds} s after the load's end; the \
                 latencies are those of the others. Ask for a lower --rate"
            )?;
        }
        if self.load.rate.is_some() && self.load.late > 0 {
            let (late, worst) = (Counted(self.load.late, "record"), milliseconds(self.load.worst_lateness));
            writeln!(f, "{title}: sent too late: {late}, the worst by {worst:.1} ms{}", self.own_part())?;
        }
        self.fmt_processors(f)?;
        if self.topic_is == Topic::LeftBehind {
            writeln!(f, "{title}: topic {} is left behind", self.load.topic)?;
        }
        Ok(())
    }

    /// Whether it was the generator, or the host, that was measured.
    fn fmt_processors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (title, processors) = (self.title(), self.load.processors);
        if self.load.bottleneck == Bottleneck::Generator {
            writeln!(f, "{title}: THE GENERATOR WAS THE BOTTLENECK: the broker may do better than this")?;
        }
        if processors.is_starved() {
            let waited = processors.waiting_max * 100.0;
            writeln!(
                f,
                "{title}: THE HOST'S PROCESSORS WERE THE LIMIT: a thread of the generator waited for one {waited:.0} % of \
                 the time; the figures are those of a shared host"
            )?;
        }
        Ok(())
    }
}

impl PhaseReport {
    /// How much of the lateness there would be without the waits for the broker.
    fn own_part(&self) -> String {
        match self.load.own_late {
            0 => "; the broker kept the generator waiting".to_owned(),
            own => format!(
                "; of these, {own} not because the broker kept the generator waiting, the worst by {:.1} ms",
                milliseconds(self.load.worst_own_lateness)
            ),
        }
    }
}

fn add_throughput<'a>(table: &mut Table<'a>) {
    table.heading("load");
    let mut rates = |names: [&'static str; 2], rate: fn(&Report) -> Throughput| {
        table.row(names[0], |phase| thousands(rate(&phase.load).records_per_second, 0));
        table.row(names[1], |phase| thousands(rate(&phase.load).megabytes_per_second, 1));
    };
    rates(["  offered, records/s", "  offered, MB/s"], |load| load.offered);
    rates(["  achieved, records/s", "  achieved, MB/s"], |load| load.acknowledged);
    rates(["  read, records/s", "  read, MB/s"], |load| load.read);
}

type Percentile = (&'static str, fn(&Percentiles) -> u64);

const PERCENTILES: [Percentile; 6] = [
    ("  p50", |latency| latency.p50),
    ("  p90", |latency| latency.p90),
    ("  p99", |latency| latency.p99),
    ("  p99.9", |latency| latency.p99_9),
    ("  p99.99", |latency| latency.p99_99),
    ("  max", |latency| latency.max),
];

fn add_latencies(table: &mut Table<'_>) {
    table.heading("produce latency from when a record was due / from when it was sent, us");
    for (label, of) in PERCENTILES {
        table.row(label, |phase| {
            let (due, sent) = (of(&phase.load.produce_latency), of(&phase.load.service_latency));
            format!("{} / {:>9}", microseconds(due), microseconds(sent))
        });
    }
    table.heading("end-to-end latency from when a record was due, us");
    for (label, of) in PERCENTILES {
        table.row(label, |phase| microseconds(of(&phase.load.end_to_end_latency)));
    }
}

fn add_broker(table: &mut Table<'_>, embedded: &EmbeddedReport) {
    table.heading("broker");
    let per_second = |count: u64, phase: &PhaseReport| ratio(count as f64, phase.usage.seconds);
    table.broker_row("  flushes/s", |phase, broker| thousands(per_second(broker.counters.flushes, phase), 0));
    table.broker_row("  batch bytes per flush", |_, broker| {
        thousands(ratio(broker.counters.bytes_flushed as f64, broker.counters.flushes as f64), 0)
    });
    let drive_flush = thousands(embedded.drive_flush_p99_us as f64, 0);
    table.row("  drive's own flush before, p99, us", |_| drive_flush.clone());
    let megabytes = |bytes: u64| thousands(bytes as f64 / 1e6, 1);
    table.broker_row("  written to segments, MB", |_, broker| megabytes(broker.counters.bytes_written));
    table.broker_row("  read from memory, MB", |_, broker| megabytes(broker.counters.bytes_read_tail));
    table
        .broker_row("  read from the page cache, MB", |_, broker| megabytes(broker.counters.bytes_read_warm));
    table.broker_row("  read from the drive, MB", |_, broker| megabytes(broker.counters.bytes_read_cold));
    table.broker_row("  processor time, cores", |_, broker| thousands(broker.cores, 2));
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |cells: &mut dyn Iterator<Item = usize>| cells.max().unwrap_or(0);
        let with_cells = || self.rows.iter().filter(|(_, cells)| !cells.is_empty());
        let label_width = width(&mut with_cells().map(|(label, _)| label.chars().count()));
        let cell_width =
            width(&mut with_cells().flat_map(|(_, cells)| cells).map(|cell| cell.chars().count()));
        for (label, cells) in &self.rows {
            if cells.is_empty() {
                writeln!(f, "{label}")?;
                continue;
            }
            write!(f, "{label:<label_width$}")?;
            cells.iter().try_for_each(|cell| write!(f, "  {cell:>cell_width$}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

/// The part of the time that the busiest thread ran, and that it waited for a processor, in percent.
fn busiest_thread(share: ProcessorShare) -> String {
    let waited = share.waiting.map_or_else(|| "-".to_owned(), |waiting| thousands(waiting * 100.0, 0));
    format!("{} / {waited:>9}", thousands(share.running * 100.0, 0))
}

const fn bottleneck(bottleneck: Bottleneck) -> &'static str {
    match bottleneck {
        Bottleneck::None => "none",
        Bottleneck::Broker => "broker",
        Bottleneck::Generator => "GENERATOR",
    }
}

fn list(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

fn microseconds(nanoseconds: u64) -> String {
    thousands(nanoseconds as f64 / 1e3, 0)
}

/// `0` where there is nothing to divide by.
fn ratio(count: f64, by: f64) -> f64 {
    if by > 0.0 { count / by } else { 0.0 }
}

/// A number with its thousands divided by commas: `1,234.5`.
pub(super) fn thousands(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 && grouped != "-" {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

#[cfg(test)]
mod tests;
