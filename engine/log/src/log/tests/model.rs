//! The log against a plain list: whatever happens, it answers as the list does.

use super::*;

/// What may happen to a log. Numbers in 0 to 1,000 choose a place among what there is.
#[derive(Clone, Debug)]
enum Event {
    Append { count: u32, value_bytes: usize, timestamp: i64 },
    AppendOf { producer: i64, skip: i32 },
    Resend { producer: i64, back: usize },
    Write { place: usize },
    Flush { place: usize },
    Show { place: usize },
    DeleteRecords { place: usize },
    Truncate { place: usize },
    Roll,
    Epoch,
    Retention { keep: u64 },
    Tick { milliseconds: i64 },
    EvictAndInstall,
}

fn event() -> impl Strategy<Value = Event> {
    let place = 0_usize..1_000;
    prop_oneof![
        6 => (1_u32..6, 0_usize..400, 0_i64..2_000_000)
            .prop_map(|(count, value_bytes, timestamp)| Event::Append { count, value_bytes, timestamp }),
        4 => (0_i64..6, 0_i32..2).prop_map(|(producer, skip)| Event::AppendOf { producer, skip }),
        2 => (0_i64..6, 0_usize..8).prop_map(|(producer, back)| Event::Resend { producer, back }),
        4 => place.clone().prop_map(|place| Event::Write { place }),
        2 => place.clone().prop_map(|place| Event::Flush { place }),
        3 => place.clone().prop_map(|place| Event::Show { place }),
        1 => place.clone().prop_map(|place| Event::DeleteRecords { place }),
        1 => place.prop_map(|place| Event::Truncate { place }),
        1 => Just(Event::Roll),
        1 => Just(Event::Epoch),
        1 => (0_u64..10_000).prop_map(|keep| Event::Retention { keep }),
        1 => (-1_000_i64..40_000).prop_map(|milliseconds| Event::Tick { milliseconds }),
        1 => Just(Event::EvictAndInstall),
    ]
}

/// The log beside a plain list of everything it was told.
struct Model {
    disk: Disk,
    offsets: LogOffsets,
    /// Every batch each producer appended that is still in the log: first sequence, count, base offset.
    sent: std::collections::BTreeMap<i64, Vec<(i32, Offset)>>,
}

