//! Keeps the shard's checkpoint: what changed goes to disk now and then, always after the flush that makes it true.
//!
//! ```text
//!  slot 0   [image 4 ......][change][change][change]        too many changes: an image goes to the other slot,
//!  slot 1   [image 5 ......][change]                        and the old one stays whole until that is flushed
//! ```

use core::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine_io::{Io, Signal, deadline};
use engine_record::{Instant, Offset, TopicId, TopicPartition};

use crate::checkpoint::{Entries, Entry, LogEntry};
use crate::error::{DiskError, StoreError};
use crate::partition::{Partition, Recorded};
use crate::permits::Permits;
use crate::reserve::Reserve;
use crate::shard::Shard;
use crate::slot::SlotWriter;

mod closing;

/// So many bytes of states are written at a time.
const PART_BYTES: usize = 4 << 20;

/// A partition's durable state to be: true on disk once `end` is flushed.
struct Capture<I: Io> {
    partition: Rc<Partition<I>>,
    end: Offset,
    truncations: u64,
    log: LogEntry,
}

/// The checkpoint of one shard.
pub(crate) struct Checkpointer<I: Io> {
    /// This start of the store: larger than any that wrote a checkpoint before.
    generation: u64,
    /// One at a time writes.
    turn: Permits,
    slots: RefCell<Option<SlotWriter<I>>>,
    /// What the slots must have space for.
    reserve: Rc<Reserve>,
    /// Whether more space is looked for ahead.
    is_extending: Cell<bool>,
    /// What is known of partitions that aren't open.
    unopened: RefCell<Entries>,
    pending: RefCell<BTreeMap<TopicPartition, Rc<Partition<I>>>>,
    pending_bytes: Cell<u64>,
    pending_since: Cell<Instant>,
    is_running: Cell<bool>,
    /// Whether it could not be written the last time.
    is_behind: Cell<bool>,
    hurry: Signal,
    /// Partitions about to be appended to for the first time.
    opened: RefCell<BTreeMap<TopicPartition, Rc<Partition<I>>>>,
}

impl<I: Io> Checkpointer<I> {
    pub(crate) fn new(generation: u64, slots: SlotWriter<I>, unopened: Entries) -> Self {
        Self {
            generation,
            turn: Permits::new(1),
            reserve: slots.reserve(),
            is_extending: Cell::new(false),
            slots: RefCell::new(Some(slots)),
            unopened: RefCell::new(unopened),
            pending: RefCell::new(BTreeMap::new()),
            pending_bytes: Cell::new(0),
            pending_since: Cell::new(Instant::ZERO),
            is_running: Cell::new(false),
            is_behind: Cell::new(false),
            hurry: Signal::new(),
            opened: RefCell::new(BTreeMap::new()),
        }
    }

    /// What the checkpoints say of a partition that isn't open.
    pub(crate) fn unopened(&self, at: TopicPartition) -> Option<LogEntry> {
        self.unopened.borrow().get(&at).and_then(|entry| entry.log.clone())
    }

    /// The partitions of a topic that the checkpoints know and that aren't open.
    pub(crate) fn unopened_partitions(&self, topic: TopicId) -> BTreeSet<TopicPartition> {
        let unopened = self.unopened.borrow();
        let live = unopened.iter().filter(|(at, entry)| at.topic == topic && entry.log.is_some());
        live.map(|(at, _)| *at).collect()
    }

    /// Forgets what the checkpoints said: the partition is open, or deleted.
    pub(crate) fn forget_unopened(&self, at: TopicPartition) {
        self.unopened.borrow_mut().remove(&at);
    }

    /// To be awaited before the first append to a partition: from then on a start looks behind what the checkpoint
    /// says of it, and there is space to say that it is closed. All that wait at the same time are written at once.
    ///
    /// # Errors
    /// No space or no descriptor; or the store has ended.
    pub(crate) async fn record_opened(
        &self,
        shard: &Rc<Shard<I>>,
        partition: &Rc<Partition<I>>,
    ) -> Result<(), StoreError> {
        self.opened.borrow_mut().insert(partition.at, Rc::clone(partition));
        let (owned, own) = (Rc::clone(shard), Rc::clone(partition));
        let recorded = async move { owned.checkpointer.write_opened(&owned, own).await };
        shard.background.carry_out(&shard.io, recorded).await.unwrap_or(Err(StoreError::Closed))
    }

    async fn write_opened(&self, shard: &Rc<Shard<I>>, own: Rc<Partition<I>>) -> Result<(), StoreError> {
        let _turn = self.turn.acquire(1).await.map_err(|_| StoreError::Closed)?;
        if own.is_recorded_for_appends() {
            return Ok(());
        }
        let mut opened = self.opened.take();
        opened.insert(own.at, Rc::clone(&own));
        let mut opened: Vec<_> = opened.into_values().collect();
        let mut promised = self.promise_closing(shard, &opened).await;
        if promised.is_err() && opened.len() > 1 {
            // There may be space for one; the others ask for themselves.
            opened = vec![own];
            promised = self.promise_closing(shard, &opened).await;
        }
        promised?;
        let captures: Vec<_> = opened.iter().cloned().map(Capture::of).collect();
        let epochs: BTreeMap<_, _> =
            captures.iter().map(|capture| (capture.partition.at, capture.partition.latest_epoch())).collect();
        let written = self.write_captures(shard, captures).await;
        for partition in written.iter().flatten() {
            partition.set_recorded(Recorded::Open);
            // Another may have begun meanwhile.
            if epochs.get(&partition.at) == Some(&partition.latest_epoch()) {
                partition.set_epoch_recorded(true);
            }
        }
        opened.iter().for_each(|partition| self.settle_closing(partition));
        written.map(drop)
    }

