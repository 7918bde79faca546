//! Produce: appends a batch to each partition named, and answers when the client's `acks` are fulfilled.
//!
//! Stage one runs when the request is read: each batch is checked and appended, which fixes its offsets and copies its
//! bytes, so the request's own memory can go; what came of it has memory of its own until it is answered. Stage two
//! waits for what `acks` asks for and answers.

use core::mem::size_of;
use core::time::Duration;
use std::rc::Rc;

use engine_io::{Io, first};
use engine_record::{
    ClientBatchError, ClientBatchRules, Instant, Offset, PartitionIndex, TopicId, TopicPartition,
};
use engine_store::{AppendOrigin, Appended, FlushInterest, WaitError};
use net_wire::messages::produce::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use net_wire::messages::{LeaderIdAndEpoch, NodeEndpoint};
use net_wire::produce::{ProducePartition, ProduceTopic, ProduceView};
use net_wire::topic_ref::TopicRef;
use net_wire::{ErrorCode, Reader, Uuid};
use replication::leader::FlushMode;

use crate::dispatch::Request;
use crate::endpoint::Endpoint;
use crate::error_code;
use crate::hooks::{Decision, Operation, Resource, authorize};
use crate::metrics::Stage;
use crate::partition::Partition;
use crate::reply_memory::{self, Queued};
use crate::reply_queue::PendingReply;
use crate::request_limits;
use crate::response::{CloseReason, Response};
use crate::shard::{NotServed, Shard};
use crate::turns::Turns;
use crate::validation;

/// From this version on a request may carry Zstandard.
const ZSTD_FROM: i16 = 7;

/// What a producer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acks {
    /// Nothing; it isn't even answered.
    None,
    /// The leader's write.
    Leader,
    /// The high watermark.
    All,
}

impl Acks {
    fn parse(acks: i16) -> Option<Self> {
        match acks {
            0 => Some(Self::None),
            1 => Some(Self::Leader),
            -1 => Some(Self::All),
            _ => None,
        }
    }
}

/// A topic of the request after stage one, holding nothing of the request's bytes.
struct TopicOutcome<I: Io> {
    name: String,
    id: Uuid,
    partitions: Vec<PartitionOutcome<I>>,
}

struct PartitionOutcome<I: Io> {
    index: i32,
    result: Result<Accepted<I>, Failed>,
}

/// A batch that has its offsets.
struct Accepted<I: Io> {
    partition: Rc<Partition<I>>,
    appended: Appended,
    /// Has the batch flushed at once, where its producer waits for that.
    _flush: Option<FlushInterest<I>>,
}

/// A batch that was not appended, or not acknowledged.
#[derive(Clone, Debug)]
struct Failed {
    why: NotServed,
    message: Option<String>,
    /// The record in the batch that is why, where it is one.
    record: Option<u32>,
}

impl From<NotServed> for Failed {
    fn from(why: NotServed) -> Self {
        Self { why, message: None, record: None }
    }
}

impl From<ErrorCode> for Failed {
    fn from(error: ErrorCode) -> Self {
        NotServed::from(error).into()
    }
}

impl Failed {
    fn batch(error: ClientBatchError) -> Self {
        let failed = Self::because(error_code::of_client_batch(&error), error);
        Self { record: error.record_index(), ..failed }
    }

    fn because(error: ErrorCode, message: impl ToString) -> Self {
        Self { why: error.into(), message: Some(message.to_string()), record: None }
    }
}

