//! What a producer may be told.

use core::time::Duration;

use engine_record::Compression;

use crate::accumulator::BatchLimits;
use crate::partitioner::Strategy;
use crate::random::Backoff;

/// The most requests with batches of one partition that may be under way to an idempotent producer's broker: brokers
/// remember this many batches to tell a repetition from something new.
pub const IDEMPOTENT_IN_FLIGHT_MAX: u32 = 5;

/// What a batch waits for before it counts as delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// Nothing: the broker doesn't answer.
    None,
    /// The leader has it.
    Leader,
    /// All in-sync replicas have it.
    #[default]
    All,
}

impl Acks {
    /// The number in the protocol.
    #[must_use]
    pub const fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// How a producer behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerSettings {
    /// What a batch waits for.
    pub acks: Acks,
    /// Whether the broker is to recognize repetitions, so that each record is appended once and in order.
    pub is_idempotent: bool,
    /// When batches leave and how large they get.
    pub batches: BatchLimits,
    /// The most bytes of records accepted and not yet answered for.
    pub buffer_bytes_max: usize,
    /// The most requests under way to one broker. Without idempotence more than 1 may reorder records when one of them
    /// is retried.
    pub in_flight_max: u32,
    /// How long after its first record was accepted a batch is given up.
    pub delivery_timeout: Duration,
    /// How long a broker may take to answer one request; brokers are told it too.
    pub request_timeout: Duration,
    /// Pauses between attempts.
    pub retry: Backoff,
    /// How partitions are chosen.
    pub partitioner: Strategy,
    /// Decides what is left to chance: partitions without key, jitter.
    pub seed: u64,
}

impl Default for ProducerSettings {
    fn default() -> Self {
        Self {
            acks: Acks::All,
            is_idempotent: true,
            batches: BatchLimits {
                batch_bytes: 128 << 10,
                linger: Duration::from_millis(5),
                request_bytes_max: 1 << 20,
                compression: Compression::None,
            },
            buffer_bytes_max: 32 << 20,
            in_flight_max: IDEMPOTENT_IN_FLIGHT_MAX,
            delivery_timeout: Duration::from_secs(120),
            request_timeout: Duration::from_secs(30),
            retry: Backoff { first: Duration::from_millis(20), longest: Duration::from_secs(1) },
            partitioner: Strategy::Murmur2,
            seed: 0,
        }
    }
}

/// Settings that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSettings {
    /// Without an answer from all replicas a repetition can't be told from a loss.
    #[error("an idempotent producer needs acks=all")]
    IdempotenceNeedsAcksAll,
    /// More requests than the broker remembers batches.
    #[error("an idempotent producer may have at most {IDEMPOTENT_IN_FLIGHT_MAX} requests in flight, not {0}")]
    IdempotenceInFlight(u32),
    /// Nothing could ever be sent.
    #[error("at least one request must be allowed in flight")]
    NoneInFlight,
    /// A batch of the configured size could never be sent.
    #[error("batches of {batch_bytes} bytes don't fit into requests of {request_bytes_max}")]
    BatchLargerThanRequest {
        /// The batch size set.
        batch_bytes: usize,
        /// The request size set.
        request_bytes_max: usize,
    },
    /// A request of the configured size could never be filled.
    #[error("a buffer of {buffer_bytes_max} bytes can't hold a batch of {batch_bytes}")]
    BatchLargerThanBuffer {
        /// The batch size set.
        batch_bytes: usize,
        /// The buffer size set.
        buffer_bytes_max: usize,
    },
    /// A batch would be given up while it waits for company.
    #[error("the delivery timeout is not longer than the linger")]
    DeliveryTimeoutWithinLinger,
}

impl ProducerSettings {
    /// Whether the settings can work.
    ///
    /// # Errors
    /// See [`InvalidSettings`].
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let BatchLimits { batch_bytes, request_bytes_max, linger, .. } = self.batches;
        let buffer_bytes_max = self.buffer_bytes_max;
        let faults = [
            (self.is_idempotent && self.acks != Acks::All, InvalidSettings::IdempotenceNeedsAcksAll),
            (
                self.is_idempotent && self.in_flight_max > IDEMPOTENT_IN_FLIGHT_MAX,
                InvalidSettings::IdempotenceInFlight(self.in_flight_max),
            ),
            (self.in_flight_max == 0, InvalidSettings::NoneInFlight),
            (
                batch_bytes > request_bytes_max,
                InvalidSettings::BatchLargerThanRequest { batch_bytes, request_bytes_max },
            ),
            (
                batch_bytes > buffer_bytes_max,
                InvalidSettings::BatchLargerThanBuffer { batch_bytes, buffer_bytes_max },
            ),
            (self.delivery_timeout <= linger, InvalidSettings::DeliveryTimeoutWithinLinger),
        ];
        faults.into_iter().find(|(is_fault, _)| *is_fault).map_or(Ok(()), |(_, fault)| Err(fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_work_and_each_contradiction_is_named() {
        let good = ProducerSettings::default();
        assert_eq!(good.check(), Ok(()));
        let faulty = |change: fn(&mut ProducerSettings)| {
            let mut settings = good.clone();
            change(&mut settings);
            settings.check().unwrap_err()
        };
        assert_eq!(faulty(|s| s.acks = Acks::Leader), InvalidSettings::IdempotenceNeedsAcksAll);
        assert_eq!(faulty(|s| s.in_flight_max = 6), InvalidSettings::IdempotenceInFlight(6));
        assert_eq!(faulty(|s| s.in_flight_max = 0), InvalidSettings::NoneInFlight);
        let larger = faulty(|s| s.batches.batch_bytes = 2 << 20);
        assert!(matches!(larger, InvalidSettings::BatchLargerThanRequest { .. }));
        let larger = faulty(|s| s.buffer_bytes_max = 1_000);
        assert!(matches!(larger, InvalidSettings::BatchLargerThanBuffer { .. }));
        let hasty = faulty(|s| s.delivery_timeout = s.batches.linger);
        assert_eq!(hasty, InvalidSettings::DeliveryTimeoutWithinLinger);
    }
}
