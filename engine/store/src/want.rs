//! Tells an operator that something is wanting, space or descriptors, and that it isn't any more: not once a request.

use core::cell::Cell;
use core::time::Duration;

use engine_record::Instant;

/// At most one warning in this time, however often it comes and goes.
const INTERVAL: Duration = Duration::from_secs(60);

/// Whether something is wanting, as far as an operator was told.
#[derive(Debug, Default)]
pub(crate) struct Want {
    is_told: Cell<bool>,
    told_at: Cell<Option<Instant>>,
}

impl Want {
    /// Notes that there was none; whether that is to be told.
    pub(crate) fn refused(&self, now: Instant) -> bool {
        let is_lately = self.told_at.get().is_some_and(|told| now.since(told) < INTERVAL);
        if self.is_told.get() || is_lately {
            return false;
        }
        self.is_told.set(true);
        self.told_at.set(Some(now));
        true
    }

    /// Notes that there was some; whether that is to be told.
    pub(crate) fn given(&self) -> bool {
        self.is_told.replace(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_once_and_a_warning_once_a_minute() {
        let want = Want::default();
        let at = |seconds| Instant::ZERO.after(Duration::from_secs(seconds));
        assert!(!want.given(), "nobody was told of any want");
        assert_eq!([want.refused(at(1)), want.refused(at(2))], [true, false]);
        assert_eq!([want.given(), want.given()], [true, false]);
        assert!(!want.refused(at(3)), "it comes and goes");
        assert!(!want.given());
        assert!(want.refused(at(61)));
        assert!(!want.refused(at(200)), "told, and nothing has changed");
    }
}
