//! What load to make.

use core::ops::RangeInclusive;
use core::time::Duration;

use engine_record::Compression;
use net_client::partitioner::Strategy;
use net_client::producer_core::InvalidSettings;
use net_client::random::Backoff;
use net_client::{Acks, BatchLimits, ProducerSettings};

use crate::limits;

/// How long an open loop goes on after its end unless told otherwise: enough for what a broker that was started again in
/// the middle has let wait.
pub const OVERRUN_MAX: Duration = Duration::from_secs(10);

/// How fast records are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as answers come: each producer keeps so many batches under way. Shows the most that goes through; its
    /// latencies say nothing about a given load, since a slow broker is asked for less.
    Closed {
        /// Batches under way for each producer, at least 1.
        batches_in_flight: u32,
    },
    /// At a constant rate, whatever the broker does. A record's latency counts from when it was due.
    Open {
        /// Records a second over all producers, at least 1.
        records_per_second: u64,
    },
}

/// The keys of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// None.
    None,
    /// Eight bytes, one of so many, in turn.
    Cycle {
        /// How many different ones, at least 1.
        count: u64,
    },
}

/// A load, complete and self-contained. It may be handed to other threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadPlan {
    /// Brokers to begin with, as `host:port`.
    pub bootstrap: Vec<String>,
    /// The topic; made where it isn't there.
    pub topic: String,
    /// Partitions written to, from 0 on.
    pub partitions: u32,
    /// How fast.
    pub pace: Pace,
    /// Producers in all, dealt over the shards.
    pub producers: u32,
    /// Consumers in all, dealt over the shards: each reads its partitions along with the load, then once more. Without one
    /// nothing is read back and nothing verified.
    pub consumers: u32,
    /// Bytes of a record's value.
    pub record_bytes: u32,
    /// A batch this large is sent.
    pub batch_bytes: u32,
    /// How long a smaller batch waits for more records.
    pub linger: Duration,
    /// What a batch waits for.
    pub acks: Acks,
    /// Whether producers are idempotent.
    pub is_idempotent: bool,
    /// How batches are compressed.
    pub compression: Compression,
    /// How much of a value is the same bytes again and again, 0 to 100.
    pub compressible_percent: u8,
    /// The keys.
    pub keys: Keys,
    /// How partitions are chosen.
    pub partitioner: Strategy,
    /// How long is measured.
    pub duration: Duration,
    /// How long the load runs before that.
    pub warmup: Duration,
    /// How often a snapshot is taken.
    pub interval: Duration,
    /// How long a batch may take before it counts as failed.
    pub delivery_timeout: Duration,
    /// How long what was promised may take to be readable after the load, and how long nothing may come while everything
    /// is read again.
    pub drain_timeout: Duration,
    /// How late a record may be sent, in open loop, without its producer having waited for the broker, before the run
    /// counts as one the generator couldn't make.
    pub lateness_max: Duration,
    /// How long after its end an open loop goes on sending what was due before. What is left then is never sent.
    pub overrun_max: Duration,
    /// Decides everything that is left to chance: the partitions of records, and what is in them.
    pub seed: u64,
    /// Tells the run's records from those of others: no other run that may write to the topic has the same.
    pub run_mark: u64,
}

impl Default for LoadPlan {
    fn default() -> Self {
        Self {
            bootstrap: vec!["127.0.0.1:9092".to_owned()],
            topic: "bench".to_owned(),
            partitions: 4,
            pace: Pace::Closed { batches_in_flight: 5 },
            producers: 1,
            consumers: 1,
            record_bytes: 1_024,
            batch_bytes: 128 << 10,
            linger: Duration::from_millis(1),
            acks: Acks::All,
            is_idempotent: true,
            compression: Compression::None,
            compressible_percent: 50,
            keys: Keys::None,
            partitioner: Strategy::Murmur2,
            duration: Duration::from_secs(10),
            warmup: Duration::from_secs(2),
            interval: Duration::from_secs(1),
            delivery_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(60),
            lateness_max: Duration::from_millis(10),
            overrun_max: OVERRUN_MAX,
            seed: 1,
            run_mark: 1,
        }
    }
}

