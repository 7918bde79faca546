//! Stage one of an append: the order is fixed and the bytes are copied.
//!
//! ```text
//!   turn -> plan -> what is lacking? -> nothing: copy, commit, let the write begin
//!             ^          |
//!             '-- bring it (space, descriptor, partial block, memory) and plan again
//! ```
//!
//! Nothing changes before the copy: whatever fails or is dropped on the way leaves the log as it was.

use std::rc::Rc;

use engine_io::{BLOCK_BYTES, DirectFile, Io, first};
use engine_log::{AppendDecision, AppendOrigin, AppendPlan, SegmentId};
use engine_record::{
    BATCH_HEADER_BYTES, LeaderEpoch, Offset, Timestamp, UnverifiedBatch, assign, set_max_timestamp,
    stamp_append_time,
};

use crate::chunk::{FreshMemory, Place, block_floor, block_remainder};
use crate::error::{AppendError, DiskError, DiskOperation, disk};
use crate::partition::Partition;
use crate::segment_file::SegmentFile;

/// Where a batch lies in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset of its last record, inclusive.
    pub last_offset: Offset,
    /// The earliest offset of the log.
    pub log_start: Offset,
    /// The time given to its records, where the broker gives it.
    pub append_time: Option<Timestamp>,
    /// Whether it was in the log before: its producer sent it again.
    pub duplicate: bool,
}

/// What an append lacks, the first of it.
enum Lack<I: Io> {
    /// Nothing: the batch can go to its place.
    Nothing(Place<I>),
    /// Space in the checkpoint, to say that the log is closed.
    Closing,
    /// The file of the segment.
    Segment,
    /// The segment's descriptor.
    Descriptor(Rc<SegmentFile<I>>),
    /// Space for the batch's blocks.
    Space(Place<I>),
    /// What lies in front of the batch in its first block.
    Head(Place<I>),
    /// Buffers of these sizes.
    Memory(Vec<usize>),
}

impl<I: Io> Partition<I> {
    /// See [`crate::PartitionLog::append`].
    pub(crate) async fn append(
        self: &Rc<Self>,
        batch: UnverifiedBatch<'_>,
        origin: AppendOrigin,
        leader_epoch: LeaderEpoch,
    ) -> Result<Appended, AppendError> {
        let appended = self.append_in_turn(&batch, origin, leader_epoch).await;
        if appended == Err(AppendError::StorageFull) {
            self.tell_want_of_space(batch.bytes().len());
        }
        appended
    }

    fn tell_want_of_space(&self, batch_bytes: usize) {
        self.shard.counters.count(|metrics| metrics.storage_full_refusals += 1);
        if self.shard.want_of_space.refused(self.shard.io.now()) {
            tracing::warn!(
                partition = %self.at,
                folder = %self.folder().display(),
                batch_bytes,
                "no space left: appends are refused until there is some; reads go on. Free space on the drive, or \
                 delete topics"
            );
        }
    }

    async fn append_in_turn(
        self: &Rc<Self>,
        batch: &UnverifiedBatch<'_>,
        origin: AppendOrigin,
        leader_epoch: LeaderEpoch,
    ) -> Result<Appended, AppendError> {
        let _turn = self.turn().await?;
        // An epoch that begins meanwhile is to be recorded as well.
        while !self.is_recorded_for_appends() {
            self.shard.checkpointer.record_opened(&self.shard, self).await?;
            self.check()?;
        }
        let mut memory = None;
        loop {
            self.check()?;
            let plan = match self.plan(batch, origin, leader_epoch) {
                Ok(AppendDecision::Append(plan)) => plan,
                Ok(AppendDecision::Duplicate { base_offset, last_offset, .. }) => {
                    batch.verify()?;
                    return Ok(self.duplicate(base_offset, last_offset));
                }
                Err(refusal) => {
                    // What a damaged header seems to ask for is no reason.
                    batch.verify()?;
                    return Err(refusal);
                }
            };
            match self.lack(&plan, memory.as_ref()) {
                Lack::Nothing(place) => return self.commit(batch, &plan, &place, memory),
                Lack::Closing => self.shard.checkpointer.reserve_closing(&self.shard, self).await?,
                Lack::Segment => self.add_segment(plan.segment).await?,
                Lack::Descriptor(segment) => self.open_descriptor(&segment).await?,
                Lack::Space(place) => self.add_space(&place, plan.bytes).await?,
                Lack::Head(place) => self.read_head(&place).await?,
                Lack::Memory(sizes) => memory = Some(self.take_memory(memory, &sizes).await?),
            }
        }
    }

