//! The one file that reads a clock: what is measured here are real programs in real time.

use std::thread;
use std::time::{Duration, Instant};

/// Time since a start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    start: Instant,
}

impl Stopwatch {
    /// Starts.
    #[expect(clippy::disallowed_methods, reason = "real programs are timed in real time")]
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Waits, for what another process does in its own time.
#[expect(clippy::disallowed_methods, reason = "nothing here runs on a shard")]
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}
