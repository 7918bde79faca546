//! The producer as a state machine: records and answers in, requests and outcomes out. It knows no socket and no clock.
//!
//! ```text
//!  accept(record) ──> queue of its partition ──┐                     ┌──> Send(request)
//!  on_answer, on_connected, on_metadata, ... ──┼──> advance(now) ────┼──> Connect, RefreshMetadata, InitProducerId
//!  time ───────────────────────────────────────┘                     └──> Complete(batch, offset or error)
//! ```
//!
//! What holds, whatever brokers and networks do:
//! - Every accepted record is completed exactly once, with its place or with a final error, at the latest when the
//!   delivery timeout is over.
//! - Records of one partition are appended in the order they were accepted, and with idempotence each of them once
//!   (the rules are at `outbox.rs`).
//! - At most [`ProducerSettings::in_flight_max`] requests are under way to a broker, at most
//!   [`ProducerSettings::buffer_bytes_max`] bytes of records are held.

mod action;
mod outbox;
mod settings;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine_record::{Instant, PartitionIndex, Timestamp, TopicId};
use net_wire::ErrorCode;

pub use action::{
    Action, Appended, Completion, DeliveryError, Identity, PartAnswer, Plan, ProduceAnswer, ProducePart,
    ProducePlan,
};
pub use settings::{Acks, IDEMPOTENT_IN_FLIGHT_MAX, InvalidSettings, ProducerSettings};

use crate::accumulator::{BatchId, BufferMemory, NotAccepted, Ticket};
use crate::batch::{SealedBatch, record_bytes_max};
use crate::errand::Errand;
use crate::link::Link;
use crate::metadata::{BrokerId, Metadata};
use crate::partitioner::{self, PartitionOutOfRange, Partitioner};
use crate::random::Generator;
use crate::record::{InvalidRecord, ProducerRecord};
use crate::request::{RequestFailure, RequestId};
use outbox::{Next, Outbox, SendRules, Setback, Settled, Undelivered};
use verdict::{Fate, Verdict, verdict};

/// Why a record wasn't accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// No broker could take it.
    #[error(transparent)]
    Invalid(#[from] InvalidRecord),
    /// The topic isn't known yet; it has been asked for. Try again after the next metadata.
    #[error("the topic is not known yet")]
    TopicUnknown,
    /// The cluster refuses the topic.
    #[error("the topic can't be used: {0}")]
    TopicRefused(ErrorCode),
    /// The topic has no such partition.
    #[error(transparent)]
    Partition(#[from] PartitionOutOfRange),
    /// There is no room now, or never for so large a record.
    #[error(transparent)]
    NotAccepted(#[from] NotAccepted),
    /// The producer is closed.
    #[error("the producer is closed")]
    Closed,
}

impl NotTaken {
    /// Whether the same record may be accepted later.
    #[must_use]
    pub const fn is_passing(self) -> bool {
        match self {
            Self::TopicUnknown | Self::NotAccepted(NotAccepted::MemoryFull) => true,
            Self::Invalid(_)
            | Self::TopicRefused(_)
            | Self::Partition(_)
            | Self::NotAccepted(NotAccepted::RecordTooLarge { .. })
            | Self::Closed => false,
        }
    }
}

/// Where an accepted record went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The partition chosen.
    pub partition: PartitionIndex,
    /// The batch, and the place in it.
    pub ticket: Ticket,
}

/// A partition, by the number of its topic in the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    topic: usize,
    partition: usize,
}

#[derive(Debug)]
struct TopicState {
    name: Rc<str>,
    id: TopicId,
    partitioner: Partitioner,
    /// As many as the cluster last said; 0 until it did.
    partition_count: u32,
    partitions: Vec<PartitionState>,
    error: Option<ErrorCode>,
}

#[derive(Debug, Default)]
struct PartitionState {
    leader: Option<BrokerId>,
    outbox: Outbox,
}

#[derive(Debug)]
struct Request {
    broker: BrokerId,
    places: Vec<Place>,
}

