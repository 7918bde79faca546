//! A valid frame of every version of every API.

use std::ops::Range;

use engine_record::{BatchBuilder, Compression, NewRecord, Timestamp};
use integration::connection::encode;
use net_wire::messages::alter_configs;
use net_wire::messages::create_partitions::{CreatePartitionsAssignment, CreatePartitionsTopic};
use net_wire::messages::create_topics::CreatableTopic;
use net_wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use net_wire::messages::delete_topics::DeleteTopicState;
use net_wire::messages::describe_configs::DescribeConfigsResource;
use net_wire::messages::describe_log_dirs::DescribableLogDirTopic;
use net_wire::messages::describe_topic_partitions::{Cursor, TopicRequest};
use net_wire::messages::fetch::{FetchPartition, FetchTopic};
use net_wire::messages::incremental_alter_configs;
use net_wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use net_wire::messages::metadata::MetadataRequestTopic;
use net_wire::messages::offset_for_leader_epoch::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use net_wire::messages::produce::{PartitionProduceData, TopicProduceData};
use net_wire::messages::{
    AlterConfigsRequest, ApiVersionsRequest, CreatePartitionsRequest, CreateTopicsRequest,
    DeleteRecordsRequest, DeleteTopicsRequest, DescribeClusterRequest, DescribeConfigsRequest,
    DescribeLogDirsRequest, DescribeTopicPartitionsRequest, FetchRequest, IncrementalAlterConfigsRequest,
    InitProducerIdRequest, ListConfigResourcesRequest, ListOffsetsRequest, MetadataRequest,
    OffsetForLeaderEpochRequest, ProduceRequest,
};
use net_wire::{ApiKey, Uuid, config_resource};

use crate::VICTIM;

/// A name that no topic has: what deletes it deletes nothing.
const NO_TOPIC: &str = "no-such-topic";
/// From this version on Produce and Fetch name topics by id.
const BY_ID: i16 = 13;

/// A frame, size first.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    /// Where its record batch lies, if it has one.
    pub(crate) batch: Option<Range<usize>>,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Catalogue {
    pub(crate) frames: Vec<Frame>,
}

impl Catalogue {
    /// Those that name topics name the one with this id.
    pub(crate) fn new(victim: Uuid) -> Self {
        let mut frames = Vec::new();
        for api in ApiKey::ALL {
            for version in api.versions().min..=api.versions().max {
                match api {
                    ApiKey::Produce => {
                        frames.extend(batches().iter().map(|batch| produce(version, victim, batch)));
                    }
                    ApiKey::Fetch => frames.push(fetch(version, victim)),
                    ApiKey::ListOffsets => frames.push(list_offsets(version)),
                    ApiKey::Metadata => frames.push(metadata(version, victim)),
                    ApiKey::ApiVersions => frames.push(api_versions(version)),
                    ApiKey::CreateTopics => frames.push(create_topics(version)),
                    ApiKey::DeleteTopics => frames.push(delete_topics(version)),
                    ApiKey::DeleteRecords => frames.push(delete_records(version)),
                    ApiKey::InitProducerId => frames.push(init_producer_id(version)),
                    ApiKey::OffsetForLeaderEpoch => frames.push(offset_for_leader_epoch(version)),
                    ApiKey::DescribeConfigs => frames.push(describe_configs(version)),
                    ApiKey::AlterConfigs => frames.push(alter_configs(version)),
                    ApiKey::IncrementalAlterConfigs => frames.push(incremental_alter_configs(version)),
                    ApiKey::CreatePartitions => frames.push(create_partitions(version)),
                    ApiKey::DescribeLogDirs => frames.push(describe_log_dirs(version)),
                    ApiKey::DescribeTopicPartitions => frames.push(describe_topic_partitions(version)),
                    ApiKey::ListConfigResources => frames.push(list_config_resources(version)),
                    ApiKey::DescribeCluster => frames.push(describe_cluster(version)),
                }
            }
        }
        Self { frames }
    }
}

fn plain(bytes: Vec<u8>) -> Frame {
    Frame { bytes, batch: None }
}

/// A small batch of each codec, and one that is small only while it is compressed.
fn batches() -> Vec<Vec<u8>> {
    let codecs =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    let mut batches: Vec<Vec<u8>> = codecs.map(|codec| batch(codec, b"a value, a value, a value")).into();
    batches.push(batch(Compression::Zstd, &vec![0; 8 << 20]));
    batches
}

