//! What is measured while a load runs: latencies and counts, in all and for the running interval.

use core::time::Duration;

use engine_record::Instant;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use net_client::DeliveryError;

use crate::gap::Gap;
use crate::ledger::Ledger;
use crate::schedule::Lateness;

/// The longest latency told apart, in nanoseconds; longer ones count as this.
pub const LATENCY_NANOS_MAX: u64 = 600_000_000_000;

/// Digits of a latency that are exact.
pub const LATENCY_DIGITS: u8 = 3;

/// Gaps that are told, at most: two for each partition there may be. What is lost is counted beyond them too.
const GAPS_MAX: usize = 20_000;

/// A histogram of nanoseconds.
#[must_use]
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, LATENCY_DIGITS)
        .expect("1 ns to 10 min with 3 digits is a range")
}

/// Latencies of three kinds, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// From when a record was due to the broker's answer.
    pub produce: Histogram<u64>,
    /// From when its batch was sent to the broker's answer.
    pub service: Histogram<u64>,
    /// From when a record was due to when a consumer had it.
    pub end_to_end: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { produce: latencies(), service: latencies(), end_to_end: latencies() }
    }
}

impl Latencies {
    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.produce, &other.produce),
            (&mut self.service, &other.service),
            (&mut self.end_to_end, &other.end_to_end),
        ];
        for (own, other) in pairs {
            own.add(other).expect("all histograms have the same bounds");
        }
    }

    fn reset(&mut self) {
        for histogram in [&mut self.produce, &mut self.service, &mut self.end_to_end] {
            histogram.reset();
        }
    }
}

/// What happened in one interval.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// When it began, counted from the start of the load.
    pub began: Duration,
    /// How long it was.
    pub length: Duration,
    /// Records acknowledged.
    pub acknowledged: u64,
    /// Records read along with the load.
    pub read: u64,
    /// Records read again after it. Such an interval is shown and not kept.
    pub read_again: u64,
    /// The latencies.
    pub latencies: Latencies,
}

/// An interval as it is kept: a histogram in memory takes hundreds of kilobytes, packed it takes one or two, so that runs
/// of hours fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedInterval {
    began: Duration,
    length: Duration,
    acknowledged: u64,
    read: u64,
    /// Produce, service, end to end, in HdrHistogram's compressed form.
    histograms: [Vec<u8>; 3],
}

impl PackedInterval {
    /// Packs what an interval measured.
    #[must_use]
    pub fn pack(interval: &Interval) -> Self {
        let Latencies { produce, service, end_to_end } = &interval.latencies;
        Self {
            began: interval.began,
            length: interval.length,
            acknowledged: interval.acknowledged,
            read: interval.read,
            histograms: [produce, service, end_to_end].map(packed),
        }
    }

    /// What the interval measured.
    #[must_use]
    pub fn unpack(&self) -> Interval {
        let [produce, service, end_to_end] = &self.histograms;
        let latencies = Latencies {
            produce: unpacked(produce),
            service: unpacked(service),
            end_to_end: unpacked(end_to_end),
        };
        let Self { began, length, acknowledged, read, .. } = *self;
        Interval { began, length, acknowledged, read, read_again: 0, latencies }
    }
}

impl PackedInterval {
    fn merged(&self, other: &Self) -> Self {
        let (mut own, other) = (self.unpack(), other.unpack());
        own.acknowledged += other.acknowledged;
        own.read += other.read;
        own.length = own.length.max(other.length);
        own.latencies.add(&other.latencies);
        Self::pack(&own)
    }
}

fn packed(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    written.expect("writing into memory doesn't fail, and every count fits");
    bytes
}

fn unpacked(bytes: &[u8]) -> Histogram<u64> {
    let mut own_bounds = latencies();
    if !bytes.is_empty() {
        let read: Histogram<u64> =
            Deserializer::new().deserialize(&mut &bytes[..]).expect("these bytes were packed here");
        own_bounds.add(&read).expect("it was packed from a histogram with these bounds");
    }
    own_bounds
}

/// The time that is measured: not the warm-up, and nothing after the load.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// When the load begins.
    pub start: Instant,
    /// When measuring begins. Inclusive.
    pub from: Instant,
    /// When it ends, and the load with it. Exclusive.
    pub until: Instant,
}

impl Window {
    fn contains(&self, at: Instant) -> bool {
        self.from <= at && at < self.until
    }
}

/// Measures on one shard.
#[derive(Debug)]
pub struct Recorder {
    window: Window,
    interval_began: Instant,
    current: Interval,
    /// Everything is read again, so nothing is measured any more.
    is_again: bool,
    outcome: Outcome,
}

