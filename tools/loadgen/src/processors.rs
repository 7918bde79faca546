//! What the generator's threads had of the processors: evidence of whether the generator itself limited a load.

use core::time::Duration;

use serde::{Deserialize, Serialize};

/// A thread that ran, or waited for a processor, this part of the time had next to nothing to wait for. No broker, however
/// fast, could have been sent more than a ninth more by it.
const SATURATED: f64 = 0.9;

/// A thread that waited this part of the time for a processor lost a tenth of what it could have done to others.
const STARVED: f64 = 0.1;

/// What one of the threads that make a load had while it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTime {
    /// From the look at its beginning to the one at its end.
    pub span: Duration,
    /// It ran on a processor.
    pub running: Duration,
    /// It could have run and had no processor; `None` where the kernel doesn't tell.
    pub waiting: Option<Duration>,
}

/// Parts of the measured time, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessorShare {
    /// The busiest thread ran.
    pub running: f64,
    /// The busiest thread could have run and had no processor; `None` where the kernel doesn't tell.
    pub waiting: Option<f64>,
    /// The most that any thread waited for a processor; 0 where the kernel doesn't tell.
    pub waiting_max: f64,
}

impl ProcessorShare {
    /// What the busiest of these had: the one that ran or waited for a processor the longest. All 0 without any.
    #[must_use]
    pub fn of(threads: &[ThreadTime]) -> Self {
        let mut share = Self::default();
        for thread in threads {
            let part = |time: Duration| {
                if thread.span.is_zero() { 0.0 } else { time.as_secs_f64() / thread.span.as_secs_f64() }
            };
            let (running, waiting) = (part(thread.running), thread.waiting.map(part));
            if running + waiting.unwrap_or(0.0) > share.wanted() {
                (share.running, share.waiting) = (running, waiting);
            }
            share.waiting_max = share.waiting_max.max(waiting.unwrap_or(0.0));
        }
        share
    }

    /// How much of the time the busiest thread had something to do.
    fn wanted(&self) -> f64 {
        self.running + self.waiting.unwrap_or(0.0)
    }

    /// Whether a thread of the generator had all it could do.
    #[must_use]
    pub fn is_saturated(&self) -> bool {
        self.wanted() >= SATURATED
    }

    /// Whether a thread of the generator got much less processor than it wanted.
    #[must_use]
    pub fn is_starved(&self) -> bool {
        self.waiting_max >= STARVED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that ran and waited for so many milliseconds of a second.
    fn share(threads: &[(u64, Option<u64>)]) -> ProcessorShare {
        let thread = |&(running, waiting): &(u64, Option<u64>)| ThreadTime {
            span: Duration::from_secs(1),
            running: Duration::from_millis(running),
            waiting: waiting.map(Duration::from_millis),
        };
        ProcessorShare::of(&threads.iter().map(thread).collect::<Vec<_>>())
    }

    #[test]
    fn one_thread_that_has_all_it_can_do_is_enough_and_many_that_have_not_are_none() {
        assert!(share(&[(200, Some(0)), (950, Some(0))]).is_saturated());
        assert!(!share(&[(700, Some(10)), (700, Some(10)), (700, Some(10))]).is_saturated());
        assert!(!share(&[(890, Some(5))]).is_saturated());
    }

    #[test]
    fn waiting_for_a_processor_is_no_waiting_for_the_broker() {
        let starved = share(&[(500, Some(450))]);
        assert!(starved.is_saturated() && starved.is_starved());
        let little = share(&[(880, Some(40))]);
        assert!(little.is_saturated() && !little.is_starved());
        let idle = share(&[(100, Some(150))]);
        assert!(!idle.is_saturated() && idle.is_starved());
    }

    #[test]
    fn where_the_kernel_does_not_tell_the_waits_only_running_counts() {
        let share = share(&[(950, None)]);
        assert!(share.is_saturated() && !share.is_starved());
        assert_eq!(share.waiting, None);
    }

    #[test]
    fn no_threads_and_no_time_are_no_evidence() {
        let none = ThreadTime { span: Duration::ZERO, running: Duration::ZERO, waiting: None };
        for threads in [&[][..], &[none]] {
            assert_eq!(ProcessorShare::of(threads), ProcessorShare::default());
        }
        assert!(!ProcessorShare::default().is_saturated() && !ProcessorShare::default().is_starved());
    }
}
