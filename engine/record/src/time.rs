//! Time as values. Whoever needs to know the time is told it.

use core::fmt;
use core::time::Duration;

/// A moment on a shard's monotonic clock: nanoseconds since an origin that only that process knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock.
    pub const ZERO: Self = Self(0);

    /// The moment `nanoseconds` after the origin.
    #[must_use]
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The moment `duration` later; the end of time where that overflows (584 years).
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was; zero where it lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A record's time: milliseconds since the Unix epoch. -1 stands for "none" on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// What the protocol carries where there is no timestamp.
    pub const NONE: Self = Self(-1);
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_below_zero_or_past_its_end() {
        let start = Instant::from_nanos(5);
        assert_eq!(start.since(Instant::from_nanos(9)), Duration::ZERO);
        assert_eq!(start.after(Duration::MAX), Instant::from_nanos(u64::MAX));
        assert_eq!(start.after(Duration::from_nanos(3)).since(start), Duration::from_nanos(3));
    }
}
