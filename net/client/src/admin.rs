//! Questions and orders to the cluster as a whole: topics, brokers, offsets.

mod configs;
mod log_dirs;

pub use configs::{SettingChange, TopicSetting};
pub use log_dirs::LogSize;

use core::time::Duration;
use std::collections::BTreeMap;
use std::rc::Rc;

use engine_io::Io;
use engine_record::{Offset, PartitionIndex, TopicId};
use net_wire::messages::create_partitions::CreatePartitionsTopic;
use net_wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig};
use net_wire::messages::delete_topics::DeleteTopicState;
use net_wire::messages::list_offsets::{EARLIEST, LATEST};
use net_wire::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, DescribeClusterRequest, DescribeClusterResponse,
};
use net_wire::{ApiKey, ErrorCode};

use crate::client::{Client, ClientError, Purpose};
use crate::connection::{Answer, Connection};
use crate::consumer_core::{OffsetAnswer, PartitionQuestion, Start};
use crate::metadata::{BrokerId, Endpoint, Metadata, Topic};
use crate::protocol::list_offsets;
use crate::random::{Backoff, Generator};

/// The first version of DeleteTopics that takes a list of names or ids.
const DELETE_BY_STATE_FROM: i16 = 6;

/// How often a request that must go to the controller or a leader is sent to where it then is.
const ATTEMPTS_MAX: u32 = 5;

const RETRY: Backoff = Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(1) };

/// A topic to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: Box<str>,
    /// How many partitions; the broker decides where nothing is said.
    pub partitions: Option<u32>,
    /// How many copies of each; the broker decides where nothing is said.
    pub replication_factor: Option<u16>,
    /// Settings that differ from the broker's, by Kafka's names.
    pub configs: Vec<(Box<str>, Box<str>)>,
}

/// An order about one topic that was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("topic {topic}: {code}{}", .message.as_deref().map(|message| format!(" ({message})")).unwrap_or_default())]
pub struct TopicRefused {
    /// The topic.
    pub topic: Box<str>,
    /// What the broker answered.
    pub code: ErrorCode,
    /// What it said to that, if anything.
    pub message: Option<Box<str>>,
}

/// Why an order failed.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The question has no answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The order was refused.
    #[error(transparent)]
    Refused(#[from] TopicRefused),
    /// The partition isn't there.
    #[error("{topic}/{partition} does not exist or has no leader")]
    UnknownPartition {
        /// The topic.
        topic: Box<str>,
        /// The partition.
        partition: PartitionIndex,
    },
}

/// A broker as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerDescription {
    /// Its id.
    pub id: BrokerId,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Its rack, if it has one.
    pub rack: Option<Box<str>>,
}

/// The cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDescription {
    /// Its id.
    pub id: Box<str>,
    /// The controller's endpoint; `None` while there is none.
    pub controller: Option<BrokerId>,
    /// The brokers, by ascending id.
    pub brokers: Vec<BrokerDescription>,
}

/// Gives orders to the cluster.
pub struct Admin<I: Io> {
    client: Client<I>,
}

impl<I: Io> Admin<I> {
    /// Over the connections of `client`.
    #[must_use]
    pub const fn new(client: Client<I>) -> Self {
        Self { client }
    }

