//! A reply that has been begun, and is driven until it is made.
//!
//! Once it was polled it may hold what all connections of the shard share: the turn to make a long answer, a place in a
//! queue for memory, memory for what a disk reads. So it is never left alone before it is made: whatever its connection
//! waits for meanwhile, it is polled too.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};

use engine_io::Io;

use crate::reply_queue::PendingReply;
use crate::response::Response;

/// The next reply of a connection.
pub(crate) enum Driven<I: Io> {
    /// It is being made.
    Pending(PendingReply<I>),
    /// It was made while others were sent. Of what is shared it holds its memory alone.
    Made(Response<I>),
}

impl<I: Io> Driven<I> {
    pub(crate) fn new(reply: PendingReply<I>) -> Self {
        Self::Pending(reply)
    }

    /// Drives it to its end.
    pub(crate) async fn response(self) -> Response<I> {
        match self {
            Self::Pending(reply) => reply.await,
            Self::Made(response) => response,
        }
    }

    /// What it is, where that takes no wait. Where it does, it must be driven on.
    pub(crate) async fn poll_once(&mut self) -> Option<Response<I>> {
        poll_fn(|context| Poll::Ready(self.poll(context))).await
    }

    /// Awaits `other`, and drives it meanwhile.
    pub(crate) async fn drive_during<T>(&mut self, mut other: Pin<&mut impl Future<Output = T>>) -> T {
        poll_fn(|context| {
            let ended = other.as_mut().poll(context);
            // Also where the other has ended: what has woken the task may have been meant for this alone.
            if let Some(response) = self.poll(context) {
                *self = Self::Made(response);
            }
            ended
        })
        .await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Option<Response<I>> {
        match self {
            Self::Pending(reply) => match reply.as_mut().poll(context) {
                Poll::Ready(response) => Some(response),
                Poll::Pending => None,
            },
            Self::Made(_) => None,
        }
    }
}
