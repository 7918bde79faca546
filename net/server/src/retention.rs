//! Deletes what retention doesn't keep.
//!
//! Each shard looks at its own partitions, one after the other, so that at any time it deletes of one. What is to go is
//! decided by the log and carried out by the store.

use core::cell::RefCell;
use core::time::Duration;
use std::collections::BTreeSet;
use std::rc::Rc;

use engine_io::{Io, Signal, deadline};
use engine_record::TopicPartition;
use engine_store::StoreError;

use crate::notices::Notice;
use crate::partition::Partition;
use crate::shard::Shard;

/// The first look comes this long after the start at the latest: a start has other things to do.
const FIRST_AFTER: Duration = Duration::from_secs(30);

/// Partitions to be looked at before it is time.
pub(crate) struct Retention {
    wanted: RefCell<BTreeSet<TopicPartition>>,
    signal: Signal,
}

impl Retention {
    pub(crate) fn new() -> Self {
        Self { wanted: RefCell::default(), signal: Signal::new() }
    }

    /// Has the partition looked at soon.
    pub(crate) fn want(&self, at: TopicPartition) {
        self.wanted.borrow_mut().insert(at);
        self.signal.notify();
    }

    async fn next(&self) -> TopicPartition {
        loop {
            let signal = self.signal.wait();
            if let Some(at) = self.wanted.borrow_mut().pop_first() {
                return at;
            }
            signal.await;
        }
    }
}

/// Looks again and again for what is to be deleted, until the task is dropped.
pub(crate) async fn enforce<I: Io>(shard: Rc<Shard<I>>) {
    let every = shard.config().broker.retention_check_interval;
    let mut due = shard.io().now().after(every.min(FIRST_AFTER));
    loop {
        if let Some(wanted) = deadline(shard.io(), due, shard.retention().next()).await {
            if let Ok(partition) = shard.partition(wanted) {
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
    match partition.log().delete_old_segments().await {
        // A failed store ends the node, and says why itself.
        Ok(_) | Err(StoreError::Closed | StoreError::Failed(_)) => {}
        Err(error) => shard.notice(Notice::RetentionFailed, |held_back| {
            tracing::warn!(%error, held_back, "a partition's old segments stay; the next look tries again");
        }),
    }
}
