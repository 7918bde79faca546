//! The answers that the control executor still owes.

use std::collections::{BTreeMap, VecDeque};

use engine_io::ReplySlot;
use engine_record::TopicId;
use replication::metadata::commands::CreateTopic;
use replication::metadata::driver::Token;
use replication::metadata::reply::{ProducerIdBlock, Reply};

use super::channel::{ControlError, CreatedTopic};
use super::create::created;

/// Whom to answer when a proposal is applied. Which replies belong to which asker stands in [`Answers::applied`]; one
/// that gets another's learns from its dropped slot that there is no answer.
pub(crate) enum Asker {
    CreateTopic(CreateTopic, ReplySlot<Result<CreatedTopic, ControlError>>),
    DeleteTopic(ReplySlot<Result<(), ControlError>>),
    AlterTopic(ReplySlot<Result<(), ControlError>>),
    CreatePartitions(ReplySlot<Result<(), ControlError>>),
    ProducerIds(ReplySlot<Result<ProducerIdBlock, ControlError>>),
}

/// An answer that goes out once every shard has applied the command.
enum Ready {
    Created(ReplySlot<Result<CreatedTopic, ControlError>>, Result<CreatedTopic, ControlError>),
    Done(ReplySlot<Result<(), ControlError>>, Result<(), ControlError>),
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
        let Some(asker) = self.proposed.remove(&token) else { return };
        match reply {
            Reply::TopicCreated { id } => {
                self.topic_applied(asker, index, |command| Ok(created(command, id)))
            }
            Reply::TopicAlreadyExists { .. } => self.topic_applied(asker, index, |command| {
                Err(ControlError::TopicAlreadyExists(command.name.clone()))
            }),
            Reply::InvalidTopicName(error) => {
                self.topic_applied(asker, index, |_| Err(ControlError::InvalidTopicName(error)));
            }
            Reply::InvalidAssignment(error) => {
                self.refusal_applied(asker, index, ControlError::InvalidAssignment(error));
            }
            Reply::InvalidTopicId => self.topic_applied(asker, index, |_| Err(ControlError::TopicIdTaken)),
            Reply::DuplicateConfig => self.refusal_applied(asker, index, ControlError::SettingNamedTwice),
            Reply::TopicDeleted { .. } | Reply::TopicAltered | Reply::PartitionsCreated => {
                self.change_applied(asker, index, Ok(()));
            }
            Reply::UnknownTopic => self.change_applied(asker, index, Err(ControlError::UnknownTopic)),
            Reply::PartitionsChanged { partitions } => {
                self.change_applied(asker, index, Err(ControlError::PartitionsChanged(partitions)));
            }
            Reply::ProducerIds(block) => give_producer_ids(asker, Ok(block)),
            Reply::InvalidProducerIdCount => {
                give_producer_ids(asker, Err(ControlError::ProducerIdsExhausted))
            }
            Reply::StaleIncarnation | Reply::UnknownNode(_) => {
                give_producer_ids(asker, Err(ControlError::StaleIncarnation));
            }
            // What the node proposes for itself.
            Reply::NodeRegistered { .. }
            | Reply::InvalidRegistration(_)
            | Reply::LeaderEpochsBumped { .. } => {}
        }
    }

    fn topic_applied(
        &mut self,
        asker: Asker,
        index: u64,
        outcome: impl FnOnce(&CreateTopic) -> Result<CreatedTopic, ControlError>,
    ) {
        if let Asker::CreateTopic(command, slot) = asker {
            self.applied.push_back((index, Ready::Created(slot, outcome(&command))));
        }
    }

    fn change_applied(&mut self, asker: Asker, index: u64, outcome: Result<(), ControlError>) {
        if let Asker::DeleteTopic(slot) | Asker::AlterTopic(slot) | Asker::CreatePartitions(slot) = asker {
            self.applied.push_back((index, Ready::Done(slot, outcome)));
        }
    }

    /// What a topic that is created or changed may be refused with.
    fn refusal_applied(&mut self, asker: Asker, index: u64, error: ControlError) {
        match asker {
            Asker::CreateTopic(..) => self.topic_applied(asker, index, |_| Err(error)),
            Asker::DeleteTopic(_)
            | Asker::AlterTopic(_)
            | Asker::CreatePartitions(_)
            | Asker::ProducerIds(_) => self.change_applied(asker, index, Err(error)),
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
                Some((_, Ready::Done(slot, answer))) => slot.answer(answer),
                None => {}
            }
        }
    }
}

/// Answers that nothing was proposed.
pub(crate) fn refuse(asker: Asker, error: ControlError) {
    match asker {
        Asker::CreateTopic(_, slot) => slot.answer(Err(error)),
        Asker::DeleteTopic(slot) | Asker::AlterTopic(slot) | Asker::CreatePartitions(slot) => {
            slot.answer(Err(error));
        }
        Asker::ProducerIds(slot) => slot.answer(Err(error)),
    }
}

