//! A shard's allowance of something countable, handed out first come, first served.

use core::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use engine_io::Signal;

/// An allowance shared by the tasks of one shard.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    state: Rc<RefCell<State>>,
}

#[derive(Debug)]
struct State {
    free: u64,
    total: u64,
    /// Who waits, in order of arrival, each with a number of its own.
    queue: VecDeque<(u64, Signal)>,
    next_number: u64,
}

/// A part of a [`Budget`], given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Budget,
    amount: u64,
}

impl Budget {
    pub(crate) fn new(total: u64) -> Self {
        let state = State { free: total, total, queue: VecDeque::new(), next_number: 0 };
        Self { state: Rc::new(RefCell::new(state)) }
    }

    /// What is handed out now.
    pub(crate) fn used(&self) -> u64 {
        let state = self.state.borrow();
        state.total - state.free
    }

    /// Takes `amount` if it is free and nobody waits for it.
    pub(crate) fn try_take(&self, amount: u64) -> Option<Share> {
        let mut state = self.state.borrow_mut();
        if !state.queue.is_empty() || state.free < amount {
            return None;
        }
        state.free -= amount;
        Some(Share { budget: self.clone(), amount })
    }

    /// Takes `amount`, after all who asked before. Dropped before it resolves, it gives up its place.
    ///
    /// # Panics
    /// Where `amount` is more than there is in all: the caller's limits keep below it.
    pub(crate) async fn take(&self, amount: u64) -> Share {
        assert!(amount <= self.state.borrow().total, "more is asked for than there is in all");
        if let Some(share) = self.try_take(amount) {
            return share;
        }
        let place = Place::join(self);
        loop {
            let turn = place.signal.wait();
            if place.try_take(amount) {
                return Share { budget: self.clone(), amount };
            }
            turn.await;
        }
    }

    /// Tells the first in the queue that something has changed.
    fn call_first(&self) {
        let first = self.state.borrow().queue.front().map(|(_, signal)| signal.clone());
        if let Some(signal) = first {
            signal.notify();
        }
    }
}

impl Share {
    /// Takes `amount` more, after all who asked before. Dropped before it resolves, it gives up its place.
    ///
    /// # Panics
    /// As [`Budget::take`].
    pub(crate) async fn grow(&mut self, amount: u64) {
        let mut more = self.budget.take(amount).await;
        self.amount += core::mem::take(&mut more.amount);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.state.borrow_mut().free += self.amount;
        self.budget.call_first();
    }
}

/// A place in the queue, given up when dropped.
struct Place<'a> {
    budget: &'a Budget,
    number: u64,
    signal: Signal,
}

impl<'a> Place<'a> {
    fn join(budget: &'a Budget) -> Self {
        let mut state = budget.state.borrow_mut();
        let number = state.next_number;
        state.next_number += 1;
        let signal = Signal::new();
        state.queue.push_back((number, signal.clone()));
        Self { budget, number, signal }
    }

    /// Takes `amount` if this place is first and it is free.
    fn try_take(&self, amount: u64) -> bool {
        let mut state = self.budget.state.borrow_mut();
        let first = state.queue.front().is_some_and(|&(number, _)| number == self.number);
        if !first || state.free < amount {
            return false;
        }
        state.free -= amount;
        true
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.budget.state.borrow_mut().queue.retain(|&(number, _)| number != self.number);
        self.budget.call_first();
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, poll_once};

    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let budget = Budget::new(10);
        let share = block_on(budget.take(7));
        assert_eq!(budget.used(), 7);
        assert!(budget.try_take(4).is_none());
        drop(share);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_share_that_grew_comes_back_whole() {
        let budget = Budget::new(10);
        let mut share = block_on(budget.take(2));
        block_on(share.grow(7));
        assert_eq!(budget.used(), 9);
        drop(share);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_small_request_does_not_overtake_a_large_one() {
        let budget = Budget::new(10);
        let first = block_on(budget.take(6));
        let mut large = Box::pin(budget.take(8));
        let mut small = Box::pin(budget.take(1));
        assert!(block_on(poll_once(&mut large)).is_none());
        assert!(block_on(poll_once(&mut small)).is_none());
        drop(first);
        let taken = block_on(poll_once(&mut large)).expect("it is the large one's turn");
        assert!(block_on(poll_once(&mut small)).is_some());
        drop(taken);
    }

    #[test]
    fn one_who_gives_up_does_not_hold_up_the_next() {
        let budget = Budget::new(10);
        let _held = block_on(budget.take(6));
        let mut large = Box::pin(budget.take(8));
        let mut small = Box::pin(budget.take(2));
        assert!(block_on(poll_once(&mut large)).is_none());
        assert!(block_on(poll_once(&mut small)).is_none());
        drop(large);
        assert!(block_on(poll_once(&mut small)).is_some());
    }
}
