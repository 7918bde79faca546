//! An idempotent producer of one partition: it sends until everything is acknowledged, whatever happens.

use std::collections::VecDeque;
use std::rc::Rc;

use engine_io::Io;
use engine_record::{Producer as Identity, ProducerEpoch, ProducerId, Timestamp};
use net_wire::messages::produce::{PartitionProduceData, TopicProduceData};
use net_wire::messages::{InitProducerIdRequest, ProduceRequest};
use net_wire::{ApiKey, ErrorCode, Uuid};

use super::directory::{self, NoLeader, Topic};
use super::history::Event;
use super::payload;
use super::setting::Setting;
use super::wire::{Lost, Wire};

/// From this version on topics are named by id.
const BY_ID_FROM: i16 = 13;

/// So long before they are sent records were made, by their times.
pub(super) const MADE_BEFORE_MS: i64 = 24 * 3_600_000;

/// What a client may be told in passing; it tries again.
const PASSING: [ErrorCode; 4] = [
    ErrorCode::NOT_LEADER_OR_FOLLOWER,
    ErrorCode::REQUEST_TIMED_OUT,
    ErrorCode::KAFKA_STORAGE_ERROR,
    ErrorCode::LEADER_NOT_AVAILABLE,
];

/// A batch that isn't acknowledged yet.
struct Unacknowledged {
    first: u64,
    count: u64,
    bytes: Vec<u8>,
}

struct Producer {
    setting: Rc<Setting>,
    topic: Topic,
    partition: i32,
    identity: ProducerId,
    next_sequence: i32,
    /// Batches under way at once, at most 5: so many the broker knows again.
    window: usize,
    unacknowledged: VecDeque<Unacknowledged>,
    /// Batches still to be made.
    left: u64,
    version: i16,
}

/// Sends so many batches to a partition.
pub(super) async fn produce(setting: Rc<Setting>, topic: Topic, partition: i32, batches: u64) {
    let identity = identity(&setting).await;
    let window = usize::try_from(setting.chance.pick(1..=5)).expect("windows are small");
    let range = ApiKey::Produce.versions();
    let version = setting.chance.version(range.min, range.max);
    let mut producer = Producer {
        setting,
        topic,
        partition,
        identity,
        next_sequence: 0,
        window,
        unacknowledged: VecDeque::new(),
        left: batches,
        version,
    };
    while !producer.is_done() {
        if let Err(NoLeader::Gone) = producer.send_all().await {
            return;
        }
        producer.setting.pause(1..=200).await;
    }
}

/// Asks for an identity until there is one.
async fn identity(setting: &Rc<Setting>) -> ProducerId {
    loop {
        if let Ok(Some(id)) = ask_identity(setting).await {
            return id;
        }
        setting.pause(1..=200).await;
    }
}

async fn ask_identity(setting: &Rc<Setting>) -> Result<Option<ProducerId>, Lost> {
    let mut wire = Wire::connect(setting, setting.some_address()).await?;
    let request = InitProducerIdRequest { transactional_id: None, ..InitProducerIdRequest::default() };
    let range = ApiKey::InitProducerId.versions();
    let body = wire.ask(setting.chance.version(range.min, range.max), &request).await?.body();
    let passing = [ErrorCode::NOT_CONTROLLER, ErrorCode::THROTTLING_QUOTA_EXCEEDED];
    if !body.error_code.is_none() && !passing.contains(&body.error_code) {
        let (request, error) = ("InitProducerId", body.error_code);
        setting.history.note(Event::Forbidden { request, error, log: None });
    }
    Ok(body.error_code.is_none().then_some(ProducerId(body.producer_id)))
}

impl Producer {
    fn is_done(&self) -> bool {
        self.unacknowledged.is_empty() && (self.left == 0 || self.setting.is_settling())
    }

    /// Sends what is left over one connection, from the oldest batch without an answer on.
    async fn send_all(&mut self) -> Result<(), NoLeader> {
        let mut wire = directory::leader(&self.setting, &self.topic, self.partition).await?.wire;
        let mut under_way = 0;
        loop {
            while under_way < self.window && self.has_batch(under_way) {
                wire.send(self.version, &self.request(under_way)).await?;
                under_way += 1;
            }
            if under_way == 0 {
                return Ok(());
            }
            let answer = wire.receive::<ProduceRequest<'_>>(self.version).await?;
            let body = answer.body();
            let outcome = body.responses.first().and_then(|topic| topic.partition_responses.first());
            let (error, base_offset) =
                outcome.map_or((ErrorCode::UNKNOWN_SERVER_ERROR, -1), |o| (o.error_code, o.base_offset));
            self.take(error, base_offset)?;
            under_way -= 1;
            if self.setting.chance.one_in(8) {
                self.setting.pause(0..=300).await;
            }
        }
    }

    /// Whether there is a batch at this place of the window; makes it where it is to be made.
    fn has_batch(&mut self, place: usize) -> bool {
        if place < self.unacknowledged.len() {
            return true;
        }
        if self.left == 0 || self.setting.is_settling() {
            return false;
        }
        self.left -= 1;
        let count = self.setting.chance.pick(1..=4);
        let first = self.setting.take_numbers(count);
        let producer =
            Identity { id: self.identity, epoch: ProducerEpoch(0), base_sequence: self.next_sequence };
        self.next_sequence += i32::try_from(count).expect("batches are small");
        // Behind every clock, however far the server's is set back: a time too far ahead is refused.
        let made_at = Timestamp(self.setting.io.timestamp().0 - MADE_BEFORE_MS);
        let bytes = payload::batch(&self.setting.chance, first, count, made_at, producer);
        let log = self.topic.log(self.partition);
        let identity = self.identity.0.unsigned_abs();
        let at = self.setting.io.now();
        self.setting.history.note(Event::Sent { log, producer: identity, first, count, at });
        self.unacknowledged.push_back(Unacknowledged { first, count, bytes });
        true
    }

    fn request(&self, place: usize) -> ProduceRequest<'_> {
        let by_id = self.version >= BY_ID_FROM;
        let partition_data = vec![PartitionProduceData {
            index: self.partition,
            records: Some(&self.unacknowledged[place].bytes),
        }];
        let topic = TopicProduceData {
            name: if by_id { "" } else { &self.topic.name },
            topic_id: if by_id { self.topic.id } else { Uuid::ZERO },
            partition_data,
        };
        ProduceRequest { transactional_id: None, acks: -1, timeout_ms: 30_000, topic_data: vec![topic] }
    }

    /// Takes the answer to the oldest batch. After an error the connection is given up: what follows it on the way
    /// can't be in sequence.
    fn take(&mut self, error: ErrorCode, base_offset: i64) -> Result<(), NoLeader> {
        let log = self.topic.log(self.partition);
        if error.is_none() {
            let done = self.unacknowledged.pop_front().expect("an answer is to a batch under way");
            let at = self.setting.io.now();
            let Unacknowledged { first, count, .. } = done;
            self.setting.history.note(Event::Acknowledged { log, first, count, base_offset, at });
            return Ok(());
        }
        if PASSING.contains(&error) {
            return Err(NoLeader::Now);
        }
        // Also a sequence out of order is forbidden: all before it was acknowledged.
        Err(directory::without_topic(&self.setting, &self.topic, "Produce", error))
    }
}
