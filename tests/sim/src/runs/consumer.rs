//! A consumer of one partition: it reads on, goes back now and then, and notes what it is given.

use std::rc::Rc;

use engine_io::Io;
use net_wire::messages::FetchRequest;
use net_wire::messages::fetch::{FetchPartition, FetchTopic, PartitionData};
use net_wire::{ApiKey, ErrorCode, Uuid};

use super::directory::{self, Led, NoLeader, Topic};
use super::history::{Event, Fetched, Reader};
use super::payload::{self, Numbers};
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
    /// Whether the last fetch found its place gone.
    has_skipped: bool,
    version: i16,
    /// Milliseconds between two fetches, at most.
    pace_ms: u64,
}

/// Reads a partition until the clients are to settle or the topic is gone.
pub(super) async fn consume(setting: Rc<Setting>, topic: Topic, partition: i32) {
    consume_at(50, setting, topic, partition).await;
}

/// The same with a pause of up to so many milliseconds behind each fetch.
pub(super) async fn consume_at(pace_ms: u64, setting: Rc<Setting>, topic: Topic, partition: i32) {
    let range = ApiKey::Fetch.versions();
    let version = setting.chance.version(range.min, range.max);
    let mut consumer =
        Consumer { setting, topic, partition, position: 0, has_skipped: false, version, pace_ms };
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
        has_skipped: false,
        version: BY_ID_FROM,
        pace_ms: 0,
    };
    let mut led = directory::leader(setting, topic, partition).await.map_err(|_| Lost)?;
    let mut records = Numbers::new();
    loop {
        let fetched = consumer.fetch(&mut led, 0).await.map_err(|_| Lost)?;
        let end = fetched.high_watermark;
        if consumer.has_skipped && !records.is_empty() {
            // What was read first has been deleted meanwhile, and more: begin again.
            return Err(Lost);
        }
        records.extend(fetched.records);
        if consumer.position >= end {
            let at = setting.io.now();
            let log_start = records.first().map_or(fetched.log_start, |(offset, _)| *offset);
            setting.history.note(Event::Final { log: topic.log(partition), log_start, records, at });
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
            self.setting.pause(0..=self.pace_ms).await;
        }
        Ok(())
    }

    /// Fetches; from where the log starts if what was to be read is gone. Notes what came and moves on behind it.
    async fn fetch(&mut self, led: &mut Led, max_wait_ms: i32) -> Result<Fetched, NoLeader> {
        self.has_skipped = false;
        loop {
            if let Some(fetched) = self.fetch_once(led, max_wait_ms).await? {
                return Ok(fetched);
            }
        }
    }

    /// `None` where nothing is there any more at the offset, and the position is where the log starts now.
    async fn fetch_once(&mut self, led: &mut Led, max_wait_ms: i32) -> Result<Option<Fetched>, NoLeader> {
        let epoch = if self.version >= EPOCH_FROM { led.epoch } else { -1 };
        let begun_at = self.setting.io.now();
        let answer = led.wire.ask(self.version, &self.request(epoch, max_wait_ms)).await?;
        let body = answer.body();
        let partition = body.responses.first().and_then(|topic| topic.partitions.first());
        if partition.is_some_and(|partition| partition.error_code == ErrorCode::OFFSET_OUT_OF_RANGE) {
            return self.go_to_start(led).await.map(|()| None);
        }
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
        Ok(Some(fetched))
    }

    /// Moves to where the log starts. The connection is the same, so the process is, and its logs' starts never go back.
    async fn go_to_start(&mut self, led: &mut Led) -> Result<(), NoLeader> {
        let told = directory::log_start(&self.setting, &mut led.wire, &self.topic, self.partition).await?;
        let log_start = told.map_err(|error| self.refused_with(error))?;
        let (log, from) = (self.topic.log(self.partition), self.position);
        self.setting.history.note(Event::OutOfRange { log, from, log_start });
        (self.position, self.has_skipped) = (log_start, true);
        Ok(())
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
        self.refused_with(partition.map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |partition| partition.error_code))
    }

    fn refused_with(&self, error: ErrorCode) -> NoLeader {
        if PASSING.contains(&error) {
            return NoLeader::Now;
        }
        directory::without_topic(&self.setting, &self.topic, "Fetch", error)
    }
}
