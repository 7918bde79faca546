//! One shard's store: opens, lists, deletes and closes partitions.

use std::collections::BTreeSet;
use std::rc::Rc;

use engine_io::Io;
use engine_log::LogConfig;
use engine_record::{LeaderEpoch, PartitionIndex, TopicId, TopicPartition};

use crate::checkpoint_files;
use crate::config::{ConfigError, StoreConfig};
use crate::delete;
use crate::error::{DiskOperation, StoreError, StoreFailure, WaitError, disk};
use crate::flush::FlushInterest;
use crate::layout::Layout;
use crate::metrics::StoreMetrics;
use crate::open::{self, Opening};
use crate::orphans;
use crate::partition::{Partition, Recorded};
use crate::partition_log::PartitionLog;
use crate::resources::Resources;
use crate::shard::Shard;

/// What a start found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Whether every log was closed at the end of the last run. Otherwise what the node led may have lost a tail that
    /// was never flushed, and a new leader epoch must tell the replicas. Logs that no checkpoint knows count on shard 0.
    pub is_clean: bool,
    /// Partitions that the checkpoints of all shards know.
    pub partitions: usize,
    /// How many of them are to be scanned when they are opened.
    pub unclosed: usize,
}

/// One shard's store. Cloning it shares it.
///
/// It exists on the shard it was opened on, and so does everything it gives out.
pub struct Store<I: Io> {
    shard: Rc<Shard<I>>,
}

impl<I: Io> Clone for Store<I> {
    fn clone(&self) -> Self {
        Self { shard: Rc::clone(&self.shard) }
    }
}

impl<I: Io> Store<I> {
    /// Opens the shard's store in a formatted folder: reads the checkpoints of all shards. Partitions are opened one by
    /// one.
    ///
    /// All shards of a node open their stores before any of them appends: what one appends makes the next think that
    /// the last run didn't end cleanly.
    ///
    /// # Errors
    /// An impossible configuration, damaged checkpoints, or as the system says.
    pub async fn open(io: &I, config: StoreConfig) -> Result<(Self, RecoveryReport), StoreError> {
        let resources = Resources::new(&config);
        Self::open_sharing(io, config, &resources).await
    }

