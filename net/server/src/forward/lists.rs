//! The lists that are divided, API by API: what stands in them for a partition, and what is answered for it.

use std::collections::BTreeMap;

use net_wire::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopic, DeleteRecordsTopicResult,
};
use net_wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopic, ListOffsetsTopicResponse,
};
use net_wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
    OffsetForLeaderTopic, OffsetForLeaderTopicResult,
};
use net_wire::messages::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceData,
    TopicProduceResponse,
};
use net_wire::{ErrorCode, Message, Request, TopicRef, Uuid};

use super::divide::ByTopic;

/// From this version on a produce names topics by id.
const PRODUCE_ID_FROM: i16 = 13;

/// A request that is a list of partitions, each answered by itself.
pub(crate) trait PartitionList<'a>: Message<'a> + Request {
    /// What it says of a partition.
    type Part: Clone;
    /// What is answered for one.
    type Done<'r>;

    /// Its list. Handlers answer for each entry of it, in this order.
    fn list(&self, version: i16) -> ByTopic<TopicRef<'a>, Self::Part>;

    /// The same request with another list.
    fn with(&self, list: ByTopic<TopicRef<'a>, Self::Part>) -> Self;

    /// The partition's number.
    fn index(part: &Self::Part) -> i32;

    /// What a response says, partition by partition.
    fn done<'r>(response: Self::Response<'r>) -> Vec<Self::Done<'r>>;

    /// What is answered for a partition that its owner says nothing of.
    fn failed<'r>(index: i32, error: ErrorCode) -> Self::Done<'r>;

    /// The response that says all this.
    fn response<'r>(throttle_time_ms: i32, said: ByTopic<TopicRef<'r>, Self::Done<'r>>)
    -> Self::Response<'r>;
}

fn name_of(topic: TopicRef<'_>) -> &str {
    match topic {
        TopicRef::Name(name) => name,
        TopicRef::Id(_) => "",
    }
}

fn id_of(topic: TopicRef<'_>) -> Uuid {
    match topic {
        TopicRef::Name(_) => Uuid::ZERO,
        TopicRef::Id(id) => id,
    }
}

impl<'a> PartitionList<'a> for ProduceRequest<'a> {
    type Part = PartitionProduceData<'a>;
    type Done<'r> = PartitionProduceResponse<'r>;

    fn list(&self, version: i16) -> ByTopic<TopicRef<'a>, Self::Part> {
        let topic = |topic: &TopicProduceData<'a>| {
            let by_id = version >= PRODUCE_ID_FROM;
            let name = if by_id { TopicRef::Id(topic.topic_id) } else { TopicRef::Name(topic.name) };
            (name, topic.partition_data.clone())
        };
        self.topic_data.iter().map(topic).collect()
    }

    fn with(&self, list: ByTopic<TopicRef<'a>, Self::Part>) -> Self {
        let topic = |(topic, partition_data)| TopicProduceData {
            name: name_of(topic),
            topic_id: id_of(topic),
            partition_data,
        };
        Self {
            transactional_id: self.transactional_id,
            acks: self.acks,
            timeout_ms: self.timeout_ms,
            topic_data: list.into_iter().map(topic).collect(),
        }
    }

    fn index(part: &Self::Part) -> i32 {
        part.index
    }

    fn done<'r>(response: Self::Response<'r>) -> Vec<Self::Done<'r>> {
        response.responses.into_iter().flat_map(|topic| topic.partition_responses).collect()
    }

    fn failed<'r>(index: i32, error_code: ErrorCode) -> Self::Done<'r> {
        PartitionProduceResponse { index, error_code, base_offset: -1, ..PartitionProduceResponse::default() }
    }

    fn response<'r>(
        throttle_time_ms: i32,
        said: ByTopic<TopicRef<'r>, Self::Done<'r>>,
    ) -> ProduceResponse<'r> {
        let topic = |(topic, partition_responses)| TopicProduceResponse {
            name: name_of(topic),
            topic_id: id_of(topic),
            partition_responses,
        };
        let responses = said.into_iter().map(topic).collect();
        ProduceResponse { responses, throttle_time_ms, ..ProduceResponse::default() }
    }
}

