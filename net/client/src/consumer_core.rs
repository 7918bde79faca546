//! The consumer as a state machine: assignments and answers in, requests and records out. It knows no socket and no
//! clock, and no groups: it reads the partitions it was told to read.
//!
//! ```text
//!   assign, seek ──────> where each partition is read ──┐          ┌──> Fetch, ListOffsets
//!   on_fetch, on_offsets, on_metadata, ... ─────────────┼─> advance┼──> Connect, RefreshMetadata
//!   time ───────────────────────────────────────────────┘          └──> take_ready: records, or an error
//! ```
//!
//! What holds:
//! - The records of a partition come in order, from the position on, each once; records before the position and
//!   batches that brokers wrote for themselves are left out.
//! - A partition moves on only when its records are taken. Up to [`CHUNKS_AHEAD_MAX`] answers are kept ahead.
//! - An answer to a question asked before a seek is dropped.
//! - A partition that can't go on says so once and rests until it is sought.

mod action;
mod fetched;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use engine_record::{Instant, Offset, PartitionIndex, TopicId};
use net_wire::ErrorCode;

pub use action::{
    ConsumerAction, ConsumerPlan, FetchAnswer, FetchPartAnswer, FetchPlan, ListOffsetsPlan, OffsetAnswer,
    OffsetsAnswer, PartitionQuestion,
};
pub use fetched::{ConsumedRecord, FetchedRecords, UnreadableBatch};

use crate::errand::Errand;
use crate::link::Link;
use crate::metadata::{BrokerId, Metadata};
use crate::random::{Backoff, Generator};
use crate::request::{RequestFailure, RequestId};
use fetched::{Chunk, end_of};

/// How many answers of one partition wait to be taken, at most.
pub const CHUNKS_AHEAD_MAX: u32 = 2;

/// What to do where a position is not, or no longer, in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffsetReset {
    /// Go to the first record there is.
    Earliest,
    /// Go to the end.
    #[default]
    Latest,
    /// Tell the application.
    Error,
}

/// How a consumer behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerSettings {
    /// What to do with a position that is out of range.
    pub reset: OffsetReset,
    /// How long a broker may wait for `bytes_min`.
    pub wait_max: Duration,
    /// Bytes worth an answer.
    pub bytes_min: u32,
    /// The most bytes of one answer, unless the first batch is larger.
    pub bytes_max: u32,
    /// The most bytes of one partition in an answer, unless its first batch is larger.
    pub partition_bytes_max: u32,
    /// The most bytes a batch may have after decompression.
    pub decompressed_bytes_max: usize,
    /// How long a broker may take beyond `wait_max`.
    pub request_timeout: Duration,
    /// Pauses between attempts.
    pub retry: Backoff,
    /// Decides the jitter.
    pub seed: u64,
}

impl Default for ConsumerSettings {
    fn default() -> Self {
        Self {
            reset: OffsetReset::Latest,
            wait_max: Duration::from_millis(500),
            bytes_min: 1,
            bytes_max: 16 << 20,
            partition_bytes_max: 1 << 20,
            decompressed_bytes_max: 64 << 20,
            request_timeout: Duration::from_secs(30),
            retry: Backoff { first: Duration::from_millis(20), longest: Duration::from_secs(1) },
            seed: 0,
        }
    }
}

/// Where to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this offset.
    At(Offset),
    /// At the first record there is.
    Earliest,
    /// At the end: only what comes from now on.
    Latest,
    /// At the first record made at this time, in milliseconds since the Unix epoch, or later; at the end where there
    /// is none.
    Time(i64),
}

/// A partition that can't be read on.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    /// The position isn't in the log, and nothing was said about what then.
    #[error("{topic}/{partition}: offset {position} is out of range")]
    OutOfRange {
        /// The topic.
        topic: Rc<str>,
        /// The partition.
        partition: PartitionIndex,
        /// The position.
        position: Offset,
    },
    /// A broker refuses for good.
    #[error("{topic}/{partition}: refused by the broker: {code}")]
    Refused {
        /// The topic.
        topic: Rc<str>,
        /// The partition.
        partition: PartitionIndex,
        /// What the broker said.
        code: ErrorCode,
    },
    /// What came can't be read. Seek behind it to go on.
    #[error("{topic}/{partition}: {cause}")]
    Unreadable {
        /// The topic.
        topic: Rc<str>,
        /// The partition.
        partition: PartitionIndex,
        /// What is wrong.
        cause: UnreadableBatch,
    },
}

