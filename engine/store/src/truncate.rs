//! Cutting a log's suffix off, where it parted from its leader's.
//!
//! The order is what makes it safe: nothing in flight, no reader; the checkpoint vouches for no byte that goes; the
//! files end, flushed, before the log does. A crash between any two steps leaves a log that begins with what stays.

use core::time::Duration;
use std::io;
use std::path::Path;
use std::rc::Rc;

use engine_io::{BLOCK_BYTES, Buffer, DirectFile, Io, deadline};
use engine_log::{
    Boundary, BoundaryStep, Checkpoint, LeaderEpochs, Producers, RecoveryScan, ScanEnd, SegmentId,
    TruncateError, TruncatePlan,
};
use engine_record::Offset;

use crate::checkpoint::LogEntry;
use crate::chunk::{Fill, block_floor, block_remainder};
use crate::error::{Corruption, DiskError, DiskOperation, StoreError, WaitError, disk};
use crate::flush::FlushInterest;
use crate::layout;
use crate::partition::{Partition, Recorded};
use crate::segment_file::SegmentFile;

/// How much is read at once to look for the boundary, or to rebuild producers, in bytes.
const WINDOW_BYTES: usize = 1 << 20;

impl<I: Io> Partition<I> {
    /// See [`crate::PartitionLog::truncate`].
    pub(crate) async fn truncate(self: &Rc<Self>, to: Offset) -> Result<(), StoreError> {
        let _no_removal = self.removing.acquire(1).await.map_err(|_| WaitError::Closed)?;
        let _no_deletion = self.trimming.acquire(1).await.map_err(|_| WaitError::Closed)?;
        let _turn = self.turn().await?;
        self.come_to_rest().await?;
        // A shutdown waits for it: what it records of the log is then how the cut has left it.
        let _work = self.begin_work();
        let Some(plan) = self.plan_truncate(to).await? else { return self.rebuild_producers().await };
        self.set_cutting(true);
        let cut = self.cut(&plan).await;
        self.set_cutting(false);
        cut
    }

    /// Resolves when nothing of the log is in flight, under the turn.
    async fn come_to_rest(self: &Rc<Self>) -> Result<(), StoreError> {
        let _at_once = FlushInterest::new(&self.shard);
        self.wait_for(|offsets| offsets.flushed == offsets.log_end).await?;
        self.writes_ended().await;
        self.work_ended().await;
        Ok(self.check()?)
    }

    async fn plan_truncate(self: &Rc<Self>, to: Offset) -> Result<Option<TruncatePlan>, StoreError> {
        loop {
            let planned = self.state.borrow().log.plan_truncate(to);
            match planned {
                Err(TruncateError::IndexNotLoaded(segment)) => self.load_index(segment).await?,
                planned => return Ok(planned?),
            }
        }
    }

    async fn cut(self: &Rc<Self>, plan: &TruncatePlan) -> Result<(), StoreError> {
        let boundary = self.find_boundary(plan).await?;
        let segments = self.segments_from(plan.segment);
        drain(self, &segments, self.shard.config.readers_deadline).await?;
        self.shard.checkpointer.reserve_closing(&self.shard, self).await?;
        let mut after = self.state.borrow().log.clone();
        after.complete_truncate(plan, &boundary);
        let checkpointer = &self.shard.checkpointer;
        let written = checkpointer.write_entry(&self.shard, self.at, Some(LogEntry::open(&after))).await;
        if written.is_ok() {
            self.set_recorded(Recorded::Open);
        }
        checkpointer.settle_closing(self);
        written?;
        // Carried out twice it leaves the same.
        let cut = async || self.cut_files(&segments, boundary.end.position).await;
        if let Err(error) = self.shard.with_descriptor(cut).await {
            self.shard.fail(error);
            return Ok(self.shard.check()?);
        }
        self.complete_truncate(plan, &boundary);
        self.rebuild_producers().await
    }

    async fn find_boundary(self: &Rc<Self>, plan: &TruncatePlan) -> Result<Boundary, StoreError> {
        let segment = self.segment_file(plan.segment)?;
        let mut search = plan.search();
        let mut window = Vec::new();
        loop {
            match search.feed(&window) {
                BoundaryStep::Found(boundary) => return Ok(boundary),
                BoundaryStep::NeedMore => {}
                BoundaryStep::Broken { at, cause } => {
                    let (file, position) = (segment.path().clone(), u64::from(at.position));
                    return Err(StoreError::Corrupt { file, position, why: Corruption::Batch(cause) });
                }
            }
            let at = search.at().position;
            let bytes = ((plan.segment_end_position - at) as usize).min(WINDOW_BYTES);
            window = self.fetch(&segment, at, bytes).await?;
        }
    }

    fn segments_from(&self, first: SegmentId) -> Vec<Rc<SegmentFile<I>>> {
        self.state.borrow().segments.range(first..).map(|(_, segment)| Rc::clone(segment)).collect()
    }

    /// Removes all but the first of `segments`, the last one first, and cuts that one at `end`.
    async fn cut_files(self: &Rc<Self>, segments: &[Rc<SegmentFile<I>>], end: u32) -> Result<(), DiskError> {
        let Some((first, removed)) = segments.split_first() else { return Ok(()) };
        for segment in removed.iter().rev() {
            remove(&self.shard.io, segment.path()).await?;
            remove(&self.shard.io, &layout::index(self.folder(), segment.id().0)).await?;
        }
        remove(&self.shard.io, &layout::index(self.folder(), first.id().0)).await?;
        let folder = self.folder();
        self.shard.io.flush_folder(folder).await.map_err(disk(DiskOperation::Flush, folder))?;
        let file = first.direct(&self.shard.io, &self.shard.descriptors).await?;
        let size = fence(&self.shard.io, &file, first.path(), end).await?;
        first.cut(size, end);
        Ok(())
    }

