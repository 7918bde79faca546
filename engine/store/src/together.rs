//! Awaiting many things, some of them at a time.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;

/// Awaits all futures, at most `at_once` of them at a time, started in order. All are awaited also after an error.
///
/// # Errors
/// The first error that came.
///
/// # Panics
/// Where `at_once` is 0.
pub(crate) async fn all<E>(
    at_once: usize,
    futures: impl IntoIterator<Item = impl Future<Output = Result<(), E>>>,
) -> Result<(), E> {
    assert!(at_once > 0, "nothing ends when nothing may run");
    let mut waiting = futures.into_iter();
    let mut running: Vec<Pin<Box<_>>> = Vec::new();
    let mut first_error = None;
    poll_fn(move |context| {
        loop {
            let free = at_once - running.len();
            running.extend(waiting.by_ref().take(free).map(Box::pin));
            let before = running.len();
            running.retain_mut(|future| match future.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(result) => {
                    first_error = first_error.take().or_else(|| result.err());
                    false
                }
            });
            if running.len() == before {
                return if before == 0 {
                    Poll::Ready(first_error.take().map_or(Ok(()), Err))
                } else {
                    Poll::Pending
                };
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use futures_lite::future::{block_on, yield_now};

    use super::*;

    #[test]
    fn all_are_awaited_and_never_more_than_allowed_at_once() {
        let (running, most, ended) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let futures = (0..10).map(|number| {
            let (running, most, ended) = (&running, &most, &ended);
            async move {
                running.set(running.get() + 1);
                most.set(most.get().max(running.get()));
                for _ in 0..number % 4 {
                    yield_now().await;
                }
                running.set(running.get() - 1);
                ended.set(ended.get() + 1);
                if number % 5 == 3 { Err(number) } else { Ok(()) }
            }
        });
        assert!(block_on(all(3, futures)).is_err());
        assert_eq!((running.get(), most.get(), ended.get()), (0, 3, 10));
    }

    #[test]
    fn nothing_to_await_is_done_at_once() {
        let none: [core::future::Ready<Result<(), ()>>; 0] = [];
        assert_eq!(block_on(all(1, none)), Ok(()));
    }
}
