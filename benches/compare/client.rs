//! A client that asks as fast as it is answered, and throws away what it gets.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use net_wire::messages::create_topics::{CreatableTopic, CreateTopicsRequest, CreateTopicsResponse};
use net_wire::messages::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use net_wire::messages::produce::{PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData};
use net_wire::{ErrorCode, Message, Reader, RequestHeader, decode_response_header, encode_request};
use rustix::net::RecvFlags;

use crate::error::CompareError;

/// The last versions that name topics, which most clients of the field speak.
const CREATE_TOPICS_VERSION: i16 = 5;
const PRODUCE_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 12;

/// The one topic.
const TOPIC: &str = "compared";
/// How long a healthy broker may take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// The most that is taken from the socket at once.
const RECEIVE_BYTES: usize = 1 << 20;

/// What becomes of the bytes a client is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taking {
    /// The kernel drops them.
    Discarded,
    /// They are copied to the client's memory, as iperf3 does.
    Copied,
}

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Result<Self, CompareError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        Ok(Self { stream, buffer: vec![0; RECEIVE_BYTES] })
    }

    pub(crate) fn send(&mut self, request: &[u8]) -> Result<(), CompareError> {
        Ok(self.stream.write_all(request)?)
    }

    /// The next response whole.
    pub(crate) fn receive(&mut self) -> Result<Vec<u8>, CompareError> {
        let mut response = vec![0; self.response_bytes()?];
        self.stream.read_exact(&mut response)?;
        Ok(response)
    }

    /// Takes the next response; how many bytes it had.
    pub(crate) fn take(&mut self, taking: Taking) -> Result<usize, CompareError> {
        let bytes = self.response_bytes()?;
        let mut left = bytes;
        while left > 0 {
            let room = left.min(self.buffer.len());
            let taken = match taking {
                Taking::Discarded => discard(&self.stream, &mut self.buffer[..room])?,
                Taking::Copied => self.stream.read(&mut self.buffer[..room])?,
            };
            if taken == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            left -= taken;
        }
        Ok(bytes)
    }

    fn response_bytes(&mut self) -> Result<usize, CompareError> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        usize::try_from(i32::from_be_bytes(size)).map_err(|_| CompareError::Mismatch)
    }

    /// Makes the topic, with one partition.
    pub(crate) fn create_topic(&mut self) -> Result<(), CompareError> {
        let topic = CreatableTopic {
            name: TOPIC,
            num_partitions: 1,
            replication_factor: 1,
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
        self.send(&encode(CREATE_TOPICS_VERSION, &request)?)?;
        let response = self.receive()?;
        let created: CreateTopicsResponse<'_> = decode(&response, CREATE_TOPICS_VERSION)?;
        created.topics.iter().try_for_each(|topic| accepted(topic.error_code))
    }

    /// Reads the answer to a produce; the offset of the batch's first record.
    pub(crate) fn take_produced(&mut self) -> Result<i64, CompareError> {
        let response = self.receive()?;
        let produced: ProduceResponse<'_> = decode(&response, PRODUCE_VERSION)?;
        let partition = produced.responses.first().and_then(|topic| topic.partition_responses.first());
        let partition = partition.ok_or(CompareError::Mismatch)?;
        accepted(partition.error_code)?;
        Ok(partition.base_offset)
    }

    /// Reads the answer to a fetch; how many bytes of records it had.
    pub(crate) fn take_fetched(&mut self) -> Result<usize, CompareError> {
        let response = self.receive()?;
        let fetched: FetchResponse<'_> = decode(&response, FETCH_VERSION)?;
        accepted(fetched.error_code)?;
        let partition = fetched.responses.first().and_then(|topic| topic.partitions.first());
        let partition = partition.ok_or(CompareError::Mismatch)?;
        accepted(partition.error_code)?;
        match partition.records.map_or(0, <[u8]>::len) {
            0 => Err(CompareError::NoRecords),
            bytes => Ok(bytes),
        }
    }
}

/// Lets the kernel drop what has come, at most as much as `room` has space for.
fn discard(stream: &TcpStream, room: &mut [u8]) -> io::Result<usize> {
    let (_, dropped) = rustix::net::recv(stream, room, RecvFlags::TRUNC)?;
    Ok(dropped)
}

/// A produce of one batch that is answered when it is durable.
pub(crate) fn produce_request(batch: &[u8]) -> Result<Vec<u8>, CompareError> {
    let partition = PartitionProduceData { index: 0, records: Some(batch) };
    let topic =
        TopicProduceData { name: TOPIC, partition_data: vec![partition], ..TopicProduceData::default() };
    let request =
        ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data: vec![topic], ..ProduceRequest::default() };
    encode(PRODUCE_VERSION, &request)
}

/// A fetch of at most `max_bytes` from `offset` on.
pub(crate) fn fetch_request(offset: i64, max_bytes: usize) -> Result<Vec<u8>, CompareError> {
    let max_bytes = i32::try_from(max_bytes).map_err(|_| CompareError::Mismatch)?;
    let partition =
        FetchPartition { fetch_offset: offset, partition_max_bytes: max_bytes, ..FetchPartition::default() };
    let topic = FetchTopic { topic: TOPIC, partitions: vec![partition], ..FetchTopic::default() };
    let request = FetchRequest {
        max_wait_ms: 1_000,
        min_bytes: 1,
        max_bytes,
        topics: vec![topic],
        ..FetchRequest::default()
    };
    encode(FETCH_VERSION, &request)
}

fn encode<'a, M: Message<'a>>(version: i16, message: &M) -> Result<Vec<u8>, CompareError> {
    let header = RequestHeader { api: M::API, version, correlation_id: 1, client_id: Some("compare") };
    let mut frame = Vec::new();
    encode_request(&mut frame, &header, message)?;
    Ok(frame)
}

fn decode<'a, M: Message<'a>>(response: &'a [u8], version: i16) -> Result<M, CompareError> {
    let mut reader = Reader::new(response);
    decode_response_header(&mut reader, M::API, version)?;
    Ok(M::decode(&mut reader, version)?)
}

fn accepted(error: ErrorCode) -> Result<(), CompareError> {
    if error == ErrorCode::NONE { Ok(()) } else { Err(CompareError::Refused(error)) }
}