    /// Notes that a partition's durable state moved.
    pub(crate) fn note_change(&self, shard: &Rc<Shard<I>>, partition: &Rc<Partition<I>>) {
        {
            let mut pending = self.pending.borrow_mut();
            if pending.is_empty() {
                self.pending_since.set(shard.io.now());
            }
            pending.insert(partition.at, Rc::clone(partition));
        }
        if !self.is_running.replace(true) {
            let owned = Rc::clone(shard);
            shard
                .background
                .spawn(&shard.io, async move { owned.checkpointer.run_while_pending(&owned).await });
        }
    }

    /// Notes how much was flushed.
    pub(crate) fn note_flushed(&self, shard: &Shard<I>, bytes: u64) {
        self.pending_bytes.set(self.pending_bytes.get() + bytes);
        if self.pending_bytes.get() >= shard.config.checkpoint_bytes {
            self.hurry.notify();
        }
    }

    /// Lets what is pending be written at once.
    pub(crate) fn hurry(&self) {
        self.hurry.notify();
    }

    async fn run_while_pending(&self, shard: &Rc<Shard<I>>) {
        while !self.pending.borrow().is_empty() && shard.check().is_ok() && !shard.is_closing() {
            self.wait_until_due(shard).await;
            let written = self.write_pending(shard).await;
            if written.is_err() {
                self.pending_since.set(shard.io.now());
            }
            self.tell(written);
        }
        self.is_running.set(false);
    }

    /// Says once that the checkpoint can't be written, and once that it can again.
    fn tell(&self, written: Result<(), StoreError>) {
        let was_behind = self.is_behind.replace(written.is_err());
        match written {
            Err(error) if !was_behind => tracing::warn!(
                %error,
                "the checkpoint was not written; it is tried again until it is, and a start before that scans more"
            ),
            Ok(()) if was_behind => tracing::info!("the checkpoint is written again"),
            Err(_) | Ok(()) => {}
        }
    }

    async fn wait_until_due(&self, shard: &Shard<I>) {
        let at = self.pending_since.get().after(shard.config.checkpoint_interval);
        loop {
            let hurry = self.hurry.wait();
            let is_due = self.pending_bytes.get() >= shard.config.checkpoint_bytes || shard.io.now() >= at;
            if is_due || shard.check().is_err() || shard.is_closing() {
                return;
            }
            deadline(&shard.io, at, hurry).await;
        }
    }

    /// Writes what is pending, when its flush has come.
    ///
    /// # Errors
    /// No space or no descriptor, with everything still pending; any other error ends the store.
    pub(crate) async fn write_pending(&self, shard: &Rc<Shard<I>>) -> Result<(), StoreError> {
        let pending = self.pending.take();
        self.pending_bytes.set(0);
        let written = self.write_states(shard, pending.values().cloned().collect()).await;
        if written.is_err() {
            let mut again = self.pending.borrow_mut();
            for (at, partition) in pending {
                again.entry(at).or_insert(partition);
            }
        }
        written
    }

    /// Writes the present state of these partitions, when its flush has come. A part at a time, each under a turn of its
    /// own: states may be large, and others have to record something, too.
    ///
    /// # Errors
    /// No space or no descriptor; or the store has ended.
    async fn write_states(
        &self,
        shard: &Rc<Shard<I>>,
        partitions: Vec<Rc<Partition<I>>>,
    ) -> Result<(), StoreError> {
        let mut left = partitions.into_iter().peekable();
        while left.peek().is_some() {
            let _turn = self.turn.acquire(1).await.map_err(|_| StoreError::Closed)?;
            let (mut captures, mut bytes) = (Vec::new(), 0);
            while bytes < PART_BYTES
                && let Some(partition) = left.next()
            {
                // What is closed already would be opened again by a later, lesser entry.
                if partition.recorded() == Recorded::Open {
                    let capture = Capture::of(partition);
                    bytes += capture.log.encoded_bytes();
                    captures.push(capture);
                    shard.io.yield_now().await;
                }
            }
            self.write_captures(shard, captures).await?;
        }
        Ok(())
    }

