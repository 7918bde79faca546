//! One partition's state on its shard, and the one way into it: decide under the borrow, await without it.

use core::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use engine_io::{BLOCK_BYTES, DirectFile, Io, Signal};
use engine_log::{Log, LogOffsets, SegmentId};
use engine_record::{Instant, LeaderEpoch, Offset, TopicPartition};

use crate::chunk::{Fill, SegmentWrite};
use crate::error::{DiskError, DiskOperation, WaitError};
use crate::permits::{Permit, Permits};
use crate::read::recent::RecentEnds;
use crate::retention::Retired;
use crate::roll::Ahead;
use crate::segment_file::SegmentFile;
use crate::shard::Shard;
use crate::tail::{Tail, TailChunk};

/// A partition that is open on this shard.
pub(crate) struct Partition<I: Io> {
    pub(crate) at: TopicPartition,
    pub(crate) shard: Rc<Shard<I>>,
    folder: PathBuf,
    /// Who may change the log's end: appends, in the order they came, and truncations between them.
    turn: Permits,
    /// One at a time adds a segment: one whose append was dropped goes on beside the next.
    pub(crate) adding: Permits,
    /// One at a time removes files of segments, which may take long. Taken before the next two.
    pub(crate) removing: Permits,
    /// One at a time removes segments from the log, from either end. Taken before the turn.
    pub(crate) trimming: Permits,
    pub(crate) state: RefCell<State<I>>,
    /// An end moved, or the partition or the store has ended.
    moved: Signal,
    is_closed: Cell<bool>,
    is_deleted: Cell<bool>,
    /// What the checkpoint says of the log.
    recorded: Cell<Recorded>,
    /// Whether the leader epoch is in the checkpoint, as it must be before its first batch.
    is_epoch_recorded: Cell<bool>,
    /// What the log may take in an image of the checkpoint, open or closed, in bytes: that much there is space for.
    closing_bytes: Cell<u64>,
    /// Whether the log is being cut: reads wait until it is over.
    is_cutting: Cell<bool>,
    /// Background work that needs the files as they are.
    work: Cell<usize>,
}

/// What the checkpoint says of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// It doesn't know it.
    Nothing,
    /// It may have gone on since.
    Open,
    /// It ends as the checkpoint says.
    Closed,
}

/// What changes. Never borrowed across an await.
pub(crate) struct State<I: Io> {
    pub(crate) log: Log,
    pub(crate) segments: BTreeMap<SegmentId, Rc<SegmentFile<I>>>,
    /// Segments deleted from the log whose files are still there, the oldest first.
    pub(crate) retired: VecDeque<Retired<I>>,
    pub(crate) fill: Fill<I>,
    pub(crate) tail: Tail<I>,
    /// What is made ready for the appends to come.
    pub(crate) ahead: Ahead<I>,
    pub(crate) recent_ends: RecentEnds,
    /// The segment whose index was stored last while it was active, and where it ended then.
    pub(crate) index_stored: (SegmentId, u32),
    pub(crate) is_writing: bool,
    pub(crate) last_append: Instant,
    /// Whether the checkpoint knows where the log starts; else a crash may bring deleted records back.
    pub(crate) is_start_recorded: bool,
    /// Counts truncations, so that whoever looked at the log before one notices.
    pub(crate) truncations: u64,
}

impl<I: Io> State<I> {
    /// Of `log`, whose segments lie in `segments` and are wholly written.
    pub(crate) fn new(log: Log, segments: BTreeMap<SegmentId, Rc<SegmentFile<I>>>) -> Self {
        let fill = Fill::new(end_position(&log));
        Self {
            log,
            segments,
            retired: VecDeque::new(),
            fill,
            tail: Tail::new(),
            ahead: Ahead::new(),
            recent_ends: RecentEnds::new(),
            index_stored: (SegmentId(Offset::ZERO), 0),
            is_writing: false,
            last_append: Instant::ZERO,
            is_start_recorded: true,
            truncations: 0,
        }
    }
}

/// Where the log ends in its active segment.
pub(crate) fn end_position(log: &Log) -> u32 {
    log.active_segment().end_position()
}

