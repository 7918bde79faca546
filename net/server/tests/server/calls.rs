//! The calls that most tests need, by their outcome.

use net_wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig};
use net_wire::messages::delete_topics::DeleteTopicState;
use net_wire::messages::fetch::{AbortedTransaction, FetchPartition, FetchTopic};
use net_wire::messages::metadata::MetadataRequestTopic;
use net_wire::messages::produce::{PartitionProduceData, TopicProduceData};
use net_wire::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, FetchRequest, FetchResponse, InitProducerIdRequest,
    LeaderIdAndEpoch, MetadataRequest, NodeEndpoint, ProduceRequest, ProduceResponse,
};
use net_wire::{ErrorCode, Uuid};

use crate::client::{Answer, Client};
use crate::node::Node;

/// The newest versions that are served.
pub(crate) const PRODUCE: i16 = 13;
pub(crate) const FETCH: i16 = 17;
const METADATA: i16 = 13;
pub(crate) const CREATE_TOPICS: i16 = 7;
const DELETE_TOPICS: i16 = 6;
const INIT_PRODUCER_ID: i16 = 5;

/// From these versions on a request names topics by id.
const PRODUCE_BY_ID: i16 = 13;
const FETCH_BY_ID: i16 = 13;

/// A topic as clients know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) id: Uuid,
    /// Broker id of each partition's leader.
    pub(crate) leaders: Vec<i32>,
    /// Each partition's leader epoch.
    pub(crate) epochs: Vec<i32>,
}

impl Topic {
    /// A topic that isn't there.
    pub(crate) fn missing() -> Self {
        Self { name: "missing".to_owned(), id: Uuid([9; 16]), leaders: vec![1000], epochs: vec![0] }
    }

    /// Name and id as a request carries them that names topics by id from a version on.
    pub(crate) fn at(&self, version: i16, by_id_from: i16) -> (&str, Uuid) {
        if version >= by_id_from { ("", self.id) } else { (&self.name, Uuid::ZERO) }
    }

    /// A partition that this broker leads.
    pub(crate) fn partition_of(&self, broker: i32) -> i32 {
        let index = self.leaders.iter().position(|leader| *leader == broker);
        i32::try_from(index.expect("every shard leads a partition of the topic")).unwrap()
    }
}

/// Names that break a rule for topics' names.
pub(crate) fn impossible_topic_names() -> [String; 5] {
    ["a b".to_owned(), String::new(), "x".repeat(250), "..".to_owned(), "ö".to_owned()]
}

/// A batch to be produced.
#[derive(Clone, Copy)]
pub(crate) struct Produce<'a> {
    pub(crate) version: i16,
    pub(crate) acks: i16,
    pub(crate) topic: &'a Topic,
    pub(crate) partition: i32,
    pub(crate) records: Option<&'a [u8]>,
    pub(crate) transactional_id: Option<&'a str>,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Produced {
    pub(crate) partition: i32,
    pub(crate) error: ErrorCode,
    pub(crate) base_offset: i64,
    pub(crate) append_time_ms: i64,
    pub(crate) log_start: i64,
    pub(crate) message: Option<String>,
    /// The indexes of the records that are why.
    pub(crate) records: Vec<i32>,
    pub(crate) leader: LeaderIdAndEpoch,
    /// Broker id and port of each endpoint told.
    pub(crate) endpoints: Vec<(i32, i32)>,
}

impl<'a> Produce<'a> {
    /// In the newest version, to be acknowledged by all.
    pub(crate) fn new(topic: &'a Topic, partition: i32, records: &'a [u8]) -> Self {
        let records = Some(records);
        Self { version: PRODUCE, acks: -1, topic, partition, records, transactional_id: None }
    }

    pub(crate) fn request(&self) -> ProduceRequest<'a> {
        let (name, topic_id) = self.topic.at(self.version, PRODUCE_BY_ID);
        let partition_data = vec![PartitionProduceData { index: self.partition, records: self.records }];
        ProduceRequest {
            transactional_id: self.transactional_id,
            acks: self.acks,
            timeout_ms: 60_000,
            topic_data: vec![TopicProduceData { name, topic_id, partition_data }],
        }
    }

    pub(crate) async fn call(&self, client: &mut Client) -> Produced {
        let answer = client.ask(self.version, &self.request()).await;
        self.outcome(&answer)
    }

    /// The outcome in the answer.
    pub(crate) fn outcome(&self, answer: &Answer<ProduceRequest<'_>>) -> Produced {
        let response: ProduceResponse<'_> = answer.body();
        let [topic] = &response.responses[..] else { panic!("one topic was asked: {response:?}") };
        assert_eq!((topic.name, topic.topic_id), self.topic.at(self.version, PRODUCE_BY_ID));
        let [partition] = &topic.partition_responses[..] else { panic!("one partition was asked") };
        assert_eq!(partition.index, self.partition);
        Produced {
            partition: partition.index,
            error: partition.error_code,
            base_offset: partition.base_offset,
            append_time_ms: partition.log_append_time_ms,
            log_start: partition.log_start_offset,
            message: partition.error_message.map(str::to_owned),
            records: partition.record_errors.iter().map(|error| error.batch_index).collect(),
            leader: partition.current_leader,
            endpoints: endpoints(&response.node_endpoints),
        }
    }
}

