//! What passes between the shards and the control executor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine_io::{Receiver, ReplySlot, SendError, Sender, mailbox, reply};
use engine_record::TopicId;
use replication::metadata::commands::{AlterTopic, Command};
use replication::metadata::reply::{AssignmentError, ProducerIdBlock, TopicNameError};

use crate::disk_space::LowSpace;
use crate::settings::PARTITIONS_MAX;

/// How many requests of all shards may wait for the control executor.
pub(crate) const REQUESTS_MAX: usize = 1024;
/// How many deltas may wait for a shard.
pub(crate) const DELTAS_MAX: usize = 1024;

/// What a shard asks for.
#[derive(Debug)]
pub(crate) enum ControlRequest {
    /// A topic is to be created.
    CreateTopic(NewTopic, ReplySlot<Result<CreatedTopic, ControlError>>),
    /// A topic is to be deleted.
    DeleteTopic(TopicId, ReplySlot<Result<(), ControlError>>),
    /// A topic is to get more partitions.
    CreatePartitions(MorePartitions, ReplySlot<Result<(), ControlError>>),
    /// A topic's own settings are to change.
    AlterTopic(AlterTopic, ReplySlot<Result<(), ControlError>>),
    /// A shard needs producer ids.
    AllocateProducerIds(ReplySlot<Result<ProducerIdBlock, ControlError>>),
}

/// A topic to be created. Its settings have been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewTopic {
    pub(crate) name: String,
    pub(crate) placement: Placement,
    pub(crate) configs: Vec<(String, String)>,
    /// Whether to check only.
    pub(crate) validate_only: bool,
}

/// Where a topic's partitions go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Where the controller puts them.
    Dealt {
        partitions: u32,
        /// `None`: as many as the cluster's default.
        replication_factor: Option<u16>,
    },
    /// To the broker ids named, partition by partition.
    Named(Vec<Vec<i32>>),
}

/// A topic that has been created, or could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CreatedTopic {
    /// Zero where it was only checked.
    pub(crate) id: TopicId,
    pub(crate) partitions: u32,
    pub(crate) replication_factor: u16,
}

/// A topic that is to get more partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MorePartitions {
    pub(crate) name: String,
    /// How many it is to have, as the client says.
    pub(crate) count: i32,
    /// The broker ids of each new one; `None` where the controller puts them.
    pub(crate) assignments: Option<Vec<Vec<i32>>>,
    /// Whether to check only.
    pub(crate) validate_only: bool,
}

/// Why a change was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ControlError {
    /// The topic is there already.
    #[error("topic `{0}` already exists")]
    TopicAlreadyExists(String),
    /// Another topic's name differs only in `.` and `_`, which metrics can't tell apart.
    #[error("topic `{name}` collides with `{other}`: they differ only in `.` and `_`")]
    TopicNameCollides { name: String, other: String },
    /// The name breaks a rule.
    #[error("{0}")]
    InvalidTopicName(TopicNameError),
    /// The partitions can't be placed so.
    #[error("{0}")]
    InvalidAssignment(AssignmentError),
    /// Partitions only come to be.
    #[error("the topic has {has} partitions already: {asked} would not be more, and none can be taken away")]
    NotMorePartitions { has: usize, asked: i32 },
    /// More partitions than a topic may have.
    #[error("a topic has at most {PARTITIONS_MAX} partitions, not {0}")]
    TooManyPartitions(i32),
    /// Assignments for another number of partitions.
    #[error("{added} partitions are to be added, and assignments are given for {named}")]
    AssignmentCount { added: usize, named: usize },
    /// Something else has changed the number of the topic's partitions meanwhile.
    #[error("the topic has got {0} partitions meanwhile; look at them and try again")]
    PartitionsChanged(u32),
    /// The id drawn for the topic is taken.
    #[error("the id drawn for the topic is another topic's; try again")]
    TopicIdTaken,
    /// A setting stands twice.
    #[error("the topic names a setting twice")]
    SettingNamedTwice,
    /// A broker id that is none.
    #[error("{0} is not a broker's id")]
    UnknownBroker(i32),
    /// The command would be larger than the metadata log takes.
    #[error("the topic has too many partitions or settings for one command")]
    TooLarge,
    /// No topic has this id.
    #[error("the topic does not exist")]
    UnknownTopic,
    /// This node doesn't lead the metadata quorum now.
    #[error("this node is not the controller")]
    NotController,
    /// The node's registration has been replaced: another process runs with its identity.
    #[error("this process is no longer the registered one of its node")]
    StaleIncarnation,
    /// There are no producer ids left.
    #[error("there are no producer ids left")]
    ProducerIdsExhausted,
    /// The drive has no space for what the command would add to the metadata.
    #[error("the drive has no space left for the metadata; free some or delete topics, then try again")]
    NoSpace,
    /// The drive is below its hard watermark.
    #[error("{0}")]
    LowSpace(LowSpace),
    /// The control executor has as many requests as it may.
    #[error("the controller is busy")]
    Busy,
    /// The control executor has stopped.
    #[error("the broker is stopping")]
    Stopped,
}