/// Stage one.
pub(crate) async fn start<I: Io>(shard: &Rc<Shard<I>>, request: Request<I>) -> PendingReply<I> {
    let view = match ProduceView::decode(&mut Reader::new(request.body()), request.version) {
        Ok(view) => view,
        Err(error) => return Box::pin(core::future::ready(Response::Close(error.into()))),
    };
    if let Err(reason) = request_limits::check_produce(&view) {
        return Box::pin(core::future::ready(Response::Close(reason)));
    }
    let acks = Acks::parse(view.acks);
    let refusal = match acks {
        _ if view.transactional_id.is_some() => Some(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        None => Some(ErrorCode::INVALID_REQUIRED_ACKS),
        Some(_) => None,
    };
    let acks = acks.unwrap_or(Acks::Leader);
    let expected = expected_bytes::<I>(&view);
    let reserved = reply_memory::reserve_queued(shard, &request.connection, expected).await;
    let Some(mut memory) = reserved else {
        request.connection.reads_no_more();
        return Box::pin(core::future::ready(Response::Close(CloseReason::NoMemory)));
    };
    let mut topics = Vec::with_capacity(view.topics().len());
    let mut turns = Turns::new(shard.io());
    for topic in view.topics() {
        turns.step().await;
        topics.push(append_topic(shard, &request, &topic, acks, refusal, &mut turns).await);
    }
    let timeout = Duration::from_millis(u64::try_from(view.timeout_ms).unwrap_or(0));
    shard.metrics().stage(Stage::ProduceOrdered, request.received_at, shard.io().now());
    let until = request.received_at.after(timeout);
    let answer = Answer {
        version: request.version,
        correlation_id: request.correlation_id,
        received_at: request.received_at,
        throttle_time_ms: request.throttle_time_ms,
        endpoints: shard.endpoints_told_if(needs_endpoints(&topics, request.version), &request),
    };
    drop(request);
    memory.set(bytes_held(&topics, &answer));
    Box::pin(finish(Rc::clone(shard), topics, acks, until, answer, memory))
}

/// What an outcome takes beside its entries: the task that makes the reply of it, in bytes.
const REPLY_BYTES: usize = 512;
/// What is said of a batch that is refused, in bytes.
const MESSAGE_BYTES: usize = 128;

/// What the outcome will take until it is answered, in bytes.
fn expected_bytes<I: Io>(view: &ProduceView<'_>) -> u64 {
    let of_topic = |topic: ProduceTopic<'_>| {
        let name = match topic.topic {
            TopicRef::Name(name) => name.len(),
            TopicRef::Id(_) => 0,
        };
        size_of::<TopicOutcome<I>>() + name
    };
    let partition = size_of::<PartitionOutcome<I>>() + MESSAGE_BYTES;
    let topics: usize = view.topics().map(of_topic).sum();
    (REPLY_BYTES + topics + view.partition_count * partition) as u64
}

/// What the outcome takes, in bytes.
fn bytes_held<I: Io>(topics: &[TopicOutcome<I>], answer: &Answer) -> u64 {
    let message = |partition: &PartitionOutcome<I>| match &partition.result {
        Ok(_) => 0,
        Err(failed) => failed.message.as_ref().map_or(0, String::capacity),
    };
    let of_topic = |topic: &TopicOutcome<I>| {
        let partitions = topic.partitions.capacity() * size_of::<PartitionOutcome<I>>();
        let messages: usize = topic.partitions.iter().map(message).sum();
        size_of::<TopicOutcome<I>>() + topic.name.capacity() + partitions + messages
    };
    let endpoint = |endpoint: &Endpoint| size_of::<Endpoint>() + endpoint.host.len();
    let endpoints: usize = answer.endpoints.iter().map(endpoint).sum();
    (REPLY_BYTES + endpoints + topics.iter().map(of_topic).sum::<usize>()) as u64
}

fn needs_endpoints<I: Io>(topics: &[TopicOutcome<I>], version: i16) -> bool {
    version >= LEADER_TOLD_FROM
        && topics
            .iter()
            .flat_map(|topic| &topic.partitions)
            .any(|partition| partition.result.as_ref().is_err_and(|failed| failed.why.leader.is_some()))
}

/// From this version on the answer names the leader and its address.
const LEADER_TOLD_FROM: i16 = 10;

