//! One partition's log, as the rest of the server sees it.

use std::rc::Rc;

use engine_io::Io;
use engine_log::{AppendOrigin, LogConfig, LogOffsets};
use engine_record::{LeaderEpoch, Offset, Timestamp, TopicPartition, UnverifiedBatch};

use crate::append::Appended;
use crate::error::{AppendError, DeleteRecordsError, ReadError, StoreError, WaitError};
use crate::flush::FlushInterest;
use crate::open;
use crate::partition::Partition;
use crate::read::timestamp::TimestampedOffset;
use crate::read::{Read, ReadRequest};
use crate::retention::Deleted;

/// An open partition on its owner shard. Cloning it shares it.
///
/// Appends, reads, waits and flushes may overlap in any way; truncations and deletions wait for what they would break,
/// and hold up what comes after. Any future may be dropped at any time: an append that was dropped is in the log whole
/// or not at all.
pub struct PartitionLog<I: Io> {
    partition: Rc<Partition<I>>,
}

impl<I: Io> Clone for PartitionLog<I> {
    fn clone(&self) -> Self {
        Self { partition: Rc::clone(&self.partition) }
    }
}

impl<I: Io> PartitionLog<I> {
    pub(crate) fn new(partition: Rc<Partition<I>>) -> Self {
        Self { partition }
    }

    /// Which partition it is.
    #[must_use]
    pub fn topic_partition(&self) -> TopicPartition {
        self.partition.at
    }

    /// Appends one batch. Resolves when **its order is fixed and its bytes are copied**: it has its offsets, comes
    /// after every append called before, and its write is on its way. What it waits for is its turn, memory of the
    /// pool, and disk space; never the write.
    ///
    /// It is on the device once [`PartitionLog::written`] resolves for its end, and durable once
    /// [`PartitionLog::flushed`] does.
    ///
    /// # Errors
    /// See [`AppendError`]. The log is as it was.
    pub async fn append(
        &self,
        batch: impl Into<UnverifiedBatch<'_>>,
        origin: AppendOrigin,
        leader_epoch: LeaderEpoch,
    ) -> Result<Appended, AppendError> {
        self.partition.append(batch.into(), origin, leader_epoch).await
    }

    /// What is true of the log now.
    #[must_use]
    pub fn offsets(&self) -> LogOffsets {
        self.partition.offsets()
    }

    /// Raises the high watermark to `to`; one that is lower changes nothing.
    ///
    /// # Panics
    /// Where `to` is behind the log's end.
    pub fn advance_high_watermark(&self, to: Offset) {
        self.partition.state.borrow_mut().log.advance_high_watermark(to);
        self.partition.wake();
    }

    /// Resolves when everything below `end` has been written: it survives the process, not yet the machine.
    ///
    /// # Errors
    /// Where the partition is closed or the store fails before.
    pub async fn written(&self, end: Offset) -> Result<(), WaitError> {
        self.partition.wait_for(|offsets| offsets.written >= end).await
    }

    /// Resolves when everything below `end` is durable on this disk, for which it is flushed at once.
    ///
    /// # Errors
    /// Where the partition is closed or the store fails before.
    pub async fn flushed(&self, end: Offset) -> Result<(), WaitError> {
        if self.offsets().flushed >= end {
            return Ok(());
        }
        let _at_once = self.flush_interest();
        self.partition.wait_for(|offsets| offsets.flushed >= end).await
    }

    /// While the answer lives, written data of the whole shard are flushed at once rather than in their own time. For
    /// whoever waits for the flush in another way, such as by the high watermark.
    #[must_use]
    pub fn flush_interest(&self) -> FlushInterest<I> {
        FlushInterest::new(&self.partition.shard)
    }