impl Model {
    fn new() -> Self {
        let disk = Disk::new(LogConfig { producers_max: 100, ..config() });
        Self { offsets: *disk.log.offsets(), disk, sent: std::collections::BTreeMap::new() }
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Append { count, value_bytes, timestamp } => {
                let sent =
                    Sent { count, value_bytes: value_bytes / count as usize, timestamp, ..Sent::default() };
                self.appended(self.disk.log.offsets().log_end, &sent);
            }
            Event::AppendOf { producer, skip } => self.append_of(producer, skip),
            Event::Resend { producer, back } => self.resend(producer, back),
            Event::Write { place } => self.write(place),
            Event::Flush { place } => {
                let up_to = self.boundary(place).min(self.offsets.written);
                self.disk.log.complete_flush(up_to);
                self.offsets.flushed = self.offsets.flushed.max(up_to);
            }
            Event::Show { place } => {
                let to = self.boundary(place);
                self.disk.log.advance_high_watermark(to);
                self.offsets.high_watermark = self.offsets.high_watermark.max(to);
            }
            Event::DeleteRecords { place } => self.delete_records(place),
            Event::Truncate { place } => self.truncate(place),
            Event::Roll => {
                if !self.disk.log.active_segment().is_empty() {
                    self.disk.log.complete_roll(SegmentId(self.offsets.log_end));
                }
            }
            Event::Epoch => {
                self.disk.epoch = LeaderEpoch(self.disk.epoch.0 + 1);
                self.disk.log.start_leader_epoch(self.disk.epoch).unwrap();
            }
            Event::Retention { keep } => self.retention(keep),
            Event::Tick { milliseconds } => self.disk.now = Timestamp(self.disk.now.0 + milliseconds),
            Event::EvictAndInstall => self.evict_and_install(),
        }
        assert_eq!(*self.disk.log.offsets(), self.offsets);
    }

    /// A batch boundary: a base offset, or the log's end.
    fn boundary(&self, place: usize) -> Offset {
        let boundaries = self.disk.boundaries();
        offset(boundaries[place * boundaries.len() / 1_000])
    }

    fn appended(&mut self, base: Offset, sent: &Sent) {
        let plan = self.disk.append(sent);
        assert_eq!(plan.base_offset, base);
        self.offsets.log_end = base.checked_add(u64::from(sent.count)).unwrap();
    }

    fn append_of(&mut self, id: i64, skip: i32) {
        let next = self.sent.get(&id).and_then(|sent| sent.last()).map(|(first, _)| first + 1);
        let sequence = next.unwrap_or(40) + skip;
        let sent = Sent { producer: producer(id, 0, sequence), ..Sent::default() };
        let base = self.offsets.log_end;
        if skip != 0 && next.is_some() {
            let refused = self.disk.try_append(&sent).unwrap_err();
            assert!(matches!(refused, AppendError::OutOfOrderSequence { .. }), "{refused:?}");
            return;
        }
        self.appended(base, &sent);
        self.sent.entry(id).or_default().push((sequence, base));
    }

    fn resend(&mut self, id: i64, back: usize) {
        let Some(sent) = self.sent.get(&id) else { return };
        let Some(index) = sent.len().checked_sub(back + 1) else { return };
        let (sequence, base) = sent[index];
        let again = self.disk.try_append(&Sent { producer: producer(id, 0, sequence), ..Sent::default() });
        match again {
            Ok(AppendDecision::Duplicate { base_offset, last_offset, .. }) => {
                assert!(back < 5, "five batches are remembered");
                assert_eq!((base_offset, last_offset), (base, base));
            }
            Ok(AppendDecision::Append(plan)) => panic!("appended twice: {plan:?}"),
            Err(refused) => {
                assert!(
                    back >= 5 && matches!(refused, AppendError::OutOfOrderSequence { .. }),
                    "{refused:?}"
                );
            }
        }
    }

    /// Completes a write up to some byte, which may be inside a batch and older than the last.
    fn write(&mut self, place: usize) {
        let Some(batch) = self.disk.batches.get(place * self.disk.batches.len() / 1_000) else { return };
        let end = batch.end_position - u32::try_from(place % 2).unwrap();
        let (segment, reached) = (batch.segment, (batch.segment, end));
        self.disk.log.complete_write(segment, end);
        let whole = |batch: &&Stored| (batch.segment, batch.end_position) <= reached;
        let written = self.disk.batches.iter().filter(whole).map(|batch| batch.end).max();
        self.offsets.written = self.offsets.written.max(written.unwrap_or_default());
    }

    fn delete_records(&mut self, place: usize) {
        let to = self.boundary(place);
        let allowed = to <= self.offsets.high_watermark;
        assert_eq!(self.disk.log.advance_log_start(to).is_ok(), allowed);
        if allowed {
            self.offsets.log_start = self.offsets.log_start.max(to);
        }
    }

    fn truncate(&mut self, place: usize) {
        let to = self.boundary(place);
        let in_flight = self.offsets.written < self.offsets.log_end;
        let outcome = self.disk.truncate(to.value());
        if to < self.offsets.high_watermark {
            assert!(matches!(outcome, Err(TruncateError::BelowHighWatermark { .. })));
        } else if to < self.offsets.log_end && in_flight {
            assert_eq!(outcome, Err(TruncateError::WritesInFlight));
        } else {
            outcome.unwrap();
            self.offsets.log_end = to;
            self.offsets.written = self.offsets.written.min(to);
            self.offsets.flushed = self.offsets.flushed.min(to);
            self.disk.log.install_producers(self.replayed(), to);
            self.sent.values_mut().for_each(|sent| sent.retain(|(_, base)| *base < to));
            self.sent.retain(|_, sent| !sent.is_empty());
        }
    }

    /// The producers rebuilt from the bytes; where retention took batches, from the log's own memory of them.
    fn replayed(&self) -> Producers {
        let mut rebuilt = Producers::new();
        for (id, sent) in &self.sent {
            for (sequence, base) in sent.iter().filter(|(_, base)| *base < self.offsets.log_end) {
                let batch = header(&Sent { producer: producer(*id, 0, *sequence), ..Sent::default() });
                rebuilt.record(&batch, *base, Timestamp(500), self.disk.now);
            }
        }
        rebuilt
    }

    fn retention(&mut self, keep: u64) {
        let config = *self.disk.log.config();
        self.disk.log.set_config(LogConfig { retention_bytes: Some(keep), ..config });
        let plan = self.disk.log.delete_plan(self.disk.now);
        self.disk.log.complete_delete(&plan);
        self.disk.log.set_config(config);
        for segment in &plan.segments {
            self.disk.files.remove(segment);
            self.disk.batches.retain(|batch| batch.segment != *segment);
        }
        assert!(
            plan.log_start
                <= self.offsets.high_watermark.min(self.offsets.written).max(self.offsets.log_start)
        );
        self.offsets.log_start = plan.log_start;
    }

    fn evict_and_install(&mut self) {
        let sealed: Vec<_> = self
            .disk
            .log
            .segments()
            .rev()
            .skip(1)
            .map(|segment| encode_sidecar(segment.summary(), segment.index().unwrap()))
            .collect();
        for bytes in sealed {
            let (covers, index) = decode_sidecar(&bytes).unwrap();
            self.disk.log.evict_index(covers.segment);
            self.disk.log.install_index(index, &covers).unwrap();
        }
    }

    /// Reads everything from every batch's base, and compares with the list.
    fn check_reads(&self, max_bytes: u32) {
        for bound in [ReadBound::LogEnd, ReadBound::HighWatermark] {
            let upper = match bound {
                ReadBound::LogEnd => self.offsets.log_end,
                ReadBound::HighWatermark => self.offsets.high_watermark,
            };
            let readable = self.disk.batches.iter().filter(|batch| batch.base >= self.offsets.log_start);
            for (index, batch) in readable.clone().enumerate() {
                let found = self.disk.read(batch.base.value(), max_bytes, bound).unwrap();
                let expected = expected_read(readable.clone().skip(index), upper, max_bytes);
                assert_eq!(found, expected, "{bound:?} from {}", batch.base);
            }
        }
    }

    /// Every time finds the first batch that is late enough.
    fn check_times(&self, timestamp: Timestamp) {
        let time_of = |batch: &&Stored| RecordBatch::parse(&batch.bytes).unwrap().0.header().max_timestamp;
        let mut readable = self.disk.batches.iter().filter(|batch| batch.base >= self.offsets.log_start);
        let expected = readable.find(|batch| time_of(batch) >= timestamp).map(|batch| batch.base);
        assert_eq!(self.find_time(timestamp), expected, "the first of {timestamp}");
    }

    fn find_time(&self, timestamp: Timestamp) -> Option<Offset> {
        let mut from = self.offsets.log_start;
        loop {
            let found = self.disk.log.find_timestamp_from(timestamp, from).unwrap()?;
            let window = self.disk.window(found.segment, found.floor.position, usize::MAX);
            let late = |(begin, header): &(BatchPosition, BatchHeader)| {
                begin.offset >= found.from && header.max_timestamp >= timestamp
            };
            let mut walk = crate::BatchWalk::new(window, found.floor, found.segment_end_position);
            if let Some((begin, _)) = walk.find(late) {
                return Some(begin.offset);
            }
            from = found.end_offset;
        }
    }
}

fn expected_read<'a>(batches: impl Iterator<Item = &'a Stored>, upper: Offset, max_bytes: u32) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::new();
    let mut segment = None;
    for batch in batches {
        let same_segment = *segment.get_or_insert(batch.segment) == batch.segment;
        let fits = out.is_empty() || out.len() + batch.bytes.len() <= max_bytes as usize;
        if !same_segment || !fits || batch.end > upper {
            break;
        }
        out.extend_from_slice(&batch.bytes);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_log_is_the_plain_list_it_was_told(
        events in prop::collection::vec(event(), 1..80),
        max_bytes in 0_u32..3_000,
        window in 61_usize..3_000,
        timestamp in -1_i64..2_100_000,
    ) {
        let mut model = Model::new();
        model.disk.window = window;
        for event in &events {
            model.happen(event);
        }
        model.check_reads(max_bytes);
        model.check_times(Timestamp(timestamp));
        model.check_times(Timestamp(500));
    }
}
