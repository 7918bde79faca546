//! A segment's file: its descriptors, its space on disk, and who still needs it.

use core::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use engine_io::{BLOCK_BYTES, DirectFile, Io, OpenMode, Signal};
use engine_log::SegmentId;

use crate::descriptors::{Descriptors, UseNumber};
use crate::error::{DiskError, DiskOperation, disk};
use crate::permits::{Permit, Permits};
use crate::read::unreadable::UnreadableCause;
use crate::zeros::Zeros;

/// One segment's file. Its descriptors are opened when needed and may be closed whenever nothing uses them.
pub(crate) struct SegmentFile<I: Io> {
    id: SegmentId,
    path: PathBuf,
    direct: RefCell<Option<Rc<I::File>>>,
    send: RefCell<Option<I::SendFile>>,
    /// When a descriptor was last used; `None` while none is open.
    pub(crate) last_use: Cell<Option<UseNumber>>,
    /// One at a time opens descriptors.
    opening: Permits,
    /// One at a time gives the file space.
    allocating: Permits,
    space: Cell<Space>,
    /// Space written ahead.
    pub(crate) zeros: Zeros,
    /// Below it every byte has been written; the rest of the last block with it.
    written: Cell<u32>,
    /// Whether the folder's entry for it is durable.
    entry_durable: Cell<bool>,
    readers: Cell<usize>,
    reader_left: Signal,
    is_reading_ahead: Cell<bool>,
    /// Why it couldn't be read, each told once.
    unreadable: RefCell<Vec<UnreadableCause>>,
}

/// What is known of a file's space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    /// Below it the file has space; `None` until the file's size is asked for.
    allocated: Option<u64>,
    /// Below it the space has been written and flushed before: writing it again changes nothing but data.
    settled: u64,
    /// The last step of allocation, in bytes; 0 before the first.
    step: u32,
}

/// How a segment is given space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    /// The first step and the largest, in bytes.
    pub(crate) min: u32,
    pub(crate) max: u32,
    /// Where no more is needed: the segment will be rolled.
    pub(crate) limit: u32,
}

impl<I: Io> SegmentFile<I> {
    /// A file that exists, its first `written` bytes written and flushed.
    pub(crate) fn existing(id: SegmentId, path: PathBuf, written: u32) -> Rc<Self> {
        let space = Space { allocated: None, settled: u64::from(written), step: 0 };
        let file = Self::new(id, path, None, space, true);
        file.written.set(written);
        Rc::new(file)
    }

    /// A file just made, of which the folder doesn't durably know yet.
    pub(crate) fn made(id: SegmentId, path: PathBuf, file: Rc<I::File>, space: Space) -> Rc<Self> {
        Rc::new(Self::new(id, path, Some(file), space, false))
    }

    fn new(
        id: SegmentId,
        path: PathBuf,
        file: Option<Rc<I::File>>,
        space: Space,
        entry_durable: bool,
    ) -> Self {
        Self {
            id,
            path,
            direct: RefCell::new(file),
            send: RefCell::new(None),
            last_use: Cell::new(None),
            opening: Permits::new(1),
            allocating: Permits::new(1),
            space: Cell::new(space),
            zeros: Zeros::default(),
            written: Cell::new(0),
            entry_durable: Cell::new(entry_durable),
            readers: Cell::new(0),
            reader_left: Signal::new(),
            is_reading_ahead: Cell::new(false),
            unreadable: RefCell::default(),
        }
    }

    pub(crate) fn id(&self) -> SegmentId {
        self.id
    }

    pub(crate) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// The direct descriptor, opened where it isn't.
    pub(crate) async fn direct(
        self: &Rc<Self>,
        io: &I,
        open: &Descriptors<I>,
    ) -> Result<Rc<I::File>, DiskError> {
        let _one_opens = acquire(&self.opening).await;
        let known = self.direct.borrow().clone();
        let file = match known {
            Some(file) => file,
            None => {
                let opened = open.spare(io, async || io.open(&self.path, OpenMode::Existing).await).await;
                Rc::new(opened.map_err(disk(DiskOperation::Open, &self.path))?)
            }
        };
        *self.direct.borrow_mut() = Some(Rc::clone(&file));
        open.used(self);
        Ok(file)
    }

