//! Every version of every API that the broker advertises, asked for by itself.

use std::path::Path;

use engine_record::{BatchBuilder, NewRecord, RecordBatch, Timestamp};
use integration::clock::unix_ms;
use integration::{Broker, Connection, topics};
use net_wire::messages::alter_configs;
use net_wire::messages::create_partitions::CreatePartitionsTopic;
use net_wire::messages::create_topics::CreatableTopic;
use net_wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use net_wire::messages::delete_topics::DeleteTopicState;
use net_wire::messages::describe_configs::DescribeConfigsResource;
use net_wire::messages::fetch::{FetchPartition, FetchTopic};
use net_wire::messages::incremental_alter_configs;
use net_wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use net_wire::messages::metadata::MetadataRequestTopic;
use net_wire::messages::offset_for_leader_epoch::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use net_wire::messages::produce::{PartitionProduceData, TopicProduceData};
use net_wire::messages::{
    AlterConfigsRequest, AlterConfigsResponse, ApiVersionsRequest, ApiVersionsResponse,
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteRecordsRequest, DeleteRecordsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    DescribeClusterRequest, DescribeClusterResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse, FetchRequest, FetchResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, InitProducerIdRequest, InitProducerIdResponse,
    ListConfigResourcesRequest, ListConfigResourcesResponse, ListOffsetsRequest, ListOffsetsResponse,
    MetadataRequest, MetadataResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    ProduceRequest, ProduceResponse,
};
use net_wire::{ApiKey, ErrorCode, Uuid, config_resource};

const TOPIC: &str = "versions";
/// Earliest offset, in place of a time.
const EARLIEST: i64 = -2;
/// End of the log, in place of a time.
const LATEST: i64 = -1;
/// From this version on a request names topics by id.
const PRODUCE_BY_ID: i16 = 13;
const FETCH_BY_ID: i16 = 13;

/// A broker, and a connection to the shard that leads the topic's one partition.
struct Setting {
    broker: Broker,
    connection: Connection,
    topic_id: Uuid,
    leader: i32,
}

impl Setting {
    fn new(name: &'static str) -> Self {
        let broker = Broker::start(name);
        topics::create(broker.address(0), TOPIC, 1);
        let description = topics::describe(broker.address(0), TOPIC);
        let leader = description.leaders[0];
        let mut endpoints = broker.ready().endpoints.iter();
        let endpoint = endpoints.find(|endpoint| endpoint.broker_id == leader).expect("a shard leads");
        let connection = Connection::open(endpoint.address);
        Self { broker, connection, topic_id: description.id, leader }
    }

    fn topic_at(&self, version: i16, by_id_from: i16) -> (&'static str, Uuid) {
        if version >= by_id_from { ("", self.topic_id) } else { (TOPIC, Uuid::ZERO) }
    }
}

#[test]
fn what_is_advertised_is_what_the_codec_serves() {
    let mut setting = Setting::new("versions-advertised");
    for version in versions(ApiKey::ApiVersions) {
        let request = ApiVersionsRequest { client_software_name: "test", client_software_version: "1.0" };
        let answer = setting.connection.ask(version, &request);
        let response: ApiVersionsResponse<'_> = answer.body();
        assert_eq!(response.error_code, ErrorCode::NONE, "v{version}");
        for api in ApiKey::ALL {
            let row = response.api_keys.iter().find(|row| row.api_key == api.code());
            let range = row.map(|row| (row.min_version, row.max_version));
            assert_eq!(range, Some((api.advertised().min, api.advertised().max)), "{api} in v{version}");
        }
    }
}

#[test]
fn records_pass_through_every_version_of_produce_and_fetch() {
    let mut setting = Setting::new("versions-records");
    let mut batches = Vec::new();
    for version in versions(ApiKey::Produce) {
        let batch = batch(version);
        let base_offset = produce(&mut setting, version, &batch);
        assert_eq!(usize::try_from(base_offset), Ok(batches.len()), "Produce v{version}");
        batches.push(batch);
    }
    for version in versions(ApiKey::Fetch) {
        let records = fetch(&mut setting, version);
        // All that the broker may change stands before the checksum: offset and leader epoch.
        let stored: Vec<&[u8]> = split(&records).into_iter().map(|batch| &batch[16..]).collect();
        let sent: Vec<&[u8]> = batches.iter().map(|batch| &batch[16..]).collect();
        assert_eq!(stored, sent, "Fetch v{version}");
    }
}

fn batch(version: i16) -> Vec<u8> {
    let value = format!("written with v{version}");
    let mut builder = BatchBuilder::new();
    let record =
        NewRecord { timestamp: Timestamp(unix_ms()), value: Some(value.as_bytes()), ..NewRecord::default() };
    builder.push(&record).expect("one small record fits");
    builder.build().expect("one record makes a batch")
}

