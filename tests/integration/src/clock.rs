//! The one file that reads a clock: clients of a real broker wait in real time.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long [`wait_until`] leaves the processor to others between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A point in time until which something must have happened.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
}

impl Deadline {
    /// The deadline this far from now.
    #[must_use]
    pub fn after(wait: Duration) -> Self {
        Self { at: now() + wait }
    }

    /// The deadline this many seconds from now.
    #[must_use]
    pub fn after_seconds(seconds: u64) -> Self {
        Self::after(Duration::from_secs(seconds))
    }

    /// What is left, zero once it has passed.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.at.saturating_duration_since(now())
    }

    /// Whether it has passed.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.remaining().is_zero()
    }
}

/// Time since a start.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    start: Instant,
}

impl Stopwatch {
    /// Starts.
    #[must_use]
    pub fn start() -> Self {
        Self { start: now() }
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        now().saturating_duration_since(self.start)
    }
}

/// Looks until `condition` holds. For what another process does and tells nobody.
///
/// # Panics
/// When it doesn't hold within `wait`; `what` says what was waited for.
pub fn wait_until(what: &str, wait: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Deadline::after(wait);
    while !condition() {
        assert!(!deadline.has_passed(), "waited {wait:?} in vain until {what}");
        pause(LOOK_EVERY);
    }
}

/// Gives the time away. For load that goes on for a while, and senders that are slow on purpose.
#[expect(clippy::disallowed_methods, reason = "a client outside the broker, with a thread of its own")]
pub fn pause(time: Duration) {
    thread::sleep(time);
}

/// Milliseconds since 1970.
///
/// # Panics
/// When the clock stands before 1970.
#[expect(clippy::disallowed_methods, reason = "clients stamp their records with the real time")]
#[must_use]
pub fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock stands after 1970");
    i64::try_from(since.as_millis()).expect("milliseconds since 1970 fit 63 bits")
}

#[expect(clippy::disallowed_methods, reason = "a real broker is waited for in real time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_of_nothing_has_passed() {
        assert!(Deadline::after(Duration::ZERO).has_passed());
        assert!(!Deadline::after_seconds(3600).has_passed());
    }

    #[test]
    #[should_panic(expected = "until pigs fly")]
    fn waiting_in_vain_says_for_what() {
        wait_until("pigs fly", Duration::ZERO, || false);
    }
}