    /// Creates a topic and answers its id, which is zero where the broker doesn't tell. With `validate_only` nothing is
    /// created, only checked.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn create_topic(&self, topic: &NewTopic, mode: CreateMode) -> Result<TopicId, AdminError> {
        let request = CreateTopicsRequest {
            topics: vec![creatable(topic)],
            timeout_ms: self.timeout_ms(),
            validate_only: mode == CreateMode::ValidateOnly,
        };
        let mut attempts = Attempts::new(&self.client);
        loop {
            let connection = self.controller().await?;
            let answer = self.client.ask(&connection, &request).await?;
            let response: CreateTopicsResponse<'_> = answer.decode().map_err(ClientError::from)?;
            let result = response.topics.iter().find(|result| result.name == &*topic.name);
            let (code, message) = result.map_or((ErrorCode::UNKNOWN_SERVER_ERROR, None), |result| {
                (result.error_code, result.error_message)
            });
            if code.is_none() {
                return Ok(result.map_or(TopicId::ZERO, |result| TopicId(result.topic_id.0)));
            }
            attempts.again_or(refused(&topic.name, code, message)).await?;
        }
    }

    /// Gives a topic so many partitions, which must be more than it has. With `validate_only` none is created, only
    /// checked. Records with keys may go to other partitions from then on.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn create_partitions(
        &self,
        name: &str,
        count: u32,
        mode: CreateMode,
    ) -> Result<(), AdminError> {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let request = CreatePartitionsRequest {
            topics: vec![CreatePartitionsTopic { name, count, assignments: None }],
            timeout_ms: self.timeout_ms(),
            validate_only: mode == CreateMode::ValidateOnly,
        };
        let mut attempts = Attempts::new(&self.client);
        loop {
            let connection = self.controller().await?;
            let answer = self.client.ask(&connection, &request).await?;
            let response: CreatePartitionsResponse<'_> = answer.decode().map_err(ClientError::from)?;
            let result = response.results.iter().find(|result| result.name == name);
            let (code, message) = result.map_or((ErrorCode::UNKNOWN_SERVER_ERROR, None), |result| {
                (result.error_code, result.error_message)
            });
            if code.is_none() {
                return Ok(());
            }
            attempts.again_or(refused(name, code, message)).await?;
        }
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn delete_topic(&self, name: &str) -> Result<(), AdminError> {
        let mut attempts = Attempts::new(&self.client);
        loop {
            let connection = self.controller().await?;
            let answer = self.ask_deletion(&connection, name).await?;
            let response: DeleteTopicsResponse<'_> = answer.decode().map_err(ClientError::from)?;
            let result = response.responses.iter().find(|result| result.name == Some(name));
            let (code, message) = result.map_or((ErrorCode::UNKNOWN_SERVER_ERROR, None), |result| {
                (result.error_code, result.error_message)
            });
            if code.is_none() {
                self.client.change_metadata(|metadata| metadata.forget(name));
                return Ok(());
            }
            attempts.again_or(refused(name, code, message)).await?;
        }
    }

    async fn ask_deletion(&self, connection: &Connection<I>, name: &str) -> Result<Answer, ClientError> {
        let is_by_state = connection.version(ApiKey::DeleteTopics, i16::MAX)? >= DELETE_BY_STATE_FROM;
        let state = DeleteTopicState { name: Some(name), ..DeleteTopicState::default() };
        let request = DeleteTopicsRequest {
            topics: if is_by_state { vec![state] } else { Vec::new() },
            topic_names: if is_by_state { Vec::new() } else { vec![name] },
            timeout_ms: self.timeout_ms(),
        };
        self.client.ask(connection, &request).await
    }

    /// All topics, by name.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn list_topics(&self) -> Result<Vec<(Rc<str>, Topic)>, AdminError> {
        self.client.refresh(None).await?;
        let copy = |(name, topic): (&Rc<str>, &Topic)| (Rc::clone(name), topic.clone());
        Ok(self.client.with_metadata(|metadata| metadata.topics().iter().map(copy).collect()))
    }

    /// One topic. Never creates it.
    ///
    /// # Errors
    /// See [`AdminError`]; [`ErrorCode::UNKNOWN_TOPIC_OR_PARTITION`] where it isn't there.
    pub async fn describe_topic(&self, name: &str) -> Result<Topic, AdminError> {
        let topics = self.list_topics().await?;
        let found = topics.into_iter().find(|(known, _)| &**known == name).map(|(_, topic)| topic);
        found.ok_or_else(|| refused(name, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, None).into())
    }

    /// The cluster and its brokers.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn describe_cluster(&self) -> Result<ClusterDescription, AdminError> {
        let connection = self.client.any().await?;
        let answer = self.client.ask(&connection, &DescribeClusterRequest::default()).await?;
        let response: DescribeClusterResponse<'_> = answer.decode().map_err(ClientError::from)?;
        if !response.error_code.is_none() {
            return Err(ClientError::Refused(response.error_code).into());
        }
        let brokers = response.brokers.iter().filter_map(|broker| {
            let endpoint = Endpoint { host: broker.host.into(), port: u16::try_from(broker.port).ok()? };
            Some(BrokerDescription {
                id: BrokerId(broker.broker_id),
                endpoint,
                rack: broker.rack.map(Box::from),
            })
        });
        let mut brokers: Vec<_> = brokers.collect();
        brokers.sort_by_key(|broker| broker.id);
        Ok(ClusterDescription {
            id: response.cluster_id.into(),
            controller: Some(BrokerId(response.controller_id)).filter(|controller| controller.0 >= 0),
            brokers,
        })
    }

    /// The offset a partition would be read from with this start; the end where no record is that late.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn offset(
        &self,
        topic: &str,
        partition: PartitionIndex,
        start: Start,
    ) -> Result<Offset, AdminError> {
        let found = self.offsets(topic, &[partition], start).await?;
        let answer = found.into_iter().next().unwrap_or(Err(ErrorCode::UNKNOWN_SERVER_ERROR));
        answer.map_err(|code| refused(topic, code, None).into())
    }

    /// The offset each of these partitions would be read from with this start, in their order, or why a broker didn't
    /// say; the end where no record is that late. Each broker is asked once about all that it leads; what passes is
    /// asked again a few times.
    ///
    /// # Errors
    /// [`AdminError::Client`] where a broker gives no answer at all, [`AdminError::UnknownPartition`].
    pub async fn offsets(
        &self,
        topic: &str,
        partitions: &[PartitionIndex],
        start: Start,
    ) -> Result<Vec<Result<Offset, ErrorCode>>, AdminError> {
        let wanted = match start {
            Start::At(offset) => return Ok(vec![Ok(offset); partitions.len()]),
            Start::Earliest => EARLIEST,
            Start::Latest => LATEST,
            Start::Time(time) => time,
        };
        let mut search = Search::new(topic, partitions, wanted);
        let mut attempts = Attempts::new(&self.client);
        loop {
            self.ask_once(&mut search).await?;
            match search.passing() {
                Some(code) if attempts.again_or(refused(topic, code, None)).await.is_ok() => {}
                Some(_) | None => break,
            }
        }
        if search.look_at_ends() {
            self.ask_once(&mut search).await?;
        }
        Ok(search.found())
    }

    /// Asks the leaders of the partitions that have no final answer.
    async fn ask_once(&self, search: &mut Search) -> Result<(), AdminError> {
        self.client.refresh(Some(core::slice::from_ref(&search.topic))).await?;
        let by_leader = self.client.with_metadata(|metadata| search.questions(metadata))?;
        for (leader, (places, questions)) in by_leader {
            let connection = self.client.broker(leader, Purpose::Control).await?;
            let answer = self.client.ask(&connection, &list_offsets::request(&questions)).await?;
            let answers = list_offsets::decode(&mut answer.reader(), answer.version(), &questions);
            let answers = answers.map_err(ClientError::from)?;
            for (place, answer) in places.into_iter().zip(answers.parts) {
                search.take(place, answer);
            }
        }
        Ok(())
    }

    /// A connection to the controller, asked for anew: it may have moved.
    async fn controller(&self) -> Result<Rc<Connection<I>>, ClientError> {
        self.client.refresh(Some(&[])).await?;
        match self.client.with_metadata(Metadata::controller) {
            Some(controller) => self.client.broker(controller, Purpose::Control).await,
            None => self.client.any().await,
        }
    }

    fn timeout_ms(&self) -> i32 {
        i32::try_from(self.client.settings().request_timeout.as_millis()).unwrap_or(i32::MAX)
    }
}

