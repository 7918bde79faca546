//! The test's hand on a disk.

use std::io;
use std::path::Path;
use std::rc::Rc;

use super::DiskLatency;
use crate::executor::Core;

/// A machine's disk, seen from outside: to make it fail, and to look at what it holds.
#[derive(Clone)]
pub struct SimDisk {
    core: Rc<Core>,
    machine: usize,
}

impl SimDisk {
    pub(crate) const fn new(core: Rc<Core>, machine: usize) -> Self {
        Self { core, machine }
    }

    /// Sets how long operations take from now on.
    pub fn set_latency(&self, latency: DiskLatency) {
        self.with(|disk| disk.latency = latency);
    }

    /// Sets how many bytes all files together may take. It may be less than they take now.
    pub fn set_capacity(&self, bytes: u64) {
        self.with(|disk| disk.capacity_bytes = bytes);
    }

    /// Lets a flush of one file also cover what had been written to others, where that lies in blocks that were durably
    /// written before. So do file systems that send the device a flush and nothing else. Without this call a flush
    /// covers its own file only.
    pub fn flush_covers_device(&self) {
        self.with(|disk| disk.flush_covers_device = true);
    }

    /// How many bytes of space the files take, those included that are removed and still open.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.with(|disk| disk.used_bytes())
    }

    /// Lets the next flush of a file that ends fail. Chance decides what it made durable.
    pub fn fail_next_flush(&self) {
        self.with(|disk| disk.faults.fail_next_flush());
    }

    /// Lets all flushes fail of files whose path `is_hit` picks. Replaces an earlier call. Chance decides what they make
    /// durable.
    pub fn fail_flushes(&self, is_hit: impl Fn(&Path) -> bool + 'static) {
        self.with(|disk| disk.faults.fail_flushes(Box::new(is_hit)));
    }

    /// Lets all writes fail to files whose path `is_hit` picks, after the first `after` of them. Replaces an earlier
    /// call. A small file replaced at once counts as one write of the path it will have.
    pub fn fail_writes(&self, is_hit: impl Fn(&Path) -> bool + 'static, after: u64) {
        self.with(|disk| disk.faults.fail_writes(Box::new(is_hit), after));
    }

    /// Lets operations fail that need a descriptor of their own and whose path `is_hit` picks, as where the process may
    /// have no more files open (`EMFILE`). They change nothing. Replaces an earlier call.
    pub fn refuse_descriptors(&self, is_hit: impl FnMut(&Path) -> bool + 'static) {
        self.with(|disk| disk.faults.refuse_descriptors(Box::new(is_hit)));
    }

    /// Takes all faults back.
    pub fn heal(&self) {
        self.with(|disk| disk.faults = super::DiskFaults::default());
    }

    /// Flips a bit of the byte at `position` at rest. Past the end of the file it does nothing.
    ///
    /// # Errors
    /// Where the path is no file.
    pub fn flip_bit(&self, path: impl AsRef<Path>, position: u64) -> io::Result<()> {
        self.with(|disk| disk.flip_bit(path.as_ref(), position))
    }

    /// What the file holds; `None` where there is none.
    #[must_use]
    pub fn live(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.with(|disk| disk.live_content(path.as_ref()))
    }

    /// What the file would hold after a crash now that loses all that wasn't flushed; `None` where it would be gone.
    #[must_use]
    pub fn durable(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.with(|disk| disk.durable_content(path.as_ref()))
    }

    fn with<T>(&self, change: impl FnOnce(&mut super::Disk) -> T) -> T {
        self.core.world(|world| change(&mut world.machines[self.machine].disk))
    }
}