/// See the module.
#[derive(Debug)]
pub struct ProducerCore {
    settings: ProducerSettings,
    memory: BufferMemory,
    topics: Vec<TopicState>,
    topic_numbers: BTreeMap<Rc<str>, usize>,
    /// Partitions with something to deliver.
    active: BTreeSet<Place>,
    links: BTreeMap<BrokerId, Link>,
    requests: BTreeMap<RequestId, Request>,
    next_request: u64,
    identity: Option<Identity>,
    identity_errand: Errand,
    metadata_errand: Errand,
    wants_metadata: bool,
    unfinished: BTreeSet<BatchId>,
    generator: Generator,
    /// Which partition a request's parts begin with, so that none is always first.
    turn: usize,
    is_closed: bool,
    actions: Vec<Action>,
}

/// Taking records.
impl ProducerCore {
    /// A producer with nothing to do.
    ///
    /// # Errors
    /// [`InvalidSettings`] where the settings contradict each other.
    pub fn new(settings: ProducerSettings) -> Result<Self, InvalidSettings> {
        settings.check()?;
        Ok(Self {
            memory: BufferMemory::new(settings.buffer_bytes_max),
            generator: Generator::new(settings.seed),
            settings,
            topics: Vec::new(),
            topic_numbers: BTreeMap::new(),
            active: BTreeSet::new(),
            links: BTreeMap::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            identity: None,
            identity_errand: Errand::default(),
            metadata_errand: Errand::default(),
            wants_metadata: false,
            unfinished: BTreeSet::new(),
            turn: 0,
            is_closed: false,
            actions: Vec::new(),
        })
    }

    /// Takes a record; `timestamp` is its time where it has none. Its bytes are copied into a batch.
    ///
    /// # Errors
    /// See [`NotTaken`]; the record has left no trace then, but that its topic is asked for.
    pub fn accept(
        &mut self,
        record: &ProducerRecord<'_>,
        timestamp: Timestamp,
        now: Instant,
    ) -> Result<Accepted, NotTaken> {
        record.check()?;
        let topic = self.usable_topic(record.topic)?;
        let new_record = record.to_new_record(timestamp);
        let bytes = record_bytes_max(&new_record);
        let state = &mut self.topics[topic];
        let partition = match record.partition {
            Some(partition) => partitioner::explicit(partition, state.partition_count)?,
            None if !self.memory.has_room(bytes) => return Err(NotAccepted::MemoryFull.into()),
            None => state.partitioner.choose(record.key, state.partition_count, bytes),
        };
        let place = Place { topic, partition: index(partition) };
        let outbox = &mut state.partitions[place.partition].outbox;
        let ticket = outbox.queue.push(&new_record, &self.settings.batches, &mut self.memory, now)?;
        self.note(place, ticket.batch);
        Ok(Accepted { partition, ticket })
    }

    /// Takes a batch that the application wrote into memory of [`ProducerCore::buffer`].
    ///
    /// # Errors
    /// See [`NotTaken`]; the batch comes back.
    pub fn accept_batch(
        &mut self,
        topic: &str,
        partition: PartitionIndex,
        batch: SealedBatch,
        now: Instant,
    ) -> Result<BatchId, (NotTaken, SealedBatch)> {
        let place = match self.place(topic, partition) {
            Ok(place) => place,
            Err(reason) => return Err((reason, batch)),
        };
        let outbox = &mut self.topics[place.topic].partitions[place.partition].outbox;
        let pushed = outbox.queue.push_batch(batch, &self.settings.batches, &mut self.memory, now);
        let id = pushed.map_err(|(reason, batch)| (NotTaken::from(reason), batch))?;
        self.note(place, id);
        Ok(id)
    }

    fn place(&mut self, topic: &str, partition: PartitionIndex) -> Result<Place, NotTaken> {
        let topic = self.usable_topic(topic)?;
        let partition = partitioner::explicit(partition, self.topics[topic].partition_count)?;
        Ok(Place { topic, partition: index(partition) })
    }

