//! The replies of one connection, in the order of its requests.
//!
//! A request's first stage runs when it is read and fixes its order; what remains is a future that yields the reply.
//! Those futures wait here, first in first out, and are driven one after the other: a reply never overtakes another.

use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use std::collections::VecDeque;

use engine_io::{Io, Signal};

use crate::response::Response;

/// What remains of a request after its order is fixed.
pub(crate) type PendingReply<I> = Pin<Box<dyn Future<Output = Response<I>>>>;

/// The queue between a connection's reading and its writing task.
pub(crate) struct ReplyQueue<I: Io> {
    replies: RefCell<VecDeque<PendingReply<I>>>,
    /// How many replies it may hold, the one being driven included.
    capacity: usize,
    in_flight: Cell<usize>,
    /// How many of them, the first ones, are made and leave.
    leaving: Cell<usize>,
    closed: Cell<bool>,
    abandoned: Cell<bool>,
    changed: Signal,
    /// How many of those under way, the first ones, wait for nothing that can be left out.
    hurried: Cell<usize>,
    hurrying: Signal,
}

impl<I: Io> ReplyQueue<I> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            replies: RefCell::default(),
            capacity,
            in_flight: Cell::new(0),
            leaving: Cell::new(0),
            closed: Cell::new(false),
            abandoned: Cell::new(false),
            changed: Signal::new(),
            hurried: Cell::new(0),
            hurrying: Signal::new(),
        }
    }

    /// Waits until another request may be started; `false` where the connection is closing.
    pub(crate) async fn has_room(&self) -> bool {
        loop {
            let change = self.changed.wait();
            if self.closed.get() {
                return false;
            }
            if self.in_flight.get() < self.capacity {
                return true;
            }
            change.await;
        }
    }

    /// Counts a request that is about to be started: its reply will be pushed, and the queue waits for it. `false` where
    /// the connection is closing, and the request must not be started.
    pub(crate) fn begin(&self) -> bool {
        let may_begin = !self.closed.get();
        self.in_flight.set(self.in_flight.get() + usize::from(may_begin));
        may_begin
    }

    /// Adds the reply of the request begun last.
    pub(crate) fn push(&self, reply: PendingReply<I>) {
        self.replies.borrow_mut().push_back(reply);
        self.changed.notify();
    }

    /// The next reply to drive; `None` once the queue is closed and everything begun was sent, or nobody is left to send
    /// to.
    pub(crate) async fn next(&self) -> Option<PendingReply<I>> {
        loop {
            let change = self.changed.wait();
            if let Some(reply) = self.try_next() {
                return Some(reply);
            }
            if self.abandoned.get() || (self.closed.get() && self.in_flight.get() == 0) {
                return None;
            }
            change.await;
        }
    }

    /// The next reply to drive, if there is one.
    pub(crate) fn try_next(&self) -> Option<PendingReply<I>> {
        self.replies.borrow_mut().pop_front()
    }

    /// Notes that the first `count` replies are made: the one behind them is driven.
    pub(crate) fn leaving(&self, count: usize) {
        self.leaving.set(count);
    }

    /// Notes that the first `count` replies have left, which are all that were made.
    pub(crate) fn sent(&self, count: usize) {
        self.leaving.set(0);
        self.in_flight.set(self.in_flight.get() - count);
        self.hurried.set(self.hurried.get().saturating_sub(count));
        self.changed.notify();
    }

    /// How many requests have been begun and not answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    /// The requests that are under way now are answered as soon as they can be.
    pub(crate) fn hurry(&self) {
        self.hurried.set(self.in_flight.get());
        self.hurrying.notify();
    }

    /// The request that is answered next is answered as soon as it can be.
    pub(crate) fn hurry_next(&self) {
        self.hurried.set(self.hurried.get().max(self.leaving.get() + 1));
        self.hurrying.notify();
    }

    /// Whether the reply being driven is one of those.
    pub(crate) fn is_hurried(&self) -> bool {
        self.hurried.get() > self.leaving.get()
    }

    /// Resolves when it is.
    pub(crate) async fn hurried(&self) {
        loop {
            let hurrying = self.hurrying.wait();
            if self.is_hurried() {
                return;
            }
            hurrying.await;
        }
    }

    /// No more requests come; what is queued is still answered.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.changed.notify();
    }

    /// Drops the replies that nobody will drive any more. What they hold, they hold until then: the request's memory,
    /// and the connection that holds them.
    pub(crate) fn abandon(&self) {
        self.abandoned.set(true);
        drop(self.replies.take());
        self.changed.notify();
    }
}
