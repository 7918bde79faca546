//! What a shard counts. The counts belong to the shard; others get a copy by asking.

use core::cell::{Cell, RefCell};

use engine_record::{Instant, ShardId};
use hdrhistogram::Histogram;
use net_wire::ApiKey;

use crate::log_directories::LogDirectoryView;

/// The longest latency told apart, in nanoseconds: a minute.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// Requests whose time is measured apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A produce, from its last byte to its answer.
    Produce,
    /// A produce, from its last byte until its order was fixed and its bytes copied.
    ProduceOrdered,
    /// A fetch, its wait included.
    Fetch,
    /// Anything else.
    Other,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Produce, Self::ProduceOrdered, Self::Fetch, Self::Other];

    pub(crate) fn of(api: ApiKey) -> Self {
        match api {
            ApiKey::Produce => Self::Produce,
            ApiKey::Fetch => Self::Fetch,
            ApiKey::ListOffsets
            | ApiKey::Metadata
            | ApiKey::ApiVersions
            | ApiKey::CreateTopics
            | ApiKey::DeleteTopics
            | ApiKey::DeleteRecords
            | ApiKey::InitProducerId
            | ApiKey::OffsetForLeaderEpoch
            | ApiKey::DescribeConfigs
            | ApiKey::AlterConfigs
            | ApiKey::IncrementalAlterConfigs
            | ApiKey::CreatePartitions
            | ApiKey::DescribeLogDirs
            | ApiKey::DescribeTopicPartitions
            | ApiKey::ListConfigResources
            | ApiKey::DescribeCluster => Self::Other,
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Produce => 0,
            Self::ProduceOrdered => 1,
            Self::Fetch => 2,
            Self::Other => 3,
        }
    }
}

/// One shard's counts.
pub(crate) struct Metrics {
    latencies: RefCell<[Histogram<u32>; 4]>,
    connections_accepted: Cell<u64>,
    connections_refused: Cell<u64>,
    wrong_shard: Cell<u64>,
    questions: Cell<u64>,
    low_space_refusals: Cell<u64>,
}

/// A copy of a shard's counts.
#[derive(Clone, Debug)]
pub struct ShardSnapshot {
    /// The shard.
    pub shard: ShardId,
    /// Open connections.
    pub connections: usize,
    /// Connections accepted since the start.
    pub connections_accepted: u64,
    /// Connections refused since the start.
    pub connections_refused: u64,
    /// Partitions asked of this shard that another owns.
    pub wrong_shard: u64,
    /// Batches refused since the start, as the drive was below its soft watermark.
    pub low_space_refusals: u64,
    /// Bytes of requests held now.
    pub request_bytes: u64,
    /// Bytes of replies held now, and of what came of produces that wait for theirs; whole buffers included of which they
    /// hold a part.
    pub reply_bytes: u64,
    /// Fetch sessions kept now.
    pub fetch_sessions: usize,
    /// Messages that the shard's thread has put into mailboxes and taken out of them: all that crossed cores for it.
    pub mailbox_messages: u64,
    /// How many of these were questions from outside, such as for this snapshot.
    pub questions: u64,
    /// Latencies in nanoseconds, in the order of [`Stage::ALL`].
    pub latencies: [Histogram<u32>; 4],
    /// What the shard's storage counts, in all log directories together.
    pub store: engine_store::StoreMetrics,
    /// The log directories, and what of the shard lies in each.
    pub log_directories: Vec<LogDirectoryView>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let histogram =
            || Histogram::new_with_bounds(1_000, LATENCY_MAX_NS, 2).expect("the bounds are in order");
        Self {
            latencies: RefCell::new([histogram(), histogram(), histogram(), histogram()]),
            connections_accepted: Cell::new(0),
            connections_refused: Cell::new(0),
            wrong_shard: Cell::new(0),
            questions: Cell::new(0),
            low_space_refusals: Cell::new(0),
        }
    }

    /// Notes that a request took from `since` to `until`.
    pub(crate) fn stage(&self, stage: Stage, since: Instant, until: Instant) {
        let nanoseconds = u64::try_from(until.since(since).as_nanos()).unwrap_or(u64::MAX);
        self.latencies.borrow_mut()[stage.index()].saturating_record(nanoseconds);
    }

    pub(crate) fn connection_accepted(&self) {
        self.connections_accepted.set(self.connections_accepted.get() + 1);
    }

    pub(crate) fn connection_refused(&self) {
        self.connections_refused.set(self.connections_refused.get() + 1);
    }

    /// Notes that a client asked this shard for a partition of another.
    pub(crate) fn wrong_shard(&self) {
        self.wrong_shard.set(self.wrong_shard.get() + 1);
    }

    /// Notes that a batch was refused since the drive is below its soft watermark.
    pub(crate) fn record_refused_for_space(&self) {
        self.low_space_refusals.set(self.low_space_refusals.get() + 1);
    }

    pub(crate) fn low_space_refusals(&self) -> u64 {
        self.low_space_refusals.get()
    }

    /// Notes that the shard was asked something from outside.
    pub(crate) fn question(&self) {
        self.questions.set(self.questions.get() + 1);
    }

    pub(crate) fn questions(&self) -> u64 {
        self.questions.get()
    }

    pub(crate) fn latencies(&self) -> [Histogram<u32>; 4] {
        self.latencies.borrow().clone()
    }

    pub(crate) fn connection_counts(&self) -> (u64, u64, u64) {
        (self.connections_accepted.get(), self.connections_refused.get(), self.wrong_shard.get())
    }
}