async fn append_topic<I: Io>(
    shard: &Rc<Shard<I>>,
    request: &Request<I>,
    topic: &ProduceTopic<'_>,
    acks: Acks,
    refusal: Option<ErrorCode>,
    turns: &mut Turns<'_, I>,
) -> TopicOutcome<I> {
    let (name, id) = match topic.topic {
        TopicRef::Name(name) => (name, shard.topic_id(name)),
        TopicRef::Id(id) => ("", Some(TopicId(id.0))),
    };
    let Decision::Allowed = authorize(&request.connection.principal, Operation::Write, Resource::Topic(name));
    let mut partitions = Vec::with_capacity(topic.partitions().len());
    for partition in topic.partitions() {
        turns.batch(partition.records.unwrap_or_default()).await;
        let result = match (refusal, id) {
            (Some(error), _) => Err(error.into()),
            (None, None) => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.into()),
            (None, Some(topic)) => append(shard, request.version, topic, &partition, acks).await,
        };
        partitions.push(PartitionOutcome { index: partition.index, result });
    }
    let wire_id = match topic.topic {
        TopicRef::Name(_) => Uuid::ZERO,
        TopicRef::Id(id) => id,
    };
    TopicOutcome { name: name.to_owned(), id: wire_id, partitions }
}

/// Checks and appends one batch.
async fn append<I: Io>(
    shard: &Rc<Shard<I>>,
    version: i16,
    topic: TopicId,
    asked: &ProducePartition<'_>,
    acks: Acks,
) -> Result<Accepted<I>, Failed> {
    let id = TopicPartition { topic, partition: PartitionIndex(asked.index) };
    let partition = shard.partition(id).map_err(|why| Failed {
        why,
        message: shard.reopening().why(id),
        record: None,
    })?;
    if acks == Acks::All && !partition.has_min_insync() {
        return Err(ErrorCode::NOT_ENOUGH_REPLICAS.into());
    }
    if let Err(low) = partition.disk_space().check_records() {
        shard.metrics().record_refused_for_space();
        return Err(Failed::because(ErrorCode::KAFKA_STORAGE_ERROR, low));
    }
    let settings = partition.settings();
    let rules = ClientBatchRules {
        zstd_allowed: version >= ZSTD_FROM,
        ..settings.batch_rules(shard.io().timestamp())
    };
    let records = asked.records.unwrap_or_default();
    let batch = validation::validate(shard, records, &rules, settings.validates_compressed)
        .await
        .map_err(Failed::batch)?;
    if batch.header().is_transactional() {
        // Unless it is damage that says so.
        batch.verify().map_err(|corrupt| Failed::because(ErrorCode::CORRUPT_MESSAGE, corrupt))?;
        return Err(Failed::because(ErrorCode::INVALID_TXN_STATE, "transactions are not served"));
    }
    let epoch = partition.leader_epoch();
    let appended = partition
        .log()
        .append(batch, AppendOrigin::Client, epoch)
        .await
        .map_err(|error| Failed::because(error_code::of_append(&error), error))?;
    let awaits_flush = acks == Acks::All && partition.settings().awaits_flush();
    let _flush = awaits_flush.then(|| partition.log().flush_interest());
    Ok(Accepted { partition, appended, _flush })
}

/// What stage two needs of the request.
struct Answer {
    version: i16,
    correlation_id: i32,
    received_at: Instant,
    throttle_time_ms: i32,
    endpoints: Vec<Endpoint>,
}

/// Stage two.
async fn finish<I: Io>(
    shard: Rc<Shard<I>>,
    mut topics: Vec<TopicOutcome<I>>,
    acks: Acks,
    until: Instant,
    answer: Answer,
    memory: Queued,
) -> Response<I> {
    if acks == Acks::None {
        let failed = topics.iter().flat_map(|topic| &topic.partitions).any(|outcome| outcome.result.is_err());
        return if failed { Response::Close(CloseReason::UnacknowledgedFailure) } else { Response::Nothing };
    }
    let mut turns = Turns::new(shard.io());
    for outcome in topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        turns.step().await;
        if let Ok(accepted) = &outcome.result
            && let Err(error) = acknowledged(&shard, accepted, acks, until).await
        {
            outcome.result = Err(error.into());
        }
    }
    shard.metrics().stage(Stage::Produce, answer.received_at, shard.io().now());
    memory.passed_to(respond(&topics, &answer))
}

