//! Fetch sessions (KIP-227): what a client fetches again and again, kept by the broker, so that it names only what changes
//! and is told only what is news.
//!
//! ```text
//! client: new session (0, 0), all partitions   ──>  answered in full, with the session's id; its epoch is 1
//! client: (id, 1), what changed, what to forget ──> answered with what is news; its epoch is 2
//! client: (id, -1)                              ──> closed
//! ```
//!
//! Which sessions there are, and how many, is decided here; what is in the logs is the handler's. A session costs memory
//! while its client is silent, so a shard keeps a bounded number of them, and bounded bytes. Where neither is left, one goes
//! that was silent for two minutes; where there is none, the client is told that it has no session, which is always legal.
//!
//! Whoever works on a session of many partitions gives others their turn meanwhile, and then it may be another's: so each
//! step names the epoch that it belongs to, and is refused where that is over.

use core::time::Duration;
use std::collections::BTreeMap;
use std::rc::Rc;

use engine_record::{Instant, TopicId};
use net_wire::messages::fetch::FetchPartition;
use net_wire::{ErrorCode, TopicRef, Uuid};

/// A session that was silent for so long gives way to a new one.
const SILENT_MAX: Duration = Duration::from_secs(120);
/// What a partition takes in a session, at most, in bytes; the name of its topic comes on top.
const PARTITION_BYTES: u64 = 384;

/// How many sessions there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    /// Sessions at a time.
    pub(crate) sessions: usize,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
}

/// A topic as the requests of a session name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TopicKey {
    Name(Rc<str>),
    Id(TopicId),
}

impl TopicKey {
    pub(crate) fn of(topic: TopicRef<'_>) -> Self {
        match topic {
            TopicRef::Name(name) => Self::Name(name.into()),
            TopicRef::Id(id) => Self::Id(TopicId(id.0)),
        }
    }

    pub(crate) fn as_ref(&self) -> TopicRef<'_> {
        match self {
            Self::Name(name) => TopicRef::Name(name),
            Self::Id(id) => TopicRef::Id(Uuid(id.0)),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Name(name) => name.len() as u64,
            Self::Id(_) => 0,
        }
    }
}

/// What an answer says of a partition without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) high_watermark: i64,
    pub(crate) log_start: i64,
}

/// What came of a fetch of a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// What the answer would say; `None` where that is an error.
    pub(crate) told: Option<Told>,
    pub(crate) has_records: bool,
}

/// A place in a session's order. A partition that was answered with records goes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

#[derive(Debug)]
struct Member {
    place: Place,
    fetch: FetchPartition,
    /// What the last answer said; `None` before the first, and after an error.
    told: Option<Told>,
}

/// What one client fetches.
#[derive(Debug, Default)]
pub(crate) struct Session {
    members: BTreeMap<(TopicKey, i32), Member>,
    order: BTreeMap<Place, (TopicKey, i32)>,
    places: u64,
    bytes: u64,
}

/// A session and the epoch in which it is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionAt {
    pub(crate) id: i32,
    epoch: i32,
}

/// What a request is in terms of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It names all it wants.
    Whole,
    /// It names all it wants, and a session is to be kept of that.
    New,
    /// It names what changes.
    Next(SessionAt),
}

#[derive(Debug)]
struct Kept {
    session: Session,
    /// Whether its requests name topics by id.
    by_id: bool,
    /// What its next request has to say.
    epoch: i32,
    used_at: Instant,
}

/// The sessions of a shard.
#[derive(Debug)]
pub(crate) struct FetchSessions {
    limits: SessionLimits,
    sessions: BTreeMap<i32, Kept>,
    bytes: u64,
}

impl Session {
    /// Adds a partition, or changes how it is fetched. Where it stands.
    pub(crate) fn fetch(&mut self, topic: TopicKey, fetch: FetchPartition) -> Place {
        let key = (topic, fetch.partition);
        if let Some(member) = self.members.get_mut(&key) {
            member.fetch = fetch;
            return member.place;
        }
        let place = self.last_place();
        self.bytes += PARTITION_BYTES + key.0.bytes();
        self.order.insert(place, key.clone());
        self.members.insert(key, Member { place, fetch, told: None });
        self.check();
        place
    }

    /// Forgets a partition; one that isn't in it is fine.
    pub(crate) fn forget(&mut self, topic: TopicKey, partition: i32) {
        let key = (topic, partition);
        if let Some(member) = self.members.remove(&key) {
            self.order.remove(&member.place);
            self.bytes -= PARTITION_BYTES + key.0.bytes();
        }
        self.check();
    }

    /// The first partition behind `place`, or the first of all.
    pub(crate) fn behind(&self, place: Option<Place>) -> Option<(Place, TopicKey, FetchPartition)> {
        let from = place.map_or(Place(0), |Place(place)| Place(place + 1));
        let (place, key) = self.order.range(from..).next()?;
        Some((*place, key.0.clone(), self.members[key].fetch.clone()))
    }

