//! Retention over ten days, held against its bounds all along and not only at the end.
//!
//! ```text
//!  a step of half an hour: append to every topic ─▶ the clocks go on ─▶ the node looks, once at least ─▶ bounds::check
//!  beside it, all the time: readers who read on, fall behind and go back, into the history that all checkers read
//! ```
//!
//! Most of a step passes on the wall clocks alone, by which records age; the rest on all clocks, longer than the node waits
//! between two looks. Once a day the node is stopped in order or its process dies, and it starts again.

mod bounds;

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::rc::Rc;

use engine_io::{Io, Task};
use engine_record::{BatchBuilder, NewRecord, Timestamp};
use engine_store::FlushScope;
use net_wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig};
use net_wire::messages::describe_log_dirs::DescribableLogDirTopic;
use net_wire::messages::produce::{PartitionProduceData, TopicProduceData};
use net_wire::messages::{CreateTopicsRequest, DescribeLogDirsRequest, ProduceRequest};
use net_wire::{ApiKey, ErrorCode};
use sim::{ClockStep, CrashMode, Sim, SimNode};

use self::bounds::{Batch, Bounds, Seen};
use super::cluster::Cluster;
use super::consumer::consume_at;
use super::directory::{self, Led, Topic};
use super::history::Event;
use super::scenario::Scenario;
use super::setting::Setting;
use super::wire::{Lost, Wire};
use super::{admin, checkers, payload};

const HOUR: Duration = Duration::from_hours(1);

/// By the wall clocks: ten days, and what passes on all clocks.
const STEPS: u32 = 480;
const STEP: Duration = Duration::from_secs(1_800);

/// How long the node waits between two looks.
const LOOKS_EVERY: Duration = Duration::from_secs(10);

const SEGMENT_BYTES: u64 = 1 << 20;
const RETENTION_BYTES: u64 = 1_500_000;

/// About 22 KB: a segment fills in a day.
const RECORDS_A_STEP: u64 = 50;

/// A topic's log, as its only producer knows it.
struct Log {
    topic: Topic,
    bounds: Bounds,
    /// Steps in which nothing is appended.
    rests: fn(u32) -> bool,
    batches: RefCell<Vec<Batch>>,
    start: Cell<i64>,
}

struct Run {
    setting: Rc<Setting>,
    machines: [SimNode; 2],
    logs: Vec<Log>,
    wrong: RefCell<Vec<String>>,
}

fn scenario() -> Scenario {
    let settings = [
        ("log.segment.bytes", SEGMENT_BYTES.to_string()),
        ("log.retention.check.interval.ms", LOOKS_EVERY.as_millis().to_string()),
    ];
    Scenario {
        flush_scope: FlushScope::Device,
        lasts: Duration::ZERO,
        topics: 0,
        partitions_max: 1,
        batches: 0,
        calm_ms: 0,
        directories: &["/data"],
        disks_fail: false,
        clock_steps: false,
        reset_one_in: None,
        retention: Some(Duration::ZERO),
        settings: settings.map(|(name, value)| (name.to_owned(), value)).to_vec(),
    }
}

/// All that was wrong, and where each log starts in the end.
fn run(seed: u64) -> (Vec<String>, Vec<i64>) {
    let sim = Sim::new(seed);
    let (machine, clients) = (sim.node(), sim.node());
    let setting = Rc::new(Setting::new(clients.io(), machine.address()));
    setting.history.note(Event::Retention { least: Duration::ZERO });
    let (run, ended) = sim.block_on(async {
        let mut cluster = Cluster::new(machine.clone(), &setting, &scenario());
        cluster.start().await.expect("an empty folder is a new node");
        let run = begin(&setting, [machine, clients]).await;
        let ended = run.carry_out(&mut cluster).await;
        (run, ended)
    });
    let mut wrong = run.wrong.take();
    wrong.extend(ended.err());
    wrong.extend(checkers::check(&setting.history.take()));
    (wrong, run.logs.iter().map(|log| log.start.get()).collect())
}

