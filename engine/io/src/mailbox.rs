//! Bounded queues between shards: the only things that cross cores.
//!
//! A mailbox is made before the shards start and its ends are handed to them. It counts what passes, so that "nothing
//! crosses cores on the data path" is a number that can be read, not a hope.

use core::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The other end is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other end of the mailbox is gone")
    }
}

impl std::error::Error for Closed {}

/// Why a message was not taken; it comes back.
#[derive(Debug, PartialEq, Eq)]
pub enum SendError<T> {
    /// The mailbox holds as many messages as it may.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// Makes a mailbox that holds at most `capacity` messages.
///
/// # Panics
/// Where `capacity` is 0.
#[must_use]
pub fn mailbox<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = async_channel::bounded(capacity);
    (Sender { queue: sender, sent: Arc::new(AtomicU64::new(0)) }, Receiver { queue: receiver })
}

/// The sending end. Clones feed the same mailbox and share its count.
#[derive(Debug)]
pub struct Sender<T> {
    queue: async_channel::Sender<T>,
    sent: Arc<AtomicU64>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), sent: Arc::clone(&self.sent) }
    }
}

impl<T> Sender<T> {
    /// Sends, waiting while the mailbox is full. Dropped before it resolves, the message is lost.
    ///
    /// # Errors
    /// [`Closed`] where the receiver is gone.
    pub async fn send(&self, message: T) -> Result<(), Closed> {
        self.queue.send(message).await.map_err(|_| Closed)?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Sends if there is room now.
    ///
    /// # Errors
    /// The message comes back, with why.
    pub fn try_send(&self, message: T) -> Result<(), SendError<T>> {
        self.queue.try_send(message).map_err(|error| match error {
            async_channel::TrySendError::Full(message) => SendError::Full(message),
            async_channel::TrySendError::Closed(message) => SendError::Closed(message),
        })?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// How many messages this mailbox has taken in all.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver<T> {
    queue: async_channel::Receiver<T>,
}

impl<T> Receiver<T> {
    /// The next message, in the order sent. Dropping it loses none.
    ///
    /// # Errors
    /// [`Closed`] where all senders are gone and nothing is left.
    pub async fn receive(&self) -> Result<T, Closed> {
        self.queue.recv().await.map_err(|_| Closed)
    }

    /// The next message if one is there.
    #[must_use]
    pub fn try_receive(&self) -> Option<T> {
        self.queue.try_recv().ok()
    }
}

/// A place for exactly one answer, reserved when the question is sent, so that two full mailboxes can't wait for each
/// other.
#[must_use]
pub fn reply<T>() -> (ReplySlot<T>, Reply<T>) {
    let (sender, receiver) = async_channel::bounded(1);
    (ReplySlot { slot: sender }, Reply { slot: receiver })
}

/// Where the answer goes.
#[derive(Debug)]
pub struct ReplySlot<T> {
    slot: async_channel::Sender<T>,
}

impl<T> ReplySlot<T> {
    /// Answers. Nobody waiting any more is fine.
    pub fn answer(self, answer: T) {
        // The slot is empty: it holds one and `answer` takes the only sender.
        let _nobody_waits = self.slot.try_send(answer);
    }
}

/// Where the answer comes from.
#[derive(Debug)]
pub struct Reply<T> {
    slot: async_channel::Receiver<T>,
}

impl<T> Reply<T> {
    /// The answer.
    ///
    /// # Errors
    /// [`Closed`] where the slot was dropped without one.
    pub async fn wait(self) -> Result<T, Closed> {
        self.slot.recv().await.map_err(|_| Closed)
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::block_on;

    use super::*;

    #[test]
    fn messages_keep_their_order_and_are_counted() {
        let (sender, receiver) = mailbox(2);
        sender.try_send(1).unwrap();
        let other = sender.clone();
        other.try_send(2).unwrap();
        assert_eq!(sender.try_send(3), Err(SendError::Full(3)));
        assert_eq!(block_on(receiver.receive()), Ok(1));
        assert_eq!(receiver.try_receive(), Some(2));
        assert_eq!(sender.sent(), 2);
    }

    #[test]
    fn a_dropped_end_is_told_to_the_other() {
        let (sender, receiver) = mailbox(1);
        drop(receiver);
        assert_eq!(sender.try_send(1), Err(SendError::Closed(1)));
        let (slot, answer) = reply::<u8>();
        drop(slot);
        assert_eq!(block_on(answer.wait()), Err(Closed));
    }

    #[test]
    fn an_answer_needs_no_one_to_wait_for_it() {
        let (slot, answer) = reply();
        slot.answer(7);
        assert_eq!(block_on(answer.wait()), Ok(7));
        let (slot, answer) = reply();
        drop(answer);
        slot.answer(7);
    }
}
