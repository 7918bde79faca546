//! The front's side of a fetch. Its session is the front's, and what it names is looked up there; each owner is asked
//! for its partitions as by a client without a session, and waits for records as it does for its own clients. The
//! first that has its share of what is enough, or an error, ends the others' wait.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use engine_io::{Io, SendPiece};
use engine_record::ShardId;
use net_wire::fetch::{FetchFrame, FetchResponseWriter, FetchedPartition, Piece};
use net_wire::messages::FetchResponse;
use net_wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic, PartitionData};
use net_wire::{EncodeError, ErrorCode, TopicRef, Uuid};

use super::Answer;
use super::ask::{Begun, answered_together, ask, owners};
use super::divide::{ByTopic, Divided, Size, divide, join, within};
use super::request::{NO_ANSWER, decode, frame, reply_of};
use crate::dispatch::Request;
use crate::fetch_sessions::{Outcome, Told};
use crate::handlers::fetch::{Answering, answer_error, choose, counts, limit_of, start};
use crate::response::{CloseReason, Reply, ReplyPiece, Response};
use crate::shard::Shard;
use crate::turns::Turns;

/// What stands in an answer for a partition besides its records, at most, in bytes.
const HEAD_BYTES: usize = 64;

/// A partition asked for.
type Wanted<'a> = (TopicRef<'a>, &'a FetchPartition);

/// Has other shards answer for their partitions; `None` where all are this shard's own.
pub(crate) async fn answer<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    asked: &FetchRequest<'_>,
    answering: Answering<'_>,
    wanted: &[Wanted<'_>],
) -> Result<Option<Response<I>>, CloseReason> {
    let divided = divided(shard, wanted).await;
    let only = divided.only_owner();
    if divided.parts.is_empty() || only == Some(shard.id()) {
        return Ok(None);
    }
    let is_without_session = matches!(answering, Answering::Whole) && asked.session_id == 0;
    if let Some(owner) = only.filter(|_| is_without_session) {
        return whole(shard, request, owner).await.map(Some);
    }
    let parts = ask_all(shard, request, asked, &divided).await?;
    let answers = answered_together(&request.connection, parts).await;
    respond(shard, request, asked, answering, wanted, (&divided, answers)).await.map(Some)
}

/// The list of one topic, since what is asked for stands in one order, by owner.
async fn divided<'a, I: Io>(shard: &Shard<I>, wanted: &[Wanted<'a>]) -> Divided<(), Wanted<'a>> {
    let owners = owners(shard, wanted.iter().map(|(topic, asked)| (*topic, asked.partition))).await;
    divide(&vec![((), wanted.to_vec())], owners)
}

/// The whole request goes to its owner as it came, and its answer to the client.
async fn whole<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    owner: ShardId,
) -> Result<Response<I>, CloseReason> {
    let sent = ask(shard, &request.connection, owner, request.frame().to_vec()).await;
    let part = sent.ok_or(CloseReason::ShardGone)?.beginning();
    let mut answers = answered_together(&request.connection, BTreeMap::from([(owner, part)])).await;
    match answers.remove(&owner) {
        Some(Answer::Frame { bytes, taken }) => Ok(Response::Reply(reply_of(shard, bytes, taken))),
        Some(Answer::Nothing) | None => Err(CloseReason::ShardGone),
        Some(Answer::Close(reason)) => Err(reason),
    }
}

async fn ask_all<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    asked: &FetchRequest<'_>,
    divided: &Divided<(), Wanted<'_>>,
) -> Result<BTreeMap<ShardId, Begun>, CloseReason> {
    let mut parts = BTreeMap::new();
    for (owner, list) in &divided.parts {
        let part = part(shard, request, asked, list, divided.parts.len());
        let sent = ask(shard, &request.connection, *owner, frame(request, &part)?).await;
        parts.extend(sent.map(|part| (*owner, part.beginning())));
        shard.io().yield_now().await;
    }
    Ok(parts)
}

