//! Awaiting many things, some of them at a time.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;

/// Awaits all futures, at most `at_once` of them at a time, started in order.
///
/// # Panics
/// Where `at_once` is 0.
pub async fn together(at_once: usize, futures: impl IntoIterator<Item = impl Future<Output = ()>>) {
    assert!(at_once > 0, "nothing ends when nothing may run");
    let mut waiting = futures.into_iter();
    let mut running: Vec<Pin<Box<_>>> = Vec::new();
    poll_fn(move |context| {
        loop {
            running.extend(waiting.by_ref().take(at_once - running.len()).map(Box::pin));
            let before = running.len();
            running.retain_mut(|future| future.as_mut().poll(context).is_pending());
            if running.len() == before {
                return if before == 0 { Poll::Ready(()) } else { Poll::Pending };
            }
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use futures_lite::future::{block_on, yield_now};

    use super::*;

    #[test]
    fn all_are_awaited_and_never_more_than_allowed_at_once() {
        let (running, most, ended) = (Cell::new(0), Cell::new(0), Cell::new(0));
        block_on(together(
            3,
            (0..10).map(|number| {
                let (running, most, ended) = (&running, &most, &ended);
                async move {
                    running.set(running.get() + 1);
                    most.set(most.get().max(running.get()));
                    for _ in 0..number % 4 {
                        yield_now().await;
                    }
                    running.set(running.get() - 1);
                    ended.set(ended.get() + 1);
                }
            }),
        ));
        assert_eq!((running.get(), most.get(), ended.get()), (0, 3, 10));
    }

    #[test]
    fn nothing_to_await_is_done_at_once() {
        block_on(together(1, [] as [core::future::Ready<()>; 0]));
    }
}
