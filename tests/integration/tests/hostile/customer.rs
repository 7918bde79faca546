//! An ordinary client: writes a record, reads it back, asks for metadata, and takes the time of each.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine_record::{BatchBuilder, NewRecord, RecordBatch, Timestamp};
use integration::clock::unix_ms;
use integration::{Broker, Connection, Stopwatch, topics};
use net_wire::ErrorCode;
use net_wire::messages::fetch::{FetchPartition, FetchTopic};
use net_wire::messages::produce::{PartitionProduceData, TopicProduceData};
use net_wire::messages::{
    FetchRequest, FetchResponse, MetadataRequest, MetadataResponse, ProduceRequest, ProduceResponse,
};

/// The customer's own topic.
pub(crate) const TOPIC: &str = "customer";
/// Versions that name topics by name.
const PRODUCE_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 11;
const METADATA_VERSION: i16 = 9;

/// Where each partition is reached, and how many brokers there are.
#[derive(Debug)]
pub(crate) struct Leaders {
    partitions: Vec<(i32, SocketAddr)>,
    brokers: usize,
}

impl Leaders {
    pub(crate) fn of(broker: &Broker) -> Self {
        let leaders = topics::describe(broker.address(0), TOPIC).leaders;
        let endpoints = &broker.ready().endpoints;
        let address = |leader: i32| {
            let endpoint = endpoints.iter().find(|endpoint| endpoint.broker_id == leader);
            endpoint.expect("a leader is one of the brokers").address
        };
        let partitions = (0..).zip(leaders).map(|(partition, leader)| (partition, address(leader)));
        Self { partitions: partitions.collect(), brokers: endpoints.len() }
    }
}

/// Serves itself from every partition in turn until it is told to stop; on its connections for as long as they last, which
/// must be to the end.
pub(crate) fn serve_until(leaders: &Leaders, stop: &AtomicBool) -> Latencies {
    let mut latencies = Latencies::default();
    let mut connections: Vec<Connection> =
        leaders.partitions.iter().map(|(_, address)| Connection::open(*address)).collect();
    let mut sequence = 0;
    while !stop.load(Ordering::Relaxed) {
        for (connection, (partition, _)) in connections.iter_mut().zip(&leaders.partitions) {
            latencies.time(|| produce(connection, *partition, sequence));
            latencies.time(|| fetch(connection, *partition, sequence));
            latencies.time(|| ask_for_brokers(connection, leaders.brokers));
        }
        sequence += 1;
    }
    assert!(sequence > 0, "the customer was served at least once");
    latencies
}

fn produce(connection: &mut Connection, partition: i32, sequence: i64) {
    let batch = batch(sequence);
    let partition_data = vec![PartitionProduceData { index: partition, records: Some(&batch) }];
    let topic_data = vec![TopicProduceData { name: TOPIC, partition_data, ..TopicProduceData::default() }];
    let request = ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data, ..ProduceRequest::default() };
    let answer = connection.ask(PRODUCE_VERSION, &request);
    let response: ProduceResponse<'_> = answer.body();
    let produced = &response.responses[0].partition_responses[0];
    assert_eq!((produced.error_code, produced.base_offset), (ErrorCode::NONE, sequence), "{produced:?}");
}

/// One record, whose value is its number.
fn batch(sequence: i64) -> Vec<u8> {
    let value = sequence.to_be_bytes();
    let record = NewRecord { timestamp: Timestamp(unix_ms()), value: Some(&value), ..NewRecord::default() };
    let mut builder = BatchBuilder::new();
    builder.push(&record).expect("one small record fits");
    builder.build().expect("one record makes a batch")
}

fn fetch(connection: &mut Connection, partition: i32, sequence: i64) {
    let partition = FetchPartition {
        partition,
        fetch_offset: sequence,
        partition_max_bytes: 1 << 16,
        ..FetchPartition::default()
    };
    let topics = vec![FetchTopic { topic: TOPIC, partitions: vec![partition], ..FetchTopic::default() }];
    let request = FetchRequest { max_wait_ms: 1_000, min_bytes: 1, topics, ..FetchRequest::default() };
    let answer = connection.ask(FETCH_VERSION, &request);
    let response: FetchResponse<'_> = answer.body();
    let fetched = &response.responses[0].partitions[0];
    assert_eq!(fetched.error_code, ErrorCode::NONE, "{fetched:?}");
    let bytes = fetched.records.expect("the record that was just written is there");
    let (batch, _) = RecordBatch::parse(bytes).expect("a fetched batch is whole");
    let record = batch.records().expect("the customer doesn't compress").next();
    let value = record.expect("a batch has a record").expect("a fetched record is whole").value;
    assert_eq!(value, Some(&sequence.to_be_bytes()[..]), "offset {sequence}");
}

fn ask_for_brokers(connection: &mut Connection, count: usize) {
    let request = MetadataRequest { topics: Some(Vec::new()), ..MetadataRequest::default() };
    let answer = connection.ask(METADATA_VERSION, &request);
    let response: MetadataResponse<'_> = answer.body();
    assert_eq!(response.brokers.len(), count, "{response:?}");
}

/// How long the customer waited for each answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    fn time(&mut self, request: impl FnOnce()) {
        let stopwatch = Stopwatch::start();
        request();
        self.0.push(stopwatch.elapsed());
    }

    /// The longest.
    pub(crate) fn max(&self) -> Duration {
        self.0.iter().copied().max().unwrap_or_default()
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = |share: usize| sorted.get(sorted.len() * share / 1000).copied().unwrap_or_default();
        write!(f, "{} answers, p50 {:?}, p99 {:?}, longest {:?}", sorted.len(), at(500), at(990), self.max())
    }
}