/// A partition that hasn't been read for a while, though it is tried again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// The topic.
    pub topic: Rc<str>,
    /// The partition.
    pub partition: PartitionIndex,
    /// Where reading would go on; `None` where that isn't known yet.
    pub position: Option<Offset>,
    /// Why the last attempt failed.
    pub code: ErrorCode,
    /// When the first attempt failed of those that have failed since anything was answered.
    pub since: Instant,
}

/// A partition that isn't assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the partition is not assigned to this consumer")]
pub struct NotAssigned;

/// A partition, as consumers name it.
type Name = (Rc<str>, PartitionIndex);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Find(Start),
    At(Offset),
    /// It can't go on; the application was told.
    Resting,
}

#[derive(Debug)]
struct Reading {
    topic_id: TopicId,
    leader: Option<BrokerId>,
    leader_epoch: i32,
    position: Position,
    /// Where the next fetch begins: behind what waits to be taken.
    fetch_offset: Offset,
    chunks_ahead: u32,
    /// Counts seeks, so that what was asked before one is recognized.
    generation: u64,
    in_flight: Option<RequestId>,
    failures: u32,
    /// The first failure's time and the last one's reason, of those that have followed each other.
    failing: Option<(Instant, ErrorCode)>,
    retry_at: Option<Instant>,
}

#[derive(Debug)]
struct Ready {
    name: Name,
    generation: u64,
    chunk: Chunk,
}

#[derive(Debug)]
struct Asked {
    broker: BrokerId,
    parts: Vec<(Name, u64)>,
    is_fetch: bool,
    /// The broker was asked not to wait.
    is_hasty: bool,
}

/// See the module.
#[derive(Debug)]
pub struct ConsumerCore {
    settings: ConsumerSettings,
    partitions: BTreeMap<Name, Reading>,
    links: BTreeMap<BrokerId, Link>,
    /// Brokers that had nothing when asked not to wait: not asked so again before something is taken.
    idle: BTreeSet<BrokerId>,
    requests: BTreeMap<RequestId, Asked>,
    next_request: u64,
    ready: VecDeque<Ready>,
    errors: VecDeque<ConsumeError>,
    metadata_errand: Errand,
    wants_metadata: bool,
    generator: Generator,
}

/// What the application wants.
impl ConsumerCore {
    /// A consumer of nothing.
    #[must_use]
    pub const fn new(settings: ConsumerSettings) -> Self {
        let generator = Generator::new(settings.seed);
        Self {
            settings,
            partitions: BTreeMap::new(),
            links: BTreeMap::new(),
            idle: BTreeSet::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            ready: VecDeque::new(),
            errors: VecDeque::new(),
            metadata_errand: Errand::new(),
            wants_metadata: false,
            generator,
        }
    }

    /// Reads this partition too; where it is read already it is as after a seek.
    pub fn assign(&mut self, topic: &str, partition: PartitionIndex, start: Start) {
        let name = (Rc::from(topic), partition);
        let reading = self.partitions.entry(name.clone()).or_insert_with(Reading::new);
        self.wants_metadata |= reading.leader.is_none();
        reading.seek(start);
        self.ready.retain(|ready| ready.name != name);
    }

    /// No longer reads this partition.
    ///
    /// # Errors
    /// [`NotAssigned`] where it wasn't read.
    pub fn unassign(&mut self, topic: &str, partition: PartitionIndex) -> Result<(), NotAssigned> {
        let name = (Rc::from(topic), partition);
        self.ready.retain(|ready| ready.name != name);
        self.partitions.remove(&name).map(|_| ()).ok_or(NotAssigned)
    }

    /// Goes on reading elsewhere.
    ///
    /// # Errors
    /// [`NotAssigned`] where the partition isn't read.
    pub fn seek(&mut self, topic: &str, partition: PartitionIndex, start: Start) -> Result<(), NotAssigned> {
        let name = (Rc::from(topic), partition);
        self.partitions.get_mut(&name).ok_or(NotAssigned)?.seek(start);
        self.ready.retain(|ready| ready.name != name);
        Ok(())
    }

