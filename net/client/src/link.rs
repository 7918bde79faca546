//! A broker as a producer or consumer sees it: whether it can be sent to.

use core::time::Duration;

use engine_record::Instant;

use crate::errand::Errand;
use crate::random::{Backoff, Generator};

#[derive(Debug, Default)]
pub(crate) struct Link {
    is_up: bool,
    connecting: Errand,
    /// Requests under way.
    pub(crate) in_flight: u32,
    throttled_until: Instant,
}

impl Link {
    /// Whether a request may be sent now.
    pub(crate) fn is_ready(&self, in_flight_max: u32, now: Instant) -> bool {
        self.is_up && self.in_flight < in_flight_max && now >= self.throttled_until
    }

    /// Whether to connect now.
    pub(crate) fn begin_connecting(&mut self, now: Instant) -> bool {
        !self.is_up && self.connecting.begin(now)
    }

    pub(crate) const fn connected(&mut self) {
        self.is_up = true;
    }

    /// A connection that brought an answer was a good one.
    pub(crate) fn answered(&mut self, now: Instant, throttle: Duration) {
        self.connecting.succeed();
        self.throttled_until = self.throttled_until.max(now.after(throttle));
    }

    /// The connection is gone or never came about.
    pub(crate) fn lost(&mut self, now: Instant, backoff: &Backoff, generator: &mut Generator) {
        if self.is_up || self.connecting.is_under_way() {
            self.is_up = false;
            self.connecting.fail(now, backoff, generator);
        }
    }

    /// When time alone makes it ready.
    pub(crate) fn wake_at(&self, now: Instant) -> Option<Instant> {
        let ready_at = if self.is_up { Some(self.throttled_until) } else { self.connecting.wake_at() };
        ready_at.filter(|&at| at > now)
    }
}
