//! A log with bytes under it: what a store does with plans, in memory and at once.

use std::collections::BTreeMap;

use core::time::Duration;

use engine_record::{
    BatchBuilder, LeaderEpoch, NewRecord, Offset, Producer, ProducerEpoch, ProducerId, RecordBatch,
    Timestamp, assign, stamp_append_time,
};

use crate::{
    AppendDecision, AppendError, AppendOrigin, AppendPlan, BatchPosition, BoundaryStep, Checkpoint,
    LeaderEpochs, Log, LogConfig, Producers, ReadBound, ReadError, RecoveryScan, ScanEnd, ScanOutcome,
    ScanProgress, ScanStep, SegmentId, TruncateError, scan,
};

pub(crate) const EPOCH: LeaderEpoch = LeaderEpoch(3);
pub(crate) const NOW: Timestamp = Timestamp(1_000_000);

pub(crate) fn offset(value: i64) -> Offset {
    Offset::new(value).expect("tests use offsets from 0")
}

pub(crate) fn segment_id(value: i64) -> SegmentId {
    SegmentId(offset(value))
}

pub(crate) fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 2_000,
        segment_age: Duration::from_secs(60),
        index_interval_bytes: 300,
        max_batch_bytes: 1_500,
        retention_age: None,
        producers_max: 4,
        producer_expiry: Duration::from_secs(100),
        producer_idle_min: Duration::from_secs(10),
        ..LogConfig::default()
    }
}

/// What a client's batch is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) count: u32,
    pub(crate) value_bytes: usize,
    pub(crate) timestamp: i64,
    pub(crate) producer: Producer,
}

impl Default for Sent {
    fn default() -> Self {
        Self { count: 1, value_bytes: 10, timestamp: 500, producer: Producer::NONE }
    }
}

impl Sent {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut builder = BatchBuilder::new().with_producer(self.producer);
        let value = vec![0xa5; self.value_bytes];
        for _ in 0..self.count {
            let timestamp = Timestamp(self.timestamp);
            builder.push(&NewRecord { timestamp, value: Some(&value), ..NewRecord::default() }).unwrap();
        }
        builder.build().unwrap()
    }
}

pub(crate) fn producer(id: i64, epoch: i16, base_sequence: i32) -> Producer {
    Producer { id: ProducerId(id), epoch: ProducerEpoch(epoch), base_sequence }
}

/// A batch as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) base: Offset,
    pub(crate) end: Offset,
    pub(crate) segment: SegmentId,
    pub(crate) end_position: u32,
    pub(crate) bytes: Vec<u8>,
}

/// The log, the bytes of its segments, and a plain list of its batches to judge it by.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) log: Log,
    pub(crate) files: BTreeMap<SegmentId, Vec<u8>>,
    pub(crate) batches: Vec<Stored>,
    pub(crate) now: Timestamp,
    pub(crate) epoch: LeaderEpoch,
    /// How many bytes the disk gives at a time; small ones make scans ask again.
    pub(crate) window: usize,
}

impl Disk {
    pub(crate) fn new(config: LogConfig) -> Self {
        let log = Log::create(config, Offset::ZERO, EPOCH);
        Self { log, files: BTreeMap::new(), batches: Vec::new(), now: NOW, epoch: EPOCH, window: 100 }
    }

    /// A disk with one batch for each count, in order.
    pub(crate) fn with_batches(counts: &[u32]) -> Self {
        let mut disk = Self::new(config());
        for &count in counts {
            disk.append(&Sent { count, ..Sent::default() });
        }
        disk
    }

    pub(crate) fn append(&mut self, sent: &Sent) -> AppendPlan {
        match self.try_append(sent).expect("the append is allowed") {
            AppendDecision::Append(plan) => plan,
            duplicate @ AppendDecision::Duplicate { .. } => panic!("{duplicate:?}"),
        }
    }

    pub(crate) fn try_append(&mut self, sent: &Sent) -> Result<AppendDecision, AppendError> {
        self.append_bytes(sent.bytes(), AppendOrigin::Client)
    }

    pub(crate) fn append_bytes(
        &mut self,
        mut bytes: Vec<u8>,
        origin: AppendOrigin,
    ) -> Result<AppendDecision, AppendError> {
        let header = *RecordBatch::parse(&bytes).unwrap().0.header();
        let decision = self.log.plan_append(&header, origin, self.epoch, self.now)?;
        if let AppendDecision::Append(plan) = &decision {
            assign(&mut bytes, plan.base_offset, plan.leader_epoch);
            if let Some(time) = plan.append_time {
                stamp_append_time(&mut bytes, time);
            }
            let file = self.files.entry(plan.segment).or_default();
            assert_eq!(file.len(), plan.position as usize, "batches are stored one behind the other");
            file.extend_from_slice(&bytes);
            self.log.commit_append(plan, &header);
            self.batches.push(Stored {
                base: plan.base_offset,
                end: plan.end_offset(),
                segment: plan.segment,
                end_position: plan.end_position(),
                bytes,
            });
        }
        Ok(decision)
    }

