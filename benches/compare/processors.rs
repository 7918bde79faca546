//! Which processors are measured: one for the shard or whoever stands in its place, one for the client.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::CompareError;

/// Two of the processors this process may use; one and the same where there is only one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processors {
    /// The shard's, and of whoever sends in its place.
    pub(crate) server: usize,
    /// The client's, and of whoever receives in its place.
    pub(crate) client: usize,
}

impl Processors {
    /// The first and the last that may be used.
    pub(crate) fn choose() -> Result<Self, CompareError> {
        let allowed = sched_getaffinity(None).map_err(std::io::Error::from)?;
        let mut usable = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let server = usable.next().unwrap_or(0);
        Ok(Self { server, client: usable.next_back().unwrap_or(server) })
    }
}

/// Keeps this thread on one processor for as long as it lives.
pub(crate) struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Pins the thread.
    pub(crate) fn to(cpu: usize) -> Result<Self, CompareError> {
        let before = sched_getaffinity(None).map_err(std::io::Error::from)?;
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).map_err(std::io::Error::from)?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // A thread that may run on fewer processors than before still does its work.
        let _still_pinned = sched_setaffinity(None, &self.before);
    }
}
