//! Waiting in line for a counted thing: first come, first served, whatever the size of the wish.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::rc::Rc;

/// A number of permits that tasks of one shard take and give back. With one permit it is a lock.
///
/// Nobody overtakes: while someone waits, later wishes wait too, also those that could be met.
#[derive(Clone, Debug)]
pub(crate) struct Permits {
    state: Rc<RefCell<State>>,
}

#[derive(Debug)]
struct State {
    free: usize,
    is_closed: bool,
    next_number: u64,
    line: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    count: usize,
    waker: Waker,
}

/// No permits are given any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PermitsClosed;

impl Permits {
    pub(crate) fn new(count: usize) -> Self {
        let state = State { free: count, is_closed: false, next_number: 0, line: VecDeque::new() };
        Self { state: Rc::new(RefCell::new(state)) }
    }

    /// Takes `count` permits, waiting in line. Dropping the future leaves the line.
    ///
    /// More than there are in all is never met: the caller checks that first.
    pub(crate) fn acquire(&self, count: usize) -> Acquire {
        Acquire { permits: self.clone(), count, number: None }
    }

    /// Takes `count` permits where they are free and nobody is in line.
    pub(crate) fn try_acquire(&self, count: usize) -> Option<Permit> {
        let mut state = self.state.borrow_mut();
        if state.is_closed || !state.line.is_empty() || state.free < count {
            return None;
        }
        state.free -= count;
        Some(Permit { permits: self.clone(), count })
    }

    /// Ends every wait there is and will be with [`PermitsClosed`].
    pub(crate) fn close(&self) {
        let line = {
            let mut state = self.state.borrow_mut();
            state.is_closed = true;
            core::mem::take(&mut state.line)
        };
        for waiter in line {
            waiter.waker.wake();
        }
    }

    /// Permits not taken.
    pub(crate) fn free(&self) -> usize {
        self.state.borrow().free
    }

    /// How many permits all in line wish for.
    pub(crate) fn wished(&self) -> usize {
        self.state.borrow().line.iter().map(|waiter| waiter.count).sum()
    }

    fn give_back(&self, count: usize) {
        self.state.borrow_mut().free += count;
        self.wake_first();
    }

    /// Wakes the first in line if it can go on. It takes its permits itself, and then wakes the next.
    fn wake_first(&self) {
        let waker = {
            let state = self.state.borrow();
            state.line.front().filter(|first| first.count <= state.free).map(|first| first.waker.clone())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A place in the line.
#[derive(Debug)]
#[must_use = "a wait does nothing unless awaited"]
pub(crate) struct Acquire {
    permits: Permits,
    count: usize,
    /// The place's number once it is in the line.
    number: Option<u64>,
}

impl Future for Acquire {
    type Output = Result<Permit, PermitsClosed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let permits = self.permits.clone();
        let (count, number) = (self.count, self.number);
        let polled = permits.state.borrow_mut().poll(count, number, context.waker());
        match polled {
            Step::Wait(number) => {
                self.number = Some(number);
                return Poll::Pending;
            }
            Step::Closed => {
                self.number = None;
                return Poll::Ready(Err(PermitsClosed));
            }
            Step::Taken => self.number = None,
        }
        permits.wake_first();
        Poll::Ready(Ok(Permit { permits, count }))
    }
}

enum Step {
    Taken,
    Closed,
    Wait(u64),
}

impl State {
    fn poll(&mut self, count: usize, number: Option<u64>, waker: &Waker) -> Step {
        if self.is_closed {
            return Step::Closed;
        }
        let is_first = match number {
            None => self.line.is_empty(),
            Some(number) => self.line.front().is_some_and(|first| first.number == number),
        };
        if is_first && self.free >= count {
            if number.is_some() {
                self.line.pop_front();
            }
            self.free -= count;
            return Step::Taken;
        }
        Step::Wait(self.stand(count, number, waker))
    }

    /// Keeps or takes a place at the end of the line.
    fn stand(&mut self, count: usize, number: Option<u64>, waker: &Waker) -> u64 {
        if let Some(place) = self.line.iter_mut().find(|waiter| Some(waiter.number) == number) {
            place.waker.clone_from(waker);
            return place.number;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.line.push_back(Waiter { number, count, waker: waker.clone() });
        number
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        self.permits.state.borrow_mut().line.retain(|waiter| waiter.number != number);
        self.permits.wake_first();
    }
}

/// Permits taken; given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    permits: Permits,
    count: usize,
}

impl Permit {
    /// Parts `count` permits from these.
    ///
    /// # Panics
    /// Where there are fewer.
    pub(crate) fn split(&mut self, count: usize) -> Self {
        assert!(count <= self.count, "only permits taken can be parted");
        self.count -= count;
        Self { permits: self.permits.clone(), count }
    }

    /// How many they are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.count > 0 {
            self.permits.give_back(self.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, poll_once};

    use super::*;

    #[test]
    fn permits_are_taken_and_given_back() {
        let permits = Permits::new(3);
        let two = block_on(permits.acquire(2)).unwrap();
        assert_eq!(permits.free(), 1);
        assert!(permits.try_acquire(2).is_none());
        drop(two);
        assert!(permits.try_acquire(3).is_some());
    }

    #[test]
    fn a_small_wish_doesn_t_overtake_a_large_one() {
        let permits = Permits::new(2);
        let held = permits.try_acquire(1).unwrap();
        let (mut large, mut small) = (permits.acquire(2), permits.acquire(1));
        assert!(block_on(poll_once(&mut large)).is_none());
        assert!(block_on(poll_once(&mut small)).is_none());
        assert!(permits.try_acquire(1).is_none());
        assert_eq!(permits.wished(), 3);
        drop(held);
        let first = block_on(poll_once(&mut large)).unwrap().unwrap();
        assert!(block_on(poll_once(&mut small)).is_none());
        drop(first);
        assert!(block_on(poll_once(&mut small)).unwrap().is_ok());
    }

    #[test]
    fn who_leaves_the_line_lets_the_next_go_on() {
        let permits = Permits::new(1);
        let (mut large, mut small) = (permits.acquire(2), permits.acquire(1));
        assert!(block_on(poll_once(&mut large)).is_none());
        assert!(block_on(poll_once(&mut small)).is_none());
        drop(large);
        assert!(block_on(poll_once(&mut small)).unwrap().is_ok());
    }

    #[test]
    fn closing_ends_waits_there_are_and_will_be() {
        let permits = Permits::new(1);
        let mut waiting = permits.acquire(2);
        assert!(block_on(poll_once(&mut waiting)).is_none());
        permits.close();
        assert_eq!(block_on(waiting).unwrap_err(), PermitsClosed);
        assert_eq!(block_on(permits.acquire(1)).unwrap_err(), PermitsClosed);
    }

    #[test]
    fn parted_permits_go_back_one_by_one() {
        let permits = Permits::new(4);
        let mut all = permits.try_acquire(4).unwrap();
        let one = all.split(1);
        assert_eq!((all.count(), one.count()), (3, 1));
        drop(all);
        assert_eq!(permits.free(), 3);
        drop(one);
        assert_eq!(permits.free(), 4);
    }
}
