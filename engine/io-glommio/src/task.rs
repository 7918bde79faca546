//! Tasks.

use core::cell::Cell;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::rc::Rc;

use engine_io::Task;
use glommio::TaskQueueHandle;
use pin_project_lite::pin_project;

/// A task's handle. Dropping it cancels the task.
pub struct GlommioTask {
    task: glommio::Task<()>,
    ended: Rc<Cell<bool>>,
}

impl GlommioTask {
    pub(crate) fn spawn(future: impl Future<Output = ()> + 'static) -> Self {
        let ended = Rc::new(Cell::new(false));
        let whole = Marking { future, ended: Rc::clone(&ended) };
        // Spawning into a named queue only schedules; the plain spawn would poll the future inside this call.
        let task = glommio::spawn_local_into(whole, TaskQueueHandle::default())
            .expect("the default queue lives as long as the executor");
        Self { task, ended }
    }
}

pin_project! {
    /// Notes that a task has ended. An `async` block would keep the task's future twice, as what it has caught and where it
    /// is awaited.
    struct Marking<F> {
        #[pin]
        future: F,
        ended: Rc<Cell<bool>>,
    }
}

impl<F: Future<Output = ()>> Future for Marking<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        this.future.poll(context).map(|()| this.ended.set(true))
    }
}

impl Task for GlommioTask {
    async fn join(self) {
        self.task.await;
    }

    fn is_finished(&self) -> bool {
        self.ended.get()
    }
}

impl fmt::Debug for GlommioTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlommioTask").field("ended", &self.ended.get()).finish_non_exhaustive()
    }
}
