//! Segments to come: made ready while the appends go on, so that a roll is a rename.

use std::io;
use std::path::Path;
use std::rc::Rc;

use engine_io::{Io, OpenMode};
use engine_log::SegmentId;

use crate::chunk::Place;
use crate::error::{AppendError, DiskError, DiskOperation};
use crate::layout;
use crate::partition::Partition;
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
    Space(Place<I>, u64),
    NextSegment,
}

impl<I: Io> Partition<I> {
    /// How this log's segments are given space.
    pub(crate) fn allocation_steps(&self) -> Steps {
        let config = &self.shard.config;
        let limit = self.state.borrow().log.config().segment_bytes;
        Steps { min: config.allocation_bytes_min, max: config.allocation_bytes_max, limit }
    }

    /// Makes the file of the segment `id`, of the one made ready where there is one.
    ///
    /// Dropped at any point it can be called again: what it finds done it takes over.
    pub(crate) async fn add_segment(self: &Rc<Self>, id: SegmentId) -> Result<(), AppendError> {
        let path = layout::segment(self.folder(), id.0);
        let next = self.state.borrow().ahead.next.clone();
        let (file, space) = match next {
            Some(next) => {
                self.rename_next(&path).await?;
                (next.open_direct(), next.space())
            }
            None => (None, Space::UNWRITTEN),
        };
        let file = match file {
            Some(file) => file,
            None => {
                Rc::new(open_or_make(&self.shard.io, &path).await.map_err(|error| self.refuse_open(error))?)
            }
        };
        let segment = SegmentFile::made(id, path, file, space);
        self.shard.descriptors.used(&segment);
        let mut state = self.state.borrow_mut();
        state.ahead.next = None;
        state.segments.insert(id, segment);
        Ok(())
    }

    /// Gives the segment made ready its name. A rename that finds nothing was done by a call that was dropped.
    async fn rename_next(&self, path: &Path) -> Result<(), AppendError> {
        match self.shard.io.rename(&layout::next_segment(self.folder()), path).await {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.refuse_or_fail(DiskError::new(DiskOperation::Folder, path, &error))),
        }
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
            let prepared = match preparation {
                Preparation::Space(place, end) => {
                    place.segment.allocate(&place.file, end, partition.allocation_steps()).await
                }
                Preparation::NextSegment => partition.make_next().await,
            };
            partition.state.borrow_mut().ahead.is_preparing = false;
            if let Err(error) = prepared {
                tracing::warn!(%error, partition = %partition.at, "preparing space ahead failed; appends will try again");
            }
            drop(work);
        });
    }

    fn worth_preparing(&self, place: &Place<I>) -> Option<Preparation<I>> {
        let mut state = self.state.borrow_mut();
        if state.ahead.is_preparing {
            return None;
        }
        let end = u64::from(crate::partition::end_position(&state.log));
        let limit = state.log.config().segment_bytes;
        let preparation = if let Some(target) = place.segment.next_target(end, limit) {
            let Place { segment, file, position } = place;
            let place = Place { segment: Rc::clone(segment), file: Rc::clone(file), position: *position };
            Preparation::Space(place, target)
        } else if end > u64::from(limit) / 4 * 3 && state.ahead.next.is_none() {
            Preparation::NextSegment
        } else {
            return None;
        };
        state.ahead.is_preparing = true;
        Some(preparation)
    }

    /// Removes the segment made ready. What can't be removed is used when a segment is needed.
    pub(crate) async fn remove_next(&self) {
        if self.state.borrow().ahead.next.is_none() {
            return;
        }
        let path = layout::next_segment(self.folder());
        match crate::truncate::remove(&self.shard.io, &path).await {
            Ok(()) => self.state.borrow_mut().ahead.next = None,
            Err(error) => tracing::warn!(%error, "an idle partition keeps the segment made ready"),
        }
    }

    /// Makes a segment without a name and gives it its first space.
    async fn make_next(&self) -> Result<(), DiskError> {
        let path = layout::next_segment(self.folder());
        let file = Rc::new(open_or_make(&self.shard.io, &path).await?);
        let unnamed = SegmentId(engine_record::Offset::MAX);
        let next: Rc<SegmentFile<I>> = SegmentFile::made(unnamed, path, Rc::clone(&file), Space::UNWRITTEN);
        next.allocate(&file, 1, self.allocation_steps()).await?;
        self.state.borrow_mut().ahead.next = Some(next);
        Ok(())
    }
}

/// A new file, or the one that a dropped call has left.
async fn open_or_make<I: Io>(io: &I, path: &Path) -> Result<I::File, DiskError> {
    let error = match io.open(path, OpenMode::New).await {
        Ok(file) => return Ok(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => io.open(path, OpenMode::Existing).await,
        Err(error) => Err(error),
    };
    error.map_err(|error| DiskError::new(DiskOperation::Open, path, &error))
}