/// The topics: one as it is without any setting, one bounded by size, and one by time that is idle for a day now and then.
async fn begin(setting: &Rc<Setting>, machines: [SimNode; 2]) -> Run {
    let week = Bounds { age: 168 * HOUR, bytes: None, segment_bytes: SEGMENT_BYTES, segment_age: 168 * HOUR };
    let bytes = Bounds { bytes: Some(RETENTION_BYTES), ..week };
    let hours = Bounds { age: 12 * HOUR, segment_age: 2 * HOUR, ..week };
    let kept = RETENTION_BYTES.to_string();
    let aged = [hours.age, hours.segment_age].map(|age| age.as_millis().to_string());
    let mut logs = Vec::new();
    for (name, bounds, configs, rests) in [
        ("week", week, vec![], (|_| false) as fn(u32) -> bool),
        ("bytes", bytes, vec![("retention.bytes", &*kept)], |step| step % 90 > 70),
        ("hours", hours, vec![("retention.ms", &*aged[0]), ("segment.ms", &*aged[1])], |step| {
            step % 150 > 100
        }),
    ] {
        let topic = create(setting, name, &configs).await;
        logs.push(Log { topic, bounds, rests, batches: RefCell::default(), start: Cell::new(0) });
    }
    Run { setting: Rc::clone(setting), machines, logs, wrong: RefCell::default() }
}

async fn create(setting: &Rc<Setting>, name: &str, configs: &[(&str, &str)]) -> Topic {
    loop {
        if let Ok(()) = try_create(setting, name, configs).await
            && let Ok(Some(topic)) = directory::find(setting, name).await
        {
            setting.history.note(Event::TopicCreated { topic: topic.id });
            return topic;
        }
    }
}