/// Whether a topic or partitions are to be created, or only whether they could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// Create them.
    Create,
    /// Check only.
    ValidateOnly,
}

fn creatable(topic: &NewTopic) -> CreatableTopic<'_> {
    let by_broker = -1;
    let configs = topic.configs.iter().map(|(name, value)| CreatableTopicConfig { name, value: Some(value) });
    CreatableTopic {
        name: &topic.name,
        num_partitions: topic.partitions.map_or(by_broker, |count| i32::try_from(count).unwrap_or(i32::MAX)),
        replication_factor: topic
            .replication_factor
            .map_or(-1, |count| i16::try_from(count).unwrap_or(i16::MAX)),
        configs: configs.collect(),
        ..CreatableTopic::default()
    }
}

fn refused(topic: &str, code: ErrorCode, message: Option<&str>) -> TopicRefused {
    // Some brokers give the code's own name as the message.
    let message = message.filter(|&message| code.name() != Some(message)).map(Box::from);
    TopicRefused { topic: topic.into(), code, message }
}

/// A search for the offsets of many partitions of one topic.
struct Search {
    topic: Rc<str>,
    parts: Vec<SearchPart>,
}

struct SearchPart {
    partition: PartitionIndex,
    /// A time, or one of the protocol's numbers for an end.
    wanted: i64,
    /// `Ok(None)` where no record is that late; `None` before the first answer.
    answer: Option<Result<Option<Offset>, ErrorCode>>,
}

impl SearchPart {
    /// Whether another answer may come of asking again.
    fn is_open(&self) -> bool {
        match self.answer {
            None => true,
            Some(Ok(_)) => false,
            Some(Err(code)) => passes(code),
        }
    }
}

