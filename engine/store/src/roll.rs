//! Segments to come: made ready while the appends go on, so that a roll is a rename.

use std::io;
use std::path::Path;
use std::rc::Rc;

use engine_io::{DirectFile, Io, OpenMode};
use engine_log::SegmentId;

use crate::chunk::Place;
use crate::config::FlushScope;
use crate::error::{AppendError, DiskError, DiskOperation, disk};
use crate::layout;
use crate::partition::{Partition, State};
use crate::segment_file::{SegmentFile, Space, Steps};

/// What is made ready for the appends to come.
pub(crate) struct Ahead<I: Io> {
    /// A segment without a name yet.
    next: Option<Rc<SegmentFile<I>>>,
    is_preparing: bool,
}

impl<I: Io> Ahead<I> {
    pub(crate) fn new() -> Self {
        Self { next: None, is_preparing: false }
    }
}

/// What is worth preparing.
enum Preparation<I: Io> {
    /// Space up to this byte.
    Space(Place<I>, u64),
    /// Zeros from this byte to that.
    Zeros(Place<I>, u64, u64),
    NextSegment,
}

impl<I: Io> Partition<I> {
    /// How this log's segments are given space.
    pub(crate) fn allocation_steps(&self) -> Steps {
        let config = &self.shard.config;
        let limit = self.state.borrow().log.config().segment_bytes;
        Steps { min: config.allocation_bytes_min, max: config.allocation_bytes_max, limit }
    }

    /// Makes the file of the segment `id`, of a spare one where there is one. It goes on where the append is dropped: a
    /// file that has its name already, and nobody remembers, would pass for one still to be renamed.
    pub(crate) async fn add_segment(self: &Rc<Self>, id: SegmentId) -> Result<(), AppendError> {
        let (partition, work) = (Rc::clone(self), self.begin_work());
        let added = async move {
            let added = partition.make_segment(id).await;
            drop(work);
            added
        };
        let added = self.shard.background.carry_out(&self.shard.io, added).await;
        added.unwrap_or(Err(AppendError::Closed))
    }

    async fn make_segment(&self, id: SegmentId) -> Result<(), AppendError> {
        let _one_adds = self.adding.acquire(1).await.map_err(|_| AppendError::Closed)?;
        if self.state.borrow().segments.contains_key(&id) {
            return Ok(());
        }
        let path = layout::segment(self.folder(), id.0);
        let (file, space) = match self.spare_segment() {
            Some(spare) => self.take_spare(&spare, &path).await?,
            None => (self.open_or_refuse(&path).await?, Space::UNWRITTEN),
        };
        let segment = SegmentFile::made(id, path, file, space);
        self.shard.descriptors.used(&segment);
        self.state.borrow_mut().segments.insert(id, segment);
        Ok(())
    }

    /// A segment nothing was written to: one that an append had made and then found no space for, or the one made
    /// ready.
    pub(crate) fn spare_segment(&self) -> Option<Rc<SegmentFile<I>>> {
        let state = self.state.borrow();
        let active = state.log.active_segment().id();
        let unused = state.segments.last_key_value().filter(|(id, _)| **id > active);
        unused.map(|(_, segment)| segment).or(state.ahead.next.as_ref()).cloned()
    }

    /// Gives a spare segment this name; its file and the space it has.
    async fn take_spare(
        &self,
        spare: &Rc<SegmentFile<I>>,
        path: &Path,
    ) -> Result<(Rc<I::File>, Space), AppendError> {
        let file = match spare.open_direct() {
            Some(file) => file,
            None => self.open_or_refuse(spare.path()).await?,
        };
        if let Err(error) = self.shard.io.rename(spare.path(), path).await {
            return Err(self.refuse_or_fail(DiskError::new(DiskOperation::Rename, path, &error)));
        }
        self.forget_spare(spare);
        Ok((file, spare.space()))
    }

    fn forget_spare(&self, spare: &SegmentFile<I>) {
        self.shard.descriptors.forget(spare);
        let mut state = self.state.borrow_mut();
        if state.segments.remove(&spare.id()).is_none() {
            state.ahead.next = None;
        }
    }

    async fn open_or_make(&self, path: &Path) -> Result<I::File, DiskError> {
        let io = &self.shard.io;
        let opened = self.shard.descriptors.spare(io, async || open_or_make(io, path).await).await;
        opened.map_err(disk(DiskOperation::Open, path))
    }

    async fn open_or_refuse(&self, path: &Path) -> Result<Rc<I::File>, AppendError> {
        let opened = self.open_or_make(path).await;
        opened.map(Rc::new).map_err(|error| self.refuse_open(error))
    }

    /// A file that can't be opened refuses the append: nothing was promised yet.
    fn refuse_open(&self, error: DiskError) -> AppendError {
        if error.is_storage_full() { self.refuse_or_fail(error) } else { AppendError::Unavailable(error) }
    }