impl<'a> PartitionList<'a> for ListOffsetsRequest<'a> {
    type Part = ListOffsetsPartition;
    type Done<'r> = ListOffsetsPartitionResponse;

    fn list(&self, _version: i16) -> ByTopic<TopicRef<'a>, Self::Part> {
        let topic = |topic: &ListOffsetsTopic<'a>| (TopicRef::Name(topic.name), topic.partitions.clone());
        self.topics.iter().map(topic).collect()
    }

    fn with(&self, list: ByTopic<TopicRef<'a>, Self::Part>) -> Self {
        let topic = |(topic, partitions)| ListOffsetsTopic { name: name_of(topic), partitions };
        Self { topics: list.into_iter().map(topic).collect(), ..self.clone() }
    }

    fn index(part: &Self::Part) -> i32 {
        part.partition_index
    }

    fn done<'r>(response: Self::Response<'r>) -> Vec<Self::Done<'r>> {
        response.topics.into_iter().flat_map(|topic| topic.partitions).collect()
    }

    fn failed<'r>(index: i32, error_code: ErrorCode) -> Self::Done<'r> {
        ListOffsetsPartitionResponse {
            partition_index: index,
            error_code,
            ..ListOffsetsPartitionResponse::default()
        }
    }

    fn response<'r>(
        throttle_time_ms: i32,
        said: ByTopic<TopicRef<'r>, Self::Done<'r>>,
    ) -> ListOffsetsResponse<'r> {
        let topic = |(topic, partitions)| ListOffsetsTopicResponse { name: name_of(topic), partitions };
        ListOffsetsResponse { throttle_time_ms, topics: said.into_iter().map(topic).collect() }
    }
}

impl<'a> PartitionList<'a> for OffsetForLeaderEpochRequest<'a> {
    type Part = OffsetForLeaderPartition;
    type Done<'r> = EpochEndOffset;

    fn list(&self, _version: i16) -> ByTopic<TopicRef<'a>, Self::Part> {
        let topic =
            |topic: &OffsetForLeaderTopic<'a>| (TopicRef::Name(topic.topic), topic.partitions.clone());
        self.topics.iter().map(topic).collect()
    }

    fn with(&self, list: ByTopic<TopicRef<'a>, Self::Part>) -> Self {
        let topic = |(topic, partitions)| OffsetForLeaderTopic { topic: name_of(topic), partitions };
        Self { topics: list.into_iter().map(topic).collect(), ..self.clone() }
    }

    fn index(part: &Self::Part) -> i32 {
        part.partition
    }

    fn done<'r>(response: Self::Response<'r>) -> Vec<Self::Done<'r>> {
        response.topics.into_iter().flat_map(|topic| topic.partitions).collect()
    }

    fn failed<'r>(index: i32, error_code: ErrorCode) -> Self::Done<'r> {
        EpochEndOffset { error_code, partition: index, ..EpochEndOffset::default() }
    }

    fn response<'r>(
        throttle_time_ms: i32,
        said: ByTopic<TopicRef<'r>, Self::Done<'r>>,
    ) -> OffsetForLeaderEpochResponse<'r> {
        let topic = |(topic, partitions)| OffsetForLeaderTopicResult { topic: name_of(topic), partitions };
        OffsetForLeaderEpochResponse { throttle_time_ms, topics: said.into_iter().map(topic).collect() }
    }
}

/// Of a partition that is named again the last mention counts, and the answer is by name and number: so is the list.
impl<'a> PartitionList<'a> for DeleteRecordsRequest<'a> {
    type Part = DeleteRecordsPartition;
    type Done<'r> = DeleteRecordsPartitionResult;

    fn list(&self, _version: i16) -> ByTopic<TopicRef<'a>, Self::Part> {
        let mut each_once: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for topic in &self.topics {
            let offsets = each_once.entry(topic.name).or_default();
            offsets.extend(topic.partitions.iter().map(|partition| (partition.partition_index, *partition)));
        }
        let topic =
            |(name, offsets): (_, BTreeMap<_, _>)| (TopicRef::Name(name), offsets.into_values().collect());
        each_once.into_iter().map(topic).collect()
    }

    fn with(&self, list: ByTopic<TopicRef<'a>, Self::Part>) -> Self {
        let topic = |(topic, partitions)| DeleteRecordsTopic { name: name_of(topic), partitions };
        Self { topics: list.into_iter().map(topic).collect(), timeout_ms: self.timeout_ms }
    }

    fn index(part: &Self::Part) -> i32 {
        part.partition_index
    }

    fn done<'r>(response: Self::Response<'r>) -> Vec<Self::Done<'r>> {
        response.topics.into_iter().flat_map(|topic| topic.partitions).collect()
    }

    fn failed<'r>(index: i32, error_code: ErrorCode) -> Self::Done<'r> {
        DeleteRecordsPartitionResult { partition_index: index, low_watermark: -1, error_code }
    }

    fn response<'r>(
        throttle_time_ms: i32,
        said: ByTopic<TopicRef<'r>, Self::Done<'r>>,
    ) -> DeleteRecordsResponse<'r> {
        let topic = |(topic, partitions)| DeleteRecordsTopicResult { name: name_of(topic), partitions };
        DeleteRecordsResponse { throttle_time_ms, topics: said.into_iter().map(topic).collect() }
    }
}
