//! The front's side of a fetch. Its session is the front's, and what it names is looked up there; each owner is asked
//! for its partitions as by a client without a session, and waits for records as it does for its own clients. The
//! first that has its share of what is enough, or an error, ends the others' wait.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use engine_io::{Io, SendPiece};
use engine_record::ShardId;
use net_wire::fetch::{FetchFrame, FetchResponseWriter, FetchedPartition, Piece};
use net_wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use net_wire::{EncodeError, ErrorCode, TopicRef, Uuid};

use super::Answer;
use super::ask::{Begun, answered_together, ask, owners};
use super::carry::{Carried, CarriedPartition};
use super::divide::{ByTopic, Divided, Size, divide, join, within};
use super::request::{NO_ANSWER, frame};
use crate::dispatch::Request;
use crate::endpoint::Endpoint;
use crate::fetch_sessions::{Outcome, Told};
use crate::handlers::fetch::{Answering, ENDPOINTS_FROM, answer_error, choose, counts, limit_of, start};
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
    if divided.parts.is_empty() || divided.only_owner() == Some(shard.id()) {
        return Ok(None);
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

async fn ask_all<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    asked: &FetchRequest<'_>,
    divided: &Divided<(), Wanted<'_>>,
) -> Result<BTreeMap<ShardId, Begun>, CloseReason> {
    let mut parts = BTreeMap::new();
    for (owner, list) in &divided.parts {
        let part = part(shard, request, asked, list, divided.parts.len());
        let sent = ask(shard, request.asker(), *owner, frame(request, &part)?).await;
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

/// What there is of a partition that nobody says anything of.
fn missing(index: i32) -> CarriedPartition {
    let told = FetchedPartition {
        partition_index: index,
        error_code: NO_ANSWER,
        high_watermark: -1,
        ..FetchedPartition::default()
    };
    CarriedPartition { told, records: Vec::new() }
}

impl CarriedPartition {
    fn size(&self, asked: &FetchPartition) -> Size {
        let bytes_max = u64::try_from(asked.partition_max_bytes).unwrap_or(0);
        Size { bytes: self.bytes(), bytes_max }
    }

    fn outcome(&self) -> Outcome {
        let told = Told { high_watermark: self.told.high_watermark, log_start: self.told.log_start_offset };
        let told = self.told.error_code.is_none().then_some(told);
        Outcome { told, has_records: self.bytes() > 0 }
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
    let (said, taken) = said(answers);
    let missing = |_topic: usize, at: usize| missing(wanted[at].1.partition);
    let mut found = join(&divided.owners, said, missing).pop().unwrap_or_default();
    let sizes: Vec<_> = wanted.iter().zip(&found).map(|((_, asked), found)| found.size(asked)).collect();
    for (found, fits) in found.iter_mut().zip(within(limit_of(shard, asked).into(), &sizes)) {
        if !fits {
            // They come with a later fetch.
            found.records = Vec::new();
        }
    }
    let came = wanted.iter().zip(&found).map(|((topic, asked), found)| (*topic, *asked, found.outcome()));
    let (session_id, to_tell) = match choose(shard, request, answering, came).await {
        Ok(chosen) => chosen,
        Err(error) => return Ok(answer_error(request, error)?),
    };
    let told = wanted.iter().map(|(topic, _)| *topic).zip(found).collect();
    let told = to_tell.of(told);
    // What is large is counted at its owner, and waits for no memory here.
    let heads = (told.len() * HEAD_BYTES) as u64;
    let small: u64 = told.iter().map(|(_, found)| found.memory_bytes()).sum();
    let here = heads + if taken.is_empty() { small } else { 0 };
    let mut reply = written(shard, request, session_id, told).await?;
    reply.memory = Some(shard.reply_memory().count(here));
    reply.held.extend(taken);
    Ok(Response::Reply(reply))
}

type Said = BTreeMap<ShardId, VecDeque<CarriedPartition>>;

/// What each owner says, and what is dropped when the client has taken it.
fn said(answers: BTreeMap<ShardId, Answer>) -> (Said, Vec<Box<dyn Any>>) {
    let (mut said, mut all_taken) = (Said::new(), Vec::new());
    for (owner, answer) in answers {
        match answer {
            Answer::Fetched { partitions, taken } => {
                said.insert(owner, partitions.into());
                all_taken.extend(taken.map(|taken| Box::new(taken) as Box<dyn Any>));
            }
            // Nothing is said of its partitions.
            Answer::Frame { .. } | Answer::Nothing | Answer::Close(_) => {}
        }
    }
    (said, all_taken)
}

/// The response around the records, which stay where they are.
async fn written<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    session_id: i32,
    told: Vec<(TopicRef<'_>, CarriedPartition)>,
) -> Result<Reply<I>, EncodeError> {
    let mut counts = counts(shard, told.iter().map(|(topic, _)| *topic)).await.into_iter();
    let begin = start(request, ErrorCode::NONE, session_id, counts.len());
    let mut writer = FetchResponseWriter::begin(FetchFrame::default(), &begin)?;
    let (mut left, mut turns, mut records) = (0, Turns::new(shard.io()), VecDeque::new());
    let mut moved_away = false;
    for (topic, partition) in told {
        turns.step().await;
        if left == 0 {
            left = counts.next().expect("there is a count for every run of a topic");
            writer.topic(topic, left)?;
        }
        left -= 1;
        moved_away |= partition.told.current_leader.is_some();
        let bytes = usize::try_from(partition.bytes()).expect("a limit of 32 bits fits a size");
        writer.partition(&partition.told, bytes)?;
        records.extend((bytes > 0).then_some(partition.records));
    }
    let endpoints = shard.endpoints_told_if(moved_away && request.version >= ENDPOINTS_FROM, request);
    let endpoints: Vec<_> = endpoints.iter().map(Endpoint::on_wire).collect();
    Ok(spliced(shard.io(), writer.finish(&endpoints)?, records))
}

fn spliced<I: Io>(io: &I, frame: FetchFrame, mut records: VecDeque<Vec<Carried>>) -> Reply<I> {
    let pieces: Vec<Piece> = frame.pieces().collect();
    let head = Rc::new(frame.head);
    let mut spliced = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match piece {
            Piece::Head(range) => {
                spliced.push(ReplyPiece::Memory(SendPiece::Shared(Rc::clone(&head), range)));
            }
            Piece::Records(_) => {
                let records = records.pop_front().expect("there are records for every splice");
                spliced.extend(records.into_iter().map(|records| records.taken(io)));
            }
        }
    }
    Reply { pieces: spliced, memory: None, held: Vec::new() }
}
