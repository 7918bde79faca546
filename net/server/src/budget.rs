//! A shard's allowance of something countable, handed out first come, first served, unless who asks says otherwise.

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
    /// What is handed out; more than there is in all where something was taken anyway.
    used: u64,
    total: u64,
    /// Whether somebody had to wait, or to do without, since this was last asked for.
    ran_short: bool,
    /// Who waits, in the order of their turns.
    queue: VecDeque<Waiting>,
    next_number: u64,
}

#[derive(Debug)]
struct Waiting {
    /// Its own alone.
    number: u64,
    /// The least that it takes.
    least: u64,
    /// The lowest first, and of the same the one that came first.
    rank: u64,
    signal: Signal,
}

/// A part of a [`Budget`], given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Budget,
    amount: u64,
}

impl Budget {
    pub(crate) fn new(total: u64) -> Self {
        let state = State { used: 0, total, ran_short: false, queue: VecDeque::new(), next_number: 0 };
        Self { state: Rc::new(RefCell::new(state)) }
    }

    /// What is handed out now.
    pub(crate) fn used(&self) -> u64 {
        self.state.borrow().used
    }

    /// What there is in all.
    pub(crate) fn total(&self) -> u64 {
        self.state.borrow().total
    }

    /// What is not handed out.
    pub(crate) fn free(&self) -> u64 {
        let state = self.state.borrow();
        state.total.saturating_sub(state.used)
    }

    /// Whether somebody has had to wait, or to do without, since the last call.
    pub(crate) fn has_run_short(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let has_waiting = !state.queue.is_empty();
        core::mem::replace(&mut state.ran_short, false) || has_waiting
    }

    /// What those who wait lack, all together.
    pub(crate) fn lacking(&self) -> u64 {
        let wanted = self.state.borrow().queue.iter().map(|waiting| waiting.least).sum::<u64>();
        wanted.saturating_sub(self.free())
    }

    /// Takes `amount` where so much is free beside `rest`, and nobody waits.
    pub(crate) fn try_take(&self, amount: u64, rest: u64) -> Option<Share> {
        let is_there = self.state.borrow().queue.is_empty() && self.free() >= amount.saturating_add(rest);
        is_there.then(|| self.take_anyway(amount))
    }

    /// Takes what is free, at least `least` and at most `most`, where so much is free and nobody waits. Who gets nothing has
    /// run short.
    ///
    /// # Panics
    /// As [`Budget::take_between`].
    pub(crate) fn try_take_between(&self, least: u64, most: u64) -> Option<Share> {
        self.check_amounts(least, most);
        let is_first = self.state.borrow().queue.is_empty();
        let share = is_first.then(|| self.take_free(least, most)).flatten();
        if share.is_none() {
            self.state.borrow_mut().ran_short = true;
        }
        share
    }

    /// Takes `amount`, also where less is free: for what is there already and can't wait. Others wait for it.
    pub(crate) fn take_anyway(&self, amount: u64) -> Share {
        self.state.borrow_mut().used += amount;
        Share { budget: self.clone(), amount }
    }

    /// Takes `amount`, after all who asked before. Dropped before it resolves, it gives up its place.
    ///
    /// # Panics
    /// Where `amount` is more than there is in all: the caller's limits keep below it.
    pub(crate) async fn take(&self, amount: u64) -> Share {
        self.take_ranked(amount, amount, 0).await
    }

    /// Takes what is free, at least `least` and at most `most`, after all who asked before. Dropped before it resolves,
    /// it gives up its place.
    ///
    /// # Panics
    /// Where `least` is more than there is in all, or more than `most`.
    pub(crate) async fn take_between(&self, least: u64, most: u64) -> Share {
        self.take_ranked(least, most, 0).await
    }

    /// Takes `amount`, after all who want less, and after those that asked before for as much. Dropped before it resolves,
    /// it gives up its place.
    ///
    /// # Panics
    /// As [`Budget::take`].
    pub(crate) async fn take_by_size(&self, amount: u64) -> Share {
        self.take_by_rank(amount, amount).await
    }

    /// Takes `amount`, after all who have a lower `rank`, and after those that asked before with the same. Dropped before
    /// it resolves, it gives up its place.
    ///
    /// # Panics
    /// As [`Budget::take`].
    pub(crate) async fn take_by_rank(&self, amount: u64, rank: u64) -> Share {
        self.take_ranked(amount, amount, rank).await
    }

    async fn take_ranked(&self, least: u64, most: u64, rank: u64) -> Share {
        self.check_amounts(least, most);
        let is_first = self.state.borrow().queue.is_empty();
        if let Some(share) = is_first.then(|| self.take_free(least, most)).flatten() {
            return share;
        }
        let place = Place::join(self, least, rank);
        loop {
            let turn = place.signal.wait();
            if let Some(share) = place.is_first().then(|| self.take_free(least, most)).flatten() {
                return share;
            }
            turn.await;
        }
    }

    fn check_amounts(&self, least: u64, most: u64) {
        assert!(least <= self.total(), "more is asked for than there is in all");
        assert!(least <= most, "at least {least} and at most {most} are nothing");
    }

