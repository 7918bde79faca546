//! What the control executor has decided, in order, with a look at what comes next.

use core::future::pending;
use std::collections::VecDeque;
use std::sync::Arc;

use engine_io::Receiver;
use replication::metadata::commands::Command;

use crate::control::channel::{DELTAS_MAX, Delta};

/// The deltas of a shard, in order.
pub(crate) struct Deltas {
    mailbox: Receiver<Delta>,
    /// Seen ahead, and still to be taken; at most [`DELTAS_MAX`].
    seen: VecDeque<Delta>,
}

impl Deltas {
    pub(crate) fn new(mailbox: Receiver<Delta>) -> Self {
        Self { mailbox, seen: VecDeque::new() }
    }

    /// The next one to be applied; `None` where the control executor has ended. Dropping it loses none.
    pub(crate) async fn next(&mut self) -> Option<Delta> {
        match self.seen.pop_front() {
            Some(delta) => Some(delta),
            None => self.mailbox.receive().await.ok(),
        }
    }

    /// The next one, where it has come and is a wanted one.
    pub(crate) fn next_if(&mut self, is_wanted: impl FnOnce(&Command) -> bool) -> Option<Delta> {
        if self.seen.is_empty() {
            self.seen.extend(self.mailbox.try_receive());
        }
        let is_wanted = self.seen.front().is_some_and(|delta| is_wanted(&delta.command));
        is_wanted.then(|| self.seen.pop_front()).flatten()
    }

    /// Waits for another one to come, which stays to be taken in its turn. Dropping it loses none.
    pub(crate) async fn look_ahead(&mut self) -> Arc<Command> {
        if self.seen.len() < DELTAS_MAX
            && let Ok(delta) = self.mailbox.receive().await
        {
            return self.keep(delta);
        }
        // There is no room to look further, or nothing will come any more.
        pending().await
    }

    /// One that has come and wasn't seen yet; it too stays to be taken.
    pub(crate) fn look_at_next(&mut self) -> Option<Arc<Command>> {
        if self.seen.len() == DELTAS_MAX {
            return None;
        }
        self.mailbox.try_receive().map(|delta| self.keep(delta))
    }

    fn keep(&mut self, delta: Delta) -> Arc<Command> {
        let command = Arc::clone(&delta.command);
        self.seen.push_back(delta);
        command
    }
}

#[cfg(test)]
mod tests {
    use engine_io::mailbox;
    use engine_record::TopicId;
    use futures_lite::future::{block_on, poll_once};

    use super::*;

    fn delta(index: u64) -> Delta {
        Delta { index, command: Arc::new(Command::DeleteTopic { id: TopicId([1; 16]) }) }
    }

    #[test]
    fn what_was_seen_ahead_comes_in_its_turn() {
        let (sender, receiver) = mailbox(4);
        let mut deltas = Deltas::new(receiver);
        for index in 1..=3 {
            sender.try_send(delta(index)).unwrap();
        }
        block_on(deltas.look_ahead());
        assert!(deltas.look_at_next().is_some());
        for index in 1..=3 {
            assert_eq!(block_on(deltas.next()).map(|delta| delta.index), Some(index));
        }
        drop(sender);
        assert!(block_on(deltas.next()).is_none());
    }

    #[test]
    fn the_next_is_taken_only_where_it_has_come_and_is_wanted() {
        let (sender, receiver) = mailbox(4);
        let mut deltas = Deltas::new(receiver);
        assert!(deltas.next_if(|_| true).is_none());
        sender.try_send(delta(1)).unwrap();
        sender.try_send(delta(2)).unwrap();
        assert!(deltas.next_if(|_| false).is_none());
        assert_eq!(deltas.next_if(|_| true).map(|delta| delta.index), Some(1));
        assert_eq!(block_on(deltas.next()).map(|delta| delta.index), Some(2));
    }

    #[test]
    fn no_more_is_seen_ahead_than_a_mailbox_holds() {
        let (sender, receiver) = mailbox(DELTAS_MAX + 1);
        let mut deltas = Deltas::new(receiver);
        for index in 0..=DELTAS_MAX as u64 {
            sender.try_send(delta(index)).unwrap();
        }
        while deltas.look_at_next().is_some() {}
        assert!(block_on(poll_once(deltas.look_ahead())).is_none());
        assert!(sender.try_send(delta(0)).is_ok(), "all but one were seen");
    }
}
