//! What clients asked and were answered: all that the checkers know.

use core::cell::RefCell;
use core::time::Duration;

use engine_record::Instant;
use net_wire::{ErrorCode, Uuid};

use super::payload::Numbers;

/// A partition's log, by its topic's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Log {
    pub(super) topic: Uuid,
    pub(super) partition: i32,
}

/// One thing that a client saw. Times are the clients' own.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// Retention deletes in this run; no record before it has been there for so long.
    Retention { least: Duration },
    /// A batch is about to be sent for the first time.
    Sent { log: Log, producer: u64, first: u64, count: u64, at: Instant },
    /// A batch was acknowledged by all in-sync replicas, after perhaps many tries.
    Acknowledged { log: Log, first: u64, count: u64, base_offset: i64, at: Instant },
    /// A partition was fetched without error, from this offset on.
    Read { log: Log, reader: Reader, from: i64, fetched: Fetched },
    /// A fetch from this offset on was refused as out of range; where the log starts was asked of the same process then.
    OutOfRange { log: Log, from: i64, log_start: i64 },
    /// A partition's whole log, when nothing happened any more.
    Final { log: Log, log_start: i64, records: Numbers, at: Instant },
    /// A topic was created.
    TopicCreated { topic: Uuid },
    /// A topic is about to be deleted.
    DeletionAsked { topic: Uuid },
    /// A topic was deleted.
    TopicDeleted { topic: Uuid },
    /// All topics that there are, when nothing happened any more.
    FinalTopics { topics: Vec<Uuid> },
    /// An answer that nothing allows.
    Forbidden { request: &'static str, error: ErrorCode, log: Option<Log> },
    /// Neither an answer nor the connection's end came in time.
    Silence { request: &'static str },
    /// What came is no answer to what was asked.
    Nonsense { request: &'static str, why: String },
    /// Something befell the node. No checker looks at it; it is for whoever reads the summary.
    Fault(&'static str),
}

/// Who fetched, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reader {
    /// The leader epoch that the request named, -1 for none.
    pub(super) epoch: i32,
    pub(super) begun_at: Instant,
    pub(super) ended_at: Instant,
}

/// What a fetch gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fetched {
    pub(super) high_watermark: i64,
    pub(super) log_start: i64,
    pub(super) records: Numbers,
}

/// Every event of a run, in order.
#[derive(Default)]
pub(super) struct History(RefCell<Vec<Event>>);

impl History {
    pub(super) fn note(&self, event: Event) {
        self.0.borrow_mut().push(event);
    }

    pub(super) fn take(&self) -> Vec<Event> {
        self.0.take()
    }

    /// Whether somebody has asked for the topic's deletion.
    pub(super) fn is_deletion_asked(&self, topic: Uuid) -> bool {
        self.0.borrow().contains(&Event::DeletionAsked { topic })
    }
}
