//! What a fetch has to do with its session: which partitions it asks for, and which of them are told.

use engine_io::Io;
use net_wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use net_wire::{ErrorCode, TopicRef, Uuid};

use super::TOPIC_ID_FROM;
use crate::dispatch::Request;
use crate::fetch_sessions::{Kind, Outcome, Place, Session, SessionAt, TopicKey};
use crate::shard::Shard;
use crate::turns::Turns;

/// A partition that a session has.
pub(crate) struct Listed {
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
pub(crate) enum Answering<'a> {
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

/// Which of the partitions asked for the client is to be told of.
pub(crate) enum ToTell {
    All,
    /// Those that say so, in order.
    Some(Vec<bool>),
}

impl ToTell {
    /// Leaves those that are to be told.
    pub(crate) fn of<T>(self, all: Vec<T>) -> Vec<T> {
        match self {
            Self::All => all,
            Self::Some(told) => {
                all.into_iter().zip(told).filter_map(|(one, is_told)| is_told.then_some(one)).collect()
            }
        }
    }
}

/// What came of a partition that was asked for.
pub(crate) type Came<'a> = (TopicRef<'a>, &'a FetchPartition, Outcome);

/// Which of the partitions asked for the client is to be told of, and the session's id, 0 for none.
///
/// # Errors
/// Another request of the session came meanwhile, or it is gone.
pub(crate) async fn choose<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    answering: Answering<'_>,
    came: impl ExactSizeIterator<Item = Came<'_>> + Clone,
) -> Result<(i32, ToTell), ErrorCode> {
    match answering {
        Answering::Whole => Ok((0, ToTell::All)),
        Answering::New => Ok((keep(shard, request, came).await, ToTell::All)),
        Answering::Next(at, listed) => {
            let mut told = Vec::with_capacity(came.len());
            let mut turns = Turns::new(shard.io());
            for ((.., outcome), listed) in came.zip(listed) {
                turns.step().await;
                told.push(with(shard, at, |session| session.tell(listed.place, outcome))?);
            }
            Ok((at.id, ToTell::Some(told)))
        }
    }
}

async fn keep<I: Io>(
    shard: &Shard<I>,
    request: &Request<I>,
    came: impl ExactSizeIterator<Item = Came<'_>> + Clone,
) -> i32 {
    if !shard.with_fetch_sessions(|sessions| sessions.may_keep(came.len())) {
        return 0;
    }
    let (mut session, mut turns) = (Session::default(), Turns::new(shard.io()));
    let (mut last, mut places) = (None, Vec::with_capacity(came.len()));
    for (topic, asked, _) in came.clone() {
        turns.step().await;
        let key = match last.take() {
            Some((named, key)) if named == topic => key,
            Some(_) | None => TopicKey::of(topic),
        };
        last = Some((topic, key.clone()));
        places.push(session.fetch(key, asked.clone()));
    }
    for ((.., outcome), place) in came.zip(places) {
        turns.step().await;
        session.tell(place, outcome);
    }
    let (by_id, io) = (request.version >= TOPIC_ID_FROM, shard.io());
    shard.with_fetch_sessions(|sessions| sessions.keep(session, by_id, io.now(), || io.random()))
}
