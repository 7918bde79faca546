//! What a producer's core asks its shell to do, and what the shell tells it.

use core::time::Duration;
use std::rc::Rc;

use engine_record::{Instant, Offset, PartitionIndex, ProducerEpoch, ProducerId, Timestamp, TopicId};
use net_wire::ErrorCode;

use crate::accumulator::BatchId;
use crate::metadata::BrokerId;
use crate::request::RequestId;

/// An idempotent producer's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The producer id.
    pub id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
}

impl Identity {
    /// The identity that fences this one; `None` where epochs are used up.
    #[must_use]
    pub fn next_epoch(self) -> Option<Self> {
        let epoch = self.epoch.0.checked_add(1).map(ProducerEpoch)?;
        Some(Self { epoch, ..self })
    }
}

/// Something to be done. Each is answered by an event, but [`Action::Complete`].
#[derive(Debug)]
pub enum Action {
    /// Connect to this broker; tell [`ProducerCore::on_connected`](super::ProducerCore::on_connected) or
    /// [`on_connect_failed`](super::ProducerCore::on_connect_failed).
    Connect(BrokerId),
    /// Send this request, in the order of the actions; tell [`on_answer`](super::ProducerCore::on_answer).
    Send(ProducePlan),
    /// Ask for the metadata of the producer's topics; tell [`on_metadata`](super::ProducerCore::on_metadata) or
    /// [`on_metadata_failed`](super::ProducerCore::on_metadata_failed).
    RefreshMetadata,
    /// Ask any broker for a producer id; tell [`on_identity`](super::ProducerCore::on_identity).
    InitProducerId,
    /// Tell the application what became of a batch.
    Complete(Completion),
}

/// What there is to do now, and when to ask again if nothing happens before.
#[derive(Debug, Default)]
#[must_use]
pub struct Plan {
    /// In this order.
    pub actions: Vec<Action>,
    /// When time alone gives more to do.
    pub wake_at: Option<Instant>,
}

/// A Produce request.
#[derive(Clone, Debug)]
pub struct ProducePlan {
    /// Its number.
    pub request: RequestId,
    /// Who gets it.
    pub broker: BrokerId,
    /// The batches: at most one a partition, parts of one topic next to each other.
    pub parts: Vec<ProducePart>,
}

/// A batch in a request.
#[derive(Clone, Debug)]
pub struct ProducePart {
    /// The topic's name.
    pub topic: Rc<str>,
    /// The topic's id, zero if unknown.
    pub topic_id: TopicId,
    /// The partition.
    pub partition: PartitionIndex,
    /// The batch as it is to be stored.
    pub bytes: Rc<Vec<u8>>,
}

/// What a broker answered to a [`ProducePlan`].
#[derive(Clone, Debug, Default)]
pub struct ProduceAnswer {
    /// For each part of the plan, in its order; `None` where the answer doesn't mention it.
    pub parts: Vec<Option<PartAnswer>>,
    /// How long the broker asks not to be sent more.
    pub throttle: Duration,
}

/// What a broker answered about one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartAnswer {
    /// Whether it was appended.
    pub error: ErrorCode,
    /// Offset of the first record, if the broker says.
    pub base_offset: Option<Offset>,
    /// When the broker stamped the batch, if it did.
    pub append_time: Option<Timestamp>,
}

/// What became of a batch.
#[derive(Debug)]
pub struct Completion {
    /// The batch.
    pub batch: BatchId,
    /// Where it is, or why it isn't.
    pub result: Result<Appended, DeliveryError>,
}

/// Where a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record; `None` with acks=0, or where the broker recognized a repetition and no longer
    /// knows.
    pub base_offset: Option<Offset>,
    /// When the broker stamped it, on topics with append time.
    pub append_time: Option<Timestamp>,
}

/// Why records were not delivered. Final: the producer has given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// The delivery timeout passed.
    #[error("not delivered in time{}", unknown(*may_be_appended))]
    TimedOut {
        /// Whether the records may be in the log all the same.
        may_be_appended: bool,
    },
    /// A broker refused the batch for good.
    #[error("refused by the broker: {code}{}", unknown(*may_be_appended))]
    Refused {
        /// What the broker said.
        code: ErrorCode,
        /// Whether the records may be in the log all the same.
        may_be_appended: bool,
    },
    /// The codec failed.
    #[error("the batch could not be compressed")]
    NotCompressed,
    /// The producer was closed before an answer came.
    #[error("the producer was closed{}", unknown(*may_be_appended))]
    Closed {
        /// Whether the records may be in the log all the same.
        may_be_appended: bool,
    },
}

const fn unknown(may_be_appended: bool) -> &'static str {
    if may_be_appended { " (it may have been appended)" } else { "" }
}

impl DeliveryError {
    /// Whether the records may be in the log all the same.
    #[must_use]
    pub const fn may_be_appended(self) -> bool {
        match self {
            Self::TimedOut { may_be_appended }
            | Self::Refused { may_be_appended, .. }
            | Self::Closed { may_be_appended } => may_be_appended,
            Self::NotCompressed => false,
        }
    }
}
