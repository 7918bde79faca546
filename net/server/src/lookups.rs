//! Turns to look for a record by its time.
//!
//! One asks for a few bytes, and has the shard read a whole batch, decompress a mebibyte of it and go through its records;
//! of a partition whose batches lie about their times, all of them, one after the other. So it is done in two turns of the
//! shard, whoever asks: no more than two batches are held for it, and it has the part of the processor that two tasks have.
//!
//! In the first turn is what is quick. What has had it for [`QUICK_MAX`] while others wait for it is begun again in the
//! second, where it waits only for others that were as slow, and may be had for [`LONG_MAX`] while others wait. Who has had
//! little of the shard's time for lookups comes before those who have had much.

use core::cell::Cell;
use core::future::Future;
use core::pin::pin;
use core::time::Duration;

use engine_io::{Io, deadline};
use engine_record::Instant;

use crate::budget::Budget;

/// Meant to be far more than a lookup takes that reads its index and one batch of the usual size.
const QUICK_MAX: Duration = Duration::from_millis(50);
/// A sound log's lookup ends in its first batch or two: some ten milliseconds of reading where they are the largest.
const LONG_MAX: Duration = Duration::from_secs(2);
/// No lookup of a request is begun later. Clients ask again for what is left, and give a connection up after 30 s.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// Whose turn it is to look for a time.
#[derive(Debug)]
pub(crate) struct Lookups {
    quick: Budget,
    long: Budget,
}

/// What a connection has had of the time for lookups.
#[derive(Debug, Default)]
pub(crate) struct TimeHad(Cell<Duration>);

/// One request's lookups.
pub(crate) struct RequestLookups<'a, I> {
    lookups: &'a Lookups,
    io: &'a I,
    had: &'a TimeHad,
    until: Instant,
}

impl Lookups {
    pub(crate) fn new() -> Self {
        Self { quick: Budget::new(1), long: Budget::new(1) }
    }

    /// Those of a request that begins now, of a connection that has had so much of their time.
    pub(crate) fn of_request<'a, I: Io>(&'a self, io: &'a I, had: &'a TimeHad) -> RequestLookups<'a, I> {
        RequestLookups { lookups: self, io, had, until: io.now().after(REQUEST_MAX) }
    }
}

