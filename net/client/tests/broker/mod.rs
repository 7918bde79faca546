//! A tiny cluster in memory, enough to try the client's shells on the simulated seam: it keeps batches as they come,
//! recognizes repetitions, and knows who leads.

mod configs;

use core::time::Duration;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

use engine_io::{Io, ListenMode, Listener, SendPiece, Signal, Stream, StreamReader, StreamWriter, deadline};
use engine_record::{LeaderEpoch, Offset, RecordBatch, assign};
use net_wire::messages::api_versions::ApiVersion;
use net_wire::messages::create_partitions::{CreatePartitionsTopic, CreatePartitionsTopicResult};
use net_wire::messages::create_topics::CreatableTopicResult;
use net_wire::messages::delete_topics::DeletableTopicResult;
use net_wire::messages::describe_cluster::DescribeClusterBroker;
use net_wire::messages::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use net_wire::messages::fetch::{FetchableTopicResponse, PartitionData};
use net_wire::messages::list_offsets::{EARLIEST, ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use net_wire::messages::metadata::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use net_wire::messages::produce::{PartitionProduceResponse, TopicProduceResponse};
use net_wire::messages::*;
use net_wire::{
    ApiKey, ErrorCode, Message, ProduceView, Reader, RequestHeader, TopicRef, Uuid, encode_response,
};
use sim::{SimIo, SimNode};

#[derive(Default)]
struct Log {
    leader: i32,
    leader_epoch: i32,
    /// Base offset and bytes.
    batches: Vec<(i64, Vec<u8>)>,
    start: i64,
    end: i64,
    /// Where records end for readers, if before the end.
    readable_end: Option<i64>,
    /// (producer id, epoch, base sequence, base offset) of the last batches.
    remembered: VecDeque<(i64, i16, i32, i64)>,
    /// So many of the next batches are promised and dropped, or appended twice.
    to_lose: u32,
    to_repeat: u32,
    /// Its storage has failed.
    is_faulty: bool,
}

impl Log {
    fn end_for_readers(&self) -> i64 {
        self.readable_end.unwrap_or(self.end)
    }
}

struct TopicLogs {
    id: Uuid,
    partitions: Vec<Log>,
    configs: BTreeMap<String, String>,
}

#[derive(Default)]
struct State {
    brokers: BTreeMap<i32, SocketAddr>,
    topics: BTreeMap<String, TopicLogs>,
    next_topic: u8,
    next_producer: i64,
    /// Only version 0 of ApiVersions is spoken.
    is_old: bool,
    requests: u64,
}

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct Cluster {
    state: Rc<RefCell<State>>,
    appended: Signal,
}

impl Cluster {
    /// Starts a broker on a machine. It stops with it.
    pub(crate) fn start(&self, id: i32, node: &SimNode) {
        let address = SocketAddr::new(node.address(), 9_092);
        self.state.borrow_mut().brokers.insert(id, address);
        let (cluster, io) = (self.clone(), node.io());
        let serving = io.clone();
        // The simulator ends tasks with their machine.
        core::mem::forget(io.spawn(async move { cluster.serve(id, serving, address).await }));
    }

    pub(crate) fn speaks_only_version_zero_of_api_versions(&self) {
        self.state.borrow_mut().is_old = true;
    }

    pub(crate) fn create(&self, name: &str, leaders: &[i32]) {
        let mut state = self.state.borrow_mut();
        state.next_topic += 1;
        let id = Uuid([state.next_topic; 16]);
        let partitions = leaders.iter().map(|&leader| Log { leader, ..Log::default() }).collect();
        state.topics.insert(name.to_owned(), TopicLogs { id, partitions, configs: BTreeMap::new() });
    }

    pub(crate) fn move_leader(&self, name: &str, partition: usize, leader: i32) {
        let mut state = self.state.borrow_mut();
        let log = &mut state.topics.get_mut(name).unwrap().partitions[partition];
        log.leader = leader;
        log.leader_epoch += 1;
        drop(state);
        self.appended.notify();
    }

    fn with_log(&self, name: &str, partition: usize, change: impl FnOnce(&mut Log)) {
        change(&mut self.state.borrow_mut().topics.get_mut(name).unwrap().partitions[partition]);
    }

    /// Promises the next batches and drops them.
    pub(crate) fn answers_without_appending(&self, name: &str, partition: usize, batches: u32) {
        self.with_log(name, partition, |log| log.to_lose = batches);
    }

    /// Appends the next batches twice.
    pub(crate) fn appends_twice(&self, name: &str, partition: usize, batches: u32) {
        self.with_log(name, partition, |log| log.to_repeat = batches);
    }

    /// Appends and acknowledges, and lets nobody read what comes from now on.
    pub(crate) fn hides_what_comes(&self, name: &str, partition: usize) {
        self.with_log(name, partition, |log| log.readable_end = Some(log.end));
    }

    /// Nothing can be read of a partition from now on, or again.
    pub(crate) fn storage_fails(&self, name: &str, partition: usize, is_faulty: bool) {
        self.with_log(name, partition, |log| log.is_faulty = is_faulty);
        self.appended.notify();
    }

    /// What is in a partition now is deleted, as retention does it: its offsets are gone.
    pub(crate) fn deletes_what_is_there(&self, name: &str, partition: usize) {
        self.with_log(name, partition, |log| {
            log.batches.clear();
            log.start = log.end;
        });
    }

    /// The last batches of a partition vanish, as if they had never been written: what comes next has their offsets.
    /// Answers how many records that were.
    pub(crate) fn truncates(&self, name: &str, partition: usize, batches: usize) -> u64 {
        let mut state = self.state.borrow_mut();
        let log = &mut state.topics.get_mut(name).unwrap().partitions[partition];
        let end = log.end;
        let left = log.batches.len() - batches;
        log.end = log.batches[left].0;
        log.batches.truncate(left);
        u64::try_from(end - log.end).unwrap()
    }

    /// Lets everything be read again.
    pub(crate) fn shows_everything(&self, name: &str, partition: usize) {
        self.with_log(name, partition, |log| log.readable_end = None);
        self.appended.notify();
    }

    /// The values in a partition, in order.
    pub(crate) fn values(&self, name: &str, partition: usize) -> Vec<Vec<u8>> {
        let state = self.state.borrow();
        let batches = &state.topics[name].partitions[partition].batches;
        let values = batches.iter().flat_map(|(_, bytes)| {
            let (batch, _) = RecordBatch::parse(bytes).unwrap();
            batch.records().unwrap().map(|record| record.unwrap().value.unwrap().to_vec()).collect::<Vec<_>>()
        });
        values.collect()
    }

    pub(crate) fn request_count(&self) -> u64 {
        self.state.borrow().requests
    }

    async fn serve(self, id: i32, io: SimIo, address: SocketAddr) {
        let listener = io.listen(address, ListenMode::Exclusive).await.unwrap();
        while let Ok(stream) = listener.accept().await {
            let (cluster, serving) = (self.clone(), io.clone());
            core::mem::forget(io.spawn(async move { cluster.answer_all(id, serving, stream).await }));
        }
    }

    async fn answer_all(self, id: i32, io: SimIo, stream: <SimIo as Io>::Stream) {
        let (mut reader, mut writer) = stream.split();
        loop {
            let (received, size) = reader.receive_exactly(Vec::new(), 4).await;
            if received.is_err() {
                return;
            }
            let bytes = usize::try_from(i32::from_be_bytes(size.try_into().unwrap())).unwrap();
            let (received, frame) = reader.receive_exactly(Vec::new(), bytes).await;
            if received.is_err() {
                return;
            }
            self.state.borrow_mut().requests += 1;
            let answer = self.answer(id, &io, &frame).await;
            if !answer.is_empty() && writer.send(vec![SendPiece::Owned(answer)]).await.is_err() {
                return;
            }
        }
    }

    async fn answer(&self, id: i32, io: &SimIo, frame: &[u8]) -> Vec<u8> {
        let mut reader = Reader::new(frame);
        let header = RequestHeader::decode(&mut reader).unwrap();
        let mut out = Vec::new();
        let (correlation_id, version) = (header.correlation_id, header.version);
        macro_rules! read {
            ($request:ty) => {
                <$request>::decode(&mut reader, version).unwrap()
            };
        }
        macro_rules! respond {
            ($response:expr) => {
                encode_response(&mut out, correlation_id, version, &$response).unwrap()
            };
        }
        match header.api {
            ApiKey::ApiVersions if self.state.borrow().is_old && version > 0 => {
                encode_response(&mut out, correlation_id, 0, &ApiVersionsResponse::unsupported_version())
                    .unwrap();
            }
            ApiKey::ApiVersions => {
                let api_keys = ApiKey::ALL.iter().copied().map(ApiVersion::advertised).collect();
                respond!(ApiVersionsResponse { api_keys, ..Default::default() });
            }
            ApiKey::Metadata => self.metadata(&mut reader, version, |response| respond!(response)),
            ApiKey::Produce => {
                let request = ProduceView::decode(&mut reader, version).unwrap();
                let response = produce(&mut self.state.borrow_mut(), id, &request);
                self.appended.notify();
                if request.acks != 0 {
                    respond!(response);
                }
            }
            ApiKey::Fetch => {
                let request = read!(FetchRequest<'_>);
                self.wait_for_news(id, io, &request).await;
                respond!(fetch(&self.state.borrow(), id, &request));
            }
            ApiKey::ListOffsets => {
                respond!(list_offsets(&self.state.borrow(), id, &read!(ListOffsetsRequest<'_>)));
            }
            ApiKey::InitProducerId => {
                let mut state = self.state.borrow_mut();
                state.next_producer += 1;
                respond!(InitProducerIdResponse { producer_id: state.next_producer, ..Default::default() });
            }
            ApiKey::CreateTopics => respond!(self.create_topics(&read!(CreateTopicsRequest<'_>))),
            ApiKey::DeleteTopics => respond!(self.delete_topics(&read!(DeleteTopicsRequest<'_>))),
            ApiKey::CreatePartitions => {
                respond!(self.create_partitions(&read!(CreatePartitionsRequest<'_>)));
            }
            ApiKey::DescribeConfigs => {
                respond!(configs::describe(&self.state.borrow(), &read!(DescribeConfigsRequest<'_>)));
            }
            ApiKey::IncrementalAlterConfigs => {
                let state = &mut self.state.borrow_mut();
                respond!(configs::alter(state, &read!(IncrementalAlterConfigsRequest<'_>)));
            }
            ApiKey::DescribeLogDirs => {
                respond!(log_dirs(&self.state.borrow(), id, &read!(DescribeLogDirsRequest<'_>)));
            }
            ApiKey::DescribeCluster => self.describe_cluster(|response| respond!(response)),
            api @ (ApiKey::DeleteRecords
            | ApiKey::OffsetForLeaderEpoch
            | ApiKey::AlterConfigs
            | ApiKey::DescribeTopicPartitions
            | ApiKey::ListConfigResources) => panic!("no test asks for {api}"),
        }
        out
    }

    async fn wait_for_news(&self, id: i32, io: &SimIo, request: &FetchRequest<'_>) {
        let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap());
        let until = io.now().after(wait);
        while !has_news(&self.state.borrow(), id, request) {
            if deadline(io, until, self.appended.wait()).await.is_none() {
                return;
            }
        }
    }

    fn describe_cluster(&self, respond: impl FnOnce(DescribeClusterResponse<'_>)) {
        let brokers = self.state.borrow().brokers.clone();
        let hosts: Vec<_> = brokers.values().map(|address| address.ip().to_string()).collect();
        let brokers = brokers.iter().zip(&hosts).map(|((&broker_id, address), host)| DescribeClusterBroker {
            broker_id,
            host,
            port: i32::from(address.port()),
            ..Default::default()
        });
        respond(DescribeClusterResponse {
            cluster_id: "tiny",
            controller_id: 1,
            brokers: brokers.collect(),
            ..Default::default()
        });
    }

    fn metadata(&self, reader: &mut Reader<'_>, version: i16, respond: impl FnOnce(MetadataResponse<'_>)) {
        let request = MetadataRequest::decode(reader, version).unwrap();
        let state = self.state.borrow();
        let hosts: Vec<_> = state.brokers.values().map(|address| address.ip().to_string()).collect();
        let all = || state.topics.keys().map(String::as_str).collect();
        let named =
            request.topics.as_ref().map(|topics| topics.iter().filter_map(|topic| topic.name).collect());
        let names: Vec<_> = named.unwrap_or_else(all);
        respond(MetadataResponse {
            brokers: state
                .brokers
                .iter()
                .zip(&hosts)
                .map(|((&node_id, address), host)| MetadataResponseBroker {
                    node_id,
                    host,
                    port: i32::from(address.port()),
                    rack: None,
                })
                .collect(),
            cluster_id: Some("tiny"),
            controller_id: 1,
            topics: names.into_iter().map(|name| describe(&state, name)).collect(),
            ..Default::default()
        });
    }

    fn create_topics<'a>(&self, request: &CreateTopicsRequest<'a>) -> CreateTopicsResponse<'a> {
        let topics = request.topics.iter().map(|topic| {
            let exists = self.state.borrow().topics.contains_key(topic.name);
            if !exists && !request.validate_only {
                let count = usize::try_from(topic.num_partitions.max(1)).unwrap();
                self.create(topic.name, &vec![1; count]);
            }
            let error_code = if exists { ErrorCode::TOPIC_ALREADY_EXISTS } else { ErrorCode::NONE };
            CreatableTopicResult { name: topic.name, error_code, error_message: None, ..Default::default() }
        });
        CreateTopicsResponse { topics: topics.collect(), ..Default::default() }
    }

    fn create_partitions<'a>(&self, request: &CreatePartitionsRequest<'a>) -> CreatePartitionsResponse<'a> {
        let results = request.topics.iter().map(|topic| {
            let error_code = self.grow(topic, request.validate_only).err().unwrap_or(ErrorCode::NONE);
            CreatePartitionsTopicResult { name: topic.name, error_code, error_message: None }
        });
        CreatePartitionsResponse { results: results.collect(), ..Default::default() }
    }

    fn grow(&self, asked: &CreatePartitionsTopic<'_>, validate_only: bool) -> Result<(), ErrorCode> {
        let state = &mut *self.state.borrow_mut();
        let topic = state.topics.get_mut(asked.name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let count = usize::try_from(asked.count).unwrap();
        if count <= topic.partitions.len() {
            return Err(ErrorCode::INVALID_PARTITIONS);
        }
        if !validate_only {
            topic.partitions.resize_with(count, || Log { leader: 1, ..Log::default() });
        }
        Ok(())
    }

    fn delete_topics<'a>(&self, request: &DeleteTopicsRequest<'a>) -> DeleteTopicsResponse<'a> {
        let names = request.topics.iter().filter_map(|topic| topic.name);
        let responses = names.chain(request.topic_names.iter().copied()).map(|name| {
            let was_there = self.state.borrow_mut().topics.remove(name).is_some();
            let error_code = if was_there { ErrorCode::NONE } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
            DeletableTopicResult { name: Some(name), error_code, ..Default::default() }
        });
        DeleteTopicsResponse { responses: responses.collect(), ..Default::default() }
    }
}

fn describe<'a>(state: &State, name: &'a str) -> MetadataResponseTopic<'a> {
    let Some(topic) = state.topics.get(name) else {
        let error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        return MetadataResponseTopic { name: Some(name), error_code, ..Default::default() };
    };
    let partitions =
        topic.partitions.iter().zip(0..).map(|(log, partition_index)| MetadataResponsePartition {
            partition_index,
            leader_id: log.leader,
            leader_epoch: log.leader_epoch,
            ..Default::default()
        });
    MetadataResponseTopic {
        name: Some(name),
        topic_id: topic.id,
        partitions: partitions.collect(),
        ..Default::default()
    }
}

/// The first broker tells as Ringlog does, all others as Kafka.
fn log_dirs<'a>(state: &State, id: i32, asked: &DescribeLogDirsRequest<'a>) -> DescribeLogDirsResponse<'a> {
    let is_counted = id == 1 && asked.count_segments;
    let topics = asked.topics.iter().flatten().map(|topic| {
        let led = |&index: &i32| {
            let log = &state.topics.get(topic.topic)?.partitions[usize::try_from(index).unwrap()];
            (log.leader == id).then(|| DescribeLogDirsPartition {
                partition_index: index,
                partition_size: log.end,
                segment_count: if is_counted { 3 } else { -1 },
                shard: if is_counted { 2 } else { -1 },
                ..Default::default()
            })
        };
        DescribeLogDirsTopic {
            name: topic.topic,
            partitions: topic.partitions.iter().filter_map(led).collect(),
        }
    });
    let directory =
        DescribeLogDirsResult { log_dir: "/data", topics: topics.collect(), ..Default::default() };
    DescribeLogDirsResponse { results: vec![directory], ..Default::default() }
}

fn log_of<'a>(state: &'a mut State, topic: TopicRef<'_>, partition: i32) -> Option<&'a mut Log> {
    let found = match topic {
        TopicRef::Name(name) => state.topics.get_mut(name),
        TopicRef::Id(id) => state.topics.values_mut().find(|topic| topic.id == id),
    };
    found?.partitions.get_mut(usize::try_from(partition).ok()?)
}

fn produce<'a>(state: &mut State, id: i32, request: &ProduceView<'a>) -> ProduceResponse<'a> {
    let mut responses = Vec::new();
    for topic in request.topics() {
        let mut partition_responses = Vec::new();
        for partition in topic.partitions() {
            let log = log_of(state, topic.topic, partition.index);
            let (error_code, base_offset) = match log {
                None => (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, -1),
                Some(log) if log.leader != id => (ErrorCode::NOT_LEADER_OR_FOLLOWER, -1),
                Some(log) => (ErrorCode::NONE, append(log, partition.records.unwrap())),
            };
            let index = partition.index;
            partition_responses.push(PartitionProduceResponse {
                index,
                error_code,
                base_offset,
                ..Default::default()
            });
        }
        let (name, topic_id) = match topic.topic {
            TopicRef::Name(name) => (name, Uuid::ZERO),
            TopicRef::Id(id) => ("", id),
        };
        responses.push(TopicProduceResponse { name, topic_id, partition_responses });
    }
    ProduceResponse { responses, ..Default::default() }
}

fn append(log: &mut Log, records: &[u8]) -> i64 {
    let (batch, rest) = RecordBatch::parse(records).unwrap();
    assert!(rest.is_empty(), "one batch a partition");
    let header = *batch.header();
    let (producer, epoch, sequence) = (header.producer_id.0, header.producer_epoch.0, header.base_sequence);
    let known =
        log.remembered.iter().find(|known| (known.0, known.1, known.2) == (producer, epoch, sequence));
    if let Some(known) = known.filter(|_| producer >= 0) {
        return known.3;
    }
    let base = log.end;
    log.remembered.push_back((producer, epoch, sequence, base));
    if log.to_lose > 0 {
        log.to_lose -= 1;
        return base;
    }
    let copies = if log.to_repeat > 0 { 2 } else { 1 };
    log.to_repeat = log.to_repeat.saturating_sub(1);
    for _ in 0..copies {
        let mut bytes = records.to_vec();
        assign(&mut bytes, Offset::new(log.end).unwrap(), LeaderEpoch(log.leader_epoch));
        log.batches.push((log.end, bytes));
        log.end += i64::from(header.last_offset_delta) + 1;
    }
    base
}

fn partitions_of<'a>(
    state: &'a State,
    request: &FetchRequest<'_>,
) -> impl Iterator<Item = (Option<&'a Log>, i64)> {
    let asked = request.topics.iter().flat_map(move |topic| {
        let by_name = state.topics.get(topic.topic);
        let found = by_name.or_else(|| state.topics.values().find(|known| known.id == topic.topic_id));
        topic.partitions.iter().map(move |partition| {
            let index = usize::try_from(partition.partition).unwrap();
            (found.and_then(|found| found.partitions.get(index)), partition.fetch_offset)
        })
    });
    asked.collect::<Vec<_>>().into_iter()
}

fn has_news(state: &State, id: i32, request: &FetchRequest<'_>) -> bool {
    partitions_of(state, request).any(|(log, offset)| {
        log.is_none_or(|log| log.leader != id || log.is_faulty || offset != log.end_for_readers())
    })
}

fn fetch<'a>(state: &'a State, id: i32, request: &FetchRequest<'a>) -> FetchResponse<'a> {
    let mut answers = partitions_of(state, request);
    let responses = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let (log, offset) = answers.next().unwrap();
            let base = PartitionData { partition_index: partition.partition, ..Default::default() };
            match log {
                None => PartitionData { error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ..base },
                Some(log) if log.leader != id => {
                    PartitionData { error_code: ErrorCode::NOT_LEADER_OR_FOLLOWER, ..base }
                }
                Some(log) if log.is_faulty => {
                    PartitionData { error_code: ErrorCode::KAFKA_STORAGE_ERROR, ..base }
                }
                Some(log) if offset < log.start || offset > log.end => {
                    PartitionData { error_code: ErrorCode::OFFSET_OUT_OF_RANGE, ..base }
                }
                Some(log) => {
                    // One batch an answer: the client must put them together.
                    let at = log.batches.partition_point(|(base, _)| *base <= offset).saturating_sub(1);
                    let found = log.batches.get(at).filter(|_| offset < log.end_for_readers());
                    let records = Some(found.map_or(&[][..], |(_, bytes)| bytes));
                    PartitionData { high_watermark: log.end_for_readers(), records, ..base }
                }
            }
        });
        FetchableTopicResponse {
            topic: topic.topic,
            topic_id: topic.topic_id,
            partitions: partitions.collect(),
        }
    });
    FetchResponse { responses: responses.collect(), ..Default::default() }
}

fn list_offsets<'a>(state: &State, id: i32, request: &ListOffsetsRequest<'a>) -> ListOffsetsResponse<'a> {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let index = usize::try_from(partition.partition_index).unwrap();
            let log = &state.topics[topic.name].partitions[index];
            let partition_index = partition.partition_index;
            if log.is_faulty || log.leader != id {
                let error_code = if log.is_faulty {
                    ErrorCode::KAFKA_STORAGE_ERROR
                } else {
                    ErrorCode::NOT_LEADER_OR_FOLLOWER
                };
                return ListOffsetsPartitionResponse { partition_index, error_code, ..Default::default() };
            }
            let end = log.end_for_readers();
            let offset = match partition.timestamp {
                EARLIEST => log.start,
                time if time >= 0 => -1,
                _ => end,
            };
            ListOffsetsPartitionResponse { partition_index, offset, ..Default::default() }
        });
        ListOffsetsTopicResponse { name: topic.name, partitions: partitions.collect() }
    });
    ListOffsetsResponse { topics: topics.collect(), ..Default::default() }
}