/// What one shard measured.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Latencies within the window.
    pub latencies: Latencies,
    /// Records due within the window.
    pub offered: u64,
    /// Of these, how many were still to be sent when the load had gone on for too long.
    pub never_sent: u64,
    /// Records acknowledged within the window.
    pub acknowledged: u64,
    /// Records read along with the load within the window.
    pub read: u64,
    /// Records whose delivery failed, over the whole load.
    pub failed: u64,
    /// Why the first of these did.
    pub first_failure: Option<DeliveryError>,
    /// How late records were sent.
    pub lateness: Lateness,
    /// The accounts, over the whole load.
    pub ledger: Ledger,
    /// Every interval, warm-up included.
    pub intervals: Vec<PackedInterval>,
    /// Why reading along with the load ended before its end; absent where it didn't.
    pub reading_ended: Option<String>,
    /// Whether everything was read again to the end: all that was still there, that is.
    pub is_drained: bool,
    /// What couldn't be read again.
    pub gaps: Vec<Gap>,
}

impl Recorder {
    /// Begins to measure.
    #[must_use]
    pub fn new(window: Window) -> Self {
        let outcome = Outcome { is_drained: true, ..Outcome::default() };
        Self { window, interval_began: window.start, current: Interval::default(), is_again: false, outcome }
    }

    /// The time that is measured.
    #[must_use]
    pub const fn window(&self) -> Window {
        self.window
    }

    /// The accounts.
    pub const fn ledger(&mut self) -> &mut Ledger {
        &mut self.outcome.ledger
    }

    /// A batch was sent at `sent`, with records due at `due`, and acknowledged at `at`.
    pub fn acknowledged(&mut self, due: &[Instant], sent: Instant, at: Instant) {
        let count = due.len() as u64;
        self.current.acknowledged += count;
        if self.window.contains(at) {
            self.outcome.acknowledged += count;
        }
        self.current.latencies.service.saturating_record_n(nanos(at.since(sent)), count);
        if self.window.contains(sent) {
            self.outcome.latencies.service.saturating_record_n(nanos(at.since(sent)), count);
        }
        for &due in due {
            let latency = nanos(at.since(due));
            self.current.latencies.produce.saturating_record(latency);
            if self.window.contains(due) {
                self.outcome.latencies.produce.saturating_record(latency);
            }
        }
    }

    /// Records were due at `due`, ascending, and were sent at `sent`; the broker kept their producer `waiting`.
    pub fn sent(&mut self, due: &[Instant], sent: Instant, waiting: Duration, lateness_max: Duration) {
        let in_window = due.iter().filter(|due| self.window.contains(**due)).count() as u64;
        self.outcome.offered += in_window;
        if let Some(&first) = due.first().filter(|_| in_window > 0) {
            self.outcome.lateness.note(sent.since(first), waiting, in_window, lateness_max);
        }
    }

    /// So many records that were due within the window are never sent, the first of them being so `late` already, of which
    /// the broker kept their producer `waiting`: the load is over.
    pub fn never_sent(&mut self, count: u64, late: Duration, waiting: Duration, lateness_max: Duration) {
        self.outcome.offered += count;
        self.outcome.never_sent += count;
        self.outcome.lateness.note_never_sent(late, waiting, count, lateness_max);
    }

    /// So many records failed for good.
    pub fn failed(&mut self, count: u64, why: DeliveryError) {
        self.outcome.failed += count;
        self.outcome.first_failure.get_or_insert(why);
    }

    /// A record due at `due` was read along with the load at `at`.
    pub fn read(&mut self, due: Instant, at: Instant) {
        self.current.read += 1;
        let latency = nanos(at.since(due));
        self.current.latencies.end_to_end.saturating_record(latency);
        if self.window.contains(at) {
            self.outcome.read += 1;
        }
        if self.window.contains(due) {
            self.outcome.latencies.end_to_end.saturating_record(latency);
        }
    }

    /// Reading along with the load ended before its end.
    pub fn reading_ended(&mut self, why: String) {
        self.outcome.reading_ended.get_or_insert(why);
    }

    /// From now on everything is read again, which isn't measured.
    pub fn begin_again(&mut self, now: Instant) {
        if !self.is_again {
            self.end_interval(now, |_| ());
            self.is_again = true;
        }
    }

    /// So many records were read again.
    pub const fn read_again(&mut self, count: u64) {
        self.current.read_again += count;
    }

