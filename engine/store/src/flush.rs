//! Group commit: one turn of flushes at a time makes durable whatever was written before it began.
//!
//! ```text
//!  writes   w1 w2 w3        w4 w5            w6
//!  turns        [--- covers w1 w2 w3 ---][--- covers w4 w5 ---][..
//! ```
//!
//! A flush that fails may lose whatever was written before it began, and another one under way at that time may then
//! succeed with nothing left to make durable. So of the segments no two flushes are under way but those of one turn, which
//! counts only where all of them have succeeded.
//!
//! While someone waits, a turn begins as soon as something is unflushed and no turn runs: the more load, the more
//! writes a turn covers. While nobody waits, data stay unflushed for a bounded time and amount. Nothing unflushed: no
//! task, no timer.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::collections::BTreeMap;
use std::rc::Rc;

use engine_io::{BLOCK_BYTES, DirectFile, Io, Signal, deadline, together};
use engine_log::SegmentId;
use engine_record::{Instant, Offset, TopicPartition};

use crate::chunk::SegmentWrite;
use crate::config::FlushScope;
use crate::error::{DiskError, DiskOperation, disk};
use crate::partition::Partition;
use crate::permits::{Permit, Permits};
use crate::segment_file::SegmentFile;
use crate::shard::Shard;

/// How long ago someone waited for a flush who may do so again.
const WAITED_FOR_LATELY: Duration = Duration::from_secs(1);

/// A file with writes that no flush has covered.
struct Dirty<I: Io> {
    partition: Rc<Partition<I>>,
    segment: Rc<SegmentFile<I>>,
    file: Rc<I::File>,
    /// The end of the blocks written.
    end: u64,
    /// Whether it needs a flush of its own: some of its space was never written and flushed before.
    is_fresh: bool,
}

type DirtyFiles<I> = BTreeMap<(TopicPartition, SegmentId), Dirty<I>>;

/// What is unflushed, and who waits for it.
pub(crate) struct Flusher<I: Io> {
    dirty: RefCell<DirtyFiles<I>>,
    dirty_bytes: Cell<u64>,
    /// When the oldest unflushed write completed.
    dirty_since: Cell<Instant>,
    /// How many wait for flushes.
    interest: Cell<usize>,
    /// When someone last began to.
    last_interest: Cell<Instant>,
    is_running: Cell<bool>,
    /// Whose turn it is to flush.
    alone: Permits,
    /// Something changed that may begin a turn.
    hurry: Signal,
}

impl<I: Io> Flusher<I> {
    pub(crate) fn new() -> Self {
        Self {
            dirty: RefCell::new(BTreeMap::new()),
            dirty_bytes: Cell::new(0),
            dirty_since: Cell::new(Instant::ZERO),
            interest: Cell::new(0),
            last_interest: Cell::new(Instant::ZERO),
            is_running: Cell::new(false),
            alone: Permits::new(1),
            hurry: Signal::new(),
        }
    }

    /// Notes a completed write.
    pub(crate) fn note_write(
        &self,
        shard: &Rc<Shard<I>>,
        partition: &Rc<Partition<I>>,
        write: &SegmentWrite<I>,
    ) {
        let end = u64::from(write.end).next_multiple_of(BLOCK_BYTES as u64);
        {
            let mut dirty = self.dirty.borrow_mut();
            if dirty.is_empty() {
                self.dirty_since.set(shard.io.now());
            }
            let file = dirty.entry((partition.at, write.segment.id())).or_insert_with(|| Dirty {
                partition: Rc::clone(partition),
                segment: Rc::clone(&write.segment),
                file: Rc::clone(&write.file),
                end,
                is_fresh: false,
            });
            file.end = file.end.max(end);
            file.is_fresh |=
                write.segment.is_fresh(u64::from(write.start), end) || !write.segment.is_entry_durable();
        }
        self.dirty_bytes.set(self.dirty_bytes.get() + u64::from(write.end - write.start));
        self.run(shard);
    }

    /// Lets turns begin at once for as long as it is held.
    pub(crate) fn add_interest(&self, now: Instant) {
        self.interest.set(self.interest.get() + 1);
        self.last_interest.set(now);
        self.hurry.notify();
    }

    /// Whether someone waits for flushes, or did lately.
    pub(crate) fn is_waited_for(&self, now: Instant) -> bool {
        let is_lately = now.since(self.last_interest.get()) < WAITED_FOR_LATELY;
        self.interest.get() > 0 || (self.last_interest.get() > Instant::ZERO && is_lately)
    }

    pub(crate) fn remove_interest(&self) {
        self.interest.set(self.interest.get() - 1);
    }

    /// Waits until nothing is flushed. Until the answer is dropped no turn begins.
    pub(crate) async fn alone(&self) -> Permit {
        self.alone.acquire(1).await.expect("the permit to flush is never closed")
    }

