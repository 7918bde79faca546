//! The front's side of lists that are neither produced nor fetched: divided, asked for, joined.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use engine_io::{Io, ReplySlot};
use engine_record::ShardId;
use net_wire::frame::SIZE_BYTES;
use net_wire::{
    ApiKey, DecodeError, ErrorCode, Message, Reader, RequestHeader, TopicRef, Writer, decode_response_header,
};

use super::Answer;
use super::ask::{Asked, Begun, ask, owners};
use super::divide::{ByTopic, Divided, divide, join};
use super::lists::PartitionList;
use crate::dispatch::Request;
use crate::fetch_sessions::TopicKey;
use crate::response::{CloseReason, Reply, Response};
use crate::shard::Shard;

/// What is said of partitions whose owner doesn't answer: clients ask for the metadata and try again.
pub(super) const NO_ANSWER: ErrorCode = ErrorCode::KAFKA_STORAGE_ERROR;

/// Has other shards answer for their partitions; `None` where all are this shard's own.
pub(crate) async fn handle<'a, I: Io, M: PartitionList<'a>>(
    shard: &Rc<Shard<I>>,
    request: &'a Request<I>,
) -> Result<Option<Response<I>>, CloseReason> {
    let asked: M = request.decode()?;
    let divided = divided(shard, request, &asked).await;
    let mut parts = BTreeMap::new();
    match divided.only_owner() {
        None if divided.parts.is_empty() => return Ok(None),
        Some(own) if own == shard.id() => return Ok(None),
        Some(other) => {
            let sent = ask(shard, request.asker(), other, request.frame().to_vec()).await;
            parts.extend(sent.map(|part| (other, part)));
        }
        None => parts = ask_all(shard, request, &asked, &divided).await?,
    }
    let outline = Outline::of(request, &asked, divided);
    let mut answers = BTreeMap::new();
    for (owner, part) in parts {
        answers.extend(part.beginning().answered().await.map(|answer| (owner, answer)));
    }
    outline.respond::<I, M>(shard, answers).map(Some)
}

type DividedList<'a, M> = Divided<TopicRef<'a>, <M as PartitionList<'a>>::Part>;

/// The request's list by owner.
pub(super) async fn divided<'a, I: Io, M: PartitionList<'a>>(
    shard: &Shard<I>,
    request: &Request<I>,
    asked: &M,
) -> DividedList<'a, M> {
    let list = asked.list(request.version);
    let wanted = list.iter().flat_map(|(topic, parts)| parts.iter().map(|part| (*topic, M::index(part))));
    let owners = owners(shard, wanted).await;
    divide(&list, owners)
}

/// Sends each owner its part.
pub(super) async fn ask_all<'a, I: Io, M: PartitionList<'a>>(
    shard: &Shard<I>,
    request: &Request<I>,
    asked: &M,
    divided: &DividedList<'a, M>,
) -> Result<BTreeMap<ShardId, Asked>, CloseReason> {
    let mut parts = BTreeMap::new();
    for (owner, list) in &divided.parts {
        let frame = frame(request, &asked.with(list.clone()))?;
        parts.extend(ask(shard, request.asker(), *owner, frame).await.map(|part| (*owner, part)));
        // A part may have mebibytes that were just copied.
        shard.io().yield_now().await;
    }
    Ok(parts)
}

/// A request as a client would send it, in the version and with the number of the one that it is a part of.
pub(super) fn frame<'m, I: Io, M: Message<'m>>(
    request: &Request<I>,
    message: &M,
) -> Result<Vec<u8>, CloseReason> {
    let Request { api, version, correlation_id, .. } = *request;
    let mut frame = Vec::new();
    let mut writer = Writer::new(&mut frame);
    RequestHeader { api, version, correlation_id, client_id: None }.encode(&mut writer)?;
    message.encode(&mut writer, version)?;
    Ok(frame)
}

