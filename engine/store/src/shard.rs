//! What all partitions of one shard's store share.

use core::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine_io::Io;
use engine_record::{TopicId, TopicPartition};

use crate::background::Background;
use crate::checkpointer::Checkpointer;
use crate::config::StoreConfig;
use crate::descriptors::Descriptors;
use crate::error::{DiskError, StoreError, WaitError};
use crate::failure::Failure;
use crate::flush::Flusher;
use crate::idle::IdleSweep;
use crate::layout::Layout;
use crate::metrics::Counters;
use crate::partition::Partition;
use crate::pool::Pool;
use crate::progress::Progress;
use crate::read::index::LoadedIndexes;
use crate::resources::Resources;
use crate::want::Want;

/// The shared parts, each of which keeps its own state.
pub(crate) struct Shard<I: Io> {
    pub(crate) io: I,
    pub(crate) config: StoreConfig,
    pub(crate) layout: Layout,
    pub(crate) failure: Failure,
    pub(crate) want_of_space: Want,
    pub(crate) want_of_descriptors: Want,
    pub(crate) want_of_pool: Want,
    pub(crate) counters: Counters,
    pub(crate) progress: Progress,
    pub(crate) pool: Rc<Pool<I>>,
    pub(crate) descriptors: Rc<Descriptors<I>>,
    pub(crate) indexes: LoadedIndexes,
    pub(crate) flusher: Flusher<I>,
    pub(crate) checkpointer: Checkpointer<I>,
    pub(crate) idle: IdleSweep,
    pub(crate) background: Background<I>,
    pub(crate) partitions: RefCell<BTreeMap<TopicPartition, Rc<Partition<I>>>>,
    /// Partitions on their way to be open.
    opening: RefCell<BTreeSet<TopicPartition>>,
    /// The topics there were when the store was opened, until orphans were looked for among them.
    pub(crate) topics_found: RefCell<BTreeSet<TopicId>>,
    is_closing: Cell<bool>,
}

impl<I: Io> Shard<I> {
    pub(crate) fn new(
        io: I,
        config: StoreConfig,
        resources: Resources<I>,
        layout: Layout,
        checkpointer: Checkpointer<I>,
    ) -> Self {
        let Resources { pool, descriptors } = resources;
        Self {
            pool,
            descriptors,
            io,
            config,
            layout,
            failure: Failure::default(),
            want_of_space: Want::default(),
            want_of_pool: Want::default(),
            want_of_descriptors: Want::default(),
            counters: Counters::default(),
            progress: Progress::default(),
            indexes: LoadedIndexes::default(),
            flusher: Flusher::new(),
            checkpointer,
            idle: IdleSweep::default(),
            background: Background::new(),
            partitions: RefCell::new(BTreeMap::new()),
            opening: RefCell::new(BTreeSet::new()),
            topics_found: RefCell::new(BTreeSet::new()),
            is_closing: Cell::new(false),
        }
    }

    /// Notes that a partition is being opened, until the answer is dropped.
    ///
    /// # Errors
    /// Where it is open already, or the store closes.
    pub(crate) fn begin_opening(self: &Rc<Self>, at: TopicPartition) -> Result<OpeningGuard<I>, StoreError> {
        if self.is_closing() {
            return Err(StoreError::Closed);
        }
        if self.partitions.borrow().contains_key(&at) || !self.opening.borrow_mut().insert(at) {
            return Err(StoreError::AlreadyOpen(at));
        }
        Ok(OpeningGuard { shard: Rc::clone(self), at })
    }

    /// Ends what would go on by itself.
    pub(crate) fn begin_closing(&self) {
        self.is_closing.set(true);
        self.idle.stop();
        self.checkpointer.hurry();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.get()
    }

    /// Ends the store: everything that waits or comes later is answered with the first failure.
    pub(crate) fn fail(&self, error: DiskError) {
        if self.failure.set(error) {
            for partition in self.all_partitions() {
                partition.give_back_all();
                partition.wake();
            }
        }
    }

    /// Whether the store still answers.
    pub(crate) fn check(&self) -> Result<(), WaitError> {
        self.failure.get().map_or(Ok(()), |failure| Err(WaitError::Failed(failure)))
    }

    pub(crate) fn all_partitions(&self) -> Vec<Rc<Partition<I>>> {
        self.partitions.borrow().values().cloned().collect()
    }

    pub(crate) fn partition(&self, at: TopicPartition) -> Option<Rc<Partition<I>>> {
        self.partitions.borrow().get(&at).cloned()
    }
}

/// A partition on its way to be open.
pub(crate) struct OpeningGuard<I: Io> {
    shard: Rc<Shard<I>>,
    at: TopicPartition,
}

impl<I: Io> Drop for OpeningGuard<I> {
    fn drop(&mut self) {
        self.shard.opening.borrow_mut().remove(&self.at);
    }
}