    /// Reads whole batches of one segment; at its end ask again for the next. An offset at the end, or above the
    /// bound, is answered with an empty read at once.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read(&self, request: ReadRequest) -> Result<Read<I>, ReadError> {
        self.partition.tell_unreadable(self.partition.read(request).await)
    }

    /// The same where there is little memory: also what is still in memory is read from the file, by the page cache. In
    /// memory are only what isn't written yet and, of an active segment, the last block that is; both copied, so that
    /// nothing is kept beside them. Where the page cache doesn't keep the bytes, the answer has no batches.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_files(&self, request: ReadRequest) -> Result<Read<I>, ReadError> {
        self.partition.tell_unreadable(self.partition.read_files(request).await)
    }

    /// The first record of at least this time, in the order of offsets; `None` where there is none. Of a batch that
    /// expands too far its first offset and latest time: see [`TimestampedOffset`].
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn find_timestamp(&self, time: Timestamp) -> Result<Option<TimestampedOffset>, ReadError> {
        self.partition.tell_unreadable(self.partition.find_timestamp(time).await)
    }

    /// The record with the latest time, the first of equals; `None` in an empty log. Of a batch that expands too far
    /// its first offset: see [`TimestampedOffset`].
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn max_timestamp(&self) -> Result<Option<TimestampedOffset>, ReadError> {
        self.partition.tell_unreadable(self.partition.max_timestamp().await)
    }

    /// Where the log's records of epoch `epoch` end: the latest epoch not above it, and its exclusive end. `None` where
    /// the log has no such epoch.
    #[must_use]
    pub fn end_offset_for(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.partition.state.borrow().log.end_offset_for(epoch)
    }

    /// The epoch of the leader under which the record at `offset` was appended, or the next one will be; `None` below
    /// the first the log knows.
    #[must_use]
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let state = self.partition.state.borrow();
        let starts = state.log.leader_epochs().starts();
        starts.iter().rev().find(|start| start.start_offset <= offset).map(|start| start.epoch)
    }

    /// The latest leader epoch of the log.
    #[must_use]
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.partition.state.borrow().log.leader_epochs().latest().unwrap_or_default()
    }

    /// Notes that the log is led in `epoch` from now on. The next append makes that durable before it.
    ///
    /// # Errors
    /// Where the log knows a later epoch.
    pub fn start_leader_epoch(&self, epoch: LeaderEpoch) -> Result<(), StoreError> {
        open::start_leader_epoch(&mut self.partition.state.borrow_mut().log, epoch)?;
        self.partition.set_epoch_recorded(false);
        Ok(())
    }

    /// Size of all batches in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.partition.state.borrow().log.total_bytes()
    }

    /// How many segments the log has, the active one included; never 0. What retention has let go of isn't counted, though its
    /// file may still be there for a reader.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.partition.state.borrow().log.segments().count()
    }

    /// Cuts off every batch with a record at or above `to`. Once resolved that is durable.
    ///
    /// # Errors
    /// Below the high watermark or the log's start; [`StoreError::Held`] where readers don't let go; or as the store
    /// is. The log is as it was; where it ends at `to` all the same, what it takes to know its producers couldn't be read:
    /// their batches are refused until a call like this one succeeds.
    pub async fn truncate(&self, to: Offset) -> Result<(), StoreError> {
        let (shard, partition) = (Rc::clone(&self.partition.shard), Rc::clone(&self.partition));
        let truncated = async move { partition.truncate(to).await };
        shard.background.carry_out(&shard.io, truncated).await.unwrap_or(Err(StoreError::Closed))
    }

    /// Deletes the oldest segments, as long as each is older than the configuration's retention, more than the size it
    /// keeps, or wholly below the log's start. The active segment goes with all the others, once an empty one is begun;
    /// what isn't below the high watermark stays. The log's start moves at once; what was deleted stays deleted
    /// after a crash. A file that is being read goes in a later call, also under its reader's eyes once
    /// [`StoreConfig::readers_deadline`](crate::StoreConfig::readers_deadline) is over.
    ///
    /// # Errors
    /// As the store is. What was to be deleted is no more offered, and its files are removed by a later call, or when
    /// the log is opened.
    pub async fn delete_old_segments(&self) -> Result<Deleted, StoreError> {
        let (shard, partition) = (Rc::clone(&self.partition.shard), Rc::clone(&self.partition));
        let deleted = async move { partition.delete_old_segments().await };
        shard.background.carry_out(&shard.io, deleted).await.unwrap_or(Err(StoreError::Closed))
    }

    /// Deletes the records below `before`, or all below the high watermark: they are offered no more at once, and never
    /// again once this resolves. Where the log starts then is answered; that is where it did where `before` lies below. Their
    /// segments go with [`PartitionLog::delete_old_segments`].
    ///
    /// # Errors
    /// [`DeleteRecordsError::OutOfRange`] above the high watermark; or as the store is: a crash may bring them back then.
    pub async fn delete_records(&self, before: Option<Offset>) -> Result<Offset, DeleteRecordsError> {
        let (shard, partition) = (Rc::clone(&self.partition.shard), Rc::clone(&self.partition));
        let deleted = async move { partition.delete_records(before).await };
        shard.background.carry_out(&shard.io, deleted).await.unwrap_or_else(|| Err(StoreError::Closed.into()))
    }

    /// Puts another configuration in force, for what comes, with no larger batches than the store's memory has room for.
    ///
    /// # Errors
    /// Where it has room for none.
    ///
    /// # Panics
    /// Where it breaks [`LogConfig::check`].
    pub fn set_config(&self, config: LogConfig) -> Result<(), StoreError> {
        let config = open::fitted(&self.partition.shard, self.partition.at, config)?;
        self.partition.state.borrow_mut().log.set_config(config);
        Ok(())
    }
}