/// What a shard is told, in order, after the image at its start: one applied command.
#[derive(Clone, Debug)]
pub(crate) struct Delta {
    pub(crate) index: u64,
    pub(crate) command: Arc<Command>,
}

/// A shard's end towards the control executor.
#[derive(Clone, Debug)]
pub(crate) struct ControlHandle {
    requests: Sender<ControlRequest>,
}

/// How far a shard has applied, as it says itself.
#[derive(Clone, Debug)]
pub(crate) struct AppliedReport {
    index: Arc<AtomicU64>,
    changed: Sender<()>,
}

/// The same, as the control executor sees it.
#[derive(Clone, Debug)]
pub(crate) struct AppliedView {
    index: Arc<AtomicU64>,
}

/// Makes the requests' mailbox.
pub(crate) fn requests() -> (ControlHandle, Receiver<ControlRequest>) {
    let (sender, receiver) = mailbox(REQUESTS_MAX);
    (ControlHandle { requests: sender }, receiver)
}

/// Makes a shard's report, which rings `changed`.
pub(crate) fn applied(changed: &Sender<()>) -> (AppliedReport, AppliedView) {
    let index = Arc::new(AtomicU64::new(0));
    (AppliedReport { index: Arc::clone(&index), changed: changed.clone() }, AppliedView { index })
}

impl AppliedReport {
    /// Says that everything up to `index`, inclusive, is applied.
    pub(crate) fn advance(&self, index: u64) {
        self.index.store(index, Ordering::Release);
        // A bell that is full rings already.
        let _rings_already = self.changed.try_send(());
    }
}

impl AppliedView {
    /// Up to where, inclusive, the shard has applied.
    pub(crate) fn index(&self) -> u64 {
        self.index.load(Ordering::Acquire)
    }
}

impl ControlHandle {
    /// Creates a topic. Answered once every shard of this node has applied it.
    pub(crate) async fn create_topic(&self, topic: NewTopic) -> Result<CreatedTopic, ControlError> {
        self.ask(|slot| ControlRequest::CreateTopic(topic, slot)).await
    }

    /// Deletes a topic. Answered once every shard of this node has applied it.
    pub(crate) async fn delete_topic(&self, id: TopicId) -> Result<(), ControlError> {
        self.ask(|slot| ControlRequest::DeleteTopic(id, slot)).await
    }

    /// Gives a topic more partitions. Answered once every shard of this node has applied it.
    pub(crate) async fn create_partitions(&self, more: MorePartitions) -> Result<(), ControlError> {
        self.ask(|slot| ControlRequest::CreatePartitions(more, slot)).await
    }

    /// Changes a topic's own settings, which have been checked. Answered once every shard of this node has applied it.
    pub(crate) async fn alter_topic(&self, alteration: AlterTopic) -> Result<(), ControlError> {
        self.ask(|slot| ControlRequest::AlterTopic(alteration, slot)).await
    }

    /// Takes a block of producer ids.
    pub(crate) async fn allocate_producer_ids(&self) -> Result<ProducerIdBlock, ControlError> {
        self.ask(ControlRequest::AllocateProducerIds).await
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(ReplySlot<Result<T, ControlError>>) -> ControlRequest,
    ) -> Result<T, ControlError> {
        let (slot, answer) = reply();
        self.requests.try_send(request(slot)).map_err(|error| match error {
            SendError::Full(_) => ControlError::Busy,
            SendError::Closed(_) => ControlError::Stopped,
        })?;
        answer.wait().await.unwrap_or(Err(ControlError::Stopped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_never_waits_and_rings_once_for_many() {
        let (bell, heard) = mailbox(1);
        let (report, view) = applied(&bell);
        report.advance(1);
        report.advance(2);
        assert_eq!(view.index(), 2);
        assert_eq!(heard.try_receive(), Some(()));
        assert_eq!(heard.try_receive(), None);
    }
}
