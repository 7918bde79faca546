//! The answers that the control executor still owes.

use std::collections::{BTreeMap, VecDeque};

use engine_io::ReplySlot;
use engine_record::TopicId;
use replication::metadata::commands::CreateTopic;
use replication::metadata::driver::Token;
use replication::metadata::reply::{ProducerIdBlock, Reply};

use super::channel::{ControlError, CreatedTopic};
use super::create::created;

/// Whom to answer when a proposal is applied.
pub(crate) enum Asker {
    CreateTopic(CreateTopic, ReplySlot<Result<CreatedTopic, ControlError>>),
    DeleteTopic(ReplySlot<Result<(), ControlError>>),
    ProducerIds(ReplySlot<Result<ProducerIdBlock, ControlError>>),
}

/// An answer that goes out once every shard has applied the command.
enum Ready {
    Created(ReplySlot<Result<CreatedTopic, ControlError>>, Result<CreatedTopic, ControlError>),
    Deleted(ReplySlot<Result<(), ControlError>>, Result<(), ControlError>),
}

/// The answers owed.
#[derive(Default)]
pub(crate) struct Answers {
    next_token: u64,
    /// Proposals that aren't applied yet.
    proposed: BTreeMap<Token, Asker>,
    /// Applied here, perhaps not yet by every shard: by the index of the command.
    applied: VecDeque<(u64, Ready)>,
}

impl Answers {
    /// A token for a proposal that nobody waits for, or that [`Answers::expect`] names next.
    pub(crate) fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }

    /// `asker` waits for the proposal `token`.
    pub(crate) fn expect(&mut self, token: Token, asker: Asker) {
        let before = self.proposed.insert(token, asker);
        assert!(before.is_none(), "a token names one proposal");
    }

    /// The proposal was applied at `index`, with `reply`.
    pub(crate) fn applied(&mut self, token: Token, index: u64, reply: Reply) {
        match self.proposed.remove(&token) {
            Some(Asker::CreateTopic(command, slot)) => {
                let answer = topic_created(&command, reply);
                self.applied.push_back((index, Ready::Created(slot, answer)));
            }
            Some(Asker::DeleteTopic(slot)) => {
                self.applied.push_back((index, Ready::Deleted(slot, topic_deleted(reply))));
            }
            Some(Asker::ProducerIds(slot)) => slot.answer(producer_ids(reply)),
            None => {}
        }
    }

    /// This node stopped leading before it knew what became of the proposal.
    pub(crate) fn abandoned(&mut self, token: Token) {
        if let Some(asker) = self.proposed.remove(&token) {
            refuse(asker, ControlError::NotController);
        }
    }

    /// Every shard has applied all up to `index`, inclusive.
    pub(crate) fn shards_applied(&mut self, index: u64) {
        while self.applied.front().is_some_and(|&(applied, _)| applied <= index) {
            match self.applied.pop_front() {
                Some((_, Ready::Created(slot, answer))) => slot.answer(answer),
                Some((_, Ready::Deleted(slot, answer))) => slot.answer(answer),
                None => {}
            }
        }
    }
}

/// Answers that nothing was proposed.
pub(crate) fn refuse(asker: Asker, error: ControlError) {
    match asker {
        Asker::CreateTopic(_, slot) => slot.answer(Err(error)),
        Asker::DeleteTopic(slot) => slot.answer(Err(error)),
        Asker::ProducerIds(slot) => slot.answer(Err(error)),
    }
}

fn topic_created(command: &CreateTopic, reply: Reply) -> Result<CreatedTopic, ControlError> {
    match reply {
        Reply::TopicCreated { id } => Ok(created(command, id)),
        Reply::TopicAlreadyExists { .. } => Err(ControlError::TopicAlreadyExists(command.name.clone())),
        Reply::InvalidTopicName(error) => Err(ControlError::InvalidTopicName(error)),
        Reply::InvalidAssignment(error) => Err(ControlError::InvalidAssignment(error)),
        Reply::NodeRegistered { .. }
        | Reply::InvalidRegistration(_)
        | Reply::StaleIncarnation
        | Reply::UnknownNode(_)
        | Reply::InvalidTopicId
        | Reply::DuplicateConfig
        | Reply::TopicDeleted { .. }
        | Reply::UnknownTopic
        | Reply::LeaderEpochsBumped { .. }
        | Reply::ProducerIds(_)
        | Reply::InvalidProducerIdCount => unreachable!("a checked topic was answered with {reply:?}"),
    }
}

fn topic_deleted(reply: Reply) -> Result<(), ControlError> {
    match reply {
        Reply::TopicDeleted { .. } => Ok(()),
        Reply::UnknownTopic => Err(ControlError::UnknownTopic),
        Reply::NodeRegistered { .. }
        | Reply::InvalidRegistration(_)
        | Reply::StaleIncarnation
        | Reply::UnknownNode(_)
        | Reply::TopicCreated { .. }
        | Reply::TopicAlreadyExists { .. }
        | Reply::InvalidTopicId
        | Reply::InvalidTopicName(_)
        | Reply::InvalidAssignment(_)
        | Reply::DuplicateConfig
        | Reply::LeaderEpochsBumped { .. }
        | Reply::ProducerIds(_)
        | Reply::InvalidProducerIdCount => unreachable!("a deletion was answered with {reply:?}"),
    }
}

fn producer_ids(reply: Reply) -> Result<ProducerIdBlock, ControlError> {
    match reply {
        Reply::ProducerIds(block) => Ok(block),
        Reply::InvalidProducerIdCount => Err(ControlError::ProducerIdsExhausted),
        Reply::StaleIncarnation | Reply::UnknownNode(_) => Err(ControlError::StaleIncarnation),
        Reply::NodeRegistered { .. }
        | Reply::InvalidRegistration(_)
        | Reply::TopicCreated { .. }
        | Reply::TopicAlreadyExists { .. }
        | Reply::InvalidTopicId
        | Reply::InvalidTopicName(_)
        | Reply::InvalidAssignment(_)
        | Reply::DuplicateConfig
        | Reply::TopicDeleted { .. }
        | Reply::UnknownTopic
        | Reply::LeaderEpochsBumped { .. } => unreachable!("producer ids were answered with {reply:?}"),
    }
}

/// The fresh id of a topic.
pub(crate) fn fresh_topic_id(random: impl Fn() -> u64) -> TopicId {
    loop {
        let value = (u128::from(random()) << 64) | u128::from(random());
        let id = TopicId(value.to_be_bytes());
        // Zero stands for no topic, and an id that begins with a dash reads as a flag on a command line.
        if !id.is_zero() && !id.to_string().starts_with('-') {
            return id;
        }
    }
}
