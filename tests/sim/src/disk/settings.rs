//! How fast a disk is, and how it fails.

use core::ops::RangeInclusive;
use core::time::Duration;
use std::io;
use std::path::Path;

/// The system's number for a device error (EIO).
const DEVICE_ERROR: i32 = 5;
/// The system's number for a process with too many open files (EMFILE).
const NO_DESCRIPTOR: i32 = 24;

/// How long operations take; each draws from its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskLatency {
    /// A direct read, and bringing a range into the page cache.
    pub read: RangeInclusive<Duration>,
    /// A direct write.
    pub write: RangeInclusive<Duration>,
    /// A flush of a file or folder.
    pub flush: RangeInclusive<Duration>,
    /// Anything else: opening, allocating, renaming, removing.
    pub metadata: RangeInclusive<Duration>,
}

impl Default for DiskLatency {
    fn default() -> Self {
        let micros = |first, last| Duration::from_micros(first)..=Duration::from_micros(last);
        Self {
            read: micros(60, 400),
            write: micros(40, 400),
            flush: micros(70, 2_000),
            metadata: micros(10, 200),
        }
    }
}

/// Whether flushes of the file at a path fail.
type FlushFault = Box<dyn Fn(&Path) -> bool>;

/// Whether an operation on a path gets no descriptor.
type DescriptorFault = Box<dyn FnMut(&Path) -> bool>;

/// What goes wrong, and when.
#[derive(Default)]
pub(crate) struct DiskFaults {
    flush_fails: bool,
    flushes: Option<FlushFault>,
    writes: Option<WriteFault>,
    descriptors: Option<DescriptorFault>,
}

struct WriteFault {
    is_hit: Box<dyn Fn(&Path) -> bool>,
    /// How many writes still succeed.
    left: u64,
}

impl DiskFaults {
    /// Lets the next flush of a file fail.
    pub(crate) const fn fail_next_flush(&mut self) {
        self.flush_fails = true;
    }

    /// Lets all flushes of the files that `is_hit` picks fail.
    pub(crate) fn fail_flushes(&mut self, is_hit: FlushFault) {
        self.flushes = Some(is_hit);
    }

    /// Lets writes of the files that `is_hit` picks fail, after the first `after` of them.
    pub(crate) fn fail_writes(&mut self, is_hit: Box<dyn Fn(&Path) -> bool>, after: u64) {
        self.writes = Some(WriteFault { is_hit, left: after });
    }

    /// Lets operations fail that need a descriptor, where `is_hit` picks their path.
    pub(crate) fn refuse_descriptors(&mut self, is_hit: DescriptorFault) {
        self.descriptors = Some(is_hit);
    }

    /// A descriptor for an operation on the path.
    pub(crate) fn take_descriptor(&mut self, path: &Path) -> io::Result<()> {
        let is_refused = self.descriptors.as_mut().is_some_and(|is_hit| is_hit(path));
        if is_refused { Err(io::Error::from_raw_os_error(NO_DESCRIPTOR)) } else { Ok(()) }
    }

    /// Whether this flush of the file fails. Asking uses up the fault of the next one.
    pub(crate) fn flush_fails(&mut self, path: &Path) -> bool {
        let is_next = core::mem::replace(&mut self.flush_fails, false);
        is_next || self.flushes.as_ref().is_some_and(|is_hit| is_hit(path))
    }

    /// Whether this write of the file fails. Asking counts it.
    pub(crate) fn write_fails(&mut self, path: &Path) -> bool {
        let Some(fault) = self.writes.as_mut().filter(|fault| (fault.is_hit)(path)) else { return false };
        let fails = fault.left == 0;
        fault.left = fault.left.saturating_sub(1);
        fails
    }
}

/// What the system says where a device fails.
pub(crate) fn device_error() -> io::Error {
    io::Error::from_raw_os_error(DEVICE_ERROR)
}