/// A plan that can't be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPlan {
    /// A number is beyond its [limits].
    #[error("{what}: {value} is outside {first} to {last}")]
    Number {
        /// Whose number it is.
        what: &'static str,
        /// The number.
        value: u64,
        /// The first that is allowed.
        first: u64,
        /// The last that is allowed.
        last: u64,
    },
    /// A time is beyond its [limits].
    #[error("{what}: {value:?} is outside {first:?} to {last:?}")]
    Time {
        /// Whose time it is.
        what: &'static str,
        /// The time.
        value: Duration,
        /// The shortest that is allowed.
        first: Duration,
        /// The longest that is allowed.
        last: Duration,
    },
    /// The producers' settings contradict each other.
    #[error(transparent)]
    Producer(#[from] InvalidSettings),
}

fn check_number<N: Copy + PartialOrd + Into<u64>>(
    what: &'static str,
    value: N,
    allowed: &RangeInclusive<N>,
) -> Result<(), InvalidPlan> {
    let (value, first, last) = (value.into(), (*allowed.start()).into(), (*allowed.end()).into());
    let is_allowed = (first..=last).contains(&value);
    is_allowed.then_some(()).ok_or(InvalidPlan::Number { what, value, first, last })
}

fn check_time(
    what: &'static str,
    value: Duration,
    allowed: &RangeInclusive<Duration>,
) -> Result<(), InvalidPlan> {
    let (first, last) = (*allowed.start(), *allowed.end());
    allowed.contains(&value).then_some(()).ok_or(InvalidPlan::Time { what, value, first, last })
}

impl LoadPlan {
    /// Whether the plan can be carried out.
    ///
    /// # Errors
    /// See [`InvalidPlan`].
    pub fn check(&self) -> Result<(), InvalidPlan> {
        check_number("partitions", self.partitions, &limits::PARTITIONS)?;
        check_number("producers", self.producers, &limits::PRODUCERS)?;
        check_number("consumers", self.consumers, &(0..=*limits::CONSUMERS.end()))?;
        match self.pace {
            Pace::Closed { batches_in_flight: batches } => {
                check_number("batches in flight", batches, &limits::BATCHES_IN_FLIGHT)?;
            }
            Pace::Open { records_per_second: rate } => {
                check_number("records a second", rate, &limits::RECORDS_PER_SECOND)?;
            }
        }
        if let Keys::Cycle { count } = self.keys {
            check_number("keys", count, &limits::KEYS)?;
        }
        self.check_batches()?;
        check_time("duration", self.duration, &limits::DURATION)?;
        check_time("warm-up", self.warmup, &limits::WARMUP)?;
        check_time("interval", self.interval, &limits::INTERVAL)?;
        Ok(self.producer_settings(0).check()?)
    }

    fn check_batches(&self) -> Result<(), InvalidPlan> {
        check_number("bytes of a record", self.record_bytes, &limits::RECORD_BYTES)?;
        check_number("bytes of a batch", self.batch_bytes, &limits::BATCH_BYTES)?;
        let percent = self.compressible_percent;
        check_number("compressible percent", percent, &limits::COMPRESSIBLE_PERCENT)?;
        let linger_us = u64::try_from(self.linger.as_micros()).unwrap_or(u64::MAX);
        check_number("microseconds of linger", linger_us, &limits::LINGER_US)
    }

