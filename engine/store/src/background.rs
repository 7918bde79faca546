//! Tasks nobody awaits at once: each is kept until it has ended, and all are awaited before the store ends.

use core::future::Future;

use engine_io::{Io, Tasks, reply};

/// The running background tasks of a shard's store.
pub(crate) struct Background<I: Io> {
    tasks: Tasks<I>,
}

impl<I: Io> Background<I> {
    pub(crate) const fn new() -> Self {
        Self { tasks: Tasks::new() }
    }

    pub(crate) fn spawn(&self, io: &I, future: impl Future<Output = ()> + 'static) {
        self.tasks.spawn(io, future);
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
        self.tasks.join().await;
    }
}
