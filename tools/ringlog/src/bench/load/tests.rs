//! Real closed loops over real sockets, to a stub that takes everything and keeps nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::channel;

use loadgen::{Bottleneck, Report};
use net_wire::messages::api_versions::ApiVersion;
use net_wire::messages::create_topics::CreatableTopicResult;
use net_wire::messages::list_offsets::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use net_wire::messages::metadata::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use net_wire::messages::produce::{PartitionProduceResponse, TopicProduceResponse};
use net_wire::messages::{
    ApiVersionsResponse, CreateTopicsRequest, CreateTopicsResponse, InitProducerIdResponse,
    ListOffsetsRequest, ListOffsetsResponse, MetadataResponse, ProduceResponse,
};
use net_wire::{
    ApiKey, ErrorCode, Message, ProduceView, Reader, RequestHeader, TopicRef, Uuid, encode_response,
};

use super::*;

const TOPIC: &str = "bench";
const TOPIC_ID: Uuid = Uuid([7; 16]);
const PARTITIONS: u32 = 4;

/// A broker that acknowledges everything so long after it came, on a thread a connection. Its threads end with the
/// connections, the one that accepts them with the process.
#[derive(Clone, Copy, Debug)]
struct Stub {
    address: SocketAddr,
    delay: Duration,
}

impl Stub {
    fn start(delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stub = Self { address: listener.local_addr().unwrap(), delay };
        client::spawn_thread("stub", move || {
            for stream in listener.incoming() {
                client::spawn_thread("stub-answers", move || stub.serve(stream.unwrap())).unwrap();
            }
        })
        .unwrap();
        stub
    }

    fn serve(self, mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut size = [0; 4];
        let mut frame = Vec::new();
        while stream.read_exact(&mut size).is_ok() {
            frame.resize(usize::try_from(i32::from_be_bytes(size)).unwrap(), 0);
            if stream.read_exact(&mut frame).is_err() || stream.write_all(&self.answer(&frame)).is_err() {
                return;
            }
        }
    }

    fn answer(self, frame: &[u8]) -> Vec<u8> {
        let mut reader = Reader::new(frame);
        let RequestHeader { api, version, correlation_id, .. } = RequestHeader::decode(&mut reader).unwrap();
        let mut out = Vec::new();
        macro_rules! respond {
            ($response:expr) => {
                encode_response(&mut out, correlation_id, version, &$response).unwrap()
            };
        }
        match api {
            ApiKey::ApiVersions => {
                let api_keys = ApiKey::ALL.iter().copied().map(ApiVersion::advertised).collect();
                respond!(ApiVersionsResponse { api_keys, ..Default::default() });
            }
            ApiKey::Metadata => self.describe(|response| respond!(response)),
            ApiKey::CreateTopics => respond!(created(&mut reader, version)),
            ApiKey::ListOffsets => respond!(offsets(&mut reader, version)),
            ApiKey::InitProducerId => {
                respond!(InitProducerIdResponse { producer_id: 1, ..Default::default() });
            }
            ApiKey::Produce => {
                if !self.delay.is_zero() {
                    // Nobody tells anything, so this takes all of the time.
                    let (_told, waiting) = channel::<()>();
                    let _timeout = waiting.recv_timeout(self.delay);
                }
                respond!(appended(&mut reader, version));
            }
            ApiKey::Fetch
            | ApiKey::DeleteTopics
            | ApiKey::DeleteRecords
            | ApiKey::OffsetForLeaderEpoch
            | ApiKey::DescribeConfigs
            | ApiKey::AlterConfigs
            | ApiKey::IncrementalAlterConfigs
            | ApiKey::CreatePartitions
            | ApiKey::DescribeLogDirs
            | ApiKey::DescribeTopicPartitions
            | ApiKey::ListConfigResources
            | ApiKey::DescribeCluster => panic!("nothing is read or changed here: {api}"),
        }
        out
    }