/// Places of partitions in a [`Search`], and what is asked about them.
type Questions = (Vec<usize>, Vec<PartitionQuestion>);

impl Search {
    fn new(topic: &str, partitions: &[PartitionIndex], wanted: i64) -> Self {
        let part = |&partition: &PartitionIndex| SearchPart { partition, wanted, answer: None };
        Self { topic: topic.into(), parts: partitions.iter().map(part).collect() }
    }

    /// What to ask each leader. Partitions without one are answered here.
    fn questions(&mut self, metadata: &Metadata) -> Result<BTreeMap<BrokerId, Questions>, AdminError> {
        let mut by_leader = BTreeMap::<_, Questions>::new();
        let known = metadata.topic(&self.topic).map_or(&[][..], |topic| &topic.partitions);
        for (place, part) in self.parts.iter_mut().enumerate().filter(|(_, part)| part.is_open()) {
            let partition = part.partition;
            let found = usize::try_from(partition.0).ok().and_then(|index| known.get(index));
            let found = found
                .ok_or_else(|| AdminError::UnknownPartition { topic: (&*self.topic).into(), partition })?;
            let Some(leader) = found.leader else {
                part.answer = Some(Err(ErrorCode::LEADER_NOT_AVAILABLE));
                continue;
            };
            let (places, questions) = by_leader.entry(leader).or_default();
            places.push(place);
            questions.push(PartitionQuestion {
                topic: Rc::clone(&self.topic),
                topic_id: TopicId::ZERO,
                partition,
                leader_epoch: found.leader_epoch,
                wanted: part.wanted,
            });
        }
        Ok(by_leader)
    }

    fn take(&mut self, place: usize, answer: Option<OffsetAnswer>) {
        let answer = answer.map_or(Err(ErrorCode::UNKNOWN_SERVER_ERROR), |OffsetAnswer { error, offset }| {
            if error.is_none() { Ok(offset) } else { Err(error) }
        });
        self.parts[place].answer = Some(answer);
    }

    /// A refusal that passes; `None` where none is left.
    fn passing(&self) -> Option<ErrorCode> {
        self.parts.iter().filter(|part| part.is_open()).find_map(|part| part.answer?.err())
    }

    /// Has the end searched of partitions that hold no record as late as wanted; whether there are any.
    fn look_at_ends(&mut self) -> bool {
        let mut any = false;
        for part in &mut self.parts {
            if part.wanted >= 0 && part.answer == Some(Ok(None)) {
                (part.wanted, part.answer, any) = (LATEST, None, true);
            }
        }
        any
    }

    fn found(self) -> Vec<Result<Offset, ErrorCode>> {
        let found = |part: SearchPart| match part.answer {
            Some(Ok(Some(offset))) => Ok(offset),
            Some(Ok(None)) | None => Err(ErrorCode::OFFSET_NOT_AVAILABLE),
            Some(Err(code)) => Err(code),
        };
        self.parts.into_iter().map(found).collect()
    }
}

/// How often something was tried.
struct Attempts<'a, I: Io> {
    client: &'a Client<I>,
    generator: Generator,
    failures: u32,
}

impl<'a, I: Io> Attempts<'a, I> {
    fn new(client: &'a Client<I>) -> Self {
        Self { client, generator: Generator::new(client.io().random()), failures: 0 }
    }

    /// Waits for the next attempt where the refusal passes.
    async fn again_or(&mut self, refusal: TopicRefused) -> Result<(), TopicRefused> {
        self.failures += 1;
        if self.failures >= ATTEMPTS_MAX || !passes(refusal.code) {
            return Err(refusal);
        }
        self.client.io().sleep(RETRY.delay(self.failures, &mut self.generator)).await;
        Ok(())
    }
}

/// Whether it is worth asking again. Orders about a topic that isn't there fail at once: it isn't coming.
fn passes(code: ErrorCode) -> bool {
    code.is_retriable() && code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_code_once_and_what_else_the_broker_says() {
        let code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        let text = |message| refused("t", code, message).to_string();
        assert_eq!(text(None), "topic t: UNKNOWN_TOPIC_OR_PARTITION (3)");
        assert_eq!(text(Some("UNKNOWN_TOPIC_OR_PARTITION")), text(None));
        assert_eq!(text(Some("it is gone")), "topic t: UNKNOWN_TOPIC_OR_PARTITION (3) (it is gone)");
    }
}
