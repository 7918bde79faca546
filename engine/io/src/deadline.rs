//! Waiting for the first of two things.
//!
//! These are structures, not `async` functions, as such a function keeps each future it is given twice: as its argument and
//! where it is awaited. One within the other they would take four times the memory of what they wait for, in each task.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use engine_record::Instant;
use pin_project_lite::pin_project;

use crate::Io;

pin_project! {
    /// What [`first`] gives.
    struct First<A, B> {
        #[pin]
        first: A,
        #[pin]
        second: B,
    }
}

pin_project! {
    /// What [`deadline`] gives.
    struct Deadline<F, S> {
        #[pin]
        first: First<F, S>,
    }
}

impl<A: Future, B: Future> Future for First<A, B> {
    type Output = Result<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(value) = this.first.poll(context) {
            return Poll::Ready(Ok(value));
        }
        this.second.poll(context).map(Err)
    }
}

impl<F: Future, S: Future> Future for Deadline<F, S> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().first.poll(context).map(Result::ok)
    }
}

/// Awaits `future` until `at`; `None` where the time came first. `future` is polled first, so what is ready wins.
///
/// The loser is dropped, once this is: `future` must be one that may be dropped ([`crate::Wait`], [`Io::sleep`], a mailbox's
/// receive).
pub fn deadline<I: Io, T>(
    io: &I,
    at: Instant,
    future: impl Future<Output = T>,
) -> impl Future<Output = Option<T>> {
    Deadline { first: First { first: future, second: io.sleep(at.since(io.now())) } }
}

/// Awaits both futures until one resolves: `Ok` is the first's, `Err` the second's. The first is polled first. The
/// loser is dropped, once this is.
pub fn first<A, B>(
    first: impl Future<Output = A>,
    second: impl Future<Output = B>,
) -> impl Future<Output = Result<A, B>> {
    First { first, second }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, pending, ready};

    use super::*;

    #[test]
    fn nothing_is_kept_twice() {
        let large = || async {
            let kept = [1_u8; 1_000];
            pending::<()>().await;
            kept
        };
        let (one, two) = (size_of_val(&large()), size_of_val(&first(large(), first(large(), ready(())))));
        assert!(two < 2 * one + 100, "{two} for two of {one}");
    }

    #[test]
    fn what_is_ready_wins_and_the_first_before_the_second() {
        assert_eq!(block_on(first(ready(1), ready(2))), Ok(1));
        assert_eq!(block_on(first(pending::<u8>(), ready(2))), Err(2));
    }
}
