//! The open descriptors of a shard's segments, the least recently used of them closed when they are too many.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::rc::{Rc, Weak};

use engine_io::{Io, is_no_descriptor};

use crate::segment_file::SegmentFile;

/// When something was used: larger is later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UseNumber(u64);

/// Which segments have descriptors open, in order of their last use.
pub(crate) struct Descriptors<I: Io> {
    idle_max: usize,
    next: Cell<u64>,
    open: RefCell<BTreeMap<UseNumber, Weak<SegmentFile<I>>>>,
}

impl<I: Io> Descriptors<I> {
    /// At most `idle_max` segments stay open that nothing uses.
    pub(crate) fn new(idle_max: usize) -> Self {
        Self { idle_max, next: Cell::new(0), open: RefCell::new(BTreeMap::new()) }
    }

    /// Notes that a descriptor of `segment` was used just now, and closes others if there are too many.
    pub(crate) fn used(&self, segment: &Rc<SegmentFile<I>>) {
        let number = UseNumber(self.next.get());
        self.next.set(number.0 + 1);
        let mut open = self.open.borrow_mut();
        if let Some(before) = segment.last_use.replace(Some(number)) {
            open.remove(&before);
        }
        open.insert(number, Rc::downgrade(segment));
        let mut surplus = open.len().saturating_sub(self.idle_max.max(1));
        if surplus == 0 {
            return;
        }
        open.retain(|used, segment| {
            let is_newest = *used == number;
            let closes =
                surplus > 0 && !is_newest && segment.upgrade().is_none_or(|segment| Self::close(&segment));
            surplus -= usize::from(closes);
            !closes
        });
    }

    /// Carries out what takes a descriptor; where there is none for it, files are closed that nothing uses, as many as it
    /// takes.
    pub(crate) async fn spare<T>(&self, io: &I, attempt: impl AsyncFn() -> io::Result<T>) -> io::Result<T> {
        /// A file that is closed is so in the shard's next turn.
        const PAUSE: Duration = Duration::from_millis(1);
        loop {
            match attempt().await {
                Err(error) if is_no_descriptor(error.raw_os_error()) && self.close_oldest() => {
                    io.sleep(PAUSE).await;
                }
                done => return done,
            }
        }
    }

    /// Closes the least recently used segment that nothing uses: a descriptor is wanted elsewhere. Whether there was one.
    pub(crate) fn close_oldest(&self) -> bool {
        let mut is_closed = false;
        self.open.borrow_mut().retain(|_, segment| {
            if is_closed {
                return true;
            }
            let segment = segment.upgrade();
            is_closed = segment.as_ref().is_some_and(|segment| Self::close(segment));
            segment.is_some() && !is_closed
        });
        is_closed
    }

    /// Closes what nothing uses of `segment`.
    pub(crate) fn close_idle(&self, segment: &Rc<SegmentFile<I>>) {
        let Some(number) = segment.last_use.get() else { return };
        if Self::close(segment) {
            self.open.borrow_mut().remove(&number);
        }
    }

    /// Notes that `segment` is no more, whoever has its descriptor now.
    pub(crate) fn forget(&self, segment: &SegmentFile<I>) {
        if let Some(number) = segment.last_use.take() {
            self.open.borrow_mut().remove(&number);
        }
    }

    fn close(segment: &SegmentFile<I>) -> bool {
        let is_closed = segment.close_idle();
        if is_closed {
            segment.last_use.set(None);
        }
        is_closed
    }

    /// How many segments have a descriptor open.
    pub(crate) fn open_count(&self) -> usize {
        self.open.borrow().len()
    }
}