/// Fails only where there is no shard at the address that was drawn.
async fn try_create(setting: &Rc<Setting>, name: &str, configs: &[(&str, &str)]) -> Result<(), Lost> {
    let config = |&(name, value)| CreatableTopicConfig { name, value: Some(value) };
    let topic = CreatableTopic {
        name,
        num_partitions: 1,
        replication_factor: 1,
        configs: configs.iter().map(config).collect(),
        ..CreatableTopic::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
    let mut wire = Wire::connect(setting, setting.some_address()).await?;
    let answer = wire.ask(ApiKey::CreateTopics.versions().max, &request).await?;
    let error = answer.body().topics.first().map(|topic| topic.error_code);
    let expected = [Some(ErrorCode::NONE), Some(ErrorCode::TOPIC_ALREADY_EXISTS)];
    assert!(expected.contains(&error), "{name}: {error:?}");
    Ok(())
}

impl Run {
    async fn carry_out(&self, cluster: &mut Cluster) -> Result<(), String> {
        let mut readers = Vec::new();
        for (log, pace_ms) in self.logs.iter().flat_map(|log| [(log, 30_000), (log, 200_000)]) {
            let reading = consume_at(pace_ms, Rc::clone(&self.setting), log.topic.clone(), 0);
            readers.push(self.setting.io.spawn(reading));
        }
        for step in 0..STEPS {
            for log in self.logs.iter().filter(|log| !(log.rests)(step)) {
                self.append(log).await;
            }
            self.restart(cluster, step).await?;
            let looked_at = self.pass_time().await;
            for log in &self.logs {
                self.look(log, step, looked_at).await;
            }
        }
        self.setting.settle();
        for reader in readers {
            reader.join().await;
        }
        admin::take_stock(&self.setting)
            .await
            .map_err(|Lost| "the logs can't be read in the end".to_owned())?;
        cluster.stop().await
    }

    /// Once a day, and never while something is under way.
    async fn restart(&self, cluster: &mut Cluster, step: u32) -> Result<(), String> {
        match step % 90 {
            44 => cluster.stop().await?,
            89 => cluster.crash(CrashMode::KeepAll),
            _ => return Ok(()),
        }
        cluster.start().await
    }

    /// Sets the wall clocks forth and waits for the node to look; answers the time from which on it did.
    async fn pass_time(&self) -> Timestamp {
        for machine in &self.machines {
            machine.step_clock(ClockStep::Forth(STEP));
        }
        let looked_at = self.setting.io.timestamp();
        let least = u64::try_from(LOOKS_EVERY.as_millis()).expect("it is short") + 1_000;
        self.setting.pause(least..=3 * least).await;
        looked_at
    }

    /// The connection to the leader, for which more than one address may have to be tried.
    async fn leader(&self, log: &Log) -> Led {
        loop {
            if let Ok(led) = directory::leader(&self.setting, &log.topic, 0).await {
                return led;
            }
        }
    }

    async fn append(&self, log: &Log) {
        let (first, count) = (self.setting.take_numbers(RECORDS_A_STEP), RECORDS_A_STEP);
        let made_at = self.setting.io.timestamp();
        let records = batch(first..first + count, made_at);
        let base_offset = log.batches.borrow().last().map_or(0, |last| last.end_offset);
        let end_offset = base_offset.saturating_add_unsigned(count);
        log.batches.borrow_mut().push(Batch {
            base_offset,
            end_offset,
            bytes: records.len() as u64,
            made_at,
        });
        let of = log.topic.log(0);
        let mut led = self.leader(log).await;
        self.setting.history.note(Event::Sent {
            log: of,
            producer: 0,
            first,
            count,
            at: self.setting.io.now(),
        });
        let partition_data = vec![PartitionProduceData { index: 0, records: Some(&records) }];
        let topic_data =
            vec![TopicProduceData { topic_id: log.topic.id, partition_data, ..Default::default() }];
        let request = ProduceRequest { transactional_id: None, acks: -1, timeout_ms: 30_000, topic_data };
        let answer = led.wire.ask(ApiKey::Produce.versions().max, &request).await;
        let answer = answer.unwrap_or_else(|Lost| panic!("nothing befalls a node that takes batches here"));
        let body = answer.body();
        let told = &body.responses[0].partition_responses[0];
        assert_eq!((told.error_code, told.base_offset), (ErrorCode::NONE, base_offset));
        let at = self.setting.io.now();
        self.setting.history.note(Event::Acknowledged { log: of, first, count, base_offset, at });
    }

    async fn look(&self, log: &Log, step: u32, looked_at: Timestamp) {
        let seen = self.seen(log, looked_at).await;
        let seen = seen.unwrap_or_else(|Lost| panic!("nothing befalls a node that is asked here"));
        let mut wrong = bounds::check(&log.bounds, &log.batches.borrow(), &seen);
        let before = log.start.replace(seen.log_start);
        wrong.extend((seen.log_start < before).then(|| format!("the start goes back from {before}")));
        let Seen { log_start, bytes, segments, .. } = seen;
        let told = format!("step {step}, {}: from {log_start}, {bytes} bytes in {segments}", log.topic.name);
        self.wrong.borrow_mut().extend(wrong.iter().map(|why| format!("{told}: {why}")));
    }

    async fn seen(&self, log: &Log, looked_at: Timestamp) -> Result<Seen, Lost> {
        let mut wire = self.leader(log).await.wire;
        let topics = Some(vec![DescribableLogDirTopic { topic: &log.topic.name, partitions: vec![0] }]);
        let request = DescribeLogDirsRequest { topics, count_segments: true };
        let answer = wire.ask(ApiKey::DescribeLogDirs.versions().max, &request).await?;
        let told = answer.body().results[0].topics[0].partitions[0];
        let log_start = directory::log_start(&self.setting, &mut wire, &log.topic, 0).await?;
        Ok(Seen {
            log_start: log_start.expect("the leader tells where its log starts"),
            bytes: told.partition_size.unsigned_abs(),
            segments: u64::from(told.segment_count.unsigned_abs()),
            looked_at,
            now: self.setting.io.timestamp(),
        })
    }
}

fn batch(numbers: core::ops::Range<u64>, made_at: Timestamp) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for number in numbers {
        let value = payload::value(number);
        let record = NewRecord { timestamp: made_at, key: None, value: Some(&value), headers: &[] };
        builder.push(&record).expect("a small record at one time fits");
    }
    builder.build().expect("a batch with records can be built")
}

#[test]
fn logs_keep_within_a_segment_of_their_bounds_for_ten_days_and_nothing_else_is_deleted() {
    let (wrong, starts) = run(1);
    assert_eq!(wrong.first(), None, "and {} more", wrong.len().saturating_sub(1));
    assert!(starts.iter().all(|start| *start > 0), "each log has been deleted from: {starts:?}");
}
