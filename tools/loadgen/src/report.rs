//! What a run comes to: numbers for people, for machines, and for the tools of HdrHistogram.

use core::time::Duration;
use std::io::{self, Write};
use std::time::SystemTime;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};
use serde::{Deserialize, Serialize};

use crate::ledger::Verdict;
use crate::plan::{LoadPlan, Pace};
use crate::processors::{ProcessorShare, ThreadTime};
use crate::recorder::{Outcome, PackedInterval};

const NANOS_A_MICRO: f64 = 1_000.0;
const NANOS_A_SECOND: f64 = 1e9;

/// How finely the percentile text divides each half of what is left.
const TICKS_PER_HALF_DISTANCE: u32 = 5;

/// Where latencies lie, in nanoseconds. All 0 where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// How many were measured.
    pub count: u64,
    /// Half of them are no longer.
    pub p50: u64,
    /// 90 percent.
    pub p90: u64,
    /// 99 percent.
    pub p99: u64,
    /// 99.9 percent.
    pub p99_9: u64,
    /// 99.99 percent.
    pub p99_99: u64,
    /// The longest.
    pub max: u64,
}

impl Percentiles {
    /// Of a histogram of nanoseconds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self {
            count: histogram.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: histogram.max(),
        }
    }
}

/// What kept the load from being higher, as far as the generator can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bottleneck {
    /// Open loop: nothing; every record was sent in time.
    None,
    /// The broker. Closed loop: no thread of the generator had all it could do. Open loop: waiting for the broker is why any
    /// record was late.
    Broker,
    /// The generator. Closed loop: one of its threads had all it could do, or no processor to do it on. Open loop: records
    /// were late that no wait for the broker made late. What was measured says nothing about the broker's limit.
    Generator,
}

/// How fast the load was, measured within the window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Records a second.
    pub records_per_second: f64,
    /// Megabytes (10^6) of values a second.
    pub megabytes_per_second: f64,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The topic.
    pub topic: String,
    /// Partitions written to.
    pub partitions: u32,
    /// Producers in all.
    pub producers: u32,
    /// Consumers in all.
    pub consumers: u32,
    /// Bytes of a value.
    pub record_bytes: u32,
    /// Bytes of a full batch.
    pub batch_bytes: u32,
    /// What a batch waited for: 0, 1 or -1 (all).
    pub acks: i16,
    /// The rate asked for, in records a second; absent in a closed loop.
    pub rate: Option<u64>,
    /// How long was measured, in seconds.
    pub seconds: f64,
    /// What was to be sent.
    pub offered: Throughput,
    /// What was acknowledged.
    pub acknowledged: Throughput,
    /// What was read.
    pub read: Throughput,
    /// Nanoseconds from when a record was due to the broker's answer.
    pub produce_latency: Percentiles,
    /// Nanoseconds from when its batch was sent to the broker's answer.
    pub service_latency: Percentiles,
    /// Nanoseconds from when a record was due to when a consumer had it.
    pub end_to_end_latency: Percentiles,
    /// Records that failed for good.
    pub failed: u64,
    /// Why the first of these did; absent where none did.
    pub first_failure: Option<String>,
    /// Records that were offered and never sent: they were still to be when the load was given up, after its end.
    pub never_sent: u64,
    /// Records sent later than the plan allows.
    pub late: u64,
    /// The most a record was late, in nanoseconds.
    pub worst_lateness: u64,
    /// Records that would have been late, or never sent, had no producer waited for the broker.
    pub own_late: u64,
    /// The most a record would have been late then, in nanoseconds.
    pub worst_own_lateness: u64,
    /// What limited the load.
    pub bottleneck: Bottleneck,
    /// Whether the latencies stand for the load that was asked for: in open loop only where the generator kept up, and
    /// all of it was sent.
    pub is_valid: bool,
    /// What the generator's threads had of the processors.
    pub processors: ProcessorShare,
    /// Why reading along with the load ended before its end: the end-to-end latencies are those of what came until then.
    /// Absent where it didn't.
    pub reading_ended: Option<String>,
    /// Whether all that was there after the load could be read again to the end; else what is lost may only be late.
    pub is_drained: bool,
    /// What couldn't be read again, and why, in words.
    pub gaps: Vec<String>,
    /// What producers were promised, and what was found when everything was read again after the load; absent where nothing
    /// was read back.
    pub verdict: Option<Verdict>,
}