fn endpoints(told: &[NodeEndpoint<'_>]) -> Vec<(i32, i32)> {
    told.iter().map(|endpoint| (endpoint.node_id, endpoint.port)).collect()
}

/// Produces a batch that must be taken; answers its base offset.
pub(crate) async fn produce(client: &mut Client, topic: &Topic, partition: i32, records: &[u8]) -> i64 {
    let produced = Produce::new(topic, partition, records).call(client).await;
    assert_eq!(produced.error, ErrorCode::NONE, "{produced:?}");
    produced.base_offset
}

/// A fetch of some partitions of one topic.
#[derive(Clone)]
pub(crate) struct Fetch<'a> {
    pub(crate) version: i16,
    pub(crate) topic: &'a Topic,
    /// Partition and offset.
    pub(crate) from: Vec<(i32, i64)>,
    pub(crate) partition_bytes: i32,
    /// The leader epoch the client knows.
    pub(crate) epoch: i32,
    /// The rest of the request.
    pub(crate) request: FetchRequest<'a>,
}

/// What a fetch gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) error: ErrorCode,
    pub(crate) session_id: i32,
    pub(crate) partitions: Vec<FetchedPartition>,
    /// Broker id and port of each endpoint told.
    pub(crate) endpoints: Vec<(i32, i32)>,
}

/// What a fetch gave of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FetchedPartition {
    pub(crate) index: i32,
    pub(crate) error: ErrorCode,
    pub(crate) high_watermark: i64,
    pub(crate) last_stable: i64,
    pub(crate) log_start: i64,
    pub(crate) aborted: Option<Vec<AbortedTransaction>>,
    pub(crate) preferred_replica: i32,
    pub(crate) leader: LeaderIdAndEpoch,
    pub(crate) records: Vec<u8>,
}

impl<'a> Fetch<'a> {
    /// In the newest version, without waiting and without limits that matter.
    pub(crate) fn new(topic: &'a Topic, from: &[(i32, i64)]) -> Self {
        let request = FetchRequest { max_wait_ms: 0, min_bytes: 1, ..FetchRequest::default() };
        Self { version: FETCH, topic, from: from.to_vec(), partition_bytes: 1 << 20, epoch: -1, request }
    }

    pub(crate) fn at(topic: &'a Topic, partition: i32, offset: i64) -> Self {
        Self::new(topic, &[(partition, offset)])
    }

    /// Waits so long for so many bytes.
    pub(crate) fn waiting(mut self, max_wait_ms: i32, min_bytes: i32) -> Self {
        (self.request.max_wait_ms, self.request.min_bytes) = (max_wait_ms, min_bytes);
        self
    }

    pub(crate) fn version(self, version: i16) -> Self {
        Self { version, ..self }
    }

    pub(crate) fn epoch(self, epoch: i32) -> Self {
        Self { epoch, ..self }
    }

    pub(crate) fn session(mut self, id: i32, epoch: i32) -> Self {
        (self.request.session_id, self.request.session_epoch) = (id, epoch);
        self
    }

    pub(crate) fn request(&self) -> FetchRequest<'_> {
        let (topic, topic_id) = self.topic.at(self.version, FETCH_BY_ID);
        let partition = |&(partition, fetch_offset): &(i32, i64)| FetchPartition {
            partition,
            fetch_offset,
            current_leader_epoch: self.epoch,
            partition_max_bytes: self.partition_bytes,
            ..FetchPartition::default()
        };
        let partitions: Vec<_> = self.from.iter().map(partition).collect();
        FetchRequest { topics: vec![FetchTopic { topic, topic_id, partitions }], ..self.request.clone() }
    }

    pub(crate) async fn call(&self, client: &mut Client) -> Fetched {
        let answer = client.ask(self.version, &self.request()).await;
        self.outcome(&answer)
    }

    /// The outcome in the answer.
    pub(crate) fn outcome(&self, answer: &Answer<FetchRequest<'_>>) -> Fetched {
        let response: FetchResponse<'_> = answer.body();
        for topic in &response.responses {
            assert_eq!((topic.topic, topic.topic_id), self.topic.at(self.version, FETCH_BY_ID));
        }
        let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
        let partition = |partition: &net_wire::messages::fetch::PartitionData<'_>| FetchedPartition {
            index: partition.partition_index,
            error: partition.error_code,
            high_watermark: partition.high_watermark,
            last_stable: partition.last_stable_offset,
            log_start: partition.log_start_offset,
            aborted: partition.aborted_transactions.clone(),
            preferred_replica: partition.preferred_read_replica,
            leader: partition.current_leader,
            records: partition.records.unwrap_or_default().to_vec(),
        };
        Fetched {
            error: response.error_code,
            session_id: response.session_id,
            partitions: partitions.map(partition).collect(),
            endpoints: endpoints(&response.node_endpoints),
        }
    }
}