    /// The settings of one producer.
    #[must_use]
    pub fn producer_settings(&self, producer: u32) -> ProducerSettings {
        // A batch ends with the record that crosses its size.
        let (batch_bytes, record_bytes) = (self.batch_bytes as usize, self.record_bytes as usize);
        let request_bytes_max = (batch_bytes + record_bytes) * 4 + (64 << 10);
        ProducerSettings {
            acks: self.acks,
            is_idempotent: self.is_idempotent,
            batches: BatchLimits {
                batch_bytes,
                linger: Duration::ZERO,
                request_bytes_max,
                compression: self.compression,
            },
            buffer_bytes_max: (64 << 20).max(request_bytes_max * 8),
            delivery_timeout: self.delivery_timeout,
            retry: Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(500) },
            partitioner: self.partitioner,
            seed: self.seed ^ u64::from(producer),
            ..ProducerSettings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut LoadPlan)) -> InvalidPlan {
        let mut plan = LoadPlan::default();
        change(&mut plan);
        plan.check().unwrap_err()
    }

    #[test]
    fn the_default_can_be_carried_out_and_a_contradiction_is_named() {
        assert_eq!(LoadPlan::default().check(), Ok(()));
        let contradiction = refusal(|plan| plan.acks = Acks::Leader);
        assert_eq!(contradiction, InvalidPlan::Producer(InvalidSettings::IdempotenceNeedsAcksAll));
    }

    #[test]
    fn a_number_beyond_its_range_is_refused_with_that() {
        let none = refusal(|plan| plan.partitions = 0);
        assert_eq!(none.to_string(), "partitions: 0 is outside 1 to 10000");
        type Change = fn(&mut LoadPlan);
        let refused: [(&str, Change); 13] = [
            ("partitions", |plan| plan.partitions = u32::MAX),
            ("producers", |plan| plan.producers = 0),
            ("producers", |plan| plan.producers = u32::MAX),
            ("consumers", |plan| plan.consumers = u32::MAX),
            ("batches in flight", |plan| plan.pace = Pace::Closed { batches_in_flight: u32::MAX }),
            ("records a second", |plan| plan.pace = Pace::Open { records_per_second: 0 }),
            ("records a second", |plan| plan.pace = Pace::Open { records_per_second: u64::MAX }),
            ("keys", |plan| plan.keys = Keys::Cycle { count: 0 }),
            ("bytes of a record", |plan| plan.record_bytes = 39),
            ("bytes of a record", |plan| plan.record_bytes = u32::MAX),
            ("bytes of a batch", |plan| plan.batch_bytes = u32::MAX),
            ("compressible percent", |plan| plan.compressible_percent = 101),
            ("microseconds of linger", |plan| plan.linger = Duration::from_micros(u64::MAX)),
        ];
        for (named, change) in refused {
            assert!(matches!(refusal(change), InvalidPlan::Number { what, .. } if what == named), "{named}");
        }
    }

    #[test]
    fn a_time_beyond_its_range_is_refused_with_that() {
        let none = refusal(|plan| plan.duration = Duration::ZERO);
        assert_eq!(none.to_string(), "duration: 0ns is outside 1ms to 86400s");
        let endless = refusal(|plan| plan.warmup = Duration::MAX);
        assert!(matches!(endless, InvalidPlan::Time { what: "warm-up", .. }), "{endless}");
        assert!(matches!(refusal(|plan| plan.interval = Duration::ZERO), InvalidPlan::Time { .. }));
    }

    #[test]
    fn the_largest_load_can_be_carried_out_and_its_requests_are_what_brokers_take() {
        let largest = LoadPlan {
            partitions: *limits::PARTITIONS.end(),
            producers: *limits::PRODUCERS.end(),
            consumers: *limits::CONSUMERS.end(),
            record_bytes: *limits::RECORD_BYTES.end(),
            batch_bytes: *limits::BATCH_BYTES.end(),
            linger: Duration::from_micros(*limits::LINGER_US.end()),
            duration: *limits::DURATION.end(),
            warmup: *limits::WARMUP.end(),
            ..LoadPlan::default()
        };
        assert_eq!(largest.check(), Ok(()));
        assert!(largest.producer_settings(0).batches.request_bytes_max < 100 << 20);
        assert!(largest.linger < largest.delivery_timeout, "a batch is given up while it waits");
    }
}