    /// Something couldn't be read again.
    pub fn gap(&mut self, gap: Gap) {
        if self.outcome.gaps.len() < GAPS_MAX {
            self.outcome.gaps.push(gap);
        }
    }

    /// What is still there couldn't all be read again.
    pub const fn not_drained(&mut self) {
        self.outcome.is_drained = false;
    }

    /// Ends the running interval, and keeps it packed if it was measured. It is shown to `look`.
    pub fn end_interval<T>(&mut self, now: Instant, look: impl FnOnce(&Interval) -> T) -> T {
        self.current.began = self.interval_began.since(self.window.start);
        self.current.length = now.since(self.interval_began);
        if !self.is_again {
            self.outcome.intervals.push(PackedInterval::pack(&self.current));
        }
        let looked = look(&self.current);
        self.current.latencies.reset();
        (self.current.acknowledged, self.current.read, self.current.read_again) = (0, 0, 0);
        self.interval_began = now;
        looked
    }

    /// Ends measuring.
    #[must_use]
    pub fn finish(mut self, now: Instant) -> Outcome {
        self.end_interval(now, |_| ());
        self.outcome
    }
}

fn nanos(duration: Duration) -> u64 {
    // A histogram's values begin at 1.
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).max(1)
}

impl Outcome {
    /// Puts what two shards measured together.
    pub fn merge(&mut self, other: &Self) {
        self.latencies.add(&other.latencies);
        self.offered += other.offered;
        self.never_sent += other.never_sent;
        self.acknowledged += other.acknowledged;
        self.read += other.read;
        self.failed += other.failed;
        self.first_failure = self.first_failure.or(other.first_failure);
        self.lateness = self.lateness.merged(other.lateness);
        self.ledger.merge(&other.ledger);
        if self.reading_ended.is_none() {
            self.reading_ended.clone_from(&other.reading_ended);
        }
        self.is_drained &= other.is_drained;
        self.gaps.extend_from_slice(&other.gaps);
        for (index, interval) in other.intervals.iter().enumerate() {
            match self.intervals.get_mut(index) {
                Some(own) => *own = own.merged(interval),
                None => self.intervals.push(interval.clone()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_interval_is_the_same_again_and_small() {
        let mut interval =
            Interval { acknowledged: 3, length: Duration::from_secs(1), ..Interval::default() };
        for value in [1, 5_000, 70_000_000] {
            interval.latencies.produce.record(value).unwrap();
        }
        let packed = PackedInterval::pack(&interval);
        assert!(packed.histograms.iter().map(Vec::len).sum::<usize>() < 1_000);
        let unpacked = packed.unpack();
        assert_eq!(unpacked.latencies.produce, interval.latencies.produce);
        assert_eq!((unpacked.acknowledged, unpacked.length), (3, Duration::from_secs(1)));
        let twice = packed.merged(&packed).unpack();
        assert_eq!((twice.latencies.produce.len(), twice.acknowledged), (6, 6));
    }

    #[test]
    fn only_the_window_counts_in_all_and_everything_in_the_intervals() {
        let at = |secs| Instant::ZERO.after(Duration::from_secs(secs));
        let mut recorder = Recorder::new(Window { start: at(0), from: at(2), until: at(4) });
        for second in 0..6 {
            let due = [at(second)];
            recorder.sent(&due, at(second), Duration::ZERO, Duration::ZERO);
            recorder.acknowledged(&due, at(second), at(second));
            recorder.read(at(second), at(second));
        }
        let outcome = recorder.finish(at(6));
        assert_eq!((outcome.offered, outcome.acknowledged, outcome.read), (2, 2, 2));
        assert_eq!(outcome.latencies.produce.len(), 2);
        assert_eq!(outcome.intervals[0].unpack().acknowledged, 6);
    }

    #[test]
    fn what_is_read_again_is_shown_and_in_no_interval_that_is_kept() {
        let at = |secs| Instant::ZERO.after(Duration::from_secs(secs));
        let mut recorder = Recorder::new(Window { start: at(0), from: at(0), until: at(1) });
        recorder.read(at(0), at(1));
        recorder.begin_again(at(2));
        recorder.begin_again(at(3));
        recorder.read_again(7);
        assert_eq!(recorder.end_interval(at(4), |interval| (interval.read, interval.read_again)), (0, 7));
        let outcome = recorder.finish(at(5));
        assert_eq!(outcome.intervals.len(), 1);
        assert_eq!(outcome.intervals[0].unpack().length, Duration::from_secs(2));
    }
}