/// Resolves when the batch is acknowledged as asked.
async fn acknowledged<I: Io>(
    shard: &Shard<I>,
    accepted: &Accepted<I>,
    acks: Acks,
    until: Instant,
) -> Result<(), ErrorCode> {
    let end = accepted.appended.last_offset.checked_add(1).unwrap_or(Offset::MAX);
    let partition = &accepted.partition;
    match acks {
        Acks::None => Ok(()),
        Acks::Leader => partition.log().written(end).await.map_err(|error| error_code::of_wait(&error)),
        Acks::All => match first(partition.reached(end), time_is_over(shard, partition, end, until)).await {
            Ok(reached) => reached.map_err(|why| error_code::of_not_reached(&why)),
            Err(Ok(())) if partition.offsets().high_watermark >= end => Ok(()),
            Err(Ok(())) => Err(ErrorCode::REQUEST_TIMED_OUT),
            Err(Err(error)) => Err(error_code::of_wait(&error)),
        },
    }
}

/// Resolves when this replica has done its own part, and the time for the others is over where they have something to do.
async fn time_is_over<I: Io>(
    shard: &Shard<I>,
    partition: &Partition<I>,
    end: Offset,
    until: Instant,
) -> Result<(), WaitError> {
    match partition.settings().flush_mode {
        FlushMode::Quorum | FlushMode::Isr | FlushMode::Leader => partition.log().flushed(end).await?,
        FlushMode::Async => partition.log().written(end).await?,
    }
    partition.advance();
    if partition.offsets().high_watermark < end {
        shard.io().sleep(until.since(shard.io().now())).await;
    }
    Ok(())
}

fn respond<I: Io>(topics: &[TopicOutcome<I>], answer: &Answer) -> Response<I> {
    let responses = topics
        .iter()
        .map(|topic| TopicProduceResponse {
            name: &topic.name,
            topic_id: topic.id,
            partition_responses: topic.partitions.iter().map(partition_response).collect(),
        })
        .collect();
    let node_endpoints = answer.endpoints.iter().map(Endpoint::on_wire).collect::<Vec<NodeEndpoint<'_>>>();
    let response = ProduceResponse { responses, throttle_time_ms: answer.throttle_time_ms, node_endpoints };
    Response::encode(answer.correlation_id, answer.version, &response)
}

fn partition_response<I: Io>(outcome: &PartitionOutcome<I>) -> PartitionProduceResponse<'_> {
    match &outcome.result {
        Ok(Accepted { appended, .. }) => PartitionProduceResponse {
            index: outcome.index,
            error_code: ErrorCode::NONE,
            base_offset: appended.base_offset.value(),
            log_append_time_ms: appended.append_time.map_or(-1, |time| time.0),
            log_start_offset: appended.log_start.value(),
            ..PartitionProduceResponse::default()
        },
        Err(failed) => PartitionProduceResponse {
            index: outcome.index,
            error_code: failed.why.error,
            base_offset: -1,
            record_errors: failed.record.map(|index| record_error(index, failed)).into_iter().collect(),
            error_message: failed.message.as_deref(),
            current_leader: failed.why.leader.map_or_else(LeaderIdAndEpoch::default, |(broker, epoch)| {
                LeaderIdAndEpoch { leader_id: broker, leader_epoch: epoch.0 }
            }),
            ..PartitionProduceResponse::default()
        },
    }
}

fn record_error(index: u32, failed: &Failed) -> BatchIndexAndErrorMessage<'_> {
    BatchIndexAndErrorMessage {
        batch_index: i32::try_from(index).unwrap_or(i32::MAX),
        batch_index_error_message: failed.message.as_deref(),
    }
}
