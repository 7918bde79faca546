//! A consumer of one partition: it reads on, goes back now and then, and notes what it is given.

use std::rc::Rc;

use engine_io::Io;
use net_wire::messages::FetchRequest;
use net_wire::messages::fetch::{FetchPartition, FetchTopic, PartitionData};
use net_wire::{ApiKey, ErrorCode, Uuid};

use super::directory::{self, Led, NoLeader, Topic};
use super::history::{Event, Fetched, Reader};
use super::payload;
use super::setting::Setting;
use super::wire::Lost;

/// From this version on topics are named by id.
const BY_ID_FROM: i16 = 13;
/// From this version on a request can name the leader epoch it expects.
const EPOCH_FROM: i16 = 9;
/// From this version on the answer tells where the log starts.
const LOG_START_FROM: i16 = 5;

/// What a client may be told in passing; it asks again who leads.
const PASSING: [ErrorCode; 4] = [
    ErrorCode::NOT_LEADER_OR_FOLLOWER,
    ErrorCode::KAFKA_STORAGE_ERROR,
    ErrorCode::FENCED_LEADER_EPOCH,
    ErrorCode::UNKNOWN_LEADER_EPOCH,
];

struct Consumer {
    setting: Rc<Setting>,
    topic: Topic,
    partition: i32,
    position: i64,
    version: i16,
}

/// Reads a partition until the clients are to settle or the topic is gone.
pub(super) async fn consume(setting: Rc<Setting>, topic: Topic, partition: i32) {
    let range = ApiKey::Fetch.versions();
    let version = setting.chance.version(range.min, range.max);
    let mut consumer = Consumer { setting, topic, partition, position: 0, version };
    while !consumer.setting.is_settling() {
        if let Err(NoLeader::Gone) = consumer.read().await {
            return;
        }
        consumer.setting.pause(1..=200).await;
    }
}

/// Reads a partition's whole log.
pub(super) async fn read_whole(setting: &Rc<Setting>, topic: &Topic, partition: i32) -> Result<(), Lost> {
    let mut consumer = Consumer {
        setting: Rc::clone(setting),
        topic: topic.clone(),
        partition,
        position: 0,
        version: BY_ID_FROM,
    };
    let mut led = directory::leader(setting, topic, partition).await.map_err(|_| Lost)?;
    let mut records = Vec::new();
    loop {
        let fetched = consumer.fetch(&mut led, 0).await.map_err(|_| Lost)?;
        let end = fetched.high_watermark;
        records.extend(fetched.records);
        if consumer.position >= end {
            setting.history.note(Event::Final { log: topic.log(partition), records });
            return Ok(());
        }
    }
}

impl Consumer {
    /// Reads over one connection until it ends.
    async fn read(&mut self) -> Result<(), NoLeader> {
        let mut led = directory::leader(&self.setting, &self.topic, self.partition).await?;
        while !self.setting.is_settling() {
            let max_wait_ms = if self.setting.chance.one_in(2) { 0 } else { 300 };
            self.fetch(&mut led, max_wait_ms).await?;
            if self.setting.chance.one_in(10) {
                let furthest = self.position.unsigned_abs();
                self.position = i64::try_from(self.setting.chance.pick(0..=furthest)).unwrap_or(0);
            }
            self.setting.pause(0..=50).await;
        }
        Ok(())
    }

    /// Fetches once; notes what came and moves on behind it.
    async fn fetch(&mut self, led: &mut Led, max_wait_ms: i32) -> Result<Fetched, NoLeader> {
        let epoch = if self.version >= EPOCH_FROM { led.epoch } else { -1 };
        let begun_at = self.setting.io.now();
        let answer = led.wire.ask(self.version, &self.request(epoch, max_wait_ms)).await?;
        let body = answer.body();
        let partition = body.responses.first().and_then(|topic| topic.partitions.first());
        let Some(partition) = partition.filter(|partition| partition.error_code.is_none()) else {
            return Err(self.refused(partition));
        };
        let records = match payload::read(partition.records.unwrap_or_default()) {
            Ok(records) => records,
            Err(why) => {
                self.setting.history.note(Event::Nonsense { request: "Fetch", why });
                return Err(NoLeader::Now);
            }
        };
        let log_start = if self.version >= LOG_START_FROM { partition.log_start_offset } else { 0 };
        let fetched = Fetched { high_watermark: partition.high_watermark, log_start, records };
        let reader = Reader { epoch, begun_at, ended_at: self.setting.io.now() };
        let (log, from) = (self.topic.log(self.partition), self.position);
        self.setting.history.note(Event::Read { log, reader, from, fetched: fetched.clone() });
        self.position = fetched.records.last().map_or(from, |(offset, _)| offset + 1);
        Ok(fetched)
    }

    fn request(&self, epoch: i32, max_wait_ms: i32) -> FetchRequest<'_> {
        let by_id = self.version >= BY_ID_FROM;
        let limit = |chance: u64| i32::try_from(chance).expect("limits fit");
        let partition = FetchPartition {
            partition: self.partition,
            current_leader_epoch: epoch,
            fetch_offset: self.position,
            partition_max_bytes: limit(self.setting.chance.pick(1..=100_000)),
            ..FetchPartition::default()
        };
        let topic = FetchTopic {
            topic: if by_id { "" } else { &self.topic.name },
            topic_id: if by_id { self.topic.id } else { Uuid::ZERO },
            partitions: vec![partition],
        };
        FetchRequest {
            max_wait_ms,
            min_bytes: limit(self.setting.chance.pick(0..=2_000)),
            max_bytes: limit(self.setting.chance.pick(1..=100_000)),
            topics: vec![topic],
            ..FetchRequest::default()
        }
    }

    fn refused(&self, partition: Option<&PartitionData<'_>>) -> NoLeader {
        let error = partition.map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |partition| partition.error_code);
        if PASSING.contains(&error) {
            return NoLeader::Now;
        }
        // Also an offset out of range is forbidden: it was below the high watermark once.
        directory::without_topic(&self.setting, &self.topic, "Fetch", error)
    }
}