    /// The direct descriptor where it is open.
    pub(crate) fn open_direct(&self) -> Option<Rc<I::File>> {
        self.direct.borrow().clone()
    }

    /// The descriptor for sending, opened where it isn't.
    pub(crate) async fn send(
        self: &Rc<Self>,
        io: &I,
        open: &Descriptors<I>,
    ) -> Result<I::SendFile, DiskError> {
        let _one_opens = acquire(&self.opening).await;
        let known = self.send.borrow().clone();
        let file = match known {
            Some(file) => file,
            None => {
                let opened = open.spare(io, async || io.open_send_file(&self.path).await).await;
                opened.map_err(disk(DiskOperation::Open, &self.path))?
            }
        };
        *self.send.borrow_mut() = Some(file.clone());
        open.used(self);
        Ok(file)
    }

    /// Closes what nothing uses; whether nothing is open any more.
    pub(crate) fn close_idle(&self) -> bool {
        self.send.replace(None);
        let mut direct = self.direct.borrow_mut();
        if direct.as_ref().is_some_and(|file| Rc::strong_count(file) == 1) {
            *direct = None;
        }
        direct.is_none()
    }

    /// Gives the file space up to `end`, in steps; resolves at once where it has it.
    ///
    /// # Errors
    /// No space, or as the system says. What is known of the space stays true.
    pub(crate) async fn allocate(
        &self,
        (io, open): (&I, &Descriptors<I>),
        file: &I::File,
        end: u64,
        steps: Steps,
    ) -> Result<(), DiskError> {
        let _one_allocates = acquire(&self.allocating).await;
        let mut allocated = self.allocated((io, open), file).await?;
        while allocated < end {
            let step = self.next_step(allocated, end, steps);
            let given = open.spare(io, async || file.allocate(allocated, step).await).await;
            given.map_err(disk(DiskOperation::Allocate, &self.path))?;
            allocated += step;
            let step = u32::try_from(step).unwrap_or(u32::MAX);
            self.space.set(Space { allocated: Some(allocated), step, ..self.space.get() });
        }
        Ok(())
    }

    /// Twice the last step within bounds, no further than the segment will go, but never short of what is needed.
    fn next_step(&self, allocated: u64, end: u64, steps: Steps) -> u64 {
        let doubled = self.space.get().step.saturating_mul(2).clamp(steps.min, steps.max);
        let limit = u64::from(steps.limit).next_multiple_of(BLOCK_BYTES as u64);
        let to = (allocated + u64::from(doubled)).min(limit).max(end.next_multiple_of(BLOCK_BYTES as u64));
        to - allocated
    }

    /// A file has space as far as it is long, once the holes are filled that a copy may have left.
    async fn allocated(&self, (io, open): (&I, &Descriptors<I>), file: &I::File) -> Result<u64, DiskError> {
        if let Some(allocated) = self.space.get().allocated {
            return Ok(allocated);
        }
        let size = file.size().await.map_err(disk(DiskOperation::Open, &self.path))?;
        let allocated = size - size % BLOCK_BYTES as u64;
        if allocated > 0 {
            let filled = open.spare(io, async || file.allocate(0, allocated).await).await;
            filled.map_err(disk(DiskOperation::Allocate, &self.path))?;
        }
        self.space.set(Space { allocated: Some(allocated), ..self.space.get() });
        Ok(allocated)
    }

    /// Whether there is space up to `end` for sure.
    pub(crate) fn has_space(&self, end: u64) -> bool {
        self.space.get().allocated.is_some_and(|allocated| end <= allocated)
    }

    /// Up to where space is worth preparing while appends end at `end`: once they have used half of the last step,
    /// one step more, unless the segment has all it can use.
    pub(crate) fn next_target(&self, end: u64, limit: u32) -> Option<u64> {
        let Space { allocated, step, .. } = self.space.get();
        let has = allocated?;
        let is_due = has < u64::from(limit) && has.saturating_sub(end) < u64::from(step / 2);
        if is_due { Some(has + 1) } else { None }
    }

    /// Whether a write of whole blocks from `start` to `end` reaches space that was never written and flushed.
    pub(crate) fn is_fresh(&self, start: u64, end: u64) -> bool {
        let settled = self.space.get().settled;
        end > settled && !self.zeros.cover(start, end, settled)
    }

