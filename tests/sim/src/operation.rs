//! An operation under way: a place for its result, and who waits for it.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::rc::Rc;

/// Makes the two ends of an operation.
pub(crate) fn operation<T>() -> (Completion<T>, Operation<T>) {
    let slot = Rc::new(RefCell::new(Slot { result: None, waker: None }));
    (Completion { slot: Rc::clone(&slot) }, Operation { slot })
}

struct Slot<T> {
    result: Option<T>,
    waker: Option<Waker>,
}

/// Resolves with the operation's result. Dropping it doesn't stop the operation.
pub(crate) struct Operation<T> {
    slot: Rc<RefCell<Slot<T>>>,
}

impl<T> Future for Operation<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut slot = self.slot.borrow_mut();
        if let Some(result) = slot.result.take() {
            return Poll::Ready(result);
        }
        slot.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// The end that carries the operation out. Dropped unused (a crash), the operation never resolves.
pub(crate) struct Completion<T> {
    slot: Rc<RefCell<Slot<T>>>,
}

impl<T> Completion<T> {
    /// Resolves the operation and wakes who waits for it. Nobody waiting any more is fine.
    pub(crate) fn complete(self, result: T) {
        let mut slot = self.slot.borrow_mut();
        slot.result = Some(result);
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }
}