    fn complete_truncate(self: &Rc<Self>, plan: &TruncatePlan, boundary: &Boundary) {
        self.evict_tail();
        {
            let mut state = self.state.borrow_mut();
            state.log.complete_truncate(plan, boundary);
            state.segments.retain(|id, _| *id <= plan.segment);
            state.fill = Fill::new(boundary.end.position);
            state.recent_ends.clear();
            state.index_stored = (plan.segment, 0);
            state.truncations += 1;
        }
        self.shard.progress.note(self.at);
    }

    /// Replays the whole log where a cut asks for it: of a producer whose last batches went, older ones count again. Until
    /// then no batch of a producer is taken; so where there is no descriptor it waits, and where it fails, the next cut
    /// tries again, though it may have nothing to cut.
    async fn rebuild_producers(self: &Rc<Self>) -> Result<(), StoreError> {
        if !self.state.borrow().log.needs_producers() {
            return Ok(());
        }
        self.shard.with_descriptor(async || self.replay_producers().await).await
    }

    async fn replay_producers(self: &Rc<Self>) -> Result<(), StoreError> {
        let (config, ends) = {
            let state = self.state.borrow();
            let ends: Vec<_> =
                state.log.segments().map(|segment| (segment.id(), segment.end_position())).collect();
            (*state.log.config(), ends)
        };
        let first = ends.first().map_or(SegmentId(Offset::ZERO), |(id, _)| *id);
        let mut start = Checkpoint::segment_start(first, 0, LeaderEpochs::new(), Producers::new());
        for (id, end) in ends {
            let segment = self.segment_file(id)?;
            start.durable_position = end;
            let mut scan = RecoveryScan::new(start, config, self.shard.io.timestamp());
            let mut position = 0;
            while position < end {
                let bytes = ((end - position) as usize).min(WINDOW_BYTES);
                let chunk = self.fetch(&segment, position, bytes).await?;
                let _whole_chain_is_judged_at_the_end = scan.feed(&chunk);
                position += u32::try_from(chunk.len()).expect("a chunk is at most a megabyte");
            }
            let outcome = scan.finish();
            if let ScanEnd::Torn { at, cause } | ScanEnd::Corrupt { at, cause } = outcome.end {
                let (file, position) = (segment.path().clone(), u64::from(at.position));
                return Err(StoreError::Corrupt { file, position, why: Corruption::Batch(cause) });
            }
            start = outcome.into_following(0).1;
        }
        let mut state = self.state.borrow_mut();
        let end = state.log.offsets().log_end;
        state.log.install_producers(start.producers, end);
        drop(state);
        // Of producers that were forgotten some may be back.
        self.shard.checkpointer.claim_closing(self);
        self.shard.checkpointer.note_change(&self.shard, self);
        Ok(())
    }
}

/// Waits until nobody holds any of `segments`.
///
/// # Errors
/// [`StoreError::Held`] after `patience`.
pub(crate) async fn drain<I: Io>(
    partition: &Partition<I>,
    segments: &[Rc<SegmentFile<I>>],
    patience: Duration,
) -> Result<(), StoreError> {
    let io = &partition.shard.io;
    let at = io.now().after(patience);
    for segment in segments {
        deadline(io, at, segment.unheld()).await.ok_or(StoreError::Held)?;
    }
    Ok(())
}

/// Makes a file end at `end` for good: nothing behind it can be taken for a batch, however long the old tail was.
///
/// The file is cut behind the block of `end`, and the rest of that block is zeros. Fresh space reads as zeros too, so
/// this fences without writing the whole old tail over. Returns the file's size. It is flushed.
pub(crate) async fn fence<I: Io>(io: &I, file: &I::File, path: &Path, end: u32) -> Result<u64, DiskError> {
    let size = u64::from(end).next_multiple_of(BLOCK_BYTES as u64);
    file.truncate(size).await.map_err(disk(DiskOperation::Truncate, path))?;
    let partial = block_remainder(end);
    if partial > 0 {
        let block = u64::from(block_floor(end));
        let read = file.read(block, BLOCK_BYTES).await.map_err(disk(DiskOperation::Read, path))?;
        let kept = read.as_ref().get(..partial);
        let short = || DiskError::new(DiskOperation::Read, path, &io::ErrorKind::UnexpectedEof.into());
        let mut buffer = io.buffer(BLOCK_BYTES);
        buffer.as_mut_slice()[..partial].copy_from_slice(kept.ok_or_else(short)?);
        file.write(block, Rc::new(buffer)).await.map_err(disk(DiskOperation::Write, path))?;
    }
    file.flush().await.map_err(disk(DiskOperation::Flush, path))?;
    Ok(size)
}

/// Removes a file; one that isn't there is fine.
pub(crate) async fn remove<I: Io>(io: &I, path: &Path) -> Result<(), DiskError> {
    match io.remove_file(path).await {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(DiskError::new(DiskOperation::Remove, path, &error)),
    }
}