fn batch(codec: Compression, value: &[u8]) -> Vec<u8> {
    let mut builder = BatchBuilder::new().with_compression(codec);
    let headers: &[(&[u8], Option<&[u8]>)] = &[(b"header", Some(b"value")), (b"null", None)];
    let record = NewRecord { timestamp: Timestamp(1), key: Some(b"key"), value: Some(value), headers };
    for _ in 0..3 {
        builder.push(&record).expect("a few records fit");
    }
    builder.build().expect("records make a batch")
}

fn produce(version: i16, victim: Uuid, batch: &[u8]) -> Frame {
    let (name, topic_id) = if version < BY_ID { (VICTIM, Uuid::ZERO) } else { ("", victim) };
    let partition_data = vec![PartitionProduceData { index: 0, records: Some(batch) }];
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 1_000,
        topic_data: vec![TopicProduceData { name, topic_id, partition_data }],
        ..ProduceRequest::default()
    };
    let bytes = encode(version, 1, &request);
    let start =
        bytes.windows(batch.len()).position(|window| window == batch).expect("the batch is in its frame");
    Frame { bytes, batch: Some(start..start + batch.len()) }
}

fn fetch(version: i16, victim: Uuid) -> Frame {
    let (topic, topic_id) = if version < BY_ID { (VICTIM, Uuid::ZERO) } else { ("", victim) };
    let partition =
        |partition| FetchPartition { partition, partition_max_bytes: 1 << 16, ..FetchPartition::default() };
    let topics = vec![FetchTopic { topic, topic_id, partitions: vec![partition(0), partition(1)] }];
    let request =
        FetchRequest { max_wait_ms: 10, min_bytes: 1, max_bytes: 1 << 20, topics, ..FetchRequest::default() };
    plain(encode(version, 2, &request))
}

fn list_offsets(version: i16) -> Frame {
    let partition = ListOffsetsPartition { timestamp: -1, ..ListOffsetsPartition::default() };
    let topics = vec![ListOffsetsTopic { name: VICTIM, partitions: vec![partition] }];
    plain(encode(version, 3, &ListOffsetsRequest { replica_id: -1, topics, ..ListOffsetsRequest::default() }))
}

/// Creates nothing where the version lets the client say so; before, it asks for what is there.
fn metadata(version: i16, victim: Uuid) -> Frame {
    let topic = if version < 12 {
        MetadataRequestTopic { name: Some(VICTIM), ..MetadataRequestTopic::default() }
    } else {
        MetadataRequestTopic { topic_id: victim, name: None }
    };
    let topics = if version < 4 { Vec::new() } else { vec![topic] };
    let request = MetadataRequest {
        topics: Some(topics),
        allow_auto_topic_creation: version < 4,
        ..MetadataRequest::default()
    };
    plain(encode(version, 4, &request))
}

fn api_versions(version: i16) -> Frame {
    let request = ApiVersionsRequest { client_software_name: "hostile", client_software_version: "1.0" };
    plain(encode(version, 5, &request))
}

/// Only asks whether the topic could be created: a mutated count must not become partitions.
fn create_topics(version: i16) -> Frame {
    let topic = CreatableTopic {
        name: NO_TOPIC,
        num_partitions: 3,
        replication_factor: 1,
        assignments: Vec::new(),
        configs: Vec::new(),
    };
    plain(encode(
        version,
        6,
        &CreateTopicsRequest { topics: vec![topic], timeout_ms: 1_000, validate_only: true },
    ))
}

fn delete_topics(version: i16) -> Frame {
    let state = DeleteTopicState { name: Some(NO_TOPIC), topic_id: Uuid::ZERO };
    let (topics, topic_names) =
        if version < 6 { (Vec::new(), vec![NO_TOPIC]) } else { (vec![state], Vec::new()) };
    plain(encode(version, 7, &DeleteTopicsRequest { topics, topic_names, timeout_ms: 1_000 }))
}

