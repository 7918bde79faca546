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

/// How long one producer waited for the broker, and how much of that still makes its records late.
///
/// A wait makes more records late than those that were due during it: all that are sent until what piled up is worked
/// off. So it counts on, up to the lateness of what is made next, and is forgotten as that shrinks. Whatever lateness
/// there is beyond it is the generator's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waits {
    /// In all.
    waited: Duration,
    /// How much of that makes nothing late any more.
    worked_off: Duration,
}

/// Where a producer's waits stood when a batch was begun.
#[derive(Clone, Copy, Debug)]
pub struct WaitMark {
    worked_off: Duration,
}

impl Waits {
    /// The producer waited for the broker for so long.
    pub fn add(&mut self, waited: Duration) {
        self.waited += waited;
    }

    /// A record is made, so long after its time. Records are made in the order they are due, so what waits made late by
    /// more than this is sent.
    pub fn mark(&mut self, late: Duration) -> WaitMark {
        self.worked_off = self.worked_off.max(self.waited.saturating_sub(late));
        WaitMark { worked_off: self.worked_off }
    }

    /// How much later than its time the broker let the record be that was made at `mark`.
    #[must_use]
    pub fn since(&self, mark: WaitMark) -> Duration {
        self.waited.saturating_sub(mark.worked_off)
    }
}

/// How late records were sent, and where the time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// The most a record was sent after its time.
    pub worst: Duration,
    /// Records sent later than allowed.
    pub late_records: u64,
    /// The most a record was late without the waits for the broker.
    pub own_worst: Duration,
    /// Records that were later than allowed without the waits for the broker, or never sent because of that.
    pub own_late_records: u64,
}

impl Lateness {
    /// Notes that so many records were sent, the earliest so `late`, of which the broker kept the producer `waiting`.
    pub fn note(&mut self, late: Duration, waiting: Duration, records: u64, allowed: Duration) {
        let own = self.note_worst(late, waiting);
        self.late_records += if late > allowed { records } else { 0 };
        self.own_late_records += if own > allowed { records } else { 0 };
    }

    /// Notes that so many records are never sent, the earliest being so `late` already; see [`Lateness::note`].
    pub fn note_never_sent(&mut self, late: Duration, waiting: Duration, records: u64, allowed: Duration) {
        let own = self.note_worst(late, waiting);
        self.own_late_records += if own > allowed { records } else { 0 };
    }

    /// Answers what of it is the generator's own.
    fn note_worst(&mut self, late: Duration, waiting: Duration) -> Duration {
        let own = late.saturating_sub(waiting);
        self.worst = self.worst.max(late);
        self.own_worst = self.own_worst.max(own);
        own
    }

    /// Puts two together.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        Self {
            worst: self.worst.max(other.worst),
            late_records: self.late_records + other.late_records,
            own_worst: self.own_worst.max(other.own_worst),
            own_late_records: self.own_late_records + other.own_late_records,
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
        let ms = Duration::from_millis;
        lateness.note(ms(2), ms(0), 5, ms(2));
        assert_eq!(lateness.late_records, 0);
        lateness.note(ms(3), ms(1), 5, ms(2));
        assert_eq!((lateness.late_records, lateness.worst), (5, ms(3)));
        assert_eq!((lateness.own_late_records, lateness.own_worst), (0, ms(2)));
        lateness.note(ms(4), ms(1), 5, ms(2));
        assert_eq!((lateness.own_late_records, lateness.own_worst), (5, ms(3)));
    }

    #[test]
    fn a_wait_counts_until_what_it_made_late_is_worked_off() {
        let (mut waits, ms) = (Waits::default(), Duration::from_millis);
        let before = waits.mark(ms(0));
        waits.add(ms(3_000));
        assert_eq!(waits.since(before), ms(3_000), "what was begun before it");
        for (late, waiting) in [(3_500, 3_000), (2_000, 2_000), (2_400, 2_000), (1, 1), (900, 1), (0, 0)] {
            let mark = waits.mark(ms(late));
            assert_eq!(waits.since(mark), ms(waiting), "{late} ms late");
        }
        let mark = waits.mark(ms(5));
        waits.add(ms(70));
        assert_eq!(waits.since(mark), ms(70), "a later wait is told from the first");
    }
    /// From when to when someone stands still, in milliseconds after the start.
    type Stall = core::ops::Range<u64>;

    /// How late ten seconds of a thousand records each are where the broker takes none for a while, or the generator gets
    /// no processor. It is busy seven tenths of the time otherwise, so working off what piled up takes longer than a stall.
    fn lateness_after(broker: Stall, generator: Stall) -> Lateness {
        let at = |ms| Instant::ZERO.after(Duration::from_millis(ms));
        let end = |stall: &Stall, now| (at(stall.start)..at(stall.end)).contains(&now).then(|| at(stall.end));
        let (mut schedule, mut waits) = (Schedule::new(at(0), 1_000), Waits::default());
        let (mut lateness, mut now) = (Lateness::default(), at(0));
        while schedule.next_at() < at(10_000) {
            now = now.max(schedule.next_at());
            now = end(&generator, now).unwrap_or(now);
            let due = schedule.take_due(now).unwrap();
            let mark = waits.mark(now.since(due));
            if let Some(taken) = end(&broker, now) {
                waits.add(taken.since(now));
                now = taken;
            }
            lateness.note(now.since(due), waits.since(mark), 1, Duration::from_millis(10));
            now = now.after(Duration::from_micros(700));
        }
        lateness
    }

    #[test]
    fn what_a_broker_s_stall_makes_late_is_not_the_generator_s_doing() {
        let lateness = lateness_after(2_000..5_000, 0..0);
        assert_eq!(lateness.worst, Duration::from_secs(3));
        assert!(lateness.late_records > 6_000, "also what comes until all is worked off: {lateness:?}");
        assert_eq!((lateness.own_late_records, lateness.own_worst), (0, Duration::ZERO));
    }

    #[test]
    fn what_a_generator_without_processor_makes_late_is_its_own_doing() {
        let lateness = lateness_after(0..0, 2_000..5_000);
        assert_eq!(lateness.own_worst, Duration::from_secs(3));
        assert!(lateness.late_records > 6_000, "{lateness:?}");
        assert_eq!(lateness.own_late_records, lateness.late_records);
    }

    #[test]
    fn of_what_both_make_late_each_has_its_part() {
        let second = Duration::from_secs(1);
        for (broker, generator) in [(2_000..5_000, 6_000..7_000), (3_000..6_000, 1_000..2_000)] {
            let lateness = lateness_after(broker, generator);
            // A record's own time is the grain of it.
            assert!(lateness.own_worst.abs_diff(second) < Duration::from_millis(1), "{lateness:?}");
            assert!(lateness.worst > second * 3, "{lateness:?}");
            let own = lateness.own_late_records;
            assert!(own > 1_000 && own < lateness.late_records - 1_000, "{lateness:?}");
        }
    }
}