/// What one of so many owners is asked.
fn part<'a, I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    asked: &FetchRequest<'a>,
    list: &ByTopic<(), Wanted<'a>>,
    owners: usize,
) -> FetchRequest<'a> {
    let share = limit_of(shard, asked) as usize / owners.max(1);
    let owners = i32::try_from(owners.max(1)).unwrap_or(i32::MAX);
    // Where all have enough together, at least one has its share, and ends the others' wait.
    let min_bytes = asked.min_bytes / owners + i32::from(asked.min_bytes % owners > 0);
    let waited = shard.io().now().since(request.received_at).as_millis();
    let waited = i32::try_from(waited).unwrap_or(i32::MAX);
    FetchRequest {
        max_wait_ms: asked.max_wait_ms.saturating_sub(waited).max(0),
        min_bytes,
        max_bytes: i32::try_from(share.max(1)).unwrap_or(i32::MAX),
        session_id: 0,
        session_epoch: -1,
        topics: topics(list.iter().flat_map(|((), wanted)| wanted)),
        forgotten_topics_data: Vec::new(),
        ..asked.clone()
    }
}

/// Partitions by topic, as they stand one after the other.
fn topics<'w, 'a: 'w>(wanted: impl Iterator<Item = &'w Wanted<'a>>) -> Vec<FetchTopic<'a>> {
    let mut topics: Vec<FetchTopic<'a>> = Vec::new();
    for (topic, asked) in wanted {
        let (name, id) = match *topic {
            TopicRef::Name(name) => (name, Uuid::ZERO),
            TopicRef::Id(id) => ("", id),
        };
        match topics.last_mut() {
            Some(last) if (last.topic, last.topic_id) == (name, id) => last.partitions.push((*asked).clone()),
            Some(_) | None => {
                topics.push(FetchTopic { topic: name, topic_id: id, partitions: vec![(*asked).clone()] });
            }
        }
    }
    topics
}

/// A frame of an owner, and its memory there.
struct Said {
    frame: Rc<Vec<u8>>,
    taken: Option<Box<dyn Any>>,
}

/// What an owner says of a partition, and in which frame.
struct Found<'s> {
    data: PartitionData<'s>,
    frame: Option<&'s Rc<Vec<u8>>>,
}

impl Found<'_> {
    fn missing(index: i32) -> Self {
        let data = PartitionData {
            partition_index: index,
            error_code: NO_ANSWER,
            high_watermark: -1,
            ..PartitionData::default()
        };
        Self { data, frame: None }
    }

    fn bytes(&self) -> usize {
        self.data.records.map_or(0, <[u8]>::len)
    }

    fn size(&self, asked: &FetchPartition) -> Size {
        let bytes_max = u64::try_from(asked.partition_max_bytes).unwrap_or(0);
        Size { bytes: self.bytes() as u64, bytes_max }
    }

    fn outcome(&self) -> Outcome {
        let told = Told { high_watermark: self.data.high_watermark, log_start: self.data.log_start_offset };
        let told = self.data.error_code.is_none().then_some(told);
        Outcome { told, has_records: self.bytes() > 0 }
    }

    /// Where the records lie in their frame.
    fn place(&self) -> Option<(Rc<Vec<u8>>, Range<usize>)> {
        let (frame, records) = (self.frame?, self.data.records?);
        let from = records.as_ptr().addr() - frame.as_ptr().addr();
        Some((Rc::clone(frame), from..from + records.len()))
    }

    fn on_wire(&self) -> FetchedPartition<'_> {
        let PartitionData { partition_index, error_code, high_watermark, .. } = self.data;
        FetchedPartition {
            partition_index,
            error_code,
            high_watermark,
            last_stable_offset: self.data.last_stable_offset,
            log_start_offset: self.data.log_start_offset,
            aborted_transactions: self.data.aborted_transactions.as_deref(),
            preferred_read_replica: self.data.preferred_read_replica,
            ..FetchedPartition::default()
        }
    }
}