impl Fetched {
    /// The only partition, of a request that was understood.
    pub(crate) fn only(self) -> FetchedPartition {
        assert_eq!(self.error, ErrorCode::NONE);
        let [partition] = <[_; 1]>::try_from(self.partitions).expect("one partition was asked for");
        partition
    }
}

/// Offset and value of every record of a partition from an offset on, until its high watermark.
pub(crate) async fn read_all(client: &mut Client, topic: &Topic, partition: i32) -> Vec<(i64, String)> {
    let mut read = Vec::new();
    loop {
        let next = read.last().map_or(0, |(offset, _)| offset + 1);
        let fetched = Fetch::at(topic, partition, next).call(client).await.only();
        assert_eq!(fetched.error, ErrorCode::NONE);
        if fetched.records.is_empty() {
            assert_eq!(fetched.high_watermark, next, "nothing is left below the high watermark");
            return read;
        }
        read.extend(crate::batches::read(&fetched.records));
    }
}

impl Node {
    /// Creates a topic with so many partitions.
    pub(crate) async fn topic(&self, name: &str, partitions: i32) -> Topic {
        self.topic_with(name, partitions, &[]).await
    }

    /// Creates a topic with settings.
    pub(crate) async fn topic_with(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) -> Topic {
        let configs =
            settings.iter().map(|&(name, value)| CreatableTopicConfig { name, value: Some(value) }).collect();
        let topic = CreatableTopic {
            name,
            num_partitions: partitions,
            replication_factor: 1,
            assignments: Vec::new(),
            configs,
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
        let answer = self.connect(0).await.ask(CREATE_TOPICS, &request).await;
        assert_eq!(answer.body().topics[0].error_code, ErrorCode::NONE, "{:?}", answer.body());
        self.describe(name).await
    }

    /// What the topic's metadata say.
    pub(crate) async fn describe(&self, name: &str) -> Topic {
        self.try_describe(name).await.unwrap_or_else(|error| panic!("`{name}` is there: {error}"))
    }

    pub(crate) async fn try_describe(&self, name: &str) -> Result<Topic, ErrorCode> {
        let topics = Some(vec![MetadataRequestTopic { name: Some(name), topic_id: Uuid::ZERO }]);
        let request =
            MetadataRequest { topics, allow_auto_topic_creation: false, ..MetadataRequest::default() };
        let answer = self.connect(0).await.ask(METADATA, &request).await;
        let response = answer.body();
        let [topic] = &response.topics[..] else { panic!("one topic was asked for: {response:?}") };
        if !topic.error_code.is_none() {
            return Err(topic.error_code);
        }
        assert!(
            topic
                .partitions
                .iter()
                .map(|partition| partition.partition_index)
                .eq((0..).take(topic.partitions.len()))
        );
        Ok(Topic {
            name: name.to_owned(),
            id: topic.topic_id,
            leaders: topic.partitions.iter().map(|partition| partition.leader_id).collect(),
            epochs: topic.partitions.iter().map(|partition| partition.leader_epoch).collect(),
        })
    }

    /// Deletes a topic; answers what came of it.
    pub(crate) async fn delete(&self, topic: &Topic) -> ErrorCode {
        let state = DeleteTopicState { name: None, topic_id: topic.id };
        let request =
            DeleteTopicsRequest { topics: vec![state], timeout_ms: 10_000, ..DeleteTopicsRequest::default() };
        let answer = self.connect(0).await.ask(DELETE_TOPICS, &request).await;
        answer.body().responses[0].error_code
    }

    /// A connection to the leader of a partition.
    pub(crate) async fn connect_to_leader(&self, topic: &Topic, partition: i32) -> Client {
        self.connect_to(topic.leaders[usize::try_from(partition).unwrap()]).await
    }

    /// An identity for an idempotent producer, from a shard.
    pub(crate) async fn producer_id(&self, shard: u16) -> i64 {
        let request = InitProducerIdRequest { transactional_id: None, ..InitProducerIdRequest::default() };
        let answer = self.connect(shard).await.ask(INIT_PRODUCER_ID, &request).await;
        let response = answer.body();
        assert_eq!((response.error_code, response.producer_epoch), (ErrorCode::NONE, 0));
        response.producer_id
    }
}