    fn usable_topic(&mut self, name: &str) -> Result<usize, NotTaken> {
        if self.is_closed {
            return Err(NotTaken::Closed);
        }
        let topic = self.topic_number(name);
        let state = &self.topics[topic];
        match state.error.filter(|error| !error.is_retriable()) {
            Some(error) => Err(NotTaken::TopicRefused(error)),
            None if state.partition_count == 0 => {
                self.wants_metadata = true;
                Err(NotTaken::TopicUnknown)
            }
            None => Ok(topic),
        }
    }

    /// How many partitions a topic has; asks for it where that isn't known.
    ///
    /// # Errors
    /// `TopicUnknown`, `TopicRefused` and `Closed` of [`NotTaken`].
    pub fn require_topic(&mut self, topic: &str) -> Result<u32, NotTaken> {
        self.usable_topic(topic).map(|number| self.topics[number].partition_count)
    }

    fn topic_number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.topic_numbers.get(name) {
            return number;
        }
        let (number, name) = (self.topics.len(), Rc::<str>::from(name));
        let seed = self.generator.next_bits();
        self.topics.push(TopicState {
            name: Rc::clone(&name),
            id: TopicId::ZERO,
            partitioner: Partitioner::new(self.settings.partitioner, self.settings.batches.batch_bytes, seed),
            partition_count: 0,
            partitions: Vec::new(),
            error: None,
        });
        self.topic_numbers.insert(name, number);
        number
    }

    fn note(&mut self, place: Place, batch: BatchId) {
        self.active.insert(place);
        self.unfinished.insert(batch);
    }

    /// Memory to write a batch into, for [`ProducerCore::accept_batch`].
    pub fn buffer(&mut self) -> Vec<u8> {
        self.memory.buffer()
    }

    /// The settings it works by.
    #[must_use]
    pub const fn settings(&self) -> &ProducerSettings {
        &self.settings
    }

    /// The topics whose metadata it wants.
    pub fn topics(&self) -> impl Iterator<Item = &Rc<str>> {
        self.topic_numbers.keys()
    }

    /// Bytes of records accepted and not yet answered for.
    #[must_use]
    pub const fn buffered_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// The oldest batch that isn't complete.
    #[must_use]
    pub fn oldest_unfinished(&self) -> Option<BatchId> {
        self.unfinished.first().copied()
    }

    /// Lets everything accepted so far leave without waiting for company.
    pub fn flush(&mut self) {
        for place in &self.active {
            self.topics[place.topic].partitions[place.partition].outbox.queue.close();
        }
    }

    /// Takes no more records; what was accepted leaves as after [`ProducerCore::flush`].
    pub fn close(&mut self) {
        self.is_closed = true;
        self.flush();
    }

    /// Completes with [`DeliveryError::Closed`] what isn't complete.
    pub fn abandon(&mut self) {
        self.close();
        // Every batch is older than no time at all at the end of time.
        let end = Instant::from_nanos(u64::MAX);
        for place in self.active.clone() {
            let outbox = &mut self.topics[place.topic].partitions[place.partition].outbox;
            for undelivered in outbox.expire(end, core::time::Duration::ZERO, &mut self.memory) {
                let may_be_appended = undelivered.fate == Fate::Unknown;
                self.complete(undelivered.batch, Err(DeliveryError::Closed { may_be_appended }));
            }
        }
    }
}

/// What happened.
impl ProducerCore {
    /// A broker is connected.
    pub fn on_connected(&mut self, broker: BrokerId) {
        self.links.entry(broker).or_default().connected();
    }

    /// A broker can't be reached; perhaps it is no longer where the metadata says.
    pub fn on_connect_failed(&mut self, broker: BrokerId, now: Instant) {
        self.wants_metadata = true;
        let link = self.links.entry(broker).or_default();
        link.lost(now, &self.settings.retry, &mut self.generator);
    }

