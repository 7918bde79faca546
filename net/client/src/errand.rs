//! Something to be asked of the cluster: one question at a time, and after failures not at once again.

use engine_record::Instant;

use crate::random::{Backoff, Generator};

/// A question that may be under way, and when it may next be asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errand {
    is_under_way: bool,
    failures: u32,
    not_before: Instant,
}

impl Errand {
    pub(crate) const fn new() -> Self {
        Self { is_under_way: false, failures: 0, not_before: Instant::ZERO }
    }

    /// Whether to ask now; if so, it is under way until [`Errand::succeed`] or [`Errand::fail`].
    #[must_use]
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let begins = !self.is_under_way && now >= self.not_before;
        self.is_under_way |= begins;
        begins
    }

    pub(crate) const fn succeed(&mut self) {
        self.is_under_way = false;
        self.failures = 0;
    }

    /// The answer was no use: asks again, later each time.
    pub(crate) fn fail(&mut self, now: Instant, backoff: &Backoff, generator: &mut Generator) {
        self.is_under_way = false;
        self.failures = self.failures.saturating_add(1);
        self.not_before = now.after(backoff.delay(self.failures, generator));
    }

    pub(crate) const fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// When to ask next; `None` while an answer is awaited.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        (!self.is_under_way).then_some(self.not_before)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn one_question_at_a_time_and_a_pause_after_each_failure() {
        let backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(1) };
        let (mut errand, mut generator) = (Errand::default(), Generator::new(1));
        let start = Instant::from_nanos(1);
        assert!(errand.begin(start));
        assert!(!errand.begin(start), "an answer is awaited");
        assert_eq!(errand.wake_at(), None);
        errand.fail(start, &backoff, &mut generator);
        assert!(!errand.begin(start));
        let next = errand.wake_at().unwrap();
        assert!(next >= start.after(Duration::from_millis(80)));
        assert!(errand.begin(next));
        errand.succeed();
        assert!(errand.begin(next), "after a success there is no pause");
    }
}