fn produce(setting: &mut Setting, version: i16, batch: &[u8]) -> i64 {
    let (name, topic_id) = setting.topic_at(version, PRODUCE_BY_ID);
    let partition_data = vec![PartitionProduceData { index: 0, records: Some(batch) }];
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![TopicProduceData { name, topic_id, partition_data }],
        ..ProduceRequest::default()
    };
    let answer = setting.connection.ask(version, &request);
    let response: ProduceResponse<'_> = answer.body();
    let partition = &response.responses[0].partition_responses[0];
    assert_eq!(partition.error_code, ErrorCode::NONE, "Produce v{version}: {partition:?}");
    partition.base_offset
}

fn fetch(setting: &mut Setting, version: i16) -> Vec<u8> {
    let (topic, topic_id) = setting.topic_at(version, FETCH_BY_ID);
    let partition = FetchPartition { partition_max_bytes: 1 << 20, ..FetchPartition::default() };
    let request = FetchRequest {
        max_wait_ms: 1_000,
        min_bytes: 1,
        topics: vec![FetchTopic { topic, topic_id, partitions: vec![partition] }],
        ..FetchRequest::default()
    };
    let answer = setting.connection.ask(version, &request);
    let response: FetchResponse<'_> = answer.body();
    assert_eq!(response.error_code, ErrorCode::NONE, "Fetch v{version}");
    let partition = &response.responses[0].partitions[0];
    assert_eq!(partition.error_code, ErrorCode::NONE, "Fetch v{version}: {partition:?}");
    partition.records.expect("there are records").to_vec()
}

/// The batches that stand one after the other in these bytes.
fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut batches = Vec::new();
    while !bytes.is_empty() {
        let (batch, rest) =
            RecordBatch::parse(bytes).unwrap_or_else(|error| panic!("a fetched batch is corrupt: {error}"));
        batches.push(batch.bytes());
        bytes = rest;
    }
    batches
}

#[test]
fn the_ends_of_a_log_are_found_in_every_version() {
    let mut setting = Setting::new("versions-ends");
    produce(&mut setting, 9, &batch(9));
    for version in versions(ApiKey::ListOffsets) {
        for (timestamp, expected) in [(EARLIEST, 0), (LATEST, 1), (0, 0)] {
            let partition = ListOffsetsPartition { timestamp, ..ListOffsetsPartition::default() };
            let topic = ListOffsetsTopic { name: TOPIC, partitions: vec![partition] };
            let request =
                ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..ListOffsetsRequest::default() };
            let answer = setting.connection.ask(version, &request);
            let response: ListOffsetsResponse<'_> = answer.body();
            let found = &response.topics[0].partitions[0];
            assert_eq!(
                (found.error_code, found.offset),
                (ErrorCode::NONE, expected),
                "v{version}: {found:?}"
            );
        }
    }
}

#[test]
fn records_are_deleted_in_every_version() {
    let mut setting = Setting::new("versions-deletions");
    for (version, offset) in versions(ApiKey::DeleteRecords).zip(1..) {
        produce(&mut setting, 9, &batch(9));
        let partitions = vec![DeleteRecordsPartition { partition_index: 0, offset }];
        let topics = vec![DeleteRecordsTopic { name: TOPIC, partitions }];
        let answer = setting.connection.ask(version, &DeleteRecordsRequest { topics, timeout_ms: 10_000 });
        let response: DeleteRecordsResponse<'_> = answer.body();
        let deleted = response.topics[0].partitions[0];
        assert_eq!((deleted.error_code, deleted.low_watermark), (ErrorCode::NONE, offset), "v{version}");
    }
}

#[test]
fn the_end_of_an_epoch_is_found_in_every_version() {
    let mut setting = Setting::new("versions-epochs");
    produce(&mut setting, 9, &batch(9));
    for version in versions(ApiKey::OffsetForLeaderEpoch) {
        let partitions = vec![OffsetForLeaderPartition::default()];
        let topics = vec![OffsetForLeaderTopic { topic: TOPIC, partitions }];
        let request = OffsetForLeaderEpochRequest { replica_id: -1, topics };
        let answer = setting.connection.ask(version, &request);
        let response: OffsetForLeaderEpochResponse<'_> = answer.body();
        let found = response.topics[0].partitions[0];
        assert_eq!((found.error_code, found.end_offset), (ErrorCode::NONE, 1), "v{version}: {found:?}");
    }
}