    /// The offset of the next record to be taken; `None` while it is being found.
    ///
    /// # Errors
    /// [`NotAssigned`] where the partition isn't read.
    pub fn position(&self, topic: &str, partition: PartitionIndex) -> Result<Option<Offset>, NotAssigned> {
        let reading = self.partitions.get(&(Rc::from(topic), partition)).ok_or(NotAssigned)?;
        match reading.position {
            Position::At(offset) => Ok(Some(offset)),
            Position::Find(_) | Position::Resting => Ok(None),
        }
    }

    /// The settings it works by.
    #[must_use]
    pub const fn settings(&self) -> &ConsumerSettings {
        &self.settings
    }

    /// The topics whose metadata it wants; each once.
    #[must_use]
    pub fn topics(&self) -> Vec<Rc<str>> {
        let mut topics: Vec<_> = self.partitions.keys().map(|(topic, _)| Rc::clone(topic)).collect();
        topics.dedup();
        topics
    }

    /// Takes the oldest answer's records, and moves the position behind them; `None` where nothing has come.
    ///
    /// # Errors
    /// [`ConsumeError`] of a partition that can't go on; the others aren't touched by it.
    pub fn take_ready(&mut self) -> Option<Result<FetchedRecords, ConsumeError>> {
        if let Some(error) = self.errors.pop_front() {
            return Some(Err(error));
        }
        loop {
            let Ready { name, generation, chunk } = self.ready.pop_front()?;
            let known = self.partitions.get_mut(&name).filter(|reading| reading.generation == generation);
            let Some(reading) = known else { continue };
            let Position::At(position) = reading.position else { continue };
            reading.chunks_ahead -= 1;
            self.idle.clear();
            match FetchedRecords::decode(name.clone(), chunk, position, self.settings.decompressed_bytes_max)
            {
                Ok(records) => {
                    reading.position = Position::At(records.next_offset());
                    return Some(Ok(records));
                }
                Err(cause) => {
                    reading.rest();
                    let (topic, partition) = name;
                    return Some(Err(ConsumeError::Unreadable { topic, partition, cause }));
                }
            }
        }
    }

    /// The partitions that have failed at every attempt for at least so long, by name.
    #[must_use]
    pub fn stalled(&self, now: Instant, at_least: Duration) -> Vec<Stalled> {
        let failing = self.partitions.iter().filter_map(|((topic, partition), reading)| {
            let (since, code) = reading.failing.filter(|&(since, _)| now.since(since) >= at_least)?;
            let position = match reading.position {
                Position::At(_) => Some(reading.fetch_offset),
                Position::Find(_) | Position::Resting => None,
            };
            Some(Stalled { topic: Rc::clone(topic), partition: *partition, position, code, since })
        });
        failing.collect()
    }

    /// Whether [`ConsumerCore::take_ready`] has something.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty() || !self.errors.is_empty()
    }
}

impl Reading {
    const fn new() -> Self {
        Self {
            topic_id: TopicId::ZERO,
            leader: None,
            leader_epoch: -1,
            position: Position::Resting,
            fetch_offset: Offset::ZERO,
            chunks_ahead: 0,
            generation: 0,
            in_flight: None,
            failures: 0,
            failing: None,
            retry_at: None,
        }
    }

    const fn seek(&mut self, start: Start) {
        self.generation += 1;
        self.chunks_ahead = 0;
        self.in_flight = None;
        self.retry_at = None;
        self.position = match start {
            Start::At(offset) => Position::At(offset),
            Start::Earliest | Start::Latest | Start::Time(_) => Position::Find(start),
        };
        if let Start::At(offset) = start {
            self.fetch_offset = offset;
        }
    }

    const fn rest(&mut self) {
        self.seek(Start::Latest);
        self.failing = None;
        self.position = Position::Resting;
    }

    const fn fail(&mut self, now: Instant, code: ErrorCode) {
        let since = match self.failing {
            Some((since, _)) => since,
            None => now,
        };
        self.failing = Some((since, code));
    }