    /// The answer to a request, or that none came. With acks=0 the answer is the shell's, once the request is sent.
    /// An answer to a request that isn't under way changes nothing.
    pub fn on_answer(
        &mut self,
        request: RequestId,
        answer: Result<&ProduceAnswer, RequestFailure>,
        now: Instant,
    ) {
        let Some(Request { broker, places }) = self.requests.remove(&request) else { return };
        let link = self.links.entry(broker).or_default();
        link.in_flight -= 1;
        match answer {
            Ok(answer) => link.answered(now, answer.throttle),
            Err(RequestFailure::NotSent | RequestFailure::NoAnswer) => {
                link.lost(now, &self.settings.retry, &mut self.generator);
                self.wants_metadata = true;
            }
        }
        for (index, place) in places.into_iter().enumerate() {
            let part = answer.map(|answer| answer.parts.get(index).copied().flatten());
            self.settle(place, request, part, now);
        }
    }

    fn settle(
        &mut self,
        place: Place,
        request: RequestId,
        part: Result<Option<PartAnswer>, RequestFailure>,
        now: Instant,
    ) {
        let verdict = match part {
            Ok(Some(part)) => verdict(part.error),
            Ok(None) | Err(RequestFailure::NoAnswer) => Verdict::Retry(Fate::Unknown),
            Err(RequestFailure::NotSent) => Verdict::Retry(Fate::Absent),
        };
        self.wants_metadata |= verdict == Verdict::Retry(Fate::Unknown);
        let mut setback = Setback {
            now,
            backoff: &self.settings.retry,
            generator: &mut self.generator,
            is_idempotent: self.settings.is_idempotent,
        };
        let outbox = &mut self.topics[place.topic].partitions[place.partition].outbox;
        let part = part.ok().flatten();
        match outbox.settle(request, verdict, &mut setback, &mut self.memory) {
            Settled::Appended(batch) => self.complete(batch, Ok(appended(part))),
            Settled::Failed(Undelivered { batch, fate }) => {
                let code = part.map_or(ErrorCode::NETWORK_EXCEPTION, |part| part.error);
                let may_be_appended = fate == Fate::Unknown;
                self.complete(batch, Err(DeliveryError::Refused { code, may_be_appended }));
            }
            Settled::Waiting | Settled::Forgotten => {}
        }
    }