/// The value of the topic's `retention.ms`, and the number of where it comes from.
fn retention_ms(setting: &mut Setting, version: i16) -> (String, i8) {
    let resources = vec![DescribeConfigsResource {
        resource_type: config_resource::TOPIC,
        resource_name: TOPIC,
        configuration_keys: Some(vec!["retention.ms"]),
    }];
    let request = DescribeConfigsRequest { resources, ..DescribeConfigsRequest::default() };
    let answer = setting.connection.ask(version, &request);
    let response: DescribeConfigsResponse<'_> = answer.body();
    let [config] = &response.results[0].configs[..] else { panic!("one was asked for: {response:?}") };
    (config.value.unwrap_or_default().to_owned(), config.config_source)
}

#[test]
fn a_topics_settings_are_described_in_every_version() {
    let mut setting = Setting::new("versions-described-settings");
    for version in versions(ApiKey::DescribeConfigs) {
        assert_eq!(retention_ms(&mut setting, version), ("604800000".to_owned(), 5), "v{version}");
    }
}

#[test]
fn what_has_settings_is_listed_in_every_version() {
    let mut setting = Setting::new("versions-listed-settings");
    for version in versions(ApiKey::ListConfigResources) {
        let request = ListConfigResourcesRequest { resource_types: Vec::new() };
        let answer = setting.connection.ask(version, &request);
        let response: ListConfigResourcesResponse<'_> = answer.body();
        assert_eq!(response.error_code, ErrorCode::NONE, "v{version}");
        let listed = &response.config_resources;
        let topic = listed.iter().find(|listed| listed.resource_type == config_resource::TOPIC);
        let expected = (version >= 1).then_some(TOPIC);
        assert_eq!(topic.map(|topic| topic.resource_name), expected, "v{version}: {listed:?}");
    }
}

#[test]
fn a_topics_settings_are_replaced_in_every_version() {
    let mut setting = Setting::new("versions-replaced-settings");
    for (version, value) in versions(ApiKey::AlterConfigs).zip(["60000", "70000", "80000"]) {
        let configs = vec![alter_configs::AlterableConfig { name: "retention.ms", value: Some(value) }];
        let resources = vec![alter_configs::AlterConfigsResource {
            resource_type: config_resource::TOPIC,
            resource_name: TOPIC,
            configs,
        }];
        let request = AlterConfigsRequest { resources, validate_only: false };
        let answer = setting.connection.ask(version, &request);
        let response: AlterConfigsResponse<'_> = answer.body();
        assert_eq!(response.responses[0].error_code, ErrorCode::NONE, "v{version}");
        assert_eq!(retention_ms(&mut setting, 4), (value.to_owned(), 1), "v{version}");
    }
}

#[test]
fn a_topics_settings_are_changed_by_name_in_every_version() {
    let mut setting = Setting::new("versions-changed-settings");
    for version in versions(ApiKey::IncrementalAlterConfigs) {
        let changes = [
            (incremental_alter_configs::SET, Some("60000"), ("60000", 1)),
            (incremental_alter_configs::DELETE, None, ("604800000", 5)),
        ];
        for (config_operation, value, (after, source)) in changes {
            let name = "retention.ms";
            let resources = vec![incremental_alter_configs::AlterConfigsResource {
                resource_type: config_resource::TOPIC,
                resource_name: TOPIC,
                configs: vec![incremental_alter_configs::AlterableConfig { name, config_operation, value }],
            }];
            let request = IncrementalAlterConfigsRequest { resources, validate_only: false };
            let answer = setting.connection.ask(version, &request);
            let response: IncrementalAlterConfigsResponse<'_> = answer.body();
            assert_eq!(response.responses[0].error_code, ErrorCode::NONE, "v{version}");
            assert_eq!(retention_ms(&mut setting, 4), (after.to_owned(), source), "v{version}");
        }
    }
}

#[test]
fn log_directories_are_described_in_every_version() {
    let mut setting = Setting::new("versions-directories");
    let written = batch(9);
    produce(&mut setting, 9, &written);
    for version in versions(ApiKey::DescribeLogDirs) {
        let answer =
            setting.connection.ask(version, &DescribeLogDirsRequest { topics: None, count_segments: true });
        let response: DescribeLogDirsResponse<'_> = answer.body();
        let [directory] = &response.results[..] else { panic!("there is one: {response:?}") };
        assert!(Path::new(directory.log_dir).join("format.toml").is_absolute(), "v{version}: {directory:?}");
        let partition = directory.topics[0].partitions[0];
        assert_eq!(directory.topics[0].name, TOPIC, "v{version}");
        assert_eq!(usize::try_from(partition.partition_size), Ok(written.len()), "v{version}");
        assert_eq!(partition.segment_count, if version >= 2 { 1 } else { -1 }, "v{version}");
        let space = directory.usable_bytes > 0 && directory.total_bytes >= directory.usable_bytes;
        assert_eq!(space, version >= 4, "v{version}: {directory:?}");
    }
}