impl Report {
    /// Tells what the plan came to. `threads` are those that made the load, over the measured time.
    #[must_use]
    pub fn new(plan: &LoadPlan, outcome: &Outcome, threads: &[ThreadTime]) -> Self {
        let seconds = plan.duration.as_secs_f64();
        let throughput = |records: u64| throughput(records, plan.record_bytes, seconds);
        let processors = ProcessorShare::of(threads);
        let bottleneck = bottleneck(plan, outcome, processors);
        Self {
            topic: plan.topic.clone(),
            partitions: plan.partitions,
            producers: plan.producers,
            consumers: plan.consumers,
            record_bytes: plan.record_bytes,
            batch_bytes: plan.batch_bytes,
            acks: plan.acks.code(),
            rate: match plan.pace {
                Pace::Closed { .. } => None,
                Pace::Open { records_per_second } => Some(records_per_second),
            },
            seconds,
            offered: throughput(outcome.offered),
            acknowledged: throughput(outcome.acknowledged),
            read: throughput(outcome.read),
            produce_latency: Percentiles::of(&outcome.latencies.produce),
            service_latency: Percentiles::of(&outcome.latencies.service),
            end_to_end_latency: Percentiles::of(&outcome.latencies.end_to_end),
            failed: outcome.failed,
            first_failure: outcome.first_failure.map(|failure| failure.to_string()),
            never_sent: outcome.never_sent,
            late: outcome.lateness.late_records,
            worst_lateness: nanos(outcome.lateness.worst),
            own_late: outcome.lateness.own_late_records,
            worst_own_lateness: nanos(outcome.lateness.own_worst),
            bottleneck,
            is_valid: matches!(plan.pace, Pace::Closed { .. })
                || (bottleneck != Bottleneck::Generator && outcome.never_sent == 0),
            processors,
            reading_ended: outcome.reading_ended.clone(),
            is_drained: outcome.is_drained,
            gaps: outcome.gaps.iter().map(ToString::to_string).collect(),
            verdict: (plan.consumers > 0).then(|| outcome.ledger.verdict()),
        }
    }

    /// Whether every promise was kept, as far as that was looked at.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.verdict.is_none_or(|verdict| verdict.is_clean())
    }
}

