//! When records are due, whatever the broker does.
//!
//! A generator that sends its next record when the last one is answered measures a slow broker gently: it doesn't send
//! while it waits, so what would have been slow isn't there. Here the times are fixed in advance, and a record's latency
//! counts from its time, also when it was sent late.

use core::time::Duration;

use engine_record::Instant;

/// A constant rate.
#[derive(Clone, Debug)]
pub struct Schedule {
    start: Instant,
    records_per_second: u64,
    sent: u64,
}

impl Schedule {
    /// Record `n` is due `n / records_per_second` seconds after `start`. `records_per_second` is at least 1.
    #[must_use]
    pub const fn new(start: Instant, records_per_second: u64) -> Self {
        Self { start, records_per_second, sent: 0 }
    }

    fn due_at(&self, record: u64) -> Instant {
        let nanoseconds = u128::from(record) * 1_000_000_000 / u128::from(self.records_per_second);
        self.start.after(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)))
    }

    /// The next record, if it is due: its time. It counts as sent.
    pub fn take_due(&mut self, now: Instant) -> Option<Instant> {
        let due = self.due_at(self.sent);
        let is_due = due <= now;
        self.sent += u64::from(is_due);
        is_due.then_some(due)
    }

    /// How many records that aren't sent yet are due from `from` on and before `until`.
    #[must_use]
    pub fn left_between(&self, from: Instant, until: Instant) -> u64 {
        let first_left = |at: Instant| self.first_due_from(at).max(self.sent);
        first_left(until).saturating_sub(first_left(from))
    }

    /// The first record that isn't due before `at`.
    fn first_due_from(&self, at: Instant) -> u64 {
        let record = at.since(self.start).as_nanos() * u128::from(self.records_per_second);
        u64::try_from(record.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
    }

    /// When the next record is due.
    #[must_use]
    pub fn next_at(&self) -> Instant {
        self.due_at(self.sent)
    }
}

/// How late records were sent, and where the time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// The most a record was sent after its time.
    pub worst: Duration,
    /// Records sent later than allowed.
    pub late_records: u64,
    /// How long producers waited because the broker hadn't answered for earlier records.
    pub blocked: Duration,
}

impl Lateness {
    /// Notes that so many records, of which the earliest was due at `due`, were sent at `now`.
    pub fn note(&mut self, due: Instant, now: Instant, records: u64, allowed: Duration) {
        let late = now.since(due);
        self.worst = self.worst.max(late);
        self.late_records += if late > allowed { records } else { 0 };
    }

    /// Puts two together.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        Self {
            worst: self.worst.max(other.worst),
            late_records: self.late_records + other.late_records,
            blocked: self.blocked + other.blocked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_due_evenly_and_none_is_skipped_after_a_stall() {
        let start = Instant::from_nanos(500);
        let mut schedule = Schedule::new(start, 3);
        assert_eq!(schedule.take_due(start), Some(start));
        assert_eq!(schedule.take_due(start), None);
        assert_eq!(schedule.next_at(), Instant::from_nanos(500 + 333_333_333));
        let late = start.after(Duration::from_secs(2));
        let due: Vec<_> = core::iter::from_fn(|| schedule.take_due(late)).collect();
        assert_eq!(due.len(), 6);
        assert_eq!(*due.last().unwrap(), late, "no error adds up");
    }

    #[test]
    fn what_is_left_is_what_would_have_been_taken() {
        let start = Instant::from_nanos(500);
        let at = |ms| start.after(Duration::from_millis(ms));
        let mut schedule = Schedule::new(start, 7);
        while schedule.take_due(at(1_000)).is_some() {}
        let mut taken = schedule.clone();
        for (from, until) in [(0, 500), (0, 3_000), (2_000, 3_000), (2_500, 2_500), (3_000, 2_000)] {
            let left = schedule.left_between(at(from), at(until));
            let due = core::iter::from_fn(|| taken.take_due(at(5_000)));
            let within = due.filter(|due| (at(from)..at(until)).contains(due)).count();
            assert_eq!(left, within as u64, "{from} to {until}");
            taken = schedule.clone();
        }
        assert_eq!(Schedule::new(start, 1_000).left_between(at(0), at(1_000)), 1_000);
    }

    #[test]
    fn lateness_counts_only_what_is_beyond_the_limit() {
        let mut lateness = Lateness::default();
        let at = |ms| Instant::ZERO.after(Duration::from_millis(ms));
        lateness.note(at(10), at(12), 5, Duration::from_millis(2));
        assert_eq!(lateness.late_records, 0);
        lateness.note(at(10), at(13), 5, Duration::from_millis(2));
        assert_eq!((lateness.late_records, lateness.worst), (5, Duration::from_millis(3)));
    }
}