fn give_producer_ids(asker: Asker, outcome: Result<ProducerIdBlock, ControlError>) {
    if let Asker::ProducerIds(slot) = asker {
        slot.answer(outcome);
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

#[cfg(test)]
mod tests {
    use engine_io::{Reply as Waiting, reply};
    use engine_record::ProducerId;
    use futures_lite::future::{block_on, poll_once};
    use replication::metadata::reply::AssignmentError;

    use super::*;

    fn ask<T>(answers: &mut Answers, asker: impl FnOnce(ReplySlot<T>) -> Asker) -> (Token, Waiting<T>) {
        let (slot, waiting) = reply();
        let token = answers.token();
        answers.expect(token, asker(slot));
        (token, waiting)
    }

    fn topic() -> CreateTopic {
        CreateTopic {
            name: "t".to_owned(),
            id: TopicId([1; 16]),
            partitions: Vec::new(),
            configs: Vec::new(),
        }
    }

    #[test]
    fn each_asker_is_told_what_became_of_its_own_proposal() {
        let mut answers = Answers::default();
        let create = |slot| Asker::CreateTopic(topic(), slot);
        let (created, created_waits) = ask(&mut answers, create);
        let (taken, taken_waits) = ask(&mut answers, create);
        let (deleted, deleted_waits) = ask(&mut answers, Asker::DeleteTopic);
        let (altered, altered_waits) = ask(&mut answers, Asker::AlterTopic);
        let (doubled, doubled_waits) = ask(&mut answers, Asker::AlterTopic);
        let (grown, grown_waits) = ask(&mut answers, Asker::CreatePartitions);
        let (late, late_waits) = ask(&mut answers, Asker::CreatePartitions);
        let (misplaced, misplaced_waits) = ask(&mut answers, Asker::CreatePartitions);
        let (ids, ids_wait) = ask(&mut answers, Asker::ProducerIds);
        answers.applied(created, 1, Reply::TopicCreated { id: TopicId([1; 16]) });
        answers.applied(taken, 2, Reply::InvalidTopicId);
        answers.applied(deleted, 3, Reply::UnknownTopic);
        let block = ProducerIdBlock { first: ProducerId(7), count: 1 };
        answers.applied(altered, 3, Reply::TopicAltered);
        answers.applied(doubled, 3, Reply::DuplicateConfig);
        answers.applied(grown, 3, Reply::PartitionsCreated);
        answers.applied(late, 3, Reply::PartitionsChanged { partitions: 4 });
        answers.applied(misplaced, 3, Reply::InvalidAssignment(AssignmentError::NoPartitions));
        answers.applied(ids, 4, Reply::ProducerIds(block));
        assert_eq!(block_on(ids_wait.wait()), Ok(Ok(block)), "no shard applies anything for it");
        answers.shards_applied(3);
        assert_eq!(
            block_on(created_waits.wait()).map(|told| told.map(|topic| topic.id)),
            Ok(Ok(TopicId([1; 16])))
        );
        assert_eq!(block_on(taken_waits.wait()), Ok(Err(ControlError::TopicIdTaken)));
        assert_eq!(block_on(deleted_waits.wait()), Ok(Err(ControlError::UnknownTopic)));
        assert_eq!(block_on(altered_waits.wait()), Ok(Ok(())));
        assert_eq!(block_on(grown_waits.wait()), Ok(Ok(())));
        assert_eq!(block_on(late_waits.wait()), Ok(Err(ControlError::PartitionsChanged(4))));
        let misplaced = ControlError::InvalidAssignment(AssignmentError::NoPartitions);
        assert_eq!(block_on(misplaced_waits.wait()), Ok(Err(misplaced)));
        assert_eq!(block_on(doubled_waits.wait()), Ok(Err(ControlError::SettingNamedTwice)));
    }

    #[test]
    fn an_answer_waits_for_the_shards() {
        let mut answers = Answers::default();
        let (token, waiting) = ask(&mut answers, Asker::DeleteTopic);
        answers.applied(token, 5, Reply::TopicDeleted { name: "t".to_owned() });
        answers.shards_applied(4);
        let mut waiting = Box::pin(waiting.wait());
        assert!(block_on(poll_once(&mut waiting)).is_none());
        answers.shards_applied(5);
        assert_eq!(block_on(waiting), Ok(Ok(())));
    }

    #[test]
    fn an_asker_is_not_left_waiting_by_a_reply_to_something_else() {
        let mut answers = Answers::default();
        let (token, waiting) = ask(&mut answers, Asker::DeleteTopic);
        answers.applied(token, 1, Reply::NodeRegistered { epoch: 1 });
        assert!(block_on(waiting.wait()).is_err());
    }
}