    fn take_free(&self, least: u64, most: u64) -> Option<Share> {
        let amount = self.free().min(most);
        if amount < least {
            return None;
        }
        self.state.borrow_mut().used += amount;
        Some(Share { budget: self.clone(), amount })
    }

    /// Tells the first in the queue that something has changed.
    fn call_first(&self) {
        let first = self.state.borrow().queue.front().map(|waiting| waiting.signal.clone());
        if let Some(signal) = first {
            signal.notify();
        }
    }
}

impl Share {
    /// Takes `amount` more, after all who asked before and have no higher `rank`, and before those who have: [`Budget`]'s
    /// own takers have 0. Dropped before it resolves, it gives up its place.
    ///
    /// # Panics
    /// As [`Budget::take`].
    pub(crate) async fn grow(&mut self, amount: u64, rank: u64) {
        let mut more = self.budget.take_ranked(amount, amount, rank).await;
        self.amount += core::mem::take(&mut more.amount);
    }

    /// What is taken.
    pub(crate) fn amount(&self) -> u64 {
        self.amount
    }

    /// Makes it `amount`: gives the rest back, or takes more anyway.
    pub(crate) fn set(&mut self, amount: u64) {
        {
            let mut state = self.budget.state.borrow_mut();
            state.used = state.used - self.amount + amount;
        }
        self.amount = amount;
        self.budget.call_first();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.state.borrow_mut().used -= self.amount;
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
    fn join(budget: &'a Budget, least: u64, rank: u64) -> Self {
        let mut state = budget.state.borrow_mut();
        let number = state.next_number;
        state.next_number += 1;
        let signal = Signal::new();
        let at = state.queue.partition_point(|waiting| waiting.rank <= rank);
        state.queue.insert(at, Waiting { number, least, rank, signal: signal.clone() });
        state.ran_short = true;
        Self { budget, number, signal }
    }

    fn is_first(&self) -> bool {
        let state = self.budget.state.borrow();
        state.queue.front().is_some_and(|waiting| waiting.number == self.number)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.budget.state.borrow_mut().queue.retain(|waiting| waiting.number != self.number);
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
        assert!(block_on(poll_once(budget.take(4))).is_none());
        drop(share);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_share_that_grew_comes_back_whole() {
        let budget = Budget::new(10);
        let mut share = block_on(budget.take(2));
        block_on(share.grow(7, 0));
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
    fn a_lower_rank_comes_first() {
        let budget = Budget::new(10);
        let held = block_on(budget.take(10));
        let mut shares = [0, 1, 2].map(|_| budget.take_anyway(0));
        let [first, second, third] = &mut shares;
        let mut waiting =
            [Box::pin(first.grow(4, 7)), Box::pin(second.grow(4, 3)), Box::pin(third.grow(4, 7))];
        for one in &mut waiting {
            assert!(block_on(poll_once(one)).is_none());
        }
        drop(held);
        let served: Vec<_> = [2, 0, 1].map(|one| block_on(poll_once(&mut waiting[one])).is_some()).into();
        assert_eq!(served, [false, false, true], "the third waits for the first");
        assert!(block_on(poll_once(&mut waiting[0])).is_some());
        assert!(block_on(poll_once(&mut waiting[2])).is_none(), "there is no more");
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

    #[test]
    fn what_is_free_is_taken_between_the_least_and_the_most() {
        let budget = Budget::new(10);
        let first = block_on(budget.take_between(1, 6));
        let second = block_on(budget.take_between(3, 6));
        assert_eq!((first.amount(), second.amount()), (6, 4));
        assert!(!budget.has_run_short());
        let mut third = Box::pin(budget.take_between(1, 6));
        assert!(block_on(poll_once(&mut third)).is_none());
        drop(second);
        assert_eq!(block_on(third).amount(), 4);
        assert!(budget.has_run_short());
        assert!(!budget.has_run_short(), "it was asked already");
    }

    #[test]
    fn what_is_lacking_is_what_those_who_wait_want_beside_what_is_free() {
        let budget = Budget::new(10);
        let held = block_on(budget.take(6));
        assert!(budget.try_take(2, 3).is_none(), "it leaves less than is to be left");
        let (mut large, mut small) = (Box::pin(budget.take(8)), Box::pin(budget.take(1)));
        assert!(block_on(poll_once(&mut large)).is_none());
        assert!(block_on(poll_once(&mut small)).is_none());
        assert_eq!(budget.lacking(), 5);
        assert!(budget.try_take(1, 0).is_none(), "others wait");
        drop((large, small));
        assert_eq!((budget.lacking(), budget.try_take(4, 0).map(|share| share.amount())), (0, Some(4)));
        drop(held);
    }

    #[test]
    fn what_was_taken_anyway_is_waited_for() {
        let budget = Budget::new(10);
        let mut share = block_on(budget.take(4));
        share.set(9);
        let anyway = budget.take_anyway(5);
        assert_eq!(budget.used(), 14);
        let mut waiting = Box::pin(budget.take(1));
        assert!(block_on(poll_once(&mut waiting)).is_none());
        drop(anyway);
        assert_eq!(block_on(poll_once(&mut waiting)).map(|share| share.amount()), Some(1));
        share.set(2);
        assert_eq!(budget.used(), 2);
    }
}