impl<I: Io> Partition<I> {
    pub(crate) fn new(at: TopicPartition, shard: &Rc<Shard<I>>, state: State<I>) -> Rc<Self> {
        Rc::new(Self {
            at,
            folder: shard.layout.partition(at),
            shard: Rc::clone(shard),
            turn: Permits::new(1),
            adding: Permits::new(1),
            removing: Permits::new(1),
            trimming: Permits::new(1),
            state: RefCell::new(state),
            moved: Signal::new(),
            is_closed: Cell::new(false),
            is_deleted: Cell::new(false),
            recorded: Cell::new(Recorded::Nothing),
            is_epoch_recorded: Cell::new(false),
            closing_bytes: Cell::new(0),
            is_cutting: Cell::new(false),
            work: Cell::new(0),
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn offsets(&self) -> LogOffsets {
        *self.state.borrow().log.offsets()
    }

    pub(crate) fn written_end(&self) -> Offset {
        self.offsets().written
    }

    /// Waits to be the one who may change the log's end.
    pub(crate) async fn turn(&self) -> Result<Permit, WaitError> {
        let turn = self.turn.acquire(1).await.map_err(|_| WaitError::Closed)?;
        self.check()?;
        Ok(turn)
    }

    /// Whether the partition still answers.
    pub(crate) fn check(&self) -> Result<(), WaitError> {
        self.shard.check()?;
        if self.is_closed.get() { Err(WaitError::Closed) } else { Ok(()) }
    }

    /// Ends every wait and every later call with [`WaitError::Closed`]; what is being written goes on.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        self.turn.close();
        self.wake();
    }

    /// Ends it as [`Partition::close`] does; its files are about to go.
    pub(crate) fn mark_deleted(&self) {
        self.is_deleted.set(true);
        self.close();
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.is_deleted.get()
    }

    pub(crate) fn recorded(&self) -> Recorded {
        self.recorded.get()
    }

    pub(crate) fn set_recorded(&self, recorded: Recorded) {
        self.recorded.set(recorded);
    }

    /// Whether the checkpoint knows all it must before anything is appended.
    pub(crate) fn is_recorded_for_appends(&self) -> bool {
        self.recorded.get() == Recorded::Open && self.is_epoch_recorded.get()
    }

    /// The latest leader epoch of the log.
    pub(crate) fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.state.borrow().log.leader_epochs().latest()
    }

    pub(crate) fn set_epoch_recorded(&self, is_recorded: bool) {
        self.is_epoch_recorded.set(is_recorded);
    }

    pub(crate) fn closing_bytes(&self) -> u64 {
        self.closing_bytes.get()
    }

    pub(crate) fn set_closing_bytes(&self, bytes: u64) {
        self.closing_bytes.set(bytes);
    }

    /// Lets reads wait until it is called with `false`.
    pub(crate) fn set_cutting(&self, is_cutting: bool) {
        self.is_cutting.set(is_cutting);
        self.wake();
    }

    pub(crate) fn is_cutting(&self) -> bool {
        self.is_cutting.get()
    }

    /// Resolves when the log isn't being cut.
    pub(crate) async fn not_cutting(&self) -> Result<(), WaitError> {
        self.wait_until(|partition| !partition.is_cutting.get()).await
    }

    /// Counts work that needs the files as they are, for as long as the guard lives.
    pub(crate) fn begin_work(self: &Rc<Self>) -> Work<I> {
        self.work.set(self.work.get() + 1);
        Work { partition: Rc::clone(self) }
    }

    /// Whether background work needs the files.
    pub(crate) fn has_work(&self) -> bool {
        self.work.get() > 0
    }

    /// Resolves when no background work needs the files.
    pub(crate) async fn work_ended(&self) {
        loop {
            let moved = self.moved.wait();
            if !self.has_work() {
                return;
            }
            moved.await;
        }
    }

    /// Lets whoever waits look again.
    pub(crate) fn wake(&self) {
        self.moved.notify();
    }

    /// Resolves when `reached` answers true of the offsets.
    pub(crate) async fn wait_for(&self, reached: impl Fn(&LogOffsets) -> bool) -> Result<(), WaitError> {
        self.wait_until(|partition| reached(&partition.offsets())).await
    }

    async fn wait_until(&self, reached: impl Fn(&Self) -> bool) -> Result<(), WaitError> {
        loop {
            let moved = self.moved.wait();
            if reached(self) {
                return Ok(());
            }
            self.check()?;
            moved.await;
        }
    }

    /// Resolves when everything below `end` is flushed, or the partition is deleted: also once it is closed.
    pub(crate) async fn wait_for_flush_or_deletion(&self, end: Offset) -> Result<(), WaitError> {
        loop {
            let moved = self.moved.wait();
            if self.is_deleted() || self.offsets().flushed >= end.min(self.offsets().log_end) {
                return Ok(());
            }
            self.shard.check()?;
            moved.await;
        }
    }

    /// Resolves when nothing appended waits to be written, or the store has failed. Holds nothing up.
    pub(crate) async fn writes_ended(&self) {
        loop {
            let moved = self.moved.wait();
            if !self.state.borrow().is_writing || self.shard.failure.has_happened() {
                return;
            }
            moved.await;
        }
    }

    /// Begins to write what is filled, where that isn't under way.
    pub(crate) fn write_behind(self: &Rc<Self>) {
        if core::mem::replace(&mut self.state.borrow_mut().is_writing, true) {
            return;
        }
        let partition = Rc::clone(self);
        self.shard.background.spawn(&self.shard.io, async move { partition.write_all().await });
    }

    /// Writes what is filled until nothing is: one write at a time, each with all that came during the one before.
    async fn write_all(self: &Rc<Self>) {
        while let Some((write, number)) = self.next_write() {
            let blocks_end = u64::from(write.end).next_multiple_of(BLOCK_BYTES as u64);
            write.segment.zeros.out_of_the_way(blocks_end).await;
            let result = write.file.write(u64::from(write.start), Rc::clone(&write.buffer)).await;
            match result {
                // Nothing is acknowledged any more, and the tail is gone.
                Ok(()) if self.shard.failure.has_happened() => {}
                Ok(()) => self.complete_write(&write, number),
                Err(error) => {
                    self.shard.fail(DiskError::new(DiskOperation::Write, write.segment.path(), &error));
                }
            }
        }
        if self.shard.failure.has_happened() {
            self.close_files();
        }
        self.wake();
    }

    /// Freezes the next write and puts its bytes into the tail, under the number returned.
    fn next_write(self: &Rc<Self>) -> Option<(SegmentWrite<I>, u64)> {
        let mut state = self.state.borrow_mut();
        let next = if self.shard.failure.has_happened() { None } else { state.fill.next_write() };
        let Some((write, permit)) = next else {
            state.is_writing = false;
            return None;
        };
        let number = self.shard.pool.register(self);
        state.tail.push(TailChunk {
            segment: write.segment.id(),
            start: write.start,
            end: write.end,
            buffer: Rc::clone(&write.buffer),
            permit,
            number,
            is_written: false,
        });
        Some((write, number))
    }

    fn complete_write(self: &Rc<Self>, write: &SegmentWrite<I>, number: u64) {
        {
            let mut state = self.state.borrow_mut();
            state.log.complete_write(write.segment.id(), write.end);
            state.tail.complete_write(number);
            write.segment.complete_write(write.end);
        }
        let bytes = u64::from(write.end).next_multiple_of(BLOCK_BYTES as u64) - u64::from(write.start);
        self.shard.counters.count(|metrics| {
            metrics.writes += 1;
            metrics.bytes_written += bytes;
        });
        self.shard.flusher.note_write(&self.shard, self, write);
        self.evict_surplus();
        self.shard.pool.reclaim_for_waiting();
        self.shard.progress.note(self.at);
        self.wake();
    }

    /// Notes that everything below `end` is durable.
    pub(crate) fn complete_flush(self: &Rc<Self>, end: Offset) {
        let bytes = {
            let mut state = self.state.borrow_mut();
            let before = state.log.offsets().flushed;
            state.log.complete_flush(end);
            end.since(before).unwrap_or(0)
        };
        if bytes > 0 {
            self.shard.progress.note(self.at);
            self.shard.checkpointer.note_change(&self.shard, self);
        }
        self.wake();
    }

    /// Drops the tail's oldest chunks while it has more than a partition's share.
    fn evict_surplus(&self) {
        while self.state.borrow().tail.bytes() > self.shard.config.tail_bytes_per_partition {
            if !self.evict_oldest() {
                return;
            }
        }
    }

    fn evict_oldest(&self) -> bool {
        let evicted = self.state.borrow_mut().tail.evict_oldest();
        evicted.inspect(|chunk| self.shard.pool.unregister(chunk.number)).is_some()
    }

    /// Drops the tail's chunk of that number where it is the oldest and written; the bytes it took.
    pub(crate) fn evict_chunk(&self, number: u64) -> Option<usize> {
        let mut state = self.state.borrow_mut();
        let chunk = if state.tail.oldest() == Some(number) { state.tail.evict_oldest() } else { None };
        drop(state);
        let chunk = chunk?;
        self.shard.pool.unregister(number);
        Some(chunk.permit.count())
    }

    /// Gives back what others can use: the store has failed, and what is filled or in the tail serves nobody any more.
    pub(crate) fn give_back_all(&self) {
        let tail = {
            let mut state = self.state.borrow_mut();
            state.fill = Fill::new(end_position(&state.log));
            core::mem::replace(&mut state.tail, Tail::new())
        };
        tail.numbers().for_each(|number| self.shard.pool.unregister(number));
        drop(tail);
        self.close_files();
    }

    /// Closes the files that nothing uses.
    fn close_files(&self) {
        let segments = self.all_segments().into_iter().chain(self.spare_segment());
        segments.for_each(|segment| self.shard.descriptors.close_idle(&segment));
    }

    /// Drops everything of the tail that is written.
    pub(crate) fn evict_tail(&self) {
        while self.evict_oldest() {}
    }
}

/// Background work that needs the partition's files as they are.
pub(crate) struct Work<I: Io> {
    partition: Rc<Partition<I>>,
}

impl<I: Io> Drop for Work<I> {
    fn drop(&mut self) {
        self.partition.work.set(self.partition.work.get() - 1);
        self.partition.wake();
    }
}