    fn plan(
        &self,
        batch: &UnverifiedBatch<'_>,
        origin: AppendOrigin,
        leader_epoch: LeaderEpoch,
    ) -> Result<AppendDecision, AppendError> {
        let now = self.shard.io.timestamp();
        let state = self.state.borrow();
        Ok(state.log.plan_append(batch.header(), origin, leader_epoch, now)?)
    }

    fn duplicate(&self, base_offset: Offset, last_offset: Offset) -> Appended {
        let log_start = self.offsets().log_start;
        Appended { base_offset, last_offset, log_start, append_time: None, duplicate: true }
    }

    fn lack(&self, plan: &AppendPlan, memory: Option<&FreshMemory<I>>) -> Lack<I> {
        let state = self.state.borrow();
        if !self.has_closing_space(&state.log) {
            return Lack::Closing;
        }
        let Some(segment) = state.segments.get(&plan.segment).cloned() else { return Lack::Segment };
        let Some(file) = segment.open_direct() else { return Lack::Descriptor(segment) };
        let place = Place { segment, file, position: plan.position };
        if !place.segment.has_space(blocks_end(plan.position, plan.bytes)) {
            return Lack::Space(place);
        }
        if state.fill.lacks_head(plan.position) {
            return Lack::Head(place);
        }
        let bytes_max = self.shard.config.write_bytes_max;
        let sizes = state.fill.sizes_needed(&place, plan.bytes as usize, state.is_writing, bytes_max);
        let has_memory = sizes.is_empty() || memory.is_some_and(|memory| memory.covers(&sizes));
        if has_memory { Lack::Nothing(place) } else { Lack::Memory(sizes) }
    }

    async fn open_descriptor(&self, segment: &Rc<SegmentFile<I>>) -> Result<(), AppendError> {
        let opened = segment.direct(&self.shard.io, &self.shard.descriptors).await;
        opened.map(drop).map_err(AppendError::Unavailable)
    }

    async fn add_space(&self, place: &Place<I>, bytes: u32) -> Result<(), AppendError> {
        let end = blocks_end(place.position, bytes);
        self.allocate(place, end).await.map_err(|error| self.refuse_or_fail(error))
    }

    /// Gives a segment space up to `end`.
    pub(crate) async fn allocate(&self, place: &Place<I>, end: u64) -> Result<(), DiskError> {
        let shard = &self.shard;
        let given = (&shard.io, &*shard.descriptors);
        place.segment.allocate(given, &place.file, end, self.allocation_steps()).await?;
        if self.shard.want_of_space.given() {
            tracing::info!(folder = %self.folder().display(), "there is space for appends again");
        }
        Ok(())
    }

    /// Want of space or of descriptors refuses an append; any other error ends the store.
    pub(crate) fn refuse_or_fail(&self, error: DiskError) -> AppendError {
        if error.is_storage_full() {
            return AppendError::StorageFull;
        }
        if error.is_no_descriptor() {
            return AppendError::Unavailable(error);
        }
        self.shard.fail(error.clone());
        AppendError::Failed(crate::error::StoreFailure(error))
    }

    async fn read_head(&self, place: &Place<I>) -> Result<(), AppendError> {
        let block = u64::from(block_floor(place.position));
        let path = place.segment.path();
        let read = place.file.read(block, BLOCK_BYTES).await.map_err(disk(DiskOperation::Read, path));
        let bytes = read.map_err(AppendError::Unavailable)?;
        let head = bytes.as_ref().get(..block_remainder(place.position));
        let short = || DiskError::new(DiskOperation::Read, path, &std::io::ErrorKind::UnexpectedEof.into());
        let head = head.ok_or_else(|| AppendError::Unavailable(short()))?;
        self.state.borrow_mut().fill.set_head(head.to_vec());
        Ok(())
    }

