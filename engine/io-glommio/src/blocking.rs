//! Work that blocks, and work that must end even if nobody waits for it any more.

use core::cell::Cell;
use core::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use engine_io::Signal;

/// The shard's way to its pool of plain threads. All clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    state: Rc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Jobs begun and not yet ended.
    running: Cell<usize>,
    ended: Signal,
}

impl Pool {
    /// Runs `job` on a pool thread. Once polled it runs to its end, even if the future is dropped.
    ///
    /// A panic in `job` becomes a panic of the shard: the runtime would lose the thread and never answer.
    pub(crate) async fn run<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> R {
        self.finish(async move {
            let guarded = move || catch_unwind(AssertUnwindSafe(job));
            let outcome = glommio::executor().spawn_blocking(guarded).await;
            outcome.unwrap_or_else(|panic| resume_unwind(panic))
        })
        .await
    }

    /// Runs `future` to its end, even if the future that this gives is dropped.
    ///
    /// For operations of the runtime that lose a descriptor when dropped half-way (open, close).
    pub(crate) async fn finish<R: 'static>(&self, future: impl Future<Output = R> + 'static) -> R {
        let ticket = Ticket::take(&self.state);
        let task = glommio::spawn_local(async move {
            let output = future.await;
            drop(ticket);
            output
        });
        task.detach().await.expect("a detached task is not cancelled; a panic in it ends the shard")
    }

    /// Waits until nothing runs.
    pub(crate) async fn idle(&self) {
        loop {
            let wait = self.state.ended.wait();
            if self.state.running.get() == 0 {
                return;
            }
            wait.await;
        }
    }
}

/// Counts one piece of work for as long as it lives.
struct Ticket {
    state: Rc<State>,
}

impl Ticket {
    fn take(state: &Rc<State>) -> Self {
        state.running.set(state.running.get() + 1);
        Self { state: Rc::clone(state) }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.state.running.set(self.state.running.get() - 1);
        self.state.ended.notify();
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::sync::mpsc;
    use std::thread;

    use engine_io::Io;
    use futures_lite::future::poll_once;

    use crate::testing::on_shard;

    use super::*;

    #[test]
    fn jobs_run_off_the_shard_and_give_their_result() {
        let (here, there) = on_shard(|_, _| async {
            (thread::current().id(), Pool::default().run(|| thread::current().id()).await)
        })
        .unwrap();
        assert_ne!(here, there);
    }

    #[test]
    fn a_panic_in_a_job_is_a_panic_of_the_shard() {
        let ended = on_shard(|_, _| async { Pool::default().run(|| panic!("broken on purpose")).await });
        let panic: Box<dyn core::any::Any + Send> = ended.map(|(): ()| ()).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"broken on purpose"));
    }

    #[test]
    fn a_panic_in_a_job_nobody_waits_for_is_a_panic_of_the_shard_too() {
        let ended = on_shard(|_, _| async {
            let pool = Pool::default();
            let mut job = Box::pin(pool.run(|| panic!("broken on purpose")));
            assert_eq!(poll_once(&mut job).await, None::<()>);
            drop(job);
            pool.idle().await;
        });
        assert_eq!(ended.unwrap_err().downcast_ref::<&str>(), Some(&"broken on purpose"));
    }

    #[test]
    fn a_job_nobody_waits_for_still_ends_before_its_shard() {
        let (tell, told) = mpsc::channel();
        on_shard(move |io, _| {
            let tell = tell.clone();
            async move {
                let slow = move || {
                    let (_never, wait) = mpsc::channel::<()>();
                    let _timed_out = wait.recv_timeout(Duration::from_millis(20));
                    tell.send(7).unwrap();
                };
                let job = io.pool().run(slow);
                assert_eq!(poll_once(Box::pin(job)).await, None);
                io.yield_now().await;
            }
        })
        .unwrap();
        assert_eq!(told.try_recv(), Ok(7), "the shard has ended, so the job has");
    }
}