/// The frame of an answer that is sent as it came. It waits for no memory here, since it may hold some at its owner:
/// two shards that wait for each other's would wait in a circle.
pub(super) fn reply_of<I: Io>(shard: &Shard<I>, bytes: Vec<u8>, taken: Option<ReplySlot<()>>) -> Reply<I> {
    let counted = if taken.is_some() { 0 } else { bytes.capacity() as u64 };
    let mut reply = Reply::of(bytes);
    reply.memory = Some(shard.reply_memory().count(counted));
    reply.held.extend(taken.map(|taken| Box::new(taken) as Box<dyn Any>));
    reply
}

/// What is needed of a request to answer it, once its parts are sent.
pub(super) struct Outline {
    api: ApiKey,
    version: i16,
    correlation_id: i32,
    throttle_time_ms: i32,
    topics: ByTopic<TopicKey, i32>,
    owners: Vec<Vec<ShardId>>,
    /// Whether one shard owns all: its answer is the answer.
    is_whole: bool,
}

impl Outline {
    pub(super) fn of<'a, I: Io, M: PartitionList<'a>>(
        request: &Request<I>,
        asked: &M,
        divided: DividedList<'a, M>,
    ) -> Self {
        let Request { api, version, correlation_id, throttle_time_ms, .. } = *request;
        let topics = asked.list(version).into_iter();
        let topics = topics.map(|(topic, parts)| (TopicKey::of(topic), parts.iter().map(M::index).collect()));
        let is_whole = divided.only_owner().is_some();
        let topics = topics.collect();
        Self { api, version, correlation_id, throttle_time_ms, topics, owners: divided.owners, is_whole }
    }

    /// About how much memory it takes, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        /// An entry here, and what is decoded and answered for it.
        const PARTITION_BYTES: usize = 256;
        let partitions: usize = self.topics.iter().map(|(_, partitions)| 1 + partitions.len()).sum();
        (partitions * PARTITION_BYTES) as u64
    }

    /// The answer, of what the owners say.
    pub(super) fn respond<'a, I: Io, M: PartitionList<'a>>(
        self,
        shard: &Shard<I>,
        mut answers: BTreeMap<ShardId, Answer>,
    ) -> Result<Response<I>, CloseReason> {
        if self.is_whole
            && let Some((_, answer)) = answers.pop_first()
        {
            return Ok(match answer {
                Answer::Frame { bytes, taken } => Response::Reply(reply_of(shard, bytes, taken)),
                Answer::Nothing => Response::Nothing,
                Answer::Close(reason) => Response::Close(reason),
                Answer::Fetched { .. } => unreachable!("only a fetch is answered so"),
            });
        }
        let mut said: BTreeMap<ShardId, VecDeque<M::Done<'_>>> = BTreeMap::new();
        for (owner, answer) in &answers {
            let Answer::Frame { bytes, .. } = answer else { continue };
            let response: M::Response<'_> = decode(bytes, self.api, self.version)?;
            said.insert(*owner, M::done(response).into());
        }
        let missing = |topic: usize, at: usize| M::failed(self.topics[topic].1[at], NO_ANSWER);
        let joined = join(&self.owners, said, missing);
        let topics = self.topics.iter().map(|(topic, _)| topic.as_ref()).zip(joined).collect();
        Ok(Response::encode(self.correlation_id, self.version, &M::response(self.throttle_time_ms, topics)))
    }
}

/// What stands in an answer's frame.
pub(super) fn decode<'r, M: Message<'r>>(
    frame: &'r [u8],
    api: ApiKey,
    version: i16,
) -> Result<M, DecodeError> {
    let mut reader = Reader::new(frame.get(SIZE_BYTES..).unwrap_or_default());
    decode_response_header(&mut reader, api, version)?;
    M::decode(&mut reader, version)
}

/// The parts once their owners have begun them.
pub(super) async fn all_begun(parts: BTreeMap<ShardId, Asked>) -> BTreeMap<ShardId, Begun> {
    let mut begun = BTreeMap::new();
    for (owner, part) in parts {
        begun.insert(owner, part.begun().await);
    }
    begun
}