/// Deletes nothing: the log starts there already.
fn delete_records(version: i16) -> Frame {
    let partitions = vec![DeleteRecordsPartition { partition_index: 0, offset: 0 }];
    let topics = vec![DeleteRecordsTopic { name: NO_TOPIC, partitions }];
    plain(encode(version, 11, &DeleteRecordsRequest { topics, timeout_ms: 1_000 }))
}

fn init_producer_id(version: i16) -> Frame {
    let request = InitProducerIdRequest { transactional_id: None, ..InitProducerIdRequest::default() };
    plain(encode(version, 8, &request))
}

fn offset_for_leader_epoch(version: i16) -> Frame {
    let partitions = vec![OffsetForLeaderPartition::default()];
    let topics = vec![OffsetForLeaderTopic { topic: VICTIM, partitions }];
    plain(encode(version, 10, &OffsetForLeaderEpochRequest { replica_id: -1, topics }))
}

fn describe_configs(version: i16) -> Frame {
    let resources = vec![DescribeConfigsResource {
        resource_type: config_resource::TOPIC,
        resource_name: VICTIM,
        configuration_keys: Some(vec!["retention.ms", "no.such.setting"]),
    }];
    let request = DescribeConfigsRequest { resources, include_synonyms: true, ..Default::default() };
    plain(encode(version, 12, &request))
}

/// Changes nothing: there is no such topic.
fn alter_configs(version: i16) -> Frame {
    let resources = vec![alter_configs::AlterConfigsResource {
        resource_type: config_resource::TOPIC,
        resource_name: NO_TOPIC,
        configs: vec![alter_configs::AlterableConfig { name: "retention.ms", value: Some("1000") }],
    }];
    plain(encode(version, 13, &AlterConfigsRequest { resources, validate_only: false }))
}

/// Nor does this.
fn incremental_alter_configs(version: i16) -> Frame {
    let resources = vec![incremental_alter_configs::AlterConfigsResource {
        resource_type: config_resource::TOPIC,
        resource_name: NO_TOPIC,
        configs: vec![incremental_alter_configs::AlterableConfig {
            name: "retention.ms",
            config_operation: incremental_alter_configs::DELETE,
            value: None,
        }],
    }];
    plain(encode(version, 14, &IncrementalAlterConfigsRequest { resources, validate_only: false }))
}

/// Only asks, about no topic.
fn create_partitions(version: i16) -> Frame {
    let assignments = Some(vec![CreatePartitionsAssignment { broker_ids: vec![1_000] }]);
    let topics = vec![CreatePartitionsTopic { name: NO_TOPIC, count: 2, assignments }];
    plain(encode(version, 15, &CreatePartitionsRequest { topics, timeout_ms: 1_000, validate_only: true }))
}

fn describe_log_dirs(version: i16) -> Frame {
    let topics = Some(vec![DescribableLogDirTopic { topic: VICTIM, partitions: vec![0, 1] }]);
    plain(encode(version, 16, &DescribeLogDirsRequest { topics, count_segments: true }))
}

fn describe_topic_partitions(version: i16) -> Frame {
    let topics = vec![TopicRequest { name: NO_TOPIC }, TopicRequest { name: VICTIM }];
    let cursor = Some(Cursor { topic_name: VICTIM, partition_index: 0 });
    let request = DescribeTopicPartitionsRequest { topics, response_partition_limit: 1, cursor };
    plain(encode(version, 17, &request))
}

fn list_config_resources(version: i16) -> Frame {
    let resource_types = if version < 1 { Vec::new() } else { vec![config_resource::BROKER] };
    plain(encode(version, 18, &ListConfigResourcesRequest { resource_types }))
}

fn describe_cluster(version: i16) -> Frame {
    plain(encode(version, 9, &DescribeClusterRequest::default()))
}

#[test]
fn every_version_of_every_api_has_a_frame() {
    let catalogue = Catalogue::new(Uuid([7; 16]));
    for api in ApiKey::ALL {
        for version in api.versions().min..=api.versions().max {
            let head = [api.code().to_be_bytes(), version.to_be_bytes()].concat();
            assert!(catalogue.frames.iter().any(|frame| frame.bytes[4..8] == head), "{api} v{version}");
        }
    }
    for frame in &catalogue.frames {
        let size = u32::from_be_bytes(frame.bytes[..4].try_into().expect("four bytes"));
        assert_eq!(usize::try_from(size), Ok(frame.bytes.len() - 4));
    }
}