#[test]
fn the_cluster_is_described_in_every_version() {
    let mut setting = Setting::new("versions-cluster");
    let ids: Vec<i32> = setting.broker.ready().endpoints.iter().map(|endpoint| endpoint.broker_id).collect();
    for version in versions(ApiKey::Metadata) {
        let topic = MetadataRequestTopic { name: Some(TOPIC), ..MetadataRequestTopic::default() };
        let request = MetadataRequest { topics: Some(vec![topic]), ..MetadataRequest::default() };
        let answer = setting.connection.ask(version, &request);
        let response: MetadataResponse<'_> = answer.body();
        assert_eq!(
            response.brokers.iter().map(|broker| broker.node_id).collect::<Vec<_>>(),
            ids,
            "v{version}"
        );
        assert_eq!(response.topics[0].partitions[0].leader_id, setting.leader, "v{version}");
    }
    for version in versions(ApiKey::DescribeTopicPartitions) {
        let request = DescribeTopicPartitionsRequest::default();
        let answer = setting.connection.ask(version, &request);
        let response: DescribeTopicPartitionsResponse<'_> = answer.body();
        let described = &response.topics[0];
        assert_eq!((described.name, described.topic_id), (Some(TOPIC), setting.topic_id), "v{version}");
        assert_eq!(described.partitions[0].leader_id, setting.leader, "v{version}");
    }
    for version in versions(ApiKey::DescribeCluster) {
        let answer = setting.connection.ask(version, &DescribeClusterRequest::default());
        let response: DescribeClusterResponse<'_> = answer.body();
        assert_eq!(response.cluster_id, setting.broker.ready().cluster_id, "v{version}");
        assert_eq!(
            response.brokers.iter().map(|broker| broker.broker_id).collect::<Vec<_>>(),
            ids,
            "v{version}"
        );
    }
}

#[test]
fn every_producer_gets_an_id_of_its_own() {
    let mut setting = Setting::new("versions-producers");
    let mut ids = Vec::new();
    for version in versions(ApiKey::InitProducerId) {
        let request = InitProducerIdRequest { transactional_id: None, ..InitProducerIdRequest::default() };
        let answer = setting.connection.ask(version, &request);
        let response: InitProducerIdResponse = answer.body();
        assert_eq!((response.error_code, response.producer_epoch), (ErrorCode::NONE, 0), "v{version}");
        ids.push(response.producer_id);
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "{ids:?}");
}

#[test]
fn topics_come_and_go_in_every_version() {
    let mut setting = Setting::new("versions-topics");
    let address = setting.broker.address(0);
    for version in versions(ApiKey::CreateTopics) {
        let topic = CreatableTopic {
            name: "passing",
            num_partitions: 3,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: Vec::new(),
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
        let answer = setting.connection.ask(version, &request);
        let response: CreateTopicsResponse<'_> = answer.body();
        assert_eq!(response.topics[0].error_code, ErrorCode::NONE, "CreateTopics v{version}: {response:?}");
        assert_eq!(topics::describe(address, "passing").leaders.len(), 3);
        delete(&mut setting.connection, 3, "passing");
    }
    for version in versions(ApiKey::DeleteTopics) {
        topics::create(address, "passing", 3);
        delete(&mut setting.connection, version, "passing");
    }
}

#[test]
fn a_topic_gets_more_partitions_in_every_version() {
    let mut setting = Setting::new("versions-partitions");
    for (version, count) in versions(ApiKey::CreatePartitions).zip(2..) {
        let topics = vec![CreatePartitionsTopic { name: TOPIC, count, assignments: None }];
        let request = CreatePartitionsRequest { topics, timeout_ms: 10_000, validate_only: false };
        let answer = setting.connection.ask(version, &request);
        let response: CreatePartitionsResponse<'_> = answer.body();
        assert_eq!(response.results[0].error_code, ErrorCode::NONE, "v{version}: {response:?}");
        let described = topics::describe(setting.broker.address(0), TOPIC);
        assert_eq!(i32::try_from(described.leaders.len()), Ok(count), "v{version}");
    }
}

fn delete(connection: &mut Connection, version: i16, name: &str) {
    let state = DeleteTopicState { name: Some(name), topic_id: Uuid::ZERO };
    let request = match version {
        ..6 => DeleteTopicsRequest { topic_names: vec![name], timeout_ms: 10_000, ..Default::default() },
        6.. => DeleteTopicsRequest { topics: vec![state], timeout_ms: 10_000, ..Default::default() },
    };
    let answer = connection.ask(version, &request);
    let response: DeleteTopicsResponse<'_> = answer.body();
    assert_eq!(response.responses[0].error_code, ErrorCode::NONE, "DeleteTopics v{version}: {response:?}");
}

fn versions(api: ApiKey) -> std::ops::RangeInclusive<i16> {
    api.versions().min..=api.versions().max
}