    fn pause(&mut self, now: Instant, backoff: &Backoff, generator: &mut Generator) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now.after(backoff.delay(self.failures, generator)));
    }

    const fn succeed(&mut self) {
        self.failures = 0;
        self.failing = None;
        self.retry_at = None;
    }

    fn may_ask(&self, now: Instant) -> bool {
        let is_finding = matches!(self.position, Position::Find(_));
        let is_fetching = matches!(self.position, Position::At(_)) && self.chunks_ahead < CHUNKS_AHEAD_MAX;
        self.in_flight.is_none() && (is_finding || is_fetching) && self.retry_at.is_none_or(|at| at <= now)
    }
}

/// What happened.
impl ConsumerCore {
    /// A broker is connected.
    pub fn on_connected(&mut self, broker: BrokerId) {
        self.links.entry(broker).or_default().connected();
    }

    /// A broker can't be reached; perhaps it is no longer where the metadata says.
    pub fn on_connect_failed(&mut self, broker: BrokerId, now: Instant) {
        self.wants_metadata = true;
        for reading in self.partitions.values_mut() {
            if reading.leader == Some(broker) && reading.position != Position::Resting {
                reading.fail(now, ErrorCode::NETWORK_EXCEPTION);
            }
        }
        let link = self.links.entry(broker).or_default();
        link.lost(now, &self.settings.retry, &mut self.generator);
    }

    /// What is now known of the cluster.
    pub fn on_metadata(&mut self, metadata: &Metadata, now: Instant) {
        let mut is_incomplete = false;
        for ((topic, partition), reading) in &mut self.partitions {
            let known = metadata.topic(topic);
            let index = usize::try_from(partition.0).ok();
            let told = known.zip(index).and_then(|(topic, index)| topic.partitions.get(index));
            reading.topic_id = known.map_or(TopicId::ZERO, |topic| topic.id);
            if let Some(told) = told {
                if told.leader != reading.leader {
                    reading.retry_at = None;
                }
                reading.leader = told.leader;
                reading.leader_epoch = told.leader_epoch;
            }
            if reading.leader.is_none() && reading.position != Position::Resting {
                is_incomplete = true;
                reading.fail(now, ErrorCode::LEADER_NOT_AVAILABLE);
            }
            let refused = metadata.topic_error(topic).filter(|error| !error.is_retriable());
            if let Some(code) = refused.filter(|_| reading.position != Position::Resting) {
                reading.rest();
                self.errors.push_back(ConsumeError::Refused {
                    topic: Rc::clone(topic),
                    partition: *partition,
                    code,
                });
            }
        }
        self.wants_metadata = is_incomplete;
        if is_incomplete {
            self.on_metadata_failed(now);
        } else {
            self.metadata_errand.succeed();
        }
    }

    /// No metadata could be had.
    pub fn on_metadata_failed(&mut self, now: Instant) {
        self.wants_metadata = true;
        self.metadata_errand.fail(now, &self.settings.retry, &mut self.generator);
    }

    /// The answer to a [`FetchPlan`], or that none came. An answer to what wasn't asked changes nothing.
    pub fn on_fetch(
        &mut self,
        request: RequestId,
        answer: Result<&FetchAnswer, RequestFailure>,
        now: Instant,
    ) {
        let Some(asked) = self.take_asked(request, answer.map(|answer| answer.throttle), now) else { return };
        let mut brought_nothing = true;
        for (index, (name, generation)) in asked.parts.into_iter().enumerate() {
            let part = answer.ok().filter(|answer| answer.error.is_none());
            let part = part.and_then(|answer| Some((answer, answer.parts.get(index)?.as_ref()?)));
            match part {
                Some((answer, part)) if part.error.is_none() => {
                    brought_nothing &= !self.take_part(&name, generation, &answer.frame, part);
                }
                Some((_, part)) => self.fail_part(&name, generation, part.error, now),
                None => self.fail_part(&name, generation, ErrorCode::NETWORK_EXCEPTION, now),
            }
        }
        if asked.is_hasty && brought_nothing {
            self.idle.insert(asked.broker);
        }
    }

    fn take_asked(
        &mut self,
        request: RequestId,
        throttle: Result<Duration, RequestFailure>,
        now: Instant,
    ) -> Option<Asked> {
        let asked = self.requests.remove(&request)?;
        let link = self.links.entry(asked.broker).or_default();
        link.in_flight -= u32::from(asked.is_fetch);
        match throttle {
            Ok(throttle) => link.answered(now, throttle),
            Err(RequestFailure::NotSent | RequestFailure::NoAnswer) => {
                link.lost(now, &self.settings.retry, &mut self.generator);
                self.wants_metadata = true;
            }
        }
        for (name, generation) in &asked.parts {
            if let Some(reading) =
                self.partitions.get_mut(name).filter(|known| known.generation == *generation)
            {
                reading.in_flight = None;
            }
        }
        Some(asked)
    }

