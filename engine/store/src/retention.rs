//! Deleting a log's oldest segments: what retention doesn't keep, and what lies wholly below the log's start.
//!
//! The order is what makes it safe. First the log forgets the segments, so that no read begins in them. Then the
//! checkpoint says so, durably. Then the files go, the oldest first, each once no reader is left in it. A crash in between
//! leaves files before the log's first segment, and opening it removes them.

use std::rc::Rc;

use engine_io::Io;

use crate::error::{DiskError, StoreError, WaitError};
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
}

/// A segment that the log has forgotten, and whose file is still there.
pub(crate) struct Retired<I: Io> {
    segment: Rc<SegmentFile<I>>,
    bytes: u64,
}

impl<I: Io> Partition<I> {
    /// See [`crate::PartitionLog::delete_old_segments`].
    pub(crate) async fn delete_old_segments(self: &Rc<Self>) -> Result<Deleted, StoreError> {
        let _no_truncation = self.trimming.acquire(1).await.map_err(|_| WaitError::Closed)?;
        self.check()?;
        // A shutdown waits for it: what it records of the log is then what is left.
        let _work = self.begin_work();
        self.retire_due();
        if self.state.borrow().retired.is_empty() {
            return Ok(Deleted::default());
        }
        self.shard.checkpointer.write_present(&self.shard, self).await?;
        Ok(self.remove_retired().await?)
    }

    /// Lets the log forget what is due.
    fn retire_due(&self) {
        let mut state = self.state.borrow_mut();
        let plan = state.log.delete_plan(self.shard.io.timestamp());
        if plan.is_empty() {
            return;
        }
        let sizes = plan.segments.iter().map(|id| (*id, state.log.segment(*id).map_or(0, size_of_batches)));
        let sizes: Vec<_> = sizes.collect();
        state.log.complete_delete(&plan);
        for (id, bytes) in sizes {
            if let Some(segment) = state.segments.remove(&id) {
                state.retired.push_back(Retired { segment, bytes });
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

    /// Removes the files nobody reads, up to the first that somebody does: what is left is always one piece of the log.
    async fn remove_retired(&self) -> Result<Deleted, DiskError> {
        let mut deleted = Deleted::default();
        while let Some((segment, bytes)) = self.next_retired() {
            self.shard.descriptors.close_idle(&segment);
            remove(&self.shard.io, segment.path()).await?;
            remove(&self.shard.io, &layout::index(self.folder(), segment.id().0)).await?;
            self.state.borrow_mut().retired.pop_front();
            deleted.segments += 1;
            deleted.bytes += bytes;
        }
        self.shard.counters.count(|metrics| {
            metrics.segments_deleted += deleted.segments;
            metrics.bytes_deleted += deleted.bytes;
        });
        Ok(deleted)
    }

    fn next_retired(&self) -> Option<(Rc<SegmentFile<I>>, u64)> {
        let state = self.state.borrow();
        let oldest = state.retired.front().filter(|oldest| !oldest.segment.is_held())?;
        Some((Rc::clone(&oldest.segment), oldest.bytes))
    }
}

fn size_of_batches(segment: &engine_log::Segment) -> u64 {
    u64::from(segment.end_position())
}
