//! Partitions that could not be opened for a reason that may pass: they are opened again, until it has passed or their
//! topic is gone.

use core::cell::RefCell;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine_io::{Io, Signal, deadline};
use engine_record::{Instant, TopicId, TopicPartition};

use crate::opening;
use crate::shard::Shard;

/// The first pause before a partition is opened again, and the shortest there is, however often it is asked for.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Every pause is twice as long as the one before, up to this one.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The partitions of a shard that are to be opened again.
#[derive(Debug, Default)]
pub(crate) struct Reopening {
    waiting: RefCell<BTreeMap<TopicPartition, Waiting>>,
    trying: RefCell<BTreeSet<TopicPartition>>,
    /// Given when another is due, or one has been tried.
    changed: Signal,
}

#[derive(Debug)]
struct Waiting {
    /// Why it was not opened the last time.
    why: String,
    tried_at: Instant,
    pause: Duration,
}

impl Waiting {
    fn due_at(&self) -> Instant {
        self.tried_at.after(self.pause)
    }
}

/// An attempt under way; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    reopening: &'a Reopening,
    id: TopicPartition,
}

impl Reopening {
    /// The partition was not opened now, nor the times before where it is here already.
    pub(crate) fn failed(&self, id: TopicPartition, why: String, now: Instant) {
        let mut waiting = self.waiting.borrow_mut();
        let pause = waiting.get(&id).map_or(PAUSE_MIN, |before| (2 * before.pause).min(PAUSE_MAX));
        waiting.insert(id, Waiting { why, tried_at: now, pause });
        drop(waiting);
        self.changed.notify();
    }

    /// Why the partition is not open, where that may pass.
    pub(crate) fn why(&self, id: TopicPartition) -> Option<String> {
        self.waiting.borrow().get(&id).map(|waiting| waiting.why.clone())
    }

    /// A client asks for the partition: it is tried at once, unless it just was.
    pub(crate) fn ask(&self, id: TopicPartition) {
        if let Some(waiting) = self.waiting.borrow_mut().get_mut(&id) {
            waiting.pause = PAUSE_MIN;
            self.changed.notify();
        }
    }

    /// The partition is open, or will never be; whether it was waited for.
    pub(crate) fn settle(&self, id: TopicPartition) -> bool {
        self.waiting.borrow_mut().remove(&id).is_some()
    }

    /// The topic is gone.
    pub(crate) fn forget(&self, topic: TopicId) {
        self.waiting.borrow_mut().retain(|id, _| id.topic != topic);
    }

    /// Begins to try a partition.
    pub(crate) fn attempt(&self, id: TopicPartition) -> Attempt<'_> {
        self.trying.borrow_mut().insert(id);
        Attempt { reopening: self, id }
    }

    /// Resolves when no partition of the topic is being tried.
    pub(crate) async fn rests(&self, topic: TopicId) {
        loop {
            let change = self.changed.wait();
            if self.trying.borrow().iter().all(|id| id.topic != topic) {
                return;
            }
            change.await;
        }
    }

    fn next_due_at(&self) -> Option<Instant> {
        self.waiting.borrow().values().map(Waiting::due_at).min()
    }

    /// Those that are due, topic by topic.
    fn due(&self, now: Instant) -> Vec<TopicPartition> {
        let waiting = self.waiting.borrow();
        waiting.iter().filter(|(_, waiting)| waiting.due_at() <= now).map(|(id, _)| *id).collect()
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.reopening.trying.borrow_mut().remove(&self.id);
        self.reopening.changed.notify();
    }
}

/// Opens what is due, until the task is dropped.
pub(crate) async fn reopen<I: Io>(shard: Rc<Shard<I>>) {
    let reopening = shard.reopening();
    loop {
        let change = reopening.changed.wait();
        let now = shard.io().now();
        match reopening.next_due_at() {
            None => change.await,
            Some(at) if at > now => {
                // Whichever comes first: what is due is looked at again.
                let _changed = deadline(shard.io(), at, change).await;
            }
            Some(_) => opening::open_again(&shard, &reopening.due(now)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use engine_record::PartitionIndex;
    use futures_lite::future::{block_on, poll_once};

    use super::*;

    const ID: TopicPartition = TopicPartition { topic: TopicId([1; 16]), partition: PartitionIndex(0) };

    fn seconds(count: u64) -> Instant {
        Instant::ZERO.after(Duration::from_secs(count))
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_shrink_when_a_client_asks() {
        let reopening = Reopening::default();
        let mut now = seconds(0);
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            reopening.failed(ID, "full".to_owned(), now);
            assert_eq!(reopening.next_due_at(), Some(now.after(Duration::from_secs(pause))));
            now = now.after(Duration::from_secs(pause));
            assert_eq!(reopening.due(now), [ID]);
        }
        reopening.failed(ID, "full".to_owned(), now);
        reopening.ask(ID);
        assert_eq!(reopening.next_due_at(), Some(now.after(PAUSE_MIN)));
    }

    #[test]
    fn a_topic_that_is_gone_is_not_tried_again_and_rests_when_the_last_attempt_has_ended() {
        let reopening = Reopening::default();
        reopening.failed(ID, "full".to_owned(), seconds(0));
        let attempt = reopening.attempt(ID);
        reopening.forget(ID.topic);
        assert!(reopening.due(seconds(100)).is_empty() && !reopening.settle(ID));
        let mut rests = Box::pin(reopening.rests(ID.topic));
        assert!(block_on(poll_once(&mut rests)).is_none());
        drop(attempt);
        block_on(rests);
    }
}
