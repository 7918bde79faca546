//! Which partitions' written or flushed ends have moved, for whoever moves the high watermarks.

use core::cell::RefCell;
use std::collections::BTreeSet;

use engine_io::Signal;
use engine_record::TopicPartition;

/// The partitions that moved since they were last asked for.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    moved: RefCell<BTreeSet<TopicPartition>>,
    signal: Signal,
}

impl Progress {
    pub(crate) fn note(&self, partition: TopicPartition) {
        let is_first = {
            let mut moved = self.moved.borrow_mut();
            moved.insert(partition) && moved.len() == 1
        };
        if is_first {
            self.signal.notify();
        }
    }

    /// Takes what moved; resolves when there is something.
    pub(crate) async fn take(&self) -> Vec<TopicPartition> {
        loop {
            let next = self.signal.wait();
            let moved = self.moved.take();
            if !moved.is_empty() {
                return moved.into_iter().collect();
            }
            next.await;
        }
    }
}