fn throughput(records: u64, record_bytes: u32, seconds: f64) -> Throughput {
    let records_per_second = float(records) / seconds;
    Throughput {
        records_per_second,
        megabytes_per_second: records_per_second * f64::from(record_bytes) / 1e6,
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Counts up to 2^53 are exact, which no run reaches.
#[expect(clippy::cast_precision_loss, reason = "shown with at most four digits")]
const fn float(count: u64) -> f64 {
    count as f64
}

fn bottleneck(plan: &LoadPlan, outcome: &Outcome, processors: ProcessorShare) -> Bottleneck {
    let lateness = &outcome.lateness;
    match plan.pace {
        Pace::Open { .. } if lateness.own_late_records > 0 => Bottleneck::Generator,
        Pace::Open { .. } if lateness.late_records > 0 || outcome.never_sent > 0 => Bottleneck::Broker,
        Pace::Open { .. } => Bottleneck::None,
        Pace::Closed { .. } if processors.is_saturated() => Bottleneck::Generator,
        Pace::Closed { .. } => Bottleneck::Broker,
    }
}

/// Writes a histogram of nanoseconds as the percentile text that HdrHistogram's plotters read, in microseconds.
///
/// # Errors
/// As the writer says.
pub fn write_hgrm(histogram: &Histogram<u64>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let mut total = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        total += step.count_since_last_iteration();
        let (value, quantile) =
            (float(step.value_iterated_to()) / NANOS_A_MICRO, step.quantile_iterated_to());
        write!(out, "{value:>12.3} {quantile:>14.12} {total:>10}")?;
        if quantile < 1.0 {
            write!(out, " {:>14.2}", 1.0 / (1.0 - quantile))?;
        }
        writeln!(out)?;
    }
    let (mean, deviation) = (histogram.mean() / NANOS_A_MICRO, histogram.stdev() / NANOS_A_MICRO);
    let max = float(histogram.max()) / NANOS_A_MICRO;
    writeln!(out, "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]")?;
    writeln!(out, "#[Max     = {max:>12.3}, Total count    = {:>12}]", histogram.len())?;
    writeln!(out, "#[Buckets = {:>12}, SubBuckets     = {:>12}]", histogram.buckets(), 2_048)
}

/// Writes every interval's histograms as an interval log of HdrHistogram, tagged `produce`, `service` and `end-to-end`.
/// `began` is the wall-clock time of the load's start.
///
/// # Errors
/// As the writer says.
pub fn write_hlog(outcome: &Outcome, began: SystemTime, out: &mut impl Write) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .with_start_time(began)
        .with_base_time(began)
        .with_max_value_divisor(NANOS_A_SECOND)
        .begin_log_with(out, &mut serializer)?;
    for interval in outcome.intervals.iter().map(PackedInterval::unpack) {
        let latencies = &interval.latencies;
        let tagged = [
            ("produce", &latencies.produce),
            ("service", &latencies.service),
            ("end-to-end", &latencies.end_to_end),
        ];
        for (tag, histogram) in tagged {
            let written = log.write_histogram(histogram, interval.began, interval.length, Tag::new(tag));
            written.map_err(|error| match error {
                IntervalLogWriterError::IoError(error) => error,
                IntervalLogWriterError::SerializeError(error) => io::Error::other(error),
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use engine_record::Offset;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::gap::Gap;
    use crate::ledger::Source;
    use crate::recorder::{Interval, latencies};

    const SOURCE: Source = Source { partition: 0, producer: 0 };

    fn outcome() -> Outcome {
        let mut outcome =
            Outcome { offered: 2_000, acknowledged: 1_000, is_drained: true, ..Outcome::default() };
        for micros in 1..=1_000 {
            outcome.latencies.produce.record(micros * 1_000).unwrap();
        }
        outcome.ledger.acknowledge(SOURCE, 0..3);
        outcome.ledger.read(SOURCE, 0);
        let mut intervals = vec![Interval { length: Duration::from_secs(1), ..Interval::default() }; 2];
        intervals[1].began = Duration::from_secs(1);
        intervals[1].latencies.service.record(5_000_000).unwrap();
        outcome.intervals = intervals.iter().map(PackedInterval::pack).collect();
        outcome
    }

    #[test]
    fn rates_and_percentiles_are_those_of_the_window() {
        let report = Report::new(&LoadPlan::default(), &outcome(), &[]);
        assert_eq!(
            (report.offered.records_per_second, report.acknowledged.records_per_second),
            (200.0, 100.0)
        );
        assert!((report.offered.megabytes_per_second - 0.2048).abs() < 1e-9);
        let p99 = report.produce_latency.p99;
        assert!((989_000..=991_500).contains(&p99), "{p99}");
        assert_eq!(report.end_to_end_latency, Percentiles::default());
        assert_eq!(report.verdict.unwrap().lost, 2);
        assert!(!report.is_clean());
    }

    #[test]
    fn a_report_is_read_back_from_json() {
        let report = Report::new(&LoadPlan::default(), &outcome(), &[]);
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    }

    fn open() -> LoadPlan {
        LoadPlan { pace: Pace::Open { records_per_second: 10 }, ..LoadPlan::default() }
    }

    #[test]
    fn an_open_loop_that_fell_behind_by_itself_is_invalid_and_one_that_the_broker_held_up_is_not() {
        let mut outcome = outcome();
        let judged = |outcome: &Outcome| {
            let report = Report::new(&open(), outcome, &[]);
            (report.bottleneck, report.is_valid)
        };
        assert_eq!(judged(&outcome), (Bottleneck::None, true));
        let (second, allowed) = (Duration::from_secs(1), Duration::from_millis(10));
        outcome.lateness.note(second, second, 1, allowed);
        assert_eq!(judged(&outcome), (Bottleneck::Broker, true));
        outcome.lateness.note(second, Duration::ZERO, 1, allowed);
        assert_eq!(judged(&outcome), (Bottleneck::Generator, false));
    }

    #[test]
    fn a_closed_loop_is_limited_by_the_generator_where_a_thread_of_it_has_all_it_can_do() {
        let judged = |running: u64, waiting: u64| {
            let [running, waiting] = [running, waiting].map(Duration::from_millis);
            let thread = ThreadTime { span: Duration::from_secs(1), running, waiting: Some(waiting) };
            Report::new(&LoadPlan::default(), &outcome(), &[thread]).bottleneck
        };
        assert_eq!(judged(950, 0), Bottleneck::Generator);
        assert_eq!(judged(500, 450), Bottleneck::Generator);
        assert_eq!(judged(600, 50), Bottleneck::Broker);
    }

    #[test]
    fn what_can_not_be_read_again_is_told_in_words() {
        let mut outcome = outcome();
        let [wanted, first] = [0, 7].map(|offset| Offset::new(offset).unwrap());
        outcome.gaps.push(Gap::StartsLate { partition: 3, wanted, first });
        let report = Report::new(&LoadPlan::default(), &outcome, &[]);
        assert!(report.gaps[0].starts_with("partition 3 begins at offset 7 now"), "{report:?}");
    }

    #[test]
    fn latencies_of_a_load_that_was_not_all_sent_are_not_those_of_the_load() {
        let mut outcome = outcome();
        outcome.never_sent = 5;
        let report = Report::new(&open(), &outcome, &[]);
        assert_eq!((report.bottleneck, report.is_valid), (Bottleneck::Broker, false));
    }

    #[test]
    fn the_percentile_text_ends_with_all_values_and_the_largest() {
        let mut text = Vec::new();
        write_hgrm(&outcome().latencies.produce, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
        assert!(lines[0].trim_start().starts_with("Value"));
        let last: Vec<_> = lines.last().unwrap().split_whitespace().collect();
        assert_eq!(last[1..], ["1.000000000000", "1000"]);
        assert!((last[0].parse::<f64>().unwrap() - 1_000.0).abs() < 1.0);
        let empty = write_hgrm(&latencies(), &mut Vec::new());
        assert!(empty.is_ok());
    }

    #[test]
    fn the_interval_log_is_read_back_by_its_own_library() {
        let mut log = Vec::new();
        write_hlog(&outcome(), SystemTime::UNIX_EPOCH, &mut log).unwrap();
        let intervals = IntervalLogIterator::new(&log).filter_map(|entry| match entry.unwrap() {
            LogEntry::Interval(interval) => {
                Some((interval.tag().unwrap().as_str().to_owned(), interval.max()))
            }
            LogEntry::StartTime(_) | LogEntry::BaseTime(_) => None,
        });
        let intervals: Vec<_> = intervals.collect();
        assert_eq!(intervals.len(), 6);
        assert_eq!(intervals[4].0, "service");
        assert!((intervals[4].1 - 0.005).abs() < 0.000_01);
    }
}
