//! Deleting a log's oldest segments: what retention doesn't keep, and what lies wholly below the log's start.
//!
//! The order is what makes it safe. First the log forgets the segments, so that no read begins in them. Then the
//! checkpoint says so, durably. Then the files go, the oldest first, each once no reader is left in it. A crash in between
//! leaves files before the log's first segment, and so does a stop, which doesn't wait for space to come back; opening the
//! log removes them, in the background. A reader that takes nothing is waited for as long as a deletion of all waits.
//!
//! Records that a client deletes are below the log's start at once, and stay so once the checkpoint says it; their segments
//! go like others.
//!
//! Where all that the log has is to go, an empty segment is begun first: a log always has one that is appended to.

use std::path::PathBuf;
use std::rc::Rc;

use engine_io::Io;
use engine_log::{LogOffsets, SegmentId};
use engine_record::{Instant, Offset, Timestamp};

use crate::error::{AppendError, DeleteRecordsError, DiskError, StoreError, WaitError};
use crate::layout;
use crate::partition::Partition;
use crate::segment_file::SegmentFile;
use crate::truncate::remove;

/// What was deleted of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Segments whose files are gone.
    pub segments: u64,
    /// Bytes of batches in them.
    pub bytes: u64,
    /// Segments whose files are still being read.
    pub held: u64,
}

/// A segment that the log has forgotten, and whose file is still there.
pub(crate) struct Retired<I: Io> {
    segment: Rc<SegmentFile<I>>,
    bytes: u64,
    /// When the log forgot it.
    since: Instant,
}

impl<I: Io> Partition<I> {
    /// See [`crate::PartitionLog::delete_old_segments`].
    pub(crate) async fn delete_old_segments(self: &Rc<Self>) -> Result<Deleted, StoreError> {
        let _no_truncation = self.removing.acquire(1).await.map_err(|_| WaitError::Closed)?;
        let trimming = self.trimming.acquire(1).await.map_err(|_| WaitError::Closed)?;
        let now = self.shard.io.timestamp();
        // Whoever has the turn may wait for the work to end: so the turn comes first.
        let turn = match self.retention_roll(now) {
            Some(_) => Some(self.turn().await?),
            None => None,
        };
        self.check()?;
        // A shutdown waits for it: what it records of the log is then what is left.
        let _work = self.begin_work();
        if turn.is_some() {
            self.roll_active(now).await?;
        }
        self.retire_due(now);
        drop(turn);
        if self.state.borrow().retired.is_empty() {
            return Ok(Deleted::default());
        }
        self.record_start().await?;
        // Clients that delete records don't wait for space to come back.
        drop(trimming);
        Ok(self.remove_retired().await?)
    }

    /// See [`crate::PartitionLog::delete_records`].
    pub(crate) async fn delete_records(
        self: &Rc<Self>,
        before: Option<Offset>,
    ) -> Result<Offset, DeleteRecordsError> {
        let _no_truncation = self.trimming.acquire(1).await.map_err(|_| StoreError::Closed)?;
        self.check().map_err(StoreError::from)?;
        let _work = self.begin_work();
        let (log_start, is_recorded) = {
            let mut state = self.state.borrow_mut();
            let LogOffsets { log_start, high_watermark, .. } = *state.log.offsets();
            let before = before.unwrap_or(high_watermark);
            let refused = DeleteRecordsError::OutOfRange { before, high_watermark };
            state.log.advance_log_start(before).map_err(|_| refused)?;
            // What an earlier call has moved may not be durable yet.
            state.is_start_recorded &= log_start == state.log.offsets().log_start;
            (state.log.offsets().log_start, state.is_start_recorded)
        };
        if is_recorded {
            return Ok(log_start);
        }
        self.shard.progress.note(self.at);
        self.wake();
        self.record_start().await?;
        Ok(log_start)
    }

    /// Makes it durable where the log starts.
    async fn record_start(self: &Rc<Self>) -> Result<(), StoreError> {
        self.shard.checkpointer.write_present(&self.shard, self).await?;
        self.state.borrow_mut().is_start_recorded = true;
        Ok(())
    }

    fn retention_roll(&self, now: Timestamp) -> Option<SegmentId> {
        self.state.borrow().log.plan_retention_roll(now)
    }