    /// What is now known of the cluster.
    pub fn on_metadata(&mut self, metadata: &Metadata, now: Instant) {
        for topic in &mut self.topics {
            topic.error = metadata.topic_error(&topic.name);
            if let Some(known) = metadata.topic(&topic.name) {
                topic.update(known);
            }
        }
        self.wants_metadata = self.topics.iter().any(TopicState::is_incomplete);
        if self.wants_metadata {
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

    /// The identity asked for, or that none could be had. An error that can't pass completes everything with it.
    pub fn on_identity(&mut self, identity: Result<Identity, ErrorCode>, now: Instant) {
        match identity {
            Ok(identity) => {
                self.identity_errand.succeed();
                self.identity = Some(identity);
            }
            Err(code) => {
                self.identity_errand.fail(now, &self.settings.retry, &mut self.generator);
                if !code.is_retriable() && code != ErrorCode::CONCURRENT_TRANSACTIONS {
                    self.refuse_waiting(code);
                }
            }
        }
    }

    /// Fails what waits for an identity that can't be had.
    fn refuse_waiting(&mut self, code: ErrorCode) {
        let end = Instant::from_nanos(u64::MAX);
        for place in self.active.clone() {
            let outbox = &mut self.topics[place.topic].partitions[place.partition].outbox;
            if !outbox.lacks_identity(self.identity) {
                continue;
            }
            for Undelivered { batch, fate } in
                outbox.expire(end, core::time::Duration::ZERO, &mut self.memory)
            {
                let may_be_appended = fate == Fate::Unknown;
                self.complete(batch, Err(DeliveryError::Refused { code, may_be_appended }));
            }
        }
    }

    fn complete(&mut self, batch: BatchId, result: Result<Appended, DeliveryError>) {
        let was_unfinished = self.unfinished.remove(&batch);
        assert!(was_unfinished, "a batch is completed once");
        self.actions.push(Action::Complete(Completion { batch, result }));
    }
}

fn appended(part: Option<PartAnswer>) -> Appended {
    Appended {
        base_offset: part.and_then(|part| part.base_offset),
        append_time: part.and_then(|part| part.append_time),
    }
}

fn index(partition: PartitionIndex) -> usize {
    usize::try_from(partition.0).expect("a partition that was checked is not negative")
}

impl TopicState {
    fn update(&mut self, known: &crate::metadata::Topic) {
        let is_recreated = self.id != known.id && !self.id.is_zero();
        self.id = known.id;
        self.partition_count = u32::try_from(known.partitions.len()).unwrap_or(u32::MAX);
        if self.partitions.len() < known.partitions.len() {
            self.partitions.resize_with(known.partitions.len(), PartitionState::default);
        }
        for (number, state) in self.partitions.iter_mut().enumerate() {
            if is_recreated {
                state.outbox.begin_anew();
            }
            let leader = known.partitions.get(number).and_then(|partition| partition.leader);
            if leader != state.leader {
                state.outbox.hurry();
                state.leader = leader;
            }
        }
    }

    /// Whether something is missing that sending needs.
    fn is_incomplete(&self) -> bool {
        let is_refused = self.error.is_some_and(|error| !error.is_retriable());
        let lacks_leader = |state: &PartitionState| state.leader.is_none() && !state.outbox.is_empty();
        !is_refused && (self.partition_count == 0 || self.partitions.iter().any(lacks_leader))
    }
}

/// What to do.
impl ProducerCore {
    /// Decides what is to be done now.
    pub fn advance(&mut self, now: Instant) -> Plan {
        self.expire(now);
        self.retire_idle();
        self.request_identity(now);
        self.send(now);
        self.retire_idle();
        if self.wants_metadata && !self.topics.is_empty() && self.metadata_errand.begin(now) {
            self.actions.push(Action::RefreshMetadata);
        }
        let actions = core::mem::take(&mut self.actions);
        Plan { actions, wake_at: self.wake_at(now) }
    }

    fn expire(&mut self, now: Instant) {
        let mut over = Vec::new();
        for place in &self.active {
            let outbox = &mut self.topics[place.topic].partitions[place.partition].outbox;
            over.extend(outbox.expire(now, self.settings.delivery_timeout, &mut self.memory));
        }
        for Undelivered { batch, fate } in over {
            self.complete(batch, Err(DeliveryError::TimedOut { may_be_appended: fate == Fate::Unknown }));
        }
    }

    fn retire_idle(&mut self) {
        let topics = &self.topics;
        self.active.retain(|place| !topics[place.topic].partitions[place.partition].outbox.is_empty());
    }

    fn request_identity(&mut self, now: Instant) {
        if !self.settings.is_idempotent {
            return;
        }
        let offered = self.identity;
        let lacks = |place: &Place| {
            self.topics[place.topic].partitions[place.partition].outbox.lacks_identity(offered)
        };
        if self.active.iter().any(lacks) && self.identity_errand.begin(now) {
            self.actions.push(Action::InitProducerId);
        }
    }

    fn send(&mut self, now: Instant) {
        for (broker, mut places) in self.sendable(now) {
            let link = self.links.entry(broker).or_default();
            if link.begin_connecting(now) {
                self.actions.push(Action::Connect(broker));
            }
            while self.links[&broker].is_ready(self.settings.in_flight_max, now) {
                let turn = self.turn % places.len().max(1);
                places.rotate_left(turn);
                self.turn = self.turn.wrapping_add(1);
                if !self.send_request(broker, &places, now) {
                    break;
                }
            }
        }
    }

    /// Partitions with something to send now, by leader.
    fn sendable(&mut self, now: Instant) -> BTreeMap<BrokerId, Vec<Place>> {
        let rules = rules(&self.settings);
        let mut by_leader = BTreeMap::<BrokerId, Vec<Place>>::new();
        for &place in &self.active {
            let state = &self.topics[place.topic].partitions[place.partition];
            match state.leader {
                Some(leader) if state.outbox.next(leader, &rules, now).is_some() => {
                    by_leader.entry(leader).or_default().push(place);
                }
                Some(_) => {}
                None => self.wants_metadata = true,
            }
        }
        by_leader
    }

    /// Sends one request with at most one batch a partition; `false` where there was nothing to send.
    fn send_request(&mut self, broker: BrokerId, places: &[Place], now: Instant) -> bool {
        let request = RequestId(self.next_request);
        let (mut parts, mut sent, mut bytes) = (Vec::new(), Vec::new(), 0);
        for &place in places {
            let Some((next, next_bytes)) = self.next_for(place, broker, now) else { continue };
            if bytes + next_bytes > self.settings.batches.request_bytes_max && !parts.is_empty() {
                break;
            }
            if let Some(part) = self.send_batch(place, next, (request, broker)) {
                bytes += part.bytes.len();
                parts.push(part);
                sent.push(place);
            }
        }
        if parts.is_empty() {
            return false;
        }
        self.next_request += 1;
        self.links.entry(broker).or_default().in_flight += 1;
        group_by_topic(&mut parts, &mut sent);
        self.requests.insert(request, Request { broker, places: sent });
        self.actions.push(Action::Send(ProducePlan { request, broker, parts }));
        true
    }

    fn next_for(&mut self, place: Place, broker: BrokerId, now: Instant) -> Option<(Next, usize)> {
        let rules = rules(&self.settings);
        let outbox = &mut self.topics[place.topic].partitions[place.partition].outbox;
        let next = outbox.next(broker, &rules, now)?;
        if self.settings.is_idempotent && !outbox.prepare(self.identity) {
            return None;
        }
        Some((next, outbox.next_bytes(next, self.settings.batches.batch_bytes)))
    }

    fn send_batch(&mut self, place: Place, next: Next, to: (RequestId, BrokerId)) -> Option<ProducePart> {
        let rules = rules(&self.settings);
        let topic = &mut self.topics[place.topic];
        let sent = topic.partitions[place.partition].outbox.send(next, to, &rules, &mut self.memory)?;
        let partition = PartitionIndex(i32::try_from(place.partition).unwrap_or(i32::MAX));
        match sent {
            Ok(bytes) => {
                Some(ProducePart { topic: Rc::clone(&topic.name), topic_id: topic.id, partition, bytes })
            }
            Err(failed) => {
                tracing::error!(topic = %topic.name, %partition, error = %failed.cause, "a batch can't be compressed");
                self.complete(failed.id, Err(DeliveryError::NotCompressed));
                None
            }
        }
    }

    fn wake_at(&self, now: Instant) -> Option<Instant> {
        let rules = rules(&self.settings);
        let timeout = self.settings.delivery_timeout;
        let partitions = self.active.iter().filter_map(|place| {
            self.topics[place.topic].partitions[place.partition].outbox.wake_at(&rules, timeout, now)
        });
        let links = self.links.values().filter_map(|link| link.wake_at(now));
        let metadata = if self.wants_metadata { self.metadata_errand.wake_at() } else { None };
        let identity = self.identity_errand.wake_at();
        let errands = metadata.into_iter().chain(identity).filter(|&at| at > now);
        partitions.chain(links).chain(errands).min()
    }
}

const fn rules(settings: &ProducerSettings) -> SendRules<'_> {
    SendRules {
        batches: &settings.batches,
        in_flight_max: settings.in_flight_max,
        is_idempotent: settings.is_idempotent,
    }
}

/// Puts parts of one topic next to each other, and `places` in the same order.
fn group_by_topic(parts: &mut Vec<ProducePart>, places: &mut Vec<Place>) {
    if places.is_sorted_by_key(|place| place.topic) {
        return;
    }
    let mut both: Vec<_> = places.drain(..).zip(parts.drain(..)).collect();
    both.sort_by_key(|(place, _)| place.topic);
    (*places, *parts) = both.into_iter().unzip();
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