/// Joins what the owners say, under the limits of the whole and of each partition: each owner may have answered one batch
/// beyond them.
async fn respond<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    asked: &FetchRequest<'_>,
    answering: Answering<'_>,
    wanted: &[Wanted<'_>],
    (divided, answers): (&Divided<(), Wanted<'_>>, BTreeMap<ShardId, Answer>),
) -> Result<Response<I>, CloseReason> {
    let mut said = frames(answers);
    let mut found = BTreeMap::new();
    for (owner, Said { frame, .. }) in &said {
        let response: FetchResponse<'_> = decode(frame, request.api, request.version)?;
        let partitions = response.responses.into_iter().flat_map(|topic| topic.partitions);
        let partitions = partitions.map(|data| Found { data, frame: Some(frame) });
        found.insert(*owner, partitions.collect::<VecDeque<_>>());
    }
    let missing = |_topic: usize, at: usize| Found::missing(wanted[at].1.partition);
    let mut found = join(&divided.owners, found, missing).pop().unwrap_or_default();
    let sizes: Vec<_> = wanted.iter().zip(&found).map(|((_, asked), found)| found.size(asked)).collect();
    for (found, fits) in found.iter_mut().zip(within(limit_of(shard, asked).into(), &sizes)) {
        if !fits {
            // They come with a later fetch.
            found.data.records = None;
        }
    }
    let came = wanted.iter().zip(&found).map(|((topic, asked), found)| (*topic, *asked, found.outcome()));
    let (session_id, to_tell) = match choose(shard, request, answering, came).await {
        Ok(chosen) => chosen,
        Err(error) => return Ok(answer_error(request, error)?),
    };
    let told = to_tell.of(wanted.iter().zip(&found).map(|((topic, _), found)| (*topic, found)).collect());
    let mut reply = written(shard, request, session_id, &told).await?;
    // What is large is counted at its owner, and waits for no memory here.
    let here = said.values().filter(|said| said.taken.is_none()).map(|said| said.frame.capacity());
    let heads = told.len() * HEAD_BYTES;
    reply.memory = Some(shard.reply_memory().count((heads + here.sum::<usize>()) as u64));
    reply.held.extend(said.values_mut().filter_map(|said| said.taken.take()));
    Ok(Response::Reply(reply))
}

fn frames(answers: BTreeMap<ShardId, Answer>) -> BTreeMap<ShardId, Said> {
    let frame = |(owner, answer)| match answer {
        Answer::Frame { bytes, taken } => {
            let taken = taken.map(|taken| Box::new(taken) as Box<dyn Any>);
            Some((owner, Said { frame: Rc::new(bytes), taken }))
        }
        Answer::Nothing | Answer::Close(_) => None,
    };
    answers.into_iter().filter_map(frame).collect()
}

/// The response around the records, which stay in the owners' frames.
async fn written<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    session_id: i32,
    told: &[(TopicRef<'_>, &Found<'_>)],
) -> Result<Reply<I>, EncodeError> {
    let mut counts = counts(shard, told.iter().map(|(topic, _)| *topic)).await.into_iter();
    let begin = start(request, ErrorCode::NONE, session_id, counts.len());
    let mut writer = FetchResponseWriter::begin(FetchFrame::default(), &begin)?;
    let (mut left, mut turns, mut places) = (0, Turns::new(shard.io()), VecDeque::new());
    for (topic, found) in told {
        turns.step().await;
        if left == 0 {
            left = counts.next().expect("there is a count for every run of a topic");
            writer.topic(*topic, left)?;
        }
        left -= 1;
        writer.partition(&found.on_wire(), found.bytes())?;
        places.extend(found.place().filter(|(_, range)| !range.is_empty()));
    }
    Ok(spliced(writer.finish(&[])?, places))
}

fn spliced<I: Io>(frame: FetchFrame, mut places: VecDeque<(Rc<Vec<u8>>, Range<usize>)>) -> Reply<I> {
    let pieces: Vec<Piece> = frame.pieces().collect();
    let head = Rc::new(frame.head);
    let piece = |piece| match piece {
        Piece::Head(range) => ReplyPiece::Memory(SendPiece::Shared(Rc::clone(&head), range)),
        Piece::Records(_) => {
            let (frame, range) = places.pop_front().expect("there are records for every splice");
            ReplyPiece::Memory(SendPiece::Shared(frame, range))
        }
    };
    Reply { pieces: pieces.into_iter().map(piece).collect(), memory: None, held: Vec::new() }
}
