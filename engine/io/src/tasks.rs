//! Tasks of one shard that are all ended before it ends.

use core::cell::{Cell, RefCell};
use core::future::Future;

use engine_record::Instant;

use crate::{Io, Task, deadline};

/// With fewer tasks than this none is looked at again before it is joined.
const REAP_MIN: usize = 64;

/// A set of tasks. Those that have ended are forgotten by and by.
pub struct Tasks<I: Io> {
    running: RefCell<Vec<I::Task>>,
    /// At how many tasks to look for ended ones: twice as many as were left the last time, so that looking costs a
    /// constant for each task.
    reap_at: Cell<usize>,
}

impl<I: Io> Default for Tasks<I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Io> Tasks<I> {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { running: RefCell::new(Vec::new()), reap_at: Cell::new(REAP_MIN) }
    }

    /// Starts a task.
    pub fn spawn(&self, io: &I, future: impl Future<Output = ()> + 'static) {
        let task = io.spawn(future);
        let mut running = self.running.borrow_mut();
        if running.len() >= self.reap_at.get() {
            running.retain(|task| !task.is_finished());
            self.reap_at.set(REAP_MIN.max(2 * running.len()));
        }
        running.push(task);
    }

    /// Waits until every task has ended, also those added meanwhile.
    pub async fn join(&self) {
        loop {
            let next = self.running.borrow_mut().pop();
            match next {
                Some(task) => task.join().await,
                None => return,
            }
        }
    }

    /// Waits as [`Tasks::join`] does, but no longer than to the moment given: what runs then ends at its next await.
    pub async fn join_until(&self, io: &I, until: Instant) {
        if deadline(io, until, self.join()).await.is_none() {
            self.cancel();
        }
    }

    /// Ends every task at its next await.
    pub fn cancel(&self) {
        let cancelled = core::mem::take(&mut *self.running.borrow_mut());
        drop(cancelled);
    }
}