    /// Writes the partition's present state as what the checkpoint has it: open, when its flush has come, or closed.
    /// Which of them is decided under the turn: only its holder makes one of the other, and before a closed log is appended
    /// to, it waits for the turn to be made an open one. A log that the checkpoint doesn't know ends as it is, too.
    ///
    /// # Errors
    /// No space or no descriptor; or the store has ended.
    pub(crate) async fn write_present(
        &self,
        shard: &Rc<Shard<I>>,
        partition: &Rc<Partition<I>>,
    ) -> Result<(), StoreError> {
        let _turn = self.turn.acquire(1).await.map_err(|_| StoreError::Closed)?;
        match partition.recorded() {
            Recorded::Open => {
                self.write_captures(shard, vec![Capture::of(Rc::clone(partition))]).await.map(drop)
            }
            Recorded::Nothing | Recorded::Closed => {
                let log = LogEntry::closed(&partition.state.borrow().log);
                self.write(shard, vec![(partition.at, self.entry(Some(log)))]).await?;
                partition.set_recorded(Recorded::Closed);
                self.release_closing(partition);
                Ok(())
            }
        }
    }

    /// Writes what is still true once its flush has come, and answers whose it was. Under the turn.
    async fn write_captures(
        &self,
        shard: &Rc<Shard<I>>,
        captures: Vec<Capture<I>>,
    ) -> Result<Vec<Rc<Partition<I>>>, StoreError> {
        for capture in &captures {
            capture.partition.wait_for_flush_or_deletion(capture.end).await?;
            capture.partition.store_index_behind();
        }
        let true_now = captures.into_iter().filter(Capture::is_true);
        let (partitions, entries) = true_now
            .map(|Capture { partition, log, .. }| {
                let entry = (partition.at, self.entry(Some(log)));
                (partition, entry)
            })
            .unzip();
        self.write(shard, entries).await?;
        Ok(partitions)
    }

    /// Writes that these logs end as they are: nothing is appended to them before [`Checkpointer::record_opened`]. Of what
    /// was deleted meanwhile it says nothing: an entry behind the deletion's would outlive it.
    ///
    /// # Errors
    /// No space or no descriptor; or the store has ended.
    pub(crate) async fn write_closed(
        &self,
        shard: &Rc<Shard<I>>,
        partitions: Vec<Rc<Partition<I>>>,
    ) -> Result<(), StoreError> {
        let _turn = self.turn.acquire(1).await.map_err(|_| StoreError::Closed)?;
        let partitions: Vec<_> = partitions.into_iter().filter(|partition| !partition.is_deleted()).collect();
        let entries = partitions.iter().map(|partition| {
            let state = partition.state.borrow();
            assert_eq!(state.log.offsets().flushed, state.log.offsets().log_end, "a closed log is flushed");
            (partition.at, self.entry(Some(LogEntry::closed(&state.log))))
        });
        self.write(shard, entries.collect()).await?;
        for partition in &partitions {
            partition.set_recorded(Recorded::Closed);
            self.release_closing(partition);
        }
        Ok(())
    }

    /// Writes that the partition's log is as `log` says, or is no more.
    ///
    /// # Errors
    /// No space or no descriptor; or the store has ended.
    pub(crate) async fn write_entry(
        &self,
        shard: &Rc<Shard<I>>,
        at: TopicPartition,
        log: Option<LogEntry>,
    ) -> Result<(), StoreError> {
        let _turn = self.turn.acquire(1).await.map_err(|_| StoreError::Closed)?;
        self.write(shard, vec![(at, self.entry(log))]).await
    }

    fn entry(&self, log: Option<LogEntry>) -> Entry {
        Entry { generation: self.generation, log }
    }

    /// Under the turn.
    async fn write(
        &self,
        shard: &Rc<Shard<I>>,
        entries: Vec<(TopicPartition, Entry)>,
    ) -> Result<(), StoreError> {
        shard.check()?;
        let mut slots =
            self.slots.take().expect("the turn's holder has the slots, and a dropped one ends the store");
        let count = entries.len() as u64;
        let written = slots.write(shard, self.generation, entries).await;
        self.slots.replace(Some(slots));
        unless_failed(shard, written)?;
        shard.counters.count(|metrics| metrics.checkpoint_entries += count);
        Ok(())
    }

    /// Closes the checkpoint's file.
    pub(crate) async fn close(&self) {
        let Ok(_turn) = self.turn.acquire(1).await else { return };
        let slots = self.slots.take();
        if let Some(mut slots) = slots {
            slots.close().await;
            self.slots.replace(Some(slots));
        }
    }
}

/// Want of space or of descriptors is told; any other error of a slot ends the store.
fn unless_failed<I: Io>(shard: &Shard<I>, done: Result<(), DiskError>) -> Result<(), StoreError> {
    match done {
        Err(error) if !error.is_refusal() => {
            shard.fail(error);
            Ok(shard.check()?)
        }
        done => Ok(done?),
    }
}

impl<I: Io> Capture<I> {
    fn of(partition: Rc<Partition<I>>) -> Self {
        let (end, truncations, log) = {
            let state = partition.state.borrow();
            (state.log.offsets().log_end, state.truncations, LogEntry::open(&state.log))
        };
        Self { partition, end, truncations, log }
    }

    /// Not of a log that is being cut: that says itself, before it cuts, what stays.
    fn is_true(&self) -> bool {
        let Self { partition, truncations, .. } = self;
        let is_same = partition.state.borrow().truncations == *truncations;
        is_same && !partition.is_deleted() && !partition.is_cutting()
    }
}
