//! Waiting for the first of two things.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

use engine_record::Instant;

use crate::Io;

/// Awaits `future` until `at`; `None` where the time came first. `future` is polled first, so what is ready wins.
///
/// The loser is dropped: `future` must be one that may be dropped ([`crate::Wait`], [`Io::sleep`], a mailbox's receive).
pub async fn deadline<I: Io, T>(io: &I, at: Instant, future: impl Future<Output = T>) -> Option<T> {
    let sleep = io.sleep(at.since(io.now()));
    first(future, sleep).await.ok()
}

/// Awaits both futures until one resolves: `Ok` is the first's, `Err` the second's. The first is polled first. The
/// loser is dropped.
pub async fn first<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> Result<A, B> {
    let mut first = pin!(first);
    let mut second = pin!(second);
    poll_fn(|context| {
        if let Poll::Ready(value) = first.as_mut().poll(context) {
            return Poll::Ready(Ok(value));
        }
        second.as_mut().poll(context).map(Err)
    })
    .await
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, pending, ready};

    use super::*;

    #[test]
    fn what_is_ready_wins_and_the_first_before_the_second() {
        assert_eq!(block_on(first(ready(1), ready(2))), Ok(1));
        assert_eq!(block_on(first(pending::<u8>(), ready(2))), Err(2));
    }
}