    /// Prepares in the background what the appends will need soon. What fails there is tried again when needed.
    pub(crate) fn prepare_ahead(self: &Rc<Self>, place: &Place<I>) {
        let Some(preparation) = self.worth_preparing(place) else { return };
        let (partition, work) = (Rc::clone(self), self.begin_work());
        self.shard.background.spawn(&self.shard.io, async move {
            let prepared = partition.prepare(preparation).await;
            partition.state.borrow_mut().ahead.is_preparing = false;
            match prepared {
                // The appends that need the space say so.
                Err(error) if error.is_storage_full() => {}
                Err(error) => {
                    tracing::warn!(%error, partition = %partition.at, "preparing ahead failed; appends will try again")
                }
                Ok(()) => {}
            }
            drop(work);
        });
    }

    async fn prepare(&self, preparation: Preparation<I>) -> Result<(), DiskError> {
        match preparation {
            Preparation::Space(place, end) => self.allocate(&place, end).await,
            Preparation::Zeros(place, from, to) => {
                self.write_zeros(&place, from, to).await;
                Ok(())
            }
            Preparation::NextSegment => self.make_next().await,
        }
    }

    fn worth_preparing(&self, place: &Place<I>) -> Option<Preparation<I>> {
        let mut state = self.state.borrow_mut();
        if state.ahead.is_preparing {
            return None;
        }
        let end = u64::from(crate::partition::end_position(&state.log));
        let limit = state.log.config().segment_bytes;
        let Place { segment, file, position } = place;
        let place = Place { segment: Rc::clone(segment), file: Rc::clone(file), position: *position };
        let preparation = if let Some(target) = segment.next_target(end, limit) {
            Preparation::Space(place, target)
        } else if let Some((from, to)) = self.zeros_worth_writing(&state, segment, end) {
            segment.zeros.begin(from);
            Preparation::Zeros(place, from, to)
        } else if end > u64::from(limit) / 4 * 3 && state.ahead.next.is_none() {
            Preparation::NextSegment
        } else {
            return None;
        };
        state.ahead.is_preparing = true;
        Some(preparation)
    }

    /// Zeros pay where one flush can serve many files, someone waits for it, and the appends are small.
    fn zeros_worth_writing(
        &self,
        state: &State<I>,
        segment: &SegmentFile<I>,
        end: u64,
    ) -> Option<(u64, u64)> {
        let shard = &self.shard;
        let is_small = state.fill.last_bytes() <= shard.config.zero_ahead_write_bytes_max;
        let pays = shard.config.flush_scope == FlushScope::Device
            && is_small
            && shard.flusher.is_waited_for(shard.io.now());
        if pays { segment.next_zeros(end, u64::from(shard.config.zero_ahead_bytes)) } else { None }
    }

    /// Writes zeros and flushes them; writes that would meet them wait for the writing. Without memory to spare it
    /// leaves it.
    async fn write_zeros(&self, place: &Place<I>, from: u64, to: u64) {
        let written = self.write_zeros_in_parts(place, from, to).await;
        place.segment.zeros.end_writing();
        let _alone = self.shard.flusher.alone().await;
        let flushed = match written {
            Ok(true) => place.file.flush().await.map_err(disk(DiskOperation::Flush, place.segment.path())),
            Ok(false) => return,
            Err(error) => Err(error),
        };
        match flushed {
            Ok(()) => {
                place.segment.zeros.add(from, to);
                self.shard.counters.count(|metrics| metrics.bytes_zeroed += to - from);
            }
            Err(error) => self.shard.fail(error),
        }
    }

    async fn write_zeros_in_parts(&self, place: &Place<I>, from: u64, to: u64) -> Result<bool, DiskError> {
        let mut at = from;
        while at < to {
            let bytes = usize::try_from(to - at).unwrap_or(usize::MAX).min(self.shard.config.write_bytes_max);
            let Some(memory) = self.shard.pool.try_take(&self.shard.io, &[bytes]) else { return Ok(false) };
            let (buffer, _paid) = memory.into_single();
            let written = place.file.write(at, Rc::new(buffer)).await;
            written.map_err(disk(DiskOperation::Write, place.segment.path()))?;
            at += bytes as u64;
        }
        Ok(true)
    }

    /// Removes the spare segments. What can't be removed is used when a segment is needed.
    pub(crate) async fn remove_spares(&self) {
        while let Some(spare) = self.spare_segment() {
            match crate::truncate::remove(&self.shard.io, spare.path()).await {
                Ok(()) => self.forget_spare(&spare),
                Err(error) => {
                    tracing::warn!(%error, "an idle partition keeps a spare segment");
                    return;
                }
            }
        }
    }

    /// Makes a segment without a name and gives it its first space.
    async fn make_next(&self) -> Result<(), DiskError> {
        let path = layout::next_segment(self.folder());
        let file = Rc::new(self.open_or_make(&path).await?);
        let unnamed = SegmentId(engine_record::Offset::MAX);
        let next: Rc<SegmentFile<I>> = SegmentFile::made(unnamed, path, Rc::clone(&file), Space::UNWRITTEN);
        let given = (&self.shard.io, &*self.shard.descriptors);
        next.allocate(given, &file, 1, self.allocation_steps()).await?;
        self.shard.descriptors.used(&next);
        self.state.borrow_mut().ahead.next = Some(next);
        Ok(())
    }
}

/// A new file, or the one that an earlier run has left.
async fn open_or_make<I: Io>(io: &I, path: &Path) -> io::Result<I::File> {
    match io.open(path, OpenMode::New).await {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => io.open(path, OpenMode::Existing).await,
        made => made,
    }
}
