//! What a consumer's core asks its shell to do, and what the shell tells it.

use core::ops::Range;
use core::time::Duration;
use std::rc::Rc;

use engine_record::{Instant, Offset, PartitionIndex, TopicId};
use net_wire::ErrorCode;

use crate::metadata::BrokerId;
use crate::request::RequestId;

/// Something to be done. Each is answered by an event.
#[derive(Debug)]
pub enum ConsumerAction {
    /// Connect to this broker.
    Connect(BrokerId),
    /// Fetch records; tell [`ConsumerCore::on_fetch`](super::ConsumerCore::on_fetch).
    Fetch(FetchPlan),
    /// Find offsets; tell [`ConsumerCore::on_offsets`](super::ConsumerCore::on_offsets).
    ListOffsets(ListOffsetsPlan),
    /// Ask for the metadata of the consumer's topics.
    RefreshMetadata,
}

/// What there is to do now, and when to ask again if nothing happens before.
#[derive(Debug, Default)]
#[must_use]
pub struct ConsumerPlan {
    /// In this order.
    pub actions: Vec<ConsumerAction>,
    /// When time alone gives more to do.
    pub wake_at: Option<Instant>,
}

/// A Fetch request.
#[derive(Clone, Debug)]
pub struct FetchPlan {
    /// Its number.
    pub request: RequestId,
    /// Who gets it.
    pub broker: BrokerId,
    /// How long the broker may wait for something to answer.
    pub wait_max: Duration,
    /// Where to read, parts of one topic next to each other.
    pub parts: Vec<PartitionQuestion>,
}

/// A ListOffsets request.
#[derive(Clone, Debug)]
pub struct ListOffsetsPlan {
    /// Its number.
    pub request: RequestId,
    /// Who gets it.
    pub broker: BrokerId,
    /// What to find, parts of one topic next to each other.
    pub parts: Vec<PartitionQuestion>,
}

/// What a request asks about one partition.
#[derive(Clone, Debug)]
pub struct PartitionQuestion {
    /// The topic's name.
    pub topic: Rc<str>,
    /// The topic's id, zero if unknown.
    pub topic_id: TopicId,
    /// The partition.
    pub partition: PartitionIndex,
    /// The leader's epoch as far as known, else -1.
    pub leader_epoch: i32,
    /// The offset to fetch from, or the time whose offset is wanted (-1 latest, -2 earliest).
    pub wanted: i64,
}

/// What a broker answered to a [`FetchPlan`].
#[derive(Clone, Debug, Default)]
pub struct FetchAnswer {
    /// What was wrong with the request as a whole.
    pub error: ErrorCode,
    /// How long the broker asks not to be sent more.
    pub throttle: Duration,
    /// The bytes it came in.
    pub frame: Rc<Vec<u8>>,
    /// For each part of the plan, in its order; `None` where the answer doesn't mention it.
    pub parts: Vec<Option<FetchPartAnswer>>,
}

/// What a broker answered about one partition.
#[derive(Clone, Debug)]
pub struct FetchPartAnswer {
    /// Whether it could be read.
    pub error: ErrorCode,
    /// Exclusive; `None` where unknown.
    pub high_watermark: Option<Offset>,
    /// Where in the frame the record batches lie.
    pub records: Range<usize>,
}

/// What a broker answered to a [`ListOffsetsPlan`].
#[derive(Clone, Debug, Default)]
pub struct OffsetsAnswer {
    /// How long the broker asks not to be sent more.
    pub throttle: Duration,
    /// For each part of the plan, in its order; `None` where the answer doesn't mention it.
    pub parts: Vec<Option<OffsetAnswer>>,
}

/// What a broker answered about the offset of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetAnswer {
    /// Whether it could be found.
    pub error: ErrorCode,
    /// The offset; `None` where no record is that late.
    pub offset: Option<Offset>,
}