    /// Notes that everything below `end` was written, and flushed by a flush of this file.
    pub(crate) fn settle(&self, end: u64) {
        let space = self.space.get();
        let settled = self.zeros.extend(space.settled.max(end));
        self.space.set(Space { settled, ..space });
    }

    /// Where zeros are worth writing, `step` bytes of them, for appends that end at `end`: once less than half a step
    /// lies ready ahead of them. Only where there is space.
    pub(crate) fn next_zeros(&self, end: u64, step: u64) -> Option<(u64, u64)> {
        let allocated = self.space.get().allocated?;
        if self.zeros.end() >= end + step / 2 {
            return None;
        }
        let from = end.next_multiple_of(BLOCK_BYTES as u64).max(self.zeros.end());
        let to = (from + step).min(allocated);
        if from < to { Some((from, to)) } else { None }
    }

    /// Notes that the file was cut to `size` bytes, of which the first `written` are written and flushed.
    pub(crate) fn cut(&self, size: u64, written: u32) {
        let allocated = Some(size - size % BLOCK_BYTES as u64);
        self.space.set(Space { allocated, settled: u64::from(written), step: 0 });
        self.zeros.clear();
        self.written.set(written);
    }

    /// Below it every byte has been written.
    pub(crate) fn written(&self) -> u32 {
        self.written.get()
    }

    /// Notes that everything below `end` has been written.
    pub(crate) fn complete_write(&self, end: u32) {
        self.written.set(self.written.get().max(end));
    }

    pub(crate) fn space(&self) -> Space {
        self.space.get()
    }

    pub(crate) fn is_entry_durable(&self) -> bool {
        self.entry_durable.get()
    }

    pub(crate) fn set_entry_durable(&self) {
        self.entry_durable.set(true);
    }

    /// Keeps the file from being cut or removed.
    pub(crate) fn hold(self: &Rc<Self>) -> SegmentHold<I> {
        self.readers.set(self.readers.get() + 1);
        SegmentHold { segment: Rc::clone(self) }
    }

    /// Notes why it can't be read; whether that is new.
    pub(crate) fn note_unreadable(&self, cause: UnreadableCause) -> bool {
        let mut known = self.unreadable.borrow_mut();
        let is_new = !known.contains(&cause);
        if is_new {
            known.push(cause);
        }
        is_new
    }

    pub(crate) fn is_reading_ahead(&self) -> bool {
        self.is_reading_ahead.get()
    }

    /// Keeps others from reading ahead in the file at the same time, and the file as it is.
    pub(crate) fn hold_reading_ahead(self: &Rc<Self>) -> ReadingAhead<I> {
        self.is_reading_ahead.set(true);
        ReadingAhead { hold: self.hold() }
    }

    /// Whether anybody holds the file.
    pub(crate) fn is_held(&self) -> bool {
        self.readers.get() > 0
    }

    /// Resolves when nobody holds the file.
    pub(crate) async fn unheld(&self) {
        loop {
            let left = self.reader_left.wait();
            if self.readers.get() == 0 {
                return;
            }
            left.await;
        }
    }
}

/// The permits of a segment are never closed.
async fn acquire(permits: &Permits) -> Permit {
    permits.acquire(1).await.expect("a segment's locks are never closed")
}

impl Space {
    /// Of a file never written.
    pub(crate) const UNWRITTEN: Self = Self { allocated: None, settled: 0, step: 0 };
}

/// A reader's hold on a segment's file: while it lives, the bytes stay where they are.
pub(crate) struct SegmentHold<I: Io> {
    segment: Rc<SegmentFile<I>>,
}

impl<I: Io> Drop for SegmentHold<I> {
    fn drop(&mut self) {
        self.segment.readers.set(self.segment.readers.get() - 1);
        self.segment.reader_left.notify();
    }
}

/// A read ahead under way.
pub(crate) struct ReadingAhead<I: Io> {
    hold: SegmentHold<I>,
}

impl<I: Io> Drop for ReadingAhead<I> {
    fn drop(&mut self) {
        self.hold.segment.is_reading_ahead.set(false);
    }
}
