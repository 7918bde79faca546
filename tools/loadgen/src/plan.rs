//! What load to make.

use core::time::Duration;

use engine_record::Compression;
use net_client::partitioner::Strategy;
use net_client::producer_core::InvalidSettings;
use net_client::random::Backoff;
use net_client::{Acks, BatchLimits, ProducerSettings};

use crate::payload::PAYLOAD_HEADER_BYTES;

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
    /// Consumers in all, dealt over the shards. Without one nothing is read back and nothing verified.
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
    /// How long reading back may take after the last record.
    pub drain_timeout: Duration,
    /// How late a record may be sent, in open loop, before the run counts as one the generator couldn't make.
    pub lateness_max: Duration,
    /// How long after its end an open loop goes on sending what was due before. What is left then is never sent.
    pub overrun_max: Duration,
    /// Decides everything that is left to chance, and marks the run's records.
    pub seed: u64,
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
        }
    }
}

/// A plan that can't be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPlan {
    /// Something that must be there at least once isn't.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// Values too small to say whose they are.
    #[error("records of {record_bytes} bytes; the header that is verified takes {PAYLOAD_HEADER_BYTES}")]
    RecordTooSmall {
        /// The size asked for.
        record_bytes: u32,
    },
    /// More than everything can't be compressible.
    #[error("{0} percent compressible")]
    Percent(u8),
    /// Time must pass.
    #[error("{0} must be longer than nothing")]
    NoTime(&'static str),
    /// The producers' settings contradict each other.
    #[error(transparent)]
    Producer(#[from] InvalidSettings),
}

impl LoadPlan {
    /// Whether the plan can be carried out.
    ///
    /// # Errors
    /// See [`InvalidPlan`].
    pub fn check(&self) -> Result<(), InvalidPlan> {
        let (batches, rate) = match self.pace {
            Pace::Closed { batches_in_flight } => (u64::from(batches_in_flight), 1),
            Pace::Open { records_per_second } => (1, records_per_second),
        };
        let keys = match self.keys {
            Keys::None => 1,
            Keys::Cycle { count } => count,
        };
        let counts = [
            ("partitions", u64::from(self.partitions)),
            ("producers", u64::from(self.producers)),
            ("batches in flight", batches),
            ("records a second", rate),
            ("keys", keys),
        ];
        if let Some((what, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(InvalidPlan::Zero(what));
        }
        if (self.record_bytes as usize) < PAYLOAD_HEADER_BYTES {
            return Err(InvalidPlan::RecordTooSmall { record_bytes: self.record_bytes });
        }
        if self.compressible_percent > 100 {
            return Err(InvalidPlan::Percent(self.compressible_percent));
        }
        let times = [("duration", self.duration), ("interval", self.interval)];
        if let Some((what, _)) = times.into_iter().find(|(_, time)| time.is_zero()) {
            return Err(InvalidPlan::NoTime(what));
        }
        Ok(self.producer_settings(0).check()?)
    }

    /// The settings of one producer.
    #[must_use]
    pub fn producer_settings(&self, producer: u32) -> ProducerSettings {
        // A batch ends with the record that crosses its size.
        let request_bytes_max = (self.batch_bytes + self.record_bytes) as usize * 4 + (64 << 10);
        ProducerSettings {
            acks: self.acks,
            is_idempotent: self.is_idempotent,
            batches: BatchLimits {
                batch_bytes: self.batch_bytes as usize,
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

    #[test]
    fn the_default_can_be_carried_out_and_each_fault_is_named() {
        assert_eq!(LoadPlan::default().check(), Ok(()));
        let faulty = |change: fn(&mut LoadPlan)| {
            let mut plan = LoadPlan::default();
            change(&mut plan);
            plan.check().unwrap_err()
        };
        assert_eq!(faulty(|plan| plan.partitions = 0), InvalidPlan::Zero("partitions"));
        assert_eq!(faulty(|plan| plan.producers = 0), InvalidPlan::Zero("producers"));
        let idle = faulty(|plan| plan.pace = Pace::Open { records_per_second: 0 });
        assert_eq!(idle, InvalidPlan::Zero("records a second"));
        assert_eq!(faulty(|plan| plan.keys = Keys::Cycle { count: 0 }), InvalidPlan::Zero("keys"));
        assert_eq!(faulty(|plan| plan.record_bytes = 39), InvalidPlan::RecordTooSmall { record_bytes: 39 });
        assert_eq!(faulty(|plan| plan.compressible_percent = 101), InvalidPlan::Percent(101));
        assert_eq!(faulty(|plan| plan.duration = Duration::ZERO), InvalidPlan::NoTime("duration"));
        let contradiction = faulty(|plan| plan.acks = Acks::Leader);
        assert_eq!(contradiction, InvalidPlan::Producer(InvalidSettings::IdempotenceNeedsAcksAll));
    }
}
