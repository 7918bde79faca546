//! Waiting for time to pass, or for nothing.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::rc::Rc;

use engine_record::Instant;

use crate::executor::Core;
use crate::world::Due;

/// Resolves at a moment or a little later.
pub(crate) struct Sleep {
    core: Rc<Core>,
    until: Instant,
    due: Option<Due>,
}

impl Sleep {
    pub(crate) const fn new(core: Rc<Core>, until: Instant) -> Self {
        Self { core, until, due: None }
    }

    fn remove_timer(&mut self) {
        if let Some(due) = self.due.take() {
            self.core.world(|world| world.remove_timer(due));
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.remove_timer();
        if self.core.world(|world| world.now) >= self.until {
            return Poll::Ready(());
        }
        let (until, waker) = (self.until, context.waker().clone());
        self.due = Some(self.core.world(|world| world.set_timer(until, waker)));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.remove_timer();
    }
}

/// Resolves the second time it is polled.
#[derive(Default)]
pub(crate) struct Yield {
    has_yielded: bool,
}

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