    /// Notes what came of the fetch of the partition that stands at `place`; whether the client is to be told. One that stands
    /// there no more, as it was named twice, is told.
    pub(crate) fn tell(&mut self, place: Place, outcome: Outcome) -> bool {
        let Some(key) = self.order.get(&place) else { return true };
        let member = self.members.get_mut(key).expect("what has a place is a member");
        let is_news = outcome.has_records || outcome.told.is_none() || outcome.told != member.told;
        member.told = outcome.told;
        if outcome.has_records {
            self.move_to_the_end(place);
        }
        is_news
    }

    fn move_to_the_end(&mut self, place: Place) {
        let last = self.last_place();
        let Some(key) = self.order.remove(&place) else { return };
        self.members.get_mut(&key).expect("what has a place is a member").place = last;
        self.order.insert(last, key);
        self.check();
    }

    fn last_place(&mut self) -> Place {
        self.places += 1;
        Place(self.places)
    }

    fn check(&self) {
        assert_eq!(self.members.len(), self.order.len(), "every partition has its place");
    }
}

impl FetchSessions {
    pub(crate) fn new(limits: SessionLimits) -> Self {
        Self { limits, sessions: BTreeMap::new(), bytes: 0 }
    }

    /// Takes a request by the session's id and epoch in it, and whether its version names topics by id. One that names all
    /// it wants ends the session it names.
    ///
    /// # Errors
    /// `FETCH_SESSION_ID_NOT_FOUND`, `INVALID_FETCH_SESSION_EPOCH`, `FETCH_SESSION_TOPIC_ID_ERROR`; the session stays.
    pub(crate) fn begin(
        &mut self,
        id: i32,
        epoch: i32,
        by_id: bool,
        now: Instant,
    ) -> Result<Kind, ErrorCode> {
        match epoch {
            -1 | 0 => {
                self.remove(id);
                return Ok(if epoch == 0 { Kind::New } else { Kind::Whole });
            }
            _ => {}
        }
        let kept = self.sessions.get_mut(&id).ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if kept.epoch != epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        if kept.by_id != by_id {
            return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        }
        kept.epoch = epoch.checked_add(1).unwrap_or(1);
        kept.used_at = now;
        Ok(Kind::Next(SessionAt { id, epoch: kept.epoch }))
    }

    /// Works on a session. One that then has no partition any more, or more than there is memory for, is gone.
    ///
    /// # Errors
    /// `FETCH_SESSION_ID_NOT_FOUND`, `INVALID_FETCH_SESSION_EPOCH`: another request came, and `work` wasn't called.
    pub(crate) fn with<T>(
        &mut self,
        at: SessionAt,
        work: impl FnOnce(&mut Session) -> T,
    ) -> Result<T, ErrorCode> {
        let kept = self.sessions.get_mut(&at.id).ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if kept.epoch != at.epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        let before = kept.session.bytes;
        let done = work(&mut kept.session);
        self.bytes = self.bytes - before + kept.session.bytes;
        if self.bytes > self.limits.bytes {
            self.remove(at.id);
        }
        Ok(done)
    }

    /// Ends the session where it has no partition any more; whether that is so.
    pub(crate) fn end_if_empty(&mut self, at: SessionAt) -> bool {
        let is_empty = self.sessions.get(&at.id).is_some_and(|kept| kept.session.members.is_empty());
        if is_empty {
            self.remove(at.id);
        }
        is_empty
    }

    /// Whether a session of so many partitions can ever be kept.
    pub(crate) fn may_keep(&self, partitions: usize) -> bool {
        partitions > 0 && partitions as u64 * PARTITION_BYTES <= self.limits.bytes && self.limits.sessions > 0
    }

    /// Keeps a new session; its id, or 0 where there is no room for it. `random` draws ids.
    pub(crate) fn keep(
        &mut self,
        session: Session,
        by_id: bool,
        now: Instant,
        mut random: impl FnMut() -> u64,
    ) -> i32 {
        if session.members.is_empty() || !self.make_room(session.bytes, now) {
            return 0;
        }
        let id = loop {
            let id = i32::try_from(random() >> 33).expect("31 bits fit");
            if id != 0 && !self.sessions.contains_key(&id) {
                break id;
            }
        };
        self.bytes += session.bytes;
        self.sessions.insert(id, Kept { session, by_id, epoch: 1, used_at: now });
        id
    }

    /// Ends sessions that were silent for long, as few as needed; whether there is room then.
    fn make_room(&mut self, bytes: u64, now: Instant) -> bool {
        if bytes > self.limits.bytes || self.limits.sessions == 0 {
            return false;
        }
        while self.sessions.len() >= self.limits.sessions || self.bytes + bytes > self.limits.bytes {
            let oldest = self.sessions.iter().min_by_key(|(_, kept)| kept.used_at);
            let silent = oldest.filter(|(_, kept)| now.since(kept.used_at) >= SILENT_MAX);
            let Some((&id, _)) = silent else { return false };
            self.remove(id);
        }
        true
    }

    fn remove(&mut self, id: i32) {
        if let Some(kept) = self.sessions.remove(&id) {
            self.bytes -= kept.session.bytes;
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }
}

#[cfg(test)]
mod tests;
