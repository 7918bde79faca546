//! What the store's tests share: a simulated machine with a store, a model of its log, and a client that reads.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod client;
pub(crate) mod lines;
pub(crate) mod model;

use core::future::Future;
use core::time::Duration;
use std::path::PathBuf;

use engine_record::{
    BatchBuilder, LeaderEpoch, NewRecord, Offset, PartitionIndex, Producer, ProducerEpoch, ProducerId,
    RecordBatch, ShardId, Timestamp, TopicId, TopicPartition,
};
use engine_store::{
    AppendError, AppendOrigin, Appended, FlushScope, LogConfig, PartitionLog, RecoveryReport, Store,
    StoreConfig, StoreError,
};
use sim::{CrashMode, Sim, SimDisk, SimIo, SimNode};

pub(crate) type SimLog = PartitionLog<SimIo>;
pub(crate) type SimStore = Store<SimIo>;

/// A machine and the configuration its store is opened with.
pub(crate) struct Machine {
    pub(crate) sim: Sim,
    pub(crate) node: SimNode,
    pub(crate) config: StoreConfig,
    pub(crate) log_config: LogConfig,
}

pub(crate) const EPOCH: LeaderEpoch = LeaderEpoch(0);

impl Machine {
    pub(crate) fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        let node = sim.node();
        let mut config = StoreConfig::new("data", ShardId(0), 1);
        config.flush_scope = FlushScope::Device;
        node.disk().flush_covers_device();
        config.pool_bytes = 16 << 20;
        config.tail_bytes_per_partition = 256 << 10;
        config.allocation_bytes_min = 64 << 10;
        config.allocation_bytes_max = 256 << 10;
        let log_config = LogConfig { segment_bytes: 512 << 10, ..LogConfig::default() };
        Self { sim, node, config, log_config }
    }

    pub(crate) fn disk(&self) -> SimDisk {
        self.node.disk()
    }

    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.sim.block_on(future)
    }

    /// Opens the store with a fresh seam, as a new process does.
    pub(crate) fn start(&self) -> (SimStore, RecoveryReport) {
        self.try_start().expect("the store opens")
    }

    pub(crate) fn try_start(&self) -> Result<(SimStore, RecoveryReport), StoreError> {
        self.run(Store::open(&self.node.io(), self.config.clone()))
    }

    pub(crate) fn open(&self, store: &SimStore, at: TopicPartition) -> SimLog {
        self.try_open(store, at).expect("the partition opens")
    }

    pub(crate) fn try_open(&self, store: &SimStore, at: TopicPartition) -> Result<SimLog, StoreError> {
        self.run(store.open_partition(at, "topic", self.log_config, EPOCH))
    }

    /// A store with one open partition.
    pub(crate) fn start_one(&self) -> (SimStore, SimLog) {
        let (store, _) = self.start();
        let log = self.open(&store, partition(0));
        (store, log)
    }

    pub(crate) fn append(&self, log: &SimLog, batch: &[u8]) -> Appended {
        self.run(append(log, batch)).expect("the batch is appended")
    }

    /// Appends and waits until it is durable.
    pub(crate) fn append_flushed(&self, log: &SimLog, batch: &[u8]) -> Appended {
        let appended = self.append(log, batch);
        self.run(log.flushed(end_of(&appended))).expect("the batch is flushed");
        appended
    }

    pub(crate) fn crash(&self, mode: CrashMode) {
        self.node.crash(mode);
    }

    pub(crate) fn pause(&self, duration: Duration) {
        self.sim.run_for(duration);
    }

    pub(crate) fn folder(&self, at: TopicPartition) -> PathBuf {
        self.config.folder.join("topics").join(at.topic.to_string()).join(at.partition.to_string())
    }

    pub(crate) fn segment(&self, at: TopicPartition, base: i64) -> PathBuf {
        self.folder(at).join(format!("{base:020}.log"))
    }
}

pub(crate) fn partition(number: i32) -> TopicPartition {
    TopicPartition { topic: TopicId([9; 16]), partition: PartitionIndex(number) }
}

pub(crate) fn at(offset: i64) -> Offset {
    Offset::new(offset).expect("tests use offsets that aren't negative")
}

pub(crate) fn end_of(appended: &Appended) -> Offset {
    appended.last_offset.checked_add(1).expect("tests stay below the last offset")
}

pub(crate) async fn append(log: &SimLog, batch: &[u8]) -> Result<Appended, AppendError> {
    let (batch, rest) = RecordBatch::parse(batch).expect("tests append whole batches");
    assert!(rest.is_empty(), "tests append one batch");
    log.append(batch, AppendOrigin::Client, EPOCH).await
}

/// A batch of `records` records, of about `bytes` bytes altogether, told from others by `seed`.
pub(crate) fn batch(seed: u64, records: u32, bytes: usize) -> Vec<u8> {
    build(BatchBuilder::new(), seed, records, bytes)
}

/// A batch of an idempotent producer.
pub(crate) fn batch_of(producer: i64, base_sequence: i32, records: u32, bytes: usize) -> Vec<u8> {
    let (id, epoch) = (ProducerId(producer), ProducerEpoch(0));
    let builder = BatchBuilder::new().with_producer(Producer { id, epoch, base_sequence });
    build(builder, producer.unsigned_abs() << 32 | u64::from(base_sequence.unsigned_abs()), records, bytes)
}

fn build(mut builder: BatchBuilder, seed: u64, records: u32, bytes: usize) -> Vec<u8> {
    let value_bytes = bytes / records as usize;
    for record in 0..records {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(record);
        let value: Vec<u8> = core::iter::repeat_with(|| next_byte(&mut state)).take(value_bytes).collect();
        let timestamp =
            Timestamp(1_000 + i64::try_from(seed % 1_000_000).unwrap_or(0) * 10 + i64::from(record));
        builder.push(&NewRecord { timestamp, value: Some(&value), ..NewRecord::default() }).expect("it fits");
    }
    builder.build().expect("a batch with records")
}

fn next_byte(state: &mut u64) -> u8 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    state.to_be_bytes()[0]
}