    /// Sees to it that turns come while something is unflushed.
    fn run(&self, shard: &Rc<Shard<I>>) {
        if self.is_running.replace(true) {
            if self.dirty_bytes.get() >= shard.config.flush_bytes {
                self.hurry.notify();
            }
            return;
        }
        let owned = Rc::clone(shard);
        shard.background.spawn(&shard.io, async move { owned.flusher.run_while_dirty(&owned).await });
    }

    async fn run_while_dirty(&self, shard: &Rc<Shard<I>>) {
        while !self.dirty.borrow().is_empty() && !shard.failure.has_happened() {
            self.wait_for_turn(shard).await;
            if let Err(error) = self.turn(shard).await {
                shard.fail(error);
            }
        }
        self.is_running.set(false);
    }

    /// Waits until someone waits for the flush, or enough is unflushed for long enough.
    async fn wait_for_turn(&self, shard: &Shard<I>) {
        let at = self.dirty_since.get().after(shard.config.flush_interval);
        loop {
            let hurry = self.hurry.wait();
            let is_due = self.dirty_bytes.get() >= shard.config.flush_bytes || shard.io.now() >= at;
            if self.interest.get() > 0 || is_due || shard.failure.has_happened() {
                return;
            }
            deadline(&shard.io, at, hurry).await;
        }
    }

    /// One turn: flushes what is dirty now, and then lets every partition know up to where that was.
    async fn turn(&self, shard: &Shard<I>) -> Result<(), DiskError> {
        let _alone = self.alone().await;
        let dirty = self.dirty.take();
        let bytes = self.dirty_bytes.replace(0);
        // What was written is read before the flushes begin: what completes during them isn't covered.
        let ends: BTreeMap<_, _> = dirty
            .values()
            .map(|file| (file.partition.at, (Rc::clone(&file.partition), file.partition.written_end())))
            .collect();
        let files = files_to_flush(&dirty, shard.config.flush_scope);
        let count = files.len() as u64;
        flush_all(shard, files).await?;
        shard.counters.count(|metrics| {
            metrics.flush_turns += 1;
            metrics.flushes += count;
            metrics.bytes_flushed += bytes;
        });
        complete(&dirty, ends);
        shard.checkpointer.note_flushed(shard, bytes);
        Ok(())
    }
}

/// The files whose flush makes all of `dirty` durable: each that needs its own, or one for all.
fn files_to_flush<I: Io>(dirty: &DirtyFiles<I>, scope: FlushScope) -> Vec<&Dirty<I>> {
    match scope {
        FlushScope::PerFile => dirty.values().collect(),
        FlushScope::Device => {
            let fresh: Vec<_> = dirty.values().filter(|file| file.is_fresh).collect();
            if fresh.is_empty() { dirty.values().take(1).collect() } else { fresh }
        }
    }
}

/// Flushes all of them, some at a time, also after one has failed: the first failure.
async fn flush_all<I: Io>(shard: &Shard<I>, files: Vec<&Dirty<I>>) -> Result<(), DiskError> {
    let outcome = Cell::new(Ok(()));
    let flushes = files.into_iter().map(async |file| {
        let flushed = flush(shard, file).await;
        outcome.set(outcome.replace(Ok(())).and(flushed));
    });
    together(shard.config.flushes_max, flushes).await;
    outcome.into_inner()
}

async fn flush<I: Io>(shard: &Shard<I>, dirty: &Dirty<I>) -> Result<(), DiskError> {
    dirty.file.flush().await.map_err(disk(DiskOperation::Flush, dirty.segment.path()))?;
    if !dirty.segment.is_entry_durable() {
        shard.flush_folder(dirty.partition.folder()).await?;
        dirty.segment.set_entry_durable();
    }
    Ok(())
}

fn complete<I: Io>(dirty: &DirtyFiles<I>, ends: BTreeMap<TopicPartition, (Rc<Partition<I>>, Offset)>) {
    for file in dirty.values().filter(|file| file.is_fresh) {
        file.segment.settle(file.end);
    }
    for (partition, end) in ends.into_values() {
        partition.complete_flush(end);
    }
}

/// While it lives, written data of the shard are flushed at once rather than in their own time.
pub struct FlushInterest<I: Io> {
    shard: Rc<Shard<I>>,
}

impl<I: Io> FlushInterest<I> {
    pub(crate) fn new(shard: &Rc<Shard<I>>) -> Self {
        shard.flusher.add_interest(shard.io.now());
        Self { shard: Rc::clone(shard) }
    }
}

impl<I: Io> Drop for FlushInterest<I> {
    fn drop(&mut self) {
        self.shard.flusher.remove_interest();
    }
}
