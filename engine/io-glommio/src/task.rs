//! Tasks.

use core::cell::Cell;
use core::fmt;
use core::future::Future;
use std::rc::Rc;

use engine_io::Task;
use glommio::TaskQueueHandle;

/// A task's handle. Dropping it cancels the task.
pub struct GlommioTask {
    task: glommio::Task<()>,
    ended: Rc<Cell<bool>>,
}

impl GlommioTask {
    pub(crate) fn spawn(future: impl Future<Output = ()> + 'static) -> Self {
        let ended = Rc::new(Cell::new(false));
        let mark = Rc::clone(&ended);
        let whole = async move {
            future.await;
            mark.set(true);
        };
        // Spawning into a named queue only schedules; the plain spawn would poll the future inside this call.
        let task = glommio::spawn_local_into(whole, TaskQueueHandle::default())
            .expect("the default queue lives as long as the executor");
        Self { task, ended }
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
