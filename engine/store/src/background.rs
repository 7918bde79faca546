//! Tasks nobody awaits at once: each is kept until it has ended, and all are awaited before the store ends.

use core::cell::{Cell, RefCell};
use core::future::Future;

use engine_io::{Io, Task, reply};

/// The running background tasks of a shard's store.
pub(crate) struct Background<I: Io> {
    tasks: RefCell<Vec<I::Task>>,
    /// At how many tasks to look for ended ones: twice as many as were left the last time, so that looking costs a
    /// constant for each task.
    look_at: Cell<usize>,
}

/// With fewer tasks than this none is looked for.
const LOOK_MIN: usize = 64;

impl<I: Io> Background<I> {
    pub(crate) fn new() -> Self {
        Self { tasks: RefCell::new(Vec::new()), look_at: Cell::new(LOOK_MIN) }
    }

    pub(crate) fn spawn(&self, io: &I, future: impl Future<Output = ()> + 'static) {
        let task = io.spawn(future);
        let mut tasks = self.tasks.borrow_mut();
        if tasks.len() >= self.look_at.get() {
            tasks.retain(|task| !task.is_finished());
            self.look_at.set(LOOK_MIN.max(2 * tasks.len()));
        }
        tasks.push(task);
    }

    /// Carries `future` out also where the caller's future is dropped before it resolves. `None` where the shard ends
    /// first.
    pub(crate) async fn carry_out<T: 'static>(
        &self,
        io: &I,
        future: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        let (slot, result) = reply();
        self.spawn(io, async move { slot.answer(future.await) });
        result.wait().await.ok()
    }

    /// Resolves when every task has ended, those included that tasks start meanwhile.
    pub(crate) async fn join(&self) {
        loop {
            let Some(task) = self.tasks.borrow_mut().pop() else { return };
            task.join().await;
        }
    }
}