    /// Begins a segment where the active one is to go as well. Under the turn. Where there is no space or no
    /// descriptor for it, that stays.
    async fn roll_active(self: &Rc<Self>, now: Timestamp) -> Result<(), StoreError> {
        let Some(new) = self.retention_roll(now) else { return Ok(()) };
        match self.add_segment(new).await {
            Ok(()) => {}
            Err(AppendError::StorageFull) => return Ok(()),
            Err(AppendError::Unavailable(error)) if error.is_no_descriptor() => return Ok(()),
            Err(error) => return Err(refused(error)),
        }
        // The checkpoint will name it, and no append may ever make it durable.
        if let Err(error) = self.shard.flush_folder(self.folder()).await {
            // What else lay in the folder unflushed may be lost with it.
            self.shard.fail(error);
            return Ok(self.shard.check()?);
        }
        let mut state = self.state.borrow_mut();
        if let Some(segment) = state.segments.get(&new) {
            segment.set_entry_durable();
        }
        // Another configuration may be in force by now.
        if state.log.plan_retention_roll(now) == Some(new) {
            state.log.complete_roll(new);
        }
        Ok(())
    }

    /// Lets the log forget what is due.
    fn retire_due(&self, now: Timestamp) {
        let since = self.shard.io.now();
        let mut state = self.state.borrow_mut();
        let plan = state.log.delete_plan(now);
        if plan.is_empty() {
            return;
        }
        let sizes = plan.segments.iter().map(|id| (*id, state.log.segment(*id).map_or(0, size_of_batches)));
        let sizes: Vec<_> = sizes.collect();
        state.log.complete_delete(&plan);
        state.is_start_recorded = false;
        for (id, bytes) in sizes {
            if let Some(segment) = state.segments.remove(&id) {
                state.retired.push_back(Retired { segment, bytes, since });
            }
        }
        drop(state);
        tracing::info!(
            partition = %self.at,
            segments = plan.segments.len(),
            log_start = %plan.log_start,
            "deleting the log's oldest segments"
        );
        // Whoever waits for records below the new start is to be told.
        self.shard.progress.note(self.at);
        self.wake();
    }

    /// Removes the files nobody reads, up to the first that somebody does: what is left is always one piece of the log. A
    /// reader that takes longer than readers may isn't waited for: its file ends where it is.
    async fn remove_retired(&self) -> Result<Deleted, DiskError> {
        let mut deleted = Deleted::default();
        while self.may_remove()
            && let Some((segment, bytes)) = self.next_retired()
        {
            self.shard.descriptors.close_idle(&segment);
            remove(&self.shard.io, segment.path()).await?;
            remove(&self.shard.io, &layout::index(self.folder(), segment.id().0)).await?;
            self.state.borrow_mut().retired.pop_front();
            deleted.segments += 1;
            deleted.bytes += bytes;
        }
        deleted.held = self.state.borrow().retired.len() as u64;
        self.shard.counters.count(|metrics| {
            metrics.segments_deleted += deleted.segments;
            metrics.bytes_deleted += deleted.bytes;
        });
        Ok(deleted)
    }

    /// Removes, in the background, the files that a deletion has left which a crash or a stop cut short. For a log that was
    /// just opened; it isn't cut, and no other files of segments go, before they are gone.
    pub(crate) fn remove_behind(self: &Rc<Self>, left: Vec<PathBuf>) {
        let Some(no_truncation) = self.removing.try_acquire(1).filter(|_| !left.is_empty()) else { return };
        let (partition, work) = (Rc::clone(self), self.begin_work());
        self.shard.background.spawn(&self.shard.io, async move {
            for path in left {
                if !partition.may_remove() {
                    break;
                }
                if let Err(error) = remove(&partition.shard.io, &path).await {
                    let partition = partition.at;
                    tracing::warn!(%error, %partition, "a deleted segment's file stays; the next start tries again");
                }
            }
            drop((no_truncation, work));
        });
    }

    /// Whether files are still to be removed one by one: a stop leaves them to the next start, a deletion takes all at once.
    fn may_remove(&self) -> bool {
        !self.shard.is_closing() && !self.is_deleted()
    }

    fn next_retired(&self) -> Option<(Rc<SegmentFile<I>>, u64)> {
        let state = self.state.borrow();
        let (now, patience) = (self.shard.io.now(), self.shard.config.readers_deadline);
        let may_go = |oldest: &&Retired<I>| !oldest.segment.is_held() || now.since(oldest.since) >= patience;
        let oldest = state.retired.front().filter(may_go)?;
        Some((Rc::clone(&oldest.segment), oldest.bytes))
    }
}

/// Why no segment was begun; want of space is told apart before.
fn refused(error: AppendError) -> StoreError {
    match error {
        AppendError::Unavailable(error) => StoreError::Disk(error),
        AppendError::Failed(failure) => StoreError::Failed(failure),
        AppendError::Closed => StoreError::Closed,
        AppendError::Refused(_) | AppendError::StorageFull | AppendError::Corrupt(_) => {
            unreachable!("beginning a segment looks at no batch")
        }
    }
}

fn size_of_batches(segment: &engine_log::Segment) -> u64 {
    u64::from(segment.end_position())
}
