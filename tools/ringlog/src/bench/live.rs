//! The line on a terminal that tells how a load is going.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use loadgen::{Interval, LoadPlan};

use super::report::thousands;

/// Goes to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// Shows intervals, if there is a terminal to show them on. What it wrote is gone when it is dropped.
pub(super) struct Live {
    name: String,
    is_shown: bool,
    shards: u32,
    record_bytes: u32,
    /// How long the load takes, in whole seconds.
    seconds: u64,
    /// The interval of the shards heard so far, and how many they are.
    pending: Option<(Interval, u32)>,
}

impl Live {
    pub(super) fn new(name: &str, plan: &LoadPlan, shards: u32) -> Self {
        Self {
            name: name.to_owned(),
            is_shown: io::stderr().is_terminal(),
            shards,
            record_bytes: plan.record_bytes,
            seconds: (plan.warmup + plan.duration).as_secs(),
            pending: None,
        }
    }

    /// Takes one shard's interval; shows them when it has one of each.
    pub(super) fn show(&mut self, interval: &Interval) {
        if !self.is_shown {
            return;
        }
        let (sum, heard) = match self.pending.take() {
            None => (interval.clone(), 1),
            Some((mut sum, heard)) => {
                sum.acknowledged += interval.acknowledged;
                sum.read += interval.read;
                sum.read_again += interval.read_again;
                sum.latencies.add(&interval.latencies);
                (sum, heard + 1)
            }
        };
        if heard < self.shards {
            self.pending = Some((sum, heard));
        } else {
            self.write(&self.line(&sum));
        }
    }

    /// Shows something else.
    pub(super) fn say(&self, what: &str) {
        if self.is_shown {
            self.write(&format!("{}: {what}", self.name));
        }
    }

    fn line(&self, interval: &Interval) -> String {
        let second = (interval.began + interval.length).as_secs().min(self.seconds);
        let seconds = interval.length.as_secs_f64().max(0.001);
        let rate = |records: u64| records as f64 / seconds;
        let (acknowledged, read) = (rate(interval.acknowledged), rate(interval.read));
        if interval.read_again > 0 {
            let again = thousands(rate(interval.read_again), 0);
            return format!("{}: reading everything again, {again} records/s", self.name);
        }
        if interval.acknowledged == 0 && interval.began >= Duration::from_secs(self.seconds) {
            return format!("{}: reading back, {} records/s", self.name, thousands(read, 0));
        }
        let produce = &interval.latencies.produce;
        let milliseconds = |quantile| produce.value_at_quantile(quantile) as f64 / 1e6;
        format!(
            "{}: {second:>3} of {} s, {} records/s, {} MB/s, p50 {:.2} ms, p99 {:.2} ms",
            self.name,
            self.seconds,
            thousands(acknowledged, 0),
            thousands(acknowledged * f64::from(self.record_bytes) / 1e6, 1),
            milliseconds(0.5),
            milliseconds(0.99),
        )
    }

    fn write(&self, text: &str) {
        // A line that can't be shown is no reason to stop.
        let _unseen = write!(io::stderr(), "{CLEAR}{text}");
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.is_shown {
            self.write("");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Live {
        let mut live = Live::new("maximum", &LoadPlan::default(), 2);
        live.is_shown = false;
        live
    }

    #[test]
    fn a_line_tells_time_rate_and_latency() {
        let mut interval = Interval {
            began: Duration::from_secs(2),
            length: Duration::from_secs(1),
            acknowledged: 1_234_567,
            ..Interval::default()
        };
        interval.latencies.produce.record(1_500_000).unwrap();
        let line = live().line(&interval);
        assert_eq!(line, "maximum:   3 of 12 s, 1,234,567 records/s, 1,264.2 MB/s, p50 1.50 ms, p99 1.50 ms");
    }

    #[test]
    fn after_the_load_it_is_read_back() {
        let interval = Interval {
            began: Duration::from_secs(12),
            length: Duration::from_millis(500),
            read: 1_000,
            ..Interval::default()
        };
        assert_eq!(live().line(&interval), "maximum: reading back, 2,000 records/s");
        let again = Interval { read: 0, read_again: 1_500, ..interval };
        assert_eq!(live().line(&again), "maximum: reading everything again, 3,000 records/s");
    }
}