    fn describe(self, respond: impl FnOnce(MetadataResponse<'_>)) {
        let host = self.address.ip().to_string();
        let partitions = (0..PARTITIONS).map(|partition| MetadataResponsePartition {
            partition_index: i32::try_from(partition).unwrap(),
            leader_id: 1,
            ..Default::default()
        });
        let topic = MetadataResponseTopic {
            name: Some(TOPIC),
            topic_id: TOPIC_ID,
            partitions: partitions.collect(),
            ..Default::default()
        };
        let broker = MetadataResponseBroker {
            node_id: 1,
            host: &host,
            port: i32::from(self.address.port()),
            rack: None,
        };
        respond(MetadataResponse {
            brokers: vec![broker],
            controller_id: 1,
            topics: vec![topic],
            ..Default::default()
        });
    }
}

fn created<'a>(reader: &mut Reader<'a>, version: i16) -> CreateTopicsResponse<'a> {
    let request = CreateTopicsRequest::decode(reader, version).unwrap();
    let result = |name| CreatableTopicResult { name, error_code: ErrorCode::NONE, ..Default::default() };
    let topics = request.topics.iter().map(|topic| result(topic.name)).collect();
    CreateTopicsResponse { topics, ..Default::default() }
}

fn offsets<'a>(reader: &mut Reader<'a>, version: i16) -> ListOffsetsResponse<'a> {
    let request = ListOffsetsRequest::decode(reader, version).unwrap();
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| ListOffsetsPartitionResponse {
            partition_index: partition.partition_index,
            offset: 0,
            ..Default::default()
        });
        ListOffsetsTopicResponse { name: topic.name, partitions: partitions.collect() }
    });
    ListOffsetsResponse { topics: topics.collect(), ..Default::default() }
}

fn appended<'a>(reader: &mut Reader<'a>, version: i16) -> ProduceResponse<'a> {
    let request = ProduceView::decode(reader, version).unwrap();
    let topics = request.topics().map(|topic| {
        let (name, topic_id) = match topic.topic {
            TopicRef::Name(name) => (name, Uuid::ZERO),
            TopicRef::Id(id) => ("", id),
        };
        let partition_responses = topic
            .partitions()
            .map(|partition| PartitionProduceResponse { index: partition.index, ..Default::default() });
        TopicProduceResponse { name, topic_id, partition_responses: partition_responses.collect() }
    });
    ProduceResponse { responses: topics.collect(), ..Default::default() }
}

/// What a closed loop of small records comes to, from one core.
fn closed_loop(stub: Stub, batches_in_flight: u32) -> Report {
    let plan = LoadPlan {
        bootstrap: vec![stub.address.to_string()],
        topic: TOPIC.to_owned(),
        partitions: PARTITIONS,
        pace: Pace::Closed { batches_in_flight },
        consumers: 0,
        record_bytes: 40,
        duration: Duration::from_secs(1),
        warmup: Duration::from_millis(200),
        ..LoadPlan::default()
    };
    let cores = tuning::usable_cores(Path::new("/")).unwrap().one_per_physical_core();
    let generator = Generator::new(vec![*cores.last().unwrap()], Resolver::default());
    let loaded = run(&generator, &plan, None, ("maximum", Incident::None)).unwrap();
    assert_eq!(loaded.threads.len(), 1, "a shard on each core");
    Report::new(&plan, &loaded.outcome, &loaded.threads)
}

#[test]
fn a_broker_that_answers_at_once_is_not_what_limits_a_closed_loop() {
    let report = closed_loop(Stub::start(Duration::ZERO), 64);
    assert!(report.acknowledged.records_per_second > 1_000.0, "{report:?}");
    assert_eq!(report.bottleneck, Bottleneck::Generator, "{report:?}");
}

#[test]
fn a_broker_that_lets_a_closed_loop_wait_is_what_limits_it() {
    let report = closed_loop(Stub::start(Duration::from_millis(50)), 1);
    assert!(report.acknowledged.records_per_second > 1_000.0, "{report:?}");
    assert_eq!(report.bottleneck, Bottleneck::Broker, "{report:?}");
}