impl<I: Io> RequestLookups<'_, I> {
    /// Looks, in its turn; `None` where the request's time is over, or others wait and this takes long. `look` may be
    /// begun twice, and dropped at any await.
    pub(crate) async fn in_turn<T>(&self, look: impl AsyncFn() -> T) -> Option<T> {
        let Lookups { quick, long } = self.lookups;
        for (turns, most) in [(quick, QUICK_MAX), (long, LONG_MAX)] {
            if self.io.now() >= self.until {
                return None;
            }
            let rank = u64::try_from(self.had.0.get().as_millis()).unwrap_or(u64::MAX);
            let _turn = deadline(self.io, self.until, turns.take_by_rank(1, rank)).await?;
            let begun_at = self.io.now();
            let found = self.unless_waited_for(turns, most, look()).await;
            self.had.0.set(self.had.0.get() + self.io.now().since(begun_at));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// What came of it; `None` once it has had `most` and others wait.
    async fn unless_waited_for<T>(
        &self,
        turns: &Budget,
        most: Duration,
        look: impl Future<Output = T>,
    ) -> Option<T> {
        let mut look = pin!(look);
        loop {
            let found = deadline(self.io, self.io.now().after(most), look.as_mut()).await;
            if found.is_some() || turns.lacking() > 0 {
                return found;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cell::RefCell;
    use core::future::pending;
    use std::rc::Rc;

    use sim::{Sim, SimIo, SimTask};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// When each lookup ended, in seconds and what came of it, by its name.
    type Ended = Rc<RefCell<Vec<(&'static str, Duration, bool)>>>;

    struct Setting {
        sim: Sim,
        io: SimIo,
        lookups: Rc<Lookups>,
        ended: Ended,
    }

    impl Setting {
        fn new(seed: u64) -> Self {
            let sim = Sim::new(seed);
            let io = sim.node().io();
            Self { sim, io, lookups: Rc::new(Lookups::new()), ended: Ended::default() }
        }

        /// A request of its own with a lookup that takes so long, or forever.
        fn look(&self, name: &'static str, had: Duration, takes: Option<Duration>) -> SimTask {
            let (io, lookups, ended) = (self.io.clone(), Rc::clone(&self.lookups), Rc::clone(&self.ended));
            self.io.spawn(async move {
                let (had, begun_at) = (TimeHad(Cell::new(had)), io.now());
                let request = lookups.of_request(&io, &had);
                let found = request
                    .in_turn(async || match takes {
                        Some(takes) => io.sleep(takes).await,
                        None => pending().await,
                    })
                    .await;
                ended.borrow_mut().push((name, io.now().since(begun_at), found.is_some()));
            })
        }

        fn ended_after(&self, time: Duration) -> Vec<(&'static str, Duration, bool)> {
            self.sim.run_for(time);
            self.ended.borrow().clone()
        }
    }

    #[test]
    fn what_is_slow_is_left_alone_while_nobody_waits() {
        let setting = Setting::new(1);
        let _slow = setting.look("slow", Duration::ZERO, Some(20 * SECOND));
        let [(_, took, true)] = setting.ended_after(30 * SECOND)[..] else { panic!("it was not found") };
        assert!(took < 21 * SECOND, "{took:?}");
    }

    #[test]
    fn what_is_quick_waits_little_for_what_never_ends() {
        let setting = Setting::new(2);
        let _endless: Vec<_> = (0..10).map(|_| setting.look("endless", Duration::ZERO, None)).collect();
        let quick = setting.look("quick", Duration::ZERO, Some(QUICK_MAX / 50));
        let ended = setting.ended_after(SECOND);
        let [("quick", took, true)] = ended[..] else { panic!("{ended:?}") };
        assert!(took < 12 * QUICK_MAX, "{took:?}");
        drop(quick);
    }

    #[test]
    fn what_is_slow_is_found_beside_what_is_endless_in_its_own_turn() {
        let setting = Setting::new(3);
        let _tasks = [
            setting.look("endless", Duration::ZERO, None),
            setting.look("slow", Duration::ZERO, Some(SECOND)),
            setting.look("endless", Duration::ZERO, None),
        ];
        let ended = setting.ended_after(8 * SECOND);
        assert!(ended.iter().any(|(name, _, found)| *name == "slow" && *found), "{ended:?}");
    }

    #[test]
    fn who_has_had_little_comes_first() {
        let setting = Setting::new(4);
        let _first = setting.look("first", Duration::ZERO, Some(QUICK_MAX / 2));
        setting.sim.run_for(QUICK_MAX / 10);
        let _greedy = setting.look("greedy", SECOND, Some(QUICK_MAX / 2));
        setting.sim.run_for(QUICK_MAX / 10);
        let _modest = setting.look("modest", Duration::ZERO, Some(QUICK_MAX / 2));
        let names: Vec<_> = setting.ended_after(SECOND).iter().map(|(name, ..)| *name).collect();
        assert_eq!(names, ["first", "modest", "greedy"]);
    }

    #[test]
    fn nobody_waits_longer_than_a_request_may() {
        let setting = Setting::new(5);
        let _tasks: Vec<_> = (0..20).map(|_| setting.look("endless", Duration::ZERO, None)).collect();
        let ended = setting.ended_after(REQUEST_MAX + 2 * LONG_MAX);
        // The last one is left alone: nobody waits for its turn.
        assert!(ended.len() >= 18, "{ended:?}");
        for (_, took, found) in ended {
            assert!(!found && took <= REQUEST_MAX + LONG_MAX, "{took:?}");
        }
    }
}
