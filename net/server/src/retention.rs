//! Deletes what retention doesn't keep.
//!
//! Each shard looks at its own partitions, one after the other, so that at any time it deletes of one. What is to go is
//! decided by the log and carried out by the store.

use core::cell::RefCell;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine_io::{Io, Signal, deadline};
use engine_record::{Instant, TopicPartition};
use engine_store::StoreError;

use crate::notices::Notice;
use crate::partition::Partition;
use crate::shard::Shard;

/// The first look comes this long after the start at the latest: a start has other things to do.
const FIRST_AFTER: Duration = Duration::from_secs(30);

/// Where files are still being read, the next look comes this long after: as long as readers may take.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Partitions to be looked at before all are.
pub(crate) struct Retention {
    wanted: RefCell<Wanted>,
    signal: Signal,
}

/// When each is to be looked at; and the same by time.
#[derive(Default)]
struct Wanted {
    times: BTreeMap<TopicPartition, Instant>,
    order: BTreeSet<(Instant, TopicPartition)>,
}

impl Wanted {
    fn add(&mut self, at: TopicPartition, when: Instant) {
        match self.times.get(&at) {
            Some(known) if *known <= when => return,
            Some(known) => {
                self.order.remove(&(*known, at));
            }
            None => {}
        }
        self.times.insert(at, when);
        self.order.insert((when, at));
    }

    /// The first, where its time has come; else when that will be.
    fn take(&mut self, now: Instant) -> Result<TopicPartition, Option<Instant>> {
        let &(when, at) = self.order.first().ok_or(None)?;
        if when > now {
            return Err(Some(when));
        }
        self.order.remove(&(when, at));
        self.times.remove(&at);
        Ok(at)
    }
}

impl Retention {
    pub(crate) fn new() -> Self {
        Self { wanted: RefCell::default(), signal: Signal::new() }
    }

    /// Has the partition looked at then, or earlier where that was wanted already.
    pub(crate) fn want(&self, at: TopicPartition, when: Instant) {
        self.wanted.borrow_mut().add(at, when);
        self.signal.notify();
    }

    /// Waits for the time of the next one.
    async fn next<I: Io>(&self, io: &I) -> TopicPartition {
        loop {
            let signal = self.signal.wait();
            let first = self.wanted.borrow_mut().take(io.now());
            match first {
                Ok(at) => return at,
                Err(Some(when)) => drop(deadline(io, when, signal).await),
                Err(None) => signal.await,
            }
        }
    }
}

/// Looks again and again for what is to be deleted, until the task is dropped.
pub(crate) async fn enforce<I: Io>(shard: Rc<Shard<I>>) {
    let every = shard.config().broker.retention_check_interval;
    let mut due = shard.io().now().after(every.min(FIRST_AFTER));
    loop {
        // However many are wanted meanwhile, all have their look when it is time.
        if shard.io().now() < due {
            if let Some(wanted) = deadline(shard.io(), due, shard.retention().next(shard.io())).await
                && let Ok(partition) = shard.partition(wanted)
            {
                delete_old_segments(&shard, &partition).await;
            }
            continue;
        }
        for partition in shard.open_partitions() {
            delete_old_segments(&shard, &partition).await;
            shard.io().yield_now().await;
        }
        due = shard.io().now().after(every);
    }
}

async fn delete_old_segments<I: Io>(shard: &Shard<I>, partition: &Partition<I>) {
    let log = partition.log();
    match log.delete_old_segments().await {
        Ok(deleted) if deleted.held > 0 => {
            shard.retention().want(log.topic_partition(), shard.io().now().after(AGAIN_AFTER));
        }
        // A directory that has failed says why itself.
        Ok(_) | Err(StoreError::Closed | StoreError::Failed(_)) => {}
        Err(error) => shard.notice(Notice::RetentionFailed, |held_back| {
            tracing::warn!(%error, held_back, "a partition's old segments stay; the next look tries again");
        }),
    }
}

#[cfg(test)]
mod tests {
    use engine_record::{PartitionIndex, TopicId};

    use super::*;

    fn at(number: i32) -> TopicPartition {
        TopicPartition { topic: TopicId([7; 16]), partition: PartitionIndex(number) }
    }

    #[test]
    fn each_is_looked_at_once_at_the_earliest_time_it_was_wanted_for() {
        let mut wanted = Wanted::default();
        assert_eq!(wanted.take(Instant::ZERO), Err(None));
        for (number, when) in [(1, 50), (2, 30), (1, 20), (1, 40), (2, 30)] {
            wanted.add(at(number), Instant::from_nanos(when));
        }
        assert_eq!(wanted.take(Instant::from_nanos(19)), Err(Some(Instant::from_nanos(20))));
        assert_eq!(wanted.take(Instant::from_nanos(45)), Ok(at(1)));
        assert_eq!(wanted.take(Instant::from_nanos(45)), Ok(at(2)));
        assert_eq!(wanted.take(Instant::from_nanos(90)), Err(None));
    }
}
