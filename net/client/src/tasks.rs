//! The tasks that a producer or consumer has started.

use core::cell::RefCell;
use core::future::Future;

use engine_io::{Io, Task};

/// Tasks to be ended with their owner.
pub(crate) struct Tasks<I: Io> {
    running: RefCell<Vec<I::Task>>,
}

impl<I: Io> Tasks<I> {
    pub(crate) const fn new() -> Self {
        Self { running: RefCell::new(Vec::new()) }
    }

    pub(crate) fn spawn(&self, io: &I, future: impl Future<Output = ()> + 'static) {
        let task = io.spawn(future);
        let mut running = self.running.borrow_mut();
        running.retain(|task| !task.is_finished());
        running.push(task);
    }

    /// Cancels all of them.
    pub(crate) fn cancel(&self) {
        let running = core::mem::take(&mut *self.running.borrow_mut());
        drop(running);
    }
}