    async fn take_memory(
        &self,
        too_little: Option<FreshMemory<I>>,
        sizes: &[usize],
    ) -> Result<FreshMemory<I>, AppendError> {
        drop(too_little);
        if let Some(memory) = self.shard.pool.try_take(&self.shard.io, sizes) {
            return Ok(memory);
        }
        if !self.shard.pool.could_have(sizes) {
            // Only a leader with larger limits sends such batches: clients are held to the log's own.
            let max_batch_bytes = u32::try_from(self.shard.pool.bytes()).unwrap_or(u32::MAX);
            let batch_bytes = u32::try_from(sizes.iter().sum::<usize>()).unwrap_or(u32::MAX);
            return Err(engine_log::AppendError::BatchTooLarge { batch_bytes, max_batch_bytes }.into());
        }
        self.shard.counters.count(|metrics| metrics.pool_waits += 1);
        let taken = self.shard.pool.take(&self.shard.io, sizes);
        first(self.shard.failure.wait(), taken)
            .await
            .map_or_else(Ok, |failure| Err(AppendError::Failed(failure)))
    }

    /// Copies the batch to its place and makes it part of the log. From here on it can't be refused.
    fn commit(
        self: &Rc<Self>,
        batch: &UnverifiedBatch<'_>,
        plan: &AppendPlan,
        place: &Place<I>,
        memory: Option<FreshMemory<I>>,
    ) -> Result<Appended, AppendError> {
        let stamped = stamped(batch, plan);
        let bytes = stamped.as_deref().unwrap_or_else(|| batch.bytes());
        let (mut header, crc) = header_and_crc(bytes);
        assign(&mut header, plan.base_offset, plan.leader_epoch);
        let log_start = {
            let mut state = self.state.borrow_mut();
            state.fill.copy(place, &header, bytes, crc, memory)?;
            state.log.commit_append(plan, batch.header());
            state.last_append = self.shard.io.now();
            state.log.offsets().log_start
        };
        self.shard.counters.count(|metrics| {
            metrics.appends += 1;
            metrics.bytes_appended += u64::from(plan.bytes);
        });
        if let Some(sealed) = plan.roll.and_then(|new| self.segment_before(new)) {
            self.seal_behind(&sealed);
        }
        self.write_behind();
        self.prepare_ahead(place);
        self.shard.idle.note_append(&self.shard);
        let (base_offset, last_offset) = (plan.base_offset, plan.last_offset);
        Ok(Appended { base_offset, last_offset, log_start, append_time: plan.append_time, duplicate: false })
    }

    fn segment_before(&self, id: SegmentId) -> Option<Rc<SegmentFile<I>>> {
        let state = self.state.borrow();
        state.segments.range(..id).next_back().map(|(_, segment)| Rc::clone(segment))
    }
}

/// The batch's bytes with the times the broker sets; `None` where it sets none.
fn stamped(batch: &UnverifiedBatch<'_>, plan: &AppendPlan) -> Option<Vec<u8>> {
    let corrected = batch.corrected_max_timestamp();
    if plan.append_time.is_none() && corrected.is_none() {
        return None;
    }
    let mut bytes = batch.bytes().to_vec();
    if let Some(time) = plan.append_time {
        stamp_append_time(&mut bytes, time);
    } else if let Some(time) = corrected {
        set_max_timestamp(&mut bytes, time);
    }
    Some(bytes)
}

fn header_and_crc(batch: &[u8]) -> ([u8; BATCH_HEADER_BYTES], u32) {
    let header = *batch.first_chunk().expect("a parsed batch is no shorter than its header");
    let crc = engine_record::BatchHeader::parse(batch, u32::MAX).expect("a parsed batch parses").crc;
    (header, crc)
}

/// Where the blocks end that hold a batch of `bytes` at `position`.
fn blocks_end(position: u32, bytes: u32) -> u64 {
    (u64::from(position) + u64::from(bytes)).next_multiple_of(BLOCK_BYTES as u64)
}
