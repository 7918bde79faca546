//! Waking tasks of the same shard.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Something that happens again and again on one shard, and that tasks of the shard can wait for.
///
/// A [`Wait`] sees every [`Signal::notify`] after the call of [`Signal::wait`] that made it, also before its first
/// poll. So: make the wait, look at the state, then await; nothing is missed.
#[derive(Clone, Debug, Default)]
pub struct Signal {
    state: Rc<RefCell<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// How often the signal was given.
    generation: u64,
    /// Numbers waits, so that wakers are called in the order the waits were made.
    next_wait: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Signal {
    /// A signal nobody waits for.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends every wait there is.
    pub fn notify(&self) {
        let wakers = {
            let mut state = self.state.borrow_mut();
            state.generation += 1;
            core::mem::take(&mut state.wakers)
        };
        for waker in wakers.into_values() {
            waker.wake();
        }
    }

    /// Waits for the next [`Signal::notify`] from now on. Dropping the wait forgets it.
    pub fn wait(&self) -> Wait {
        let mut state = self.state.borrow_mut();
        let number = state.next_wait;
        state.next_wait += 1;
        Wait { signal: self.clone(), generation: state.generation, number }
    }

    /// How many waits have been polled and not yet ended.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.state.borrow().wakers.len()
    }
}

/// A wait for one [`Signal::notify`].
#[derive(Debug)]
#[must_use = "a wait does nothing unless awaited"]
pub struct Wait {
    signal: Signal,
    generation: u64,
    number: u64,
}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.signal.state.borrow_mut();
        if state.generation != self.generation {
            return Poll::Ready(());
        }
        state.wakers.insert(self.number, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.signal.state.borrow_mut().wakers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, poll_once};

    use super::*;

    #[test]
    fn a_wait_sees_what_happens_before_its_first_poll() {
        let signal = Signal::new();
        let wait = signal.wait();
        signal.notify();
        block_on(wait);
    }

    #[test]
    fn a_wait_does_not_see_what_happened_before_it_was_made() {
        let signal = Signal::new();
        signal.notify();
        let mut wait = signal.wait();
        assert_eq!(block_on(poll_once(&mut wait)), None);
        assert_eq!(signal.waiting(), 1);
        signal.notify();
        assert_eq!(block_on(poll_once(&mut wait)), Some(()));
    }

    #[test]
    fn a_dropped_wait_is_forgotten() {
        let signal = Signal::new();
        let mut wait = signal.wait();
        assert_eq!(block_on(poll_once(&mut wait)), None);
        drop(wait);
        assert_eq!(signal.waiting(), 0);
    }
}