    /// Keeps what came of a partition; whether that was anything.
    fn take_part(
        &mut self,
        name: &Name,
        generation: u64,
        frame: &Rc<Vec<u8>>,
        part: &FetchPartAnswer,
    ) -> bool {
        let known = self.partitions.get_mut(name).filter(|reading| reading.generation == generation);
        let Some(reading) = known else { return false };
        reading.succeed();
        let records = frame.get(part.records.clone()).unwrap_or_default();
        if records.is_empty() {
            return false;
        }
        // What can't even be numbered is kept too: taking it says what is wrong.
        reading.fetch_offset =
            end_of(records).map_or(reading.fetch_offset, |end| end.max(reading.fetch_offset));
        reading.chunks_ahead += 1;
        let chunk = Chunk {
            frame: Rc::clone(frame),
            records: part.records.clone(),
            high_watermark: part.high_watermark,
        };
        self.ready.push_back(Ready { name: name.clone(), generation, chunk });
        true
    }

    fn fail_part(&mut self, name: &Name, generation: u64, code: ErrorCode, now: Instant) {
        let known = self.partitions.get_mut(name).filter(|reading| reading.generation == generation);
        let Some(reading) = known else { return };
        let is_fetched = matches!(reading.position, Position::At(_));
        if code == ErrorCode::OFFSET_OUT_OF_RANGE && is_fetched && reading.chunks_ahead == 0 {
            return self.reset(name);
        }
        let is_lasting = !code.is_retriable() || code == ErrorCode::CORRUPT_MESSAGE;
        if is_lasting && !matches!(code, ErrorCode::UNKNOWN_SERVER_ERROR | ErrorCode::OFFSET_OUT_OF_RANGE) {
            reading.rest();
            let (topic, partition) = name.clone();
            self.errors.push_back(ConsumeError::Refused { topic, partition, code });
            return;
        }
        self.wants_metadata = true;
        reading.fail(now, code);
        reading.pause(now, &self.settings.retry, &mut self.generator);
    }

    fn reset(&mut self, name: &Name) {
        let Some(reading) = self.partitions.get_mut(name) else { return };
        match self.settings.reset {
            OffsetReset::Earliest => reading.seek(Start::Earliest),
            OffsetReset::Latest => reading.seek(Start::Latest),
            OffsetReset::Error => {
                let position = reading.fetch_offset;
                reading.rest();
                let (topic, partition) = name.clone();
                self.errors.push_back(ConsumeError::OutOfRange { topic, partition, position });
            }
        }
    }

    /// The answer to a [`ListOffsetsPlan`], or that none came.
    pub fn on_offsets(
        &mut self,
        request: RequestId,
        answer: Result<&OffsetsAnswer, RequestFailure>,
        now: Instant,
    ) {
        let Some(asked) = self.take_asked(request, answer.map(|answer| answer.throttle), now) else { return };
        for (index, (name, generation)) in asked.parts.into_iter().enumerate() {
            let part = answer.ok().and_then(|answer| *answer.parts.get(index)?);
            match part {
                Some(OffsetAnswer { error, offset }) if error.is_none() => {
                    self.found(&name, generation, offset)
                }
                Some(OffsetAnswer { error, .. }) => self.fail_part(&name, generation, error, now),
                None => self.fail_part(&name, generation, ErrorCode::NETWORK_EXCEPTION, now),
            }
        }
    }

    fn found(&mut self, name: &Name, generation: u64, offset: Option<Offset>) {
        let known = self.partitions.get_mut(name).filter(|reading| reading.generation == generation);
        let Some(reading) = known else { return };
        reading.succeed();
        reading.seek(offset.map_or(Start::Latest, Start::At));
    }
}