    /// As [`Store::open`], with memory and descriptors that other stores of the shard use as well.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn open_sharing(
        io: &I,
        config: StoreConfig,
        resources: &Resources<I>,
    ) -> Result<(Self, RecoveryReport), StoreError> {
        config.check()?;
        let layout = Layout::new(&config.folder);
        let folder = layout.checkpoints();
        io.create_folder(&folder).await.map_err(disk(DiskOperation::MakeFolder, &folder))?;
        let found = checkpoint_files::read_all(io, &layout, config.shard).await?;
        let mut report = found.report();
        let topics = orphans::topics_found(io, &layout, config.shard, found.entries()).await?;
        report.is_clean &= !orphans::is_any_unknown(io, &layout, found.entries(), &topics).await?;
        let shard = Shard::new(io.clone(), config, resources.clone(), layout, found.into_checkpointer());
        shard.topics_found.replace(topics);
        Ok((Self { shard: Rc::new(shard) }, report))
    }

    /// Opens a partition: makes it, or finds it as it was left. A closed one costs no I/O and no descriptor until it is
    /// used. Dropped, it goes on in the background.
    ///
    /// `leader_epoch` is the epoch in which the log is led from now on.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] where durable bytes are damaged: nothing is changed then.
    pub async fn open_partition(
        &self,
        at: TopicPartition,
        topic_name: &str,
        config: LogConfig,
        leader_epoch: LeaderEpoch,
    ) -> Result<PartitionLog<I>, StoreError> {
        let opening = Opening { at, topic_name: topic_name.to_owned(), config, leader_epoch };
        let shard = Rc::clone(&self.shard);
        let opened = self.carry_out(async move { open::open_partition(&shard, opening).await }).await?;
        Ok(PartitionLog::new(opened))
    }

    /// Whether a partition's log may be configured so.
    ///
    /// # Errors
    /// Where the largest batch doesn't fit the store's memory.
    pub fn check_log_config(&self, config: &LogConfig) -> Result<(), ConfigError> {
        open::check_config(&self.shard, config)
    }

    /// The partition, where it is open.
    #[must_use]
    pub fn partition(&self, at: TopicPartition) -> Option<PartitionLog<I>> {
        self.shard.partition(at).map(PartitionLog::new)
    }

    /// The partitions of a topic that lie here and aren't open: those that the checkpoints know, and those that have a
    /// folder.
    ///
    /// # Errors
    /// As the system says.
    pub async fn partitions_of(&self, topic: TopicId) -> Result<BTreeSet<PartitionIndex>, StoreError> {
        self.shard.check()?;
        Ok(orphans::partitions_of(&self.shard, topic).await?.into_iter().map(|at| at.partition).collect())
    }

    /// Ends the partition, open or not, and removes its files once its readers have let go or had time to.
    ///
    /// # Errors
    /// As the system says; it can be called again.
    pub async fn delete_partition(&self, at: TopicPartition) -> Result<(), StoreError> {
        let shard = Rc::clone(&self.shard);
        self.carry_out(async move { delete::delete_partition(&shard, at).await }).await
    }

    /// Removes a topic's folder, once its partitions are deleted on all shards. One that isn't there is fine.
    ///
    /// # Errors
    /// As the system says, also where a partition is left.
    pub async fn delete_topic_folder(&self, topic: TopicId) -> Result<(), StoreError> {
        delete::delete_topic_folder(&self.shard, topic).await
    }

    /// The topics of which disk or checkpoints had something when the store was opened, and which `is_known` denies:
    /// what a crash has left of deleted ones. Each is named once and on shard 0, whichever shards had its partitions.
    /// To be passed to [`Store::delete_topic`].
    ///
    /// `is_known` must answer for every topic that this node had been told of before the store was opened: what it
    /// denies are data to be deleted.
    pub fn orphans(&self, is_known: impl Fn(TopicId) -> bool) -> Vec<TopicId> {
        let found = self.shard.topics_found.take();
        found.into_iter().filter(|topic| !is_known(*topic)).collect()
    }

    /// Removes what disk and checkpoints have of an orphaned topic, the partitions of all shards and its folder.
    /// Nobody may have one of them open.
    ///
    /// # Errors
    /// As the system says, also where its folder holds what is no part of a topic; the next start names it again.
    pub async fn delete_topic(&self, topic: TopicId) -> Result<(), StoreError> {
        let shard = Rc::clone(&self.shard);
        self.carry_out(async move { orphans::delete_topic(&shard, topic).await }).await
    }

    /// The partitions whose written or flushed end has moved since the last call; resolves when there is one. For one
    /// caller: what it is told, another isn't.
    ///
    /// # Errors
    /// Where the store has failed.
    pub async fn progress(&self) -> Result<Vec<TopicPartition>, WaitError> {
        let moved = self.shard.progress.take();
        match engine_io::first(self.shard.failure.wait(), moved).await {
            Ok(failure) => Err(WaitError::Failed(failure)),
            Err(moved) => Ok(moved),
        }
    }

    /// Ends the store as a failed write does: for what others have seen of its folder. Nothing of it is acknowledged any
    /// more. A store that has failed before keeps its own reason.
    pub fn fail(&self, failure: StoreFailure) {
        self.shard.fail(failure.0);
    }

    /// Resolves when the store has failed, with why.
    pub async fn failed(&self) -> StoreFailure {
        self.shard.failure.wait().await
    }

    /// Closes all partitions: writes, flushes and records what they have, so that the next start finds all closed.
    ///
    /// # Errors
    /// As the system says, or as the store has failed. The next start recovers then.
    pub async fn shutdown(&self) -> Result<(), StoreError> {
        let shard = Rc::clone(&self.shard);
        self.carry_out(async move { close(&shard).await }).await?;
        self.shard.background.join().await;
        Ok(())
    }

    /// The store's counters. Those of memory and descriptors are of all stores that share them.
    #[must_use]
    pub fn metrics(&self) -> StoreMetrics {
        let pool_bytes_now = self.shard.pool.used_bytes() as u64;
        let descriptors_now = self.shard.descriptors.open_count() as u64;
        StoreMetrics { pool_bytes_now, descriptors_now, ..self.shard.counters.read() }
    }

    async fn carry_out<T: 'static>(
        &self,
        future: impl Future<Output = Result<T, StoreError>> + 'static,
    ) -> Result<T, StoreError> {
        let done = self.shard.background.carry_out(&self.shard.io, future).await;
        done.unwrap_or(Err(StoreError::Closed))
    }
}

async fn close<I: Io>(shard: &Rc<Shard<I>>) -> Result<(), StoreError> {
    shard.begin_closing();
    let partitions = shard.all_partitions();
    partitions.iter().for_each(|partition| partition.close());
    let _at_once = FlushInterest::new(shard);
    for partition in &partitions {
        partition.writes_ended().await;
        let end = partition.offsets().log_end;
        partition.wait_for_flush_or_deletion(end).await?;
        partition.work_ended().await;
    }
    record_closed(shard, partitions).await?;
    shard.checkpointer.close().await;
    for partition in shard.all_partitions() {
        partition.evict_tail();
        partition.all_segments().iter().for_each(|segment| shard.descriptors.close_idle(segment));
    }
    Ok(())
}

/// Records what isn't closed in the checkpoint as closed. Of logs that it knows, space for that was made before they were
/// appended to. The others need not be in it: nothing was appended to them, and the next start finds them by their files as
/// this one did.
async fn record_closed<I: Io>(
    shard: &Rc<Shard<I>>,
    mut partitions: Vec<Rc<Partition<I>>>,
) -> Result<(), StoreError> {
    partitions.retain(|partition| partition.recorded() != Recorded::Closed);
    match shard.checkpointer.write_closed(shard, partitions.clone()).await {
        Err(StoreError::Disk(error)) if error.is_storage_full() => {
            partitions.retain(|partition| partition.recorded() == Recorded::Open);
            shard.checkpointer.write_closed(shard, partitions).await
        }
        written => written,
    }
}
