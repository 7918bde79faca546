//! Questions and orders to the cluster as a whole: topics, brokers, offsets.

use core::time::Duration;
use std::rc::Rc;

use engine_io::Io;
use engine_record::{Offset, PartitionIndex, TopicId};
use net_wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig};
use net_wire::messages::delete_topics::DeleteTopicState;
use net_wire::messages::list_offsets::{EARLIEST, LATEST};
use net_wire::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    DescribeClusterRequest, DescribeClusterResponse,
};
use net_wire::{ApiKey, ErrorCode};

use crate::client::{Client, ClientError, Purpose};
use crate::connection::{Answer, Connection};
use crate::consumer_core::{PartitionQuestion, Start};
use crate::metadata::{BrokerId, Endpoint, Topic};
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
        let mut wanted = match start {
            Start::At(offset) => return Ok(offset),
            Start::Earliest => EARLIEST,
            Start::Latest => LATEST,
            Start::Time(time) => time,
        };
        let mut attempts = Attempts::new(&self.client);
        loop {
            match self.find_offset(topic, partition, wanted).await? {
                Ok(Some(offset)) => return Ok(offset),
                Ok(None) if wanted >= 0 => wanted = LATEST,
                Ok(None) => return Err(refused(topic, ErrorCode::OFFSET_NOT_AVAILABLE, None).into()),
                Err(code) => attempts.again_or(refused(topic, code, None)).await?,
            }
        }
    }

    async fn find_offset(
        &self,
        topic: &str,
        partition: PartitionIndex,
        wanted: i64,
    ) -> Result<Result<Option<Offset>, ErrorCode>, AdminError> {
        let topic = Rc::<str>::from(topic);
        self.client.refresh(Some(core::slice::from_ref(&topic))).await?;
        let known = self.client.with_metadata(|metadata| {
            let partitions = &metadata.topic(&topic)?.partitions;
            partitions.get(usize::try_from(partition.0).ok()?).cloned()
        });
        let unknown = || AdminError::UnknownPartition { topic: (&*topic).into(), partition };
        let known = known.ok_or_else(unknown)?;
        let Some(leader) = known.leader else { return Ok(Err(ErrorCode::LEADER_NOT_AVAILABLE)) };
        let connection = self.client.broker(leader, Purpose::Control).await?;
        let leader_epoch = known.leader_epoch;
        let question = PartitionQuestion {
            topic: Rc::clone(&topic),
            topic_id: TopicId::ZERO,
            partition,
            leader_epoch,
            wanted,
        };
        let parts = [question];
        let answer = self.client.ask(&connection, &list_offsets::request(&parts)).await?;
        let found = list_offsets::decode(&mut answer.reader(), answer.version(), &parts)
            .map_err(ClientError::from)?;
        let found = found.parts.into_iter().flatten().next().ok_or_else(unknown)?;
        Ok(if found.error.is_none() { Ok(found.offset) } else { Err(found.error) })
    }

    /// A connection to the controller, asked for anew: it may have moved.
    async fn controller(&self) -> Result<Rc<Connection<I>>, ClientError> {
        self.client.refresh(Some(&[])).await?;
        match self.client.with_metadata(crate::metadata::Metadata::controller) {
            Some(controller) => self.client.broker(controller, Purpose::Control).await,
            None => self.client.any().await,
        }
    }

    fn timeout_ms(&self) -> i32 {
        i32::try_from(self.client.settings().request_timeout.as_millis()).unwrap_or(i32::MAX)
    }
}

/// Whether a topic is to be created, or only whether it could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// Create it.
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
    TopicRefused { topic: topic.into(), code, message: message.map(Box::from) }
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
        if !refusal.code.is_retriable() || self.failures >= ATTEMPTS_MAX || !is_worth_a_retry(refusal.code) {
            return Err(refusal);
        }
        self.client.io().sleep(RETRY.delay(self.failures, &mut self.generator)).await;
        Ok(())
    }
}

/// Orders about a topic that isn't there fail at once: it isn't coming.
const fn is_worth_a_retry(code: ErrorCode) -> bool {
    code.0 != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0
}
