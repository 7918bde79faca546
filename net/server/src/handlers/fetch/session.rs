//! What a fetch has to do with its session: which partitions it asks for, and which of them are told.

use engine_io::Io;
use net_wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use net_wire::{ErrorCode, TopicRef, Uuid};

use super::{Fetched, TOPIC_ID_FROM};
use crate::dispatch::Request;
use crate::fetch_sessions::{Kind, Outcome, Place, Session, SessionAt, Told, TopicKey};
use crate::shard::Shard;
use crate::turns::Turns;

/// A partition that a session has.
pub(super) struct Listed {
    place: Place,
    topic: TopicKey,
    fetch: FetchPartition,
}

impl Listed {
    /// As a request would name it.
    pub(super) fn asked(&self) -> (TopicRef<'_>, &FetchPartition) {
        (self.topic.as_ref(), &self.fetch)
    }
}

/// Which partitions an answer is for.
#[derive(Clone, Copy)]
pub(super) enum Answering<'a> {
    /// Those the request names.
    Whole,
    /// The same, and a session is to be kept of them.
    New,
    /// Those the session has, in its order.
    Next(SessionAt, &'a [Listed]),
}

/// How a topic is named in this version.
pub(super) fn named<'a>(version: i16, topic: &FetchTopic<'a>) -> TopicRef<'a> {
    name_or_id(version, topic.topic, topic.topic_id)
}

fn name_or_id(version: i16, name: &str, id: Uuid) -> TopicRef<'_> {
    if version >= TOPIC_ID_FROM { TopicRef::Id(id) } else { TopicRef::Name(name) }
}

/// What the request is in terms of sessions.
///
/// # Errors
/// What is wrong with the request as a whole.
pub(super) fn begin<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    asked: &FetchRequest<'_>,
) -> Result<Kind, ErrorCode> {
    let by_id = request.version >= TOPIC_ID_FROM;
    let now = shard.io().now();
    shard.with_fetch_sessions(|sessions| sessions.begin(asked.session_id, asked.session_epoch, by_id, now))
}

fn with<I: Io, T>(
    shard: &Shard<I>,
    at: SessionAt,
    work: impl FnOnce(&mut Session) -> T,
) -> Result<T, ErrorCode> {
    shard.with_fetch_sessions(|sessions| sessions.with(at, work))
}

/// Ends the session where it has no partition any more; whether that is so.
pub(super) fn end_if_empty<I: Io>(shard: &Shard<I>, at: SessionAt) -> bool {
    shard.with_fetch_sessions(|sessions| sessions.end_if_empty(at))
}

/// Changes the session as the request says, and lists its partitions in their order.
///
/// # Errors
/// Another request of the session came meanwhile, or it is gone.
pub(super) async fn list<I: Io>(
    shard: &Shard<I>,
    version: i16,
    asked: &FetchRequest<'_>,
    at: SessionAt,
) -> Result<Vec<Listed>, ErrorCode> {
    let mut turns = Turns::new(shard.io());
    for topic in &asked.topics {
        let key = TopicKey::of(named(version, topic));
        for partition in &topic.partitions {
            turns.step().await;
            with(shard, at, |session| session.fetch(key.clone(), partition.clone()))?;
        }
    }
    for topic in &asked.forgotten_topics_data {
        let key = TopicKey::of(name_or_id(version, topic.topic, topic.topic_id));
        for &partition in &topic.partitions {
            turns.step().await;
            with(shard, at, |session| session.forget(key.clone(), partition))?;
        }
    }
    let (mut listed, mut last) = (Vec::new(), None);
    while let Some((place, topic, fetch)) = with(shard, at, |session| session.behind(last))? {
        turns.step().await;
        listed.push(Listed { place, topic, fetch });
        last = Some(place);
    }
    Ok(listed)
}

/// Leaves of what was fetched what the client is to be told, and answers the session's id, 0 for none.
///
/// # Errors
/// Another request of the session came meanwhile, or it is gone.
pub(super) async fn choose<'a, I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    answering: Answering<'_>,
    fetched: Vec<Fetched<'a, I>>,
) -> Result<(i32, Vec<Fetched<'a, I>>), ErrorCode> {
    match answering {
        Answering::Whole => Ok((0, fetched)),
        Answering::New => {
            let id = keep(shard, request, &fetched).await;
            Ok((id, fetched))
        }
        Answering::Next(at, listed) => {
            let mut told = Vec::with_capacity(fetched.len());
            let mut turns = Turns::new(shard.io());
            for (partition, listed) in fetched.into_iter().zip(listed) {
                turns.step().await;
                let outcome = outcome(&partition);
                if with(shard, at, |session| session.tell(listed.place, outcome))? {
                    told.push(partition);
                }
            }
            Ok((at.id, told))
        }
    }
}

async fn keep<I: Io>(shard: &Shard<I>, request: &Request<I>, fetched: &[Fetched<'_, I>]) -> i32 {
    if !shard.with_fetch_sessions(|sessions| sessions.may_keep(fetched.len())) {
        return 0;
    }
    let (mut session, mut turns) = (Session::default(), Turns::new(shard.io()));
    let (mut topic, mut places) = (None, Vec::with_capacity(fetched.len()));
    for partition in fetched {
        turns.step().await;
        let key = match topic.take() {
            Some((named, key)) if named == partition.topic => key,
            Some(_) | None => TopicKey::of(partition.topic),
        };
        topic = Some((partition.topic, key.clone()));
        places.push(session.fetch(key, partition.asked.clone()));
    }
    for (partition, place) in fetched.iter().zip(places) {
        turns.step().await;
        session.tell(place, outcome(partition));
    }
    let (by_id, io) = (request.version >= TOPIC_ID_FROM, shard.io());
    shard.with_fetch_sessions(|sessions| sessions.keep(session, by_id, io.now(), || io.random()))
}

fn outcome<I: Io>(fetched: &Fetched<'_, I>) -> Outcome {
    let read = fetched.outcome.as_ref().ok();
    let told = read
        .map(|read| Told { high_watermark: read.high_watermark.value(), log_start: read.log_start.value() });
    Outcome { told, has_records: read.is_some_and(|read| read.bytes > 0) }
}
