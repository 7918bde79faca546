//! Bounded queues between shards: the only things that cross cores.
//!
//! A mailbox is made before the shards start and its ends are handed to them. Each end counts what passes it, by the
//! thread it is used on, so that "nothing crosses cores on the data path" is a number that can be read, not a hope:
//! [`messages_passed`].

use core::cell::Cell;
use core::fmt;

thread_local! {
    static PASSED: Cell<u64> = const { Cell::new(0) };
}

/// How many messages this thread has put into mailboxes and taken out of them, in all its life. Answers don't count:
/// each belongs to a message that does.
///
/// A shard is a thread, so this is what crosses to and from its core.
#[must_use]
pub fn messages_passed() -> u64 {
    PASSED.get()
}

fn count_message() {
    PASSED.set(PASSED.get() + 1);
}

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
    (Sender { queue: sender }, Receiver { queue: receiver })
}

/// The sending end. Clones feed the same mailbox.
#[derive(Debug)]
pub struct Sender<T> {
    queue: async_channel::Sender<T>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone() }
    }
}

impl<T> Sender<T> {
    /// Sends, waiting while the mailbox is full. Dropped before it resolves, the message is lost.
    ///
    /// # Errors
    /// [`Closed`] where the receiver is gone.
    pub async fn send(&self, message: T) -> Result<(), Closed> {
        self.queue.send(message).await.map_err(|_| Closed)?;
        count_message();
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
        count_message();
        Ok(())
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
        self.queue.recv().await.map_err(|_| Closed).inspect(|_| count_message())
    }

    /// The next message if one is there.
    #[must_use]
    pub fn try_receive(&self) -> Option<T> {
        self.queue.try_recv().ok().inspect(|_| count_message())
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
    fn messages_keep_their_order() {
        let (sender, receiver) = mailbox(2);
        sender.try_send(1).unwrap();
        let other = sender.clone();
        other.try_send(2).unwrap();
        assert_eq!(sender.try_send(3), Err(SendError::Full(3)));
        assert_eq!(block_on(receiver.receive()), Ok(1));
        assert_eq!(receiver.try_receive(), Some(2));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a shard is a thread, and there is none here")]
    fn every_message_counts_on_each_thread_it_passes() {
        let (sender, receiver) = mailbox(2);
        let before = messages_passed();
        block_on(sender.send(1)).unwrap();
        sender.try_send(2).unwrap();
        assert_eq!(sender.try_send(3), Err(SendError::Full(3)));
        assert_eq!(messages_passed() - before, 2);
        let receiving = std::thread::spawn(move || {
            assert_eq!((block_on(receiver.receive()), receiver.try_receive()), (Ok(1), Some(2)));
            assert_eq!(receiver.try_receive(), None);
            messages_passed()
        });
        assert_eq!(receiving.join().unwrap(), 2);
        assert_eq!(messages_passed() - before, 2);
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
