//! Turns: when tasks give way, and when the rings are looked at.
//!
//! The runtime looks at its rings when no task can run, or when its preemption timer has fired. That timer must be long.
//! The runtime checks it before it runs the first task of a turn; has it fired by then (the thread lost its processor
//! for as long), the runtime runs nothing, forgets that it had something to run, and sleeps until the next event comes.
//! At 1 ms on a busy host one wake-up in a few thousand was lost so.
//!
//! So tasks give way by themselves ([`give_way`]), and in each millisecond once by waiting for the rings. What can still
//! be lost that way (also by another shard's wake-up that comes in two parts) a [`Heartbeat`] finds: any event makes the
//! runtime run what it forgot. So a lost wake-up costs 20 ms at most, where without it the shard hangs.

use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::time::Duration;

use engine_record::Instant;
use glommio::timer::Timer;

use crate::clock;
use crate::task::GlommioTask;

/// The runtime's own preemption timer: so long that a thread is hardly ever without a processor for all of it.
pub(crate) const PREEMPT: Duration = Duration::from_millis(50);

/// How long tasks run at most before one that gives way lets the rings be looked at.
const TURN: Duration = Duration::from_millis(1);

/// Long enough not to be over before it is waited for, as a rule.
const AN_INSTANT: Duration = Duration::from_micros(2);

/// How many bytes a task moves before it gives way, and what one system call moves at most.
pub(crate) const TURN_BYTES: usize = 512 << 10;

/// What a transfer counts for at least: 64 small ones are a turn.
const TRANSFER_BYTES_MIN: usize = TURN_BYTES / 64;

thread_local! {
    /// When tasks of this shard last resumed from looking at the rings.
    static TURN_BEGAN: Cell<Instant> = const { Cell::new(Instant::ZERO) };
}

/// Lets other tasks of the shard run.
pub(crate) async fn give_way() {
    if clock::now().since(TURN_BEGAN.get()) < TURN {
        return futures_lite::future::yield_now().await;
    }
    // The turn begins anew only once this is over, so that all who give way meanwhile wait too: as long as one task can
    // run, the runtime does not look.
    look_at_rings().await;
    TURN_BEGAN.set(clock::now());
}

/// Waits until the rings have been looked at once.
pub(crate) async fn look_at_rings() {
    look_at_rings_by(Timer::new).await;
}

/// As [`look_at_rings`], by timers that `make` makes. Where making one takes long (slow clocks, memory that is hard to
/// get), it is over before it is polled: so each next one is twice as long, and one of them is waited for.
async fn look_at_rings_by(make: impl Fn(Duration) -> Timer) {
    let mut instant = AN_INSTANT;
    while !waited_for(make(instant)).await {
        instant = instant.saturating_mul(2);
    }
}

/// Whether the timer had to be waited for.
async fn waited_for(mut timer: Timer) -> bool {
    let mut waited = false;
    poll_fn(|context| {
        let over = Pin::new(&mut timer).poll(context).map(drop);
        waited |= over.is_pending();
        over
    })
    .await;
    waited
}

/// What a task has moved since it last gave way. A peer that keeps up would otherwise never let it wait.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    bytes: usize,
}

impl Turn {
    pub(crate) fn count(&mut self, bytes: usize) {
        self.bytes += bytes.max(TRANSFER_BYTES_MIN);
    }

    pub(crate) async fn give_way_if_over(&mut self) {
        if self.bytes >= TURN_BYTES {
            self.bytes = 0;
            give_way().await;
        }
    }
}

/// Bounds how long forgotten tasks wait. Two beats, half a period apart: one may be forgotten itself.
pub(crate) struct Heartbeat {
    _beats: [GlommioTask; 2],
}

impl Heartbeat {
    /// A beat each 20 ms costs an idle shard 0.35% of a core and an active one next to nothing.
    const PERIOD: Duration = Duration::from_millis(40);

    pub(crate) fn start() -> Self {
        Self { _beats: [Self::PERIOD, Self::PERIOD / 2].map(|first| GlommioTask::spawn(beat(first))) }
    }
}

async fn beat(first: Duration) {
    Timer::new(first).await;
    loop {
        Timer::new(Heartbeat::PERIOD).await;
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use engine_io::Io;

    use crate::testing::on_shard;

    use super::*;

    /// Without looking at the rings the sleep would end only with the runtime's own preemption, after 50 ms.
    #[test]
    fn tasks_that_only_give_way_do_not_keep_time_from_passing() {
        let late = on_shard(|io, _| async move {
            let busy: Vec<_> = (0..3)
                .map(|_| {
                    io.spawn(async {
                        loop {
                            give_way().await;
                        }
                    })
                })
                .collect();
            let mut lates = Vec::new();
            for _ in 0..20 {
                let before = io.now();
                io.sleep(Duration::from_millis(1)).await;
                lates.push(io.now().since(before));
            }
            drop(busy);
            lates.sort_unstable();
            lates[10]
        });
        assert!(late.unwrap() < PREEMPT);
    }

    #[test]
    fn timers_that_are_slow_to_make_keep_no_task_from_giving_way() {
        on_shard(|_, _| {
            look_at_rings_by(|instant| {
                let (timer, before) = (Timer::new(instant), clock::now());
                while clock::now().since(before) < 50 * AN_INSTANT {}
                timer
            })
        })
        .unwrap();
    }

    #[test]
    fn a_turn_is_over_after_its_bytes_or_after_64_transfers() {
        on_shard(|io, _| async move {
            let others = Rc::new(Cell::new(0));
            let counter = Rc::clone(&others);
            let _counting = io.spawn(async move {
                loop {
                    counter.set(counter.get() + 1);
                    give_way().await;
                }
            });
            let mut turn = Turn::default();
            for _ in 0..63 {
                turn.count(1);
                turn.give_way_if_over().await;
            }
            assert_eq!(others.get(), 0);
            turn.count(1);
            turn.give_way_if_over().await;
            assert_eq!(others.get(), 1);
        })
        .unwrap();
    }
}