/// What to do.
impl ConsumerCore {
    /// Decides what is to be done now.
    pub fn advance(&mut self, now: Instant) -> ConsumerPlan {
        let mut actions = Vec::new();
        for (broker, names) in self.askable(now) {
            let link = self.links.entry(broker).or_default();
            if link.begin_connecting(now) {
                actions.push(ConsumerAction::Connect(broker));
            }
            if link.is_ready(u32::MAX, now) {
                self.ask(broker, names, &mut actions);
            }
        }
        if self.wants_metadata && !self.partitions.is_empty() && self.metadata_errand.begin(now) {
            actions.push(ConsumerAction::RefreshMetadata);
        }
        ConsumerPlan { actions, wake_at: self.wake_at(now) }
    }

    /// Partitions to ask about now, by leader.
    fn askable(&mut self, now: Instant) -> BTreeMap<BrokerId, Vec<Name>> {
        let mut by_leader = BTreeMap::<BrokerId, Vec<Name>>::new();
        for (name, reading) in self.partitions.iter().filter(|(_, reading)| reading.may_ask(now)) {
            match reading.leader {
                Some(leader) => by_leader.entry(leader).or_default().push(name.clone()),
                None => self.wants_metadata = true,
            }
        }
        by_leader
    }

    fn ask(&mut self, broker: BrokerId, names: Vec<Name>, actions: &mut Vec<ConsumerAction>) {
        let is_finding = |name: &Name| matches!(self.partitions[name].position, Position::Find(_));
        let (find, fetch): (Vec<_>, Vec<_>) = names.into_iter().partition(is_finding);
        if !find.is_empty() {
            let (request, parts) = self.begin_request(broker, find, false, false);
            actions.push(ConsumerAction::ListOffsets(ListOffsetsPlan { request, broker, parts }));
        }
        // A broker answers in order: a fetch that waits there would hold up what comes behind it. So there is one at
        // a time, and none waits while records of that broker are here to be taken, whose partitions would miss it.
        let is_hasty = self.has_chunks_of(broker);
        let is_fetching = self.links[&broker].in_flight > 0;
        if fetch.is_empty() || is_fetching || (is_hasty && self.idle.contains(&broker)) {
            return;
        }
        let wait_max = if is_hasty { Duration::ZERO } else { self.settings.wait_max };
        let (request, parts) = self.begin_request(broker, fetch, true, is_hasty);
        self.links.entry(broker).or_default().in_flight += 1;
        actions.push(ConsumerAction::Fetch(FetchPlan { request, broker, wait_max, parts }));
    }

    fn has_chunks_of(&self, broker: BrokerId) -> bool {
        let is_of = |ready: &Ready| {
            self.partitions.get(&ready.name).is_some_and(|reading| reading.leader == Some(broker))
        };
        self.ready.iter().any(is_of)
    }

    fn begin_request(
        &mut self,
        broker: BrokerId,
        names: Vec<Name>,
        is_fetch: bool,
        is_hasty: bool,
    ) -> (RequestId, Vec<PartitionQuestion>) {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        let (mut parts, mut questions) = (Vec::new(), Vec::new());
        for name in names {
            let Some(reading) = self.partitions.get_mut(&name) else { continue };
            reading.in_flight = Some(request);
            questions.push(question(&name, reading));
            parts.push((name, reading.generation));
        }
        self.requests.insert(request, Asked { broker, parts, is_fetch, is_hasty });
        (request, questions)
    }

    fn wake_at(&self, now: Instant) -> Option<Instant> {
        let partitions = self.partitions.values().filter_map(|reading| reading.retry_at);
        let links = self.links.values().filter_map(|link| link.wake_at(now));
        let metadata = if self.wants_metadata { self.metadata_errand.wake_at() } else { None };
        partitions.chain(links).chain(metadata).filter(|&at| at > now).min()
    }
}

fn question((topic, partition): &Name, reading: &Reading) -> PartitionQuestion {
    let wanted = match reading.position {
        Position::Find(Start::Earliest) => net_wire::messages::list_offsets::EARLIEST,
        Position::Find(Start::Time(time)) => time,
        Position::Find(Start::Latest) => net_wire::messages::list_offsets::LATEST,
        Position::Find(Start::At(_)) | Position::At(_) | Position::Resting => reading.fetch_offset.value(),
    };
    PartitionQuestion {
        topic: Rc::clone(topic),
        topic_id: reading.topic_id,
        partition: *partition,
        leader_epoch: reading.leader_epoch,
        wanted,
    }
}

#[cfg(test)]
mod tests;