    pub(crate) fn write_all(&mut self) {
        let active = self.log.active_segment();
        let (id, end) = (active.id(), active.end_position());
        self.log.complete_write(id, end);
    }

    pub(crate) fn write_and_flush_all(&mut self) {
        self.write_all();
        self.log.complete_flush(self.log.offsets().written);
    }

    pub(crate) fn show_all(&mut self) {
        self.log.advance_high_watermark(self.log.offsets().log_end);
    }

    /// The window of a segment's bytes from `position` on.
    pub(crate) fn window(&self, segment: SegmentId, position: u32, bytes: usize) -> &[u8] {
        let file = self.files.get(&segment).map_or(&[][..], |file| file);
        let rest = file.get(position as usize..).unwrap_or_default();
        &rest[..rest.len().min(bytes)]
    }

    /// Reads as a store does: with the plan's index entry and scans over windows.
    pub(crate) fn read(&self, from: i64, max_bytes: u32, bound: ReadBound) -> Result<Vec<u8>, ReadError> {
        let plan = self.log.plan_read(offset(from), max_bytes, bound)?;
        if plan.is_empty() {
            return Ok(Vec::new());
        }
        let (mut at, mut window) = (plan.floor, self.window);
        loop {
            match scan(self.window(plan.segment, at.position, window), at, &plan.scan_request(true)) {
                ScanStep::Found(range) => {
                    return Ok(self
                        .window(plan.segment, range.begin.position, range.bytes() as usize)
                        .to_vec());
                }
                ScanStep::Empty => return Ok(Vec::new()),
                // With part of an answer in hand, look again from its beginning with more bytes.
                ScanStep::NeedMore { so_far: Some(range), .. } => (at, window) = (range.begin, window * 2),
                ScanStep::NeedMore { so_far: None, next } => at = next,
                ScanStep::Broken { at, cause } => panic!("{cause} at {at:?}"),
            }
        }
    }

    /// Whether there was something to cut.
    pub(crate) fn truncate(&mut self, to: i64) -> Result<bool, TruncateError> {
        let plan = self.log.plan_truncate(offset(to))?;
        let Some(plan) = plan else { return Ok(false) };
        let mut search = plan.search();
        let boundary = loop {
            match search.feed(self.window(plan.segment, search.at().position, self.window)) {
                BoundaryStep::Found(boundary) => break boundary,
                BoundaryStep::NeedMore => {}
                BoundaryStep::Broken { at, cause } => panic!("{cause} at {at:?}"),
            }
        };
        for removed in &plan.removed {
            self.files.remove(removed);
        }
        self.files.entry(plan.segment).or_default().truncate(boundary.end.position as usize);
        self.batches.retain(|batch| batch.end <= boundary.end.offset);
        self.log.complete_truncate(&plan, &boundary);
        Ok(true)
    }

    /// The producers that follow from all batches, as recovery finds them.
    pub(crate) fn replayed_producers(&self) -> Producers {
        let mut start = self.scan_start();
        for segment in self.log.segments() {
            let bytes = self.window(segment.id(), 0, usize::MAX);
            let outcome = scan_bytes(start, *self.log.config(), self.now, bytes, 777);
            assert_eq!(outcome.end, ScanEnd::Clean);
            start = outcome.into_following(0).1;
        }
        start.producers
    }

    /// Where a scan of everything begins.
    pub(crate) fn scan_start(&self) -> Checkpoint {
        let first = self.log.segments().next().expect("a log has a segment").id();
        Checkpoint::segment_start(first, 0, LeaderEpochs::new(), Producers::new())
    }

    /// Where each batch begins, and where the log ends.
    pub(crate) fn boundaries(&self) -> Vec<i64> {
        let bases = self.batches.iter().map(|batch| batch.base.value());
        bases.chain([self.log.offsets().log_end.value()]).collect()
    }
}

/// Scans `bytes` in chunks of `chunk` bytes.
pub(crate) fn scan_bytes(
    start: Checkpoint,
    config: LogConfig,
    now: Timestamp,
    bytes: &[u8],
    chunk: usize,
) -> ScanOutcome {
    let mut scan = RecoveryScan::new(start, config, now);
    for chunk in bytes.chunks(chunk.max(1)) {
        if scan.feed(chunk) == ScanProgress::Stopped {
            break;
        }
    }
    scan.finish()
}

pub(crate) fn at(offset_value: i64, position: u32) -> BatchPosition {
    BatchPosition { offset: offset(offset_value), position }
}
