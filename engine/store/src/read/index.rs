//! Indexes of sealed segments: loaded from their sidecars when a read needs them, few of them kept.

use core::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use engine_io::Io;
use engine_log::{
    Checkpoint, LeaderEpochs, Producers, RecoveryScan, SegmentId, SegmentIndex, SegmentSummary,
    decode_sidecar, encode_sidecar,
};
use engine_record::TopicPartition;

use super::locate::damaged;
use crate::error::ReadError;
use crate::layout;
use crate::partition::Partition;
use crate::segment_file::SegmentFile;
use crate::shard::Shard;

/// The largest sidecar that is read, in bytes: of a segment of 4 GiB with an entry every 4 KiB.
const SIDECAR_BYTES_MAX: usize = 17 << 20;

/// How much of a segment is read at once to rebuild its index, in bytes.
const SCAN_BYTES: usize = 1 << 20;

/// Which sealed segments' indexes are in memory, the one loaded first in front.
#[derive(Debug, Default)]
pub(crate) struct LoadedIndexes {
    loaded: RefCell<VecDeque<(TopicPartition, SegmentId)>>,
}

impl LoadedIndexes {
    /// Notes that an index is in memory, and drops the one there longest where they are too many.
    pub(crate) fn note<I: Io>(&self, shard: &Shard<I>, at: TopicPartition, segment: SegmentId) {
        let surplus = {
            let mut loaded = self.loaded.borrow_mut();
            loaded.push_back((at, segment));
            if loaded.len() > shard.config.loaded_indexes_max { loaded.pop_front() } else { None }
        };
        let Some((at, segment)) = surplus else { return };
        if let Some(partition) = shard.partition(at) {
            partition.state.borrow_mut().log.evict_index(segment);
        }
    }
}

impl<I: Io> Partition<I> {
    /// Brings a sealed segment's index into memory: from its sidecar, or rebuilt where that is missing or damaged.
    pub(crate) async fn load_index(self: &Rc<Self>, id: SegmentId) -> Result<(), ReadError> {
        let segment = self.segment_file(id)?;
        let _hold = segment.hold();
        let stored = self.stored_index(id).await;
        if stored.is_some_and(|(summary, index)| self.install(index, &summary)) {
            return Ok(());
        }
        let Some(summary) = self.state.borrow().log.segment(id).map(|segment| *segment.summary()) else {
            return Ok(());
        };
        let index = self.rebuild_index(&segment, &summary).await?;
        self.install(index, &summary);
        self.store_sidecar(id).await;
        Ok(())
    }

    async fn stored_index(&self, id: SegmentId) -> Option<(SegmentSummary, SegmentIndex)> {
        let path = layout::index(self.folder(), id.0);
        let bytes = self.shard.io.read_file(&path, SIDECAR_BYTES_MAX).await.ok()?;
        decode_sidecar(&bytes).ok()
    }

    fn install(&self, index: SegmentIndex, summary: &SegmentSummary) -> bool {
        let id = summary.segment;
        let installed = self.state.borrow_mut().log.install_index(index, summary).is_ok();
        if installed {
            self.shard.indexes.note(&self.shard, self.at, id);
        }
        installed
    }

    async fn rebuild_index(
        self: &Rc<Self>,
        segment: &Rc<SegmentFile<I>>,
        summary: &SegmentSummary,
    ) -> Result<SegmentIndex, ReadError> {
        tracing::info!(file = %segment.path().display(), "rebuilding a segment's index");
        let end = summary.end_position;
        let start = Checkpoint::segment_start(summary.segment, end, LeaderEpochs::new(), Producers::new());
        let config = *self.state.borrow().log.config();
        let mut scan = RecoveryScan::new(start, config, self.shard.io.timestamp());
        let mut position = 0;
        while position < end {
            let bytes = ((end - position) as usize).min(SCAN_BYTES);
            let chunk = self.fetch(segment, position, bytes).await?;
            let _whole_chain_is_judged_at_the_end = scan.feed(&chunk);
            position += u32::try_from(chunk.len()).expect("a chunk is at most a megabyte");
        }
        let outcome = scan.finish();
        match outcome.end {
            engine_log::ScanEnd::Clean => Ok(outcome.segment.index.expect("a scan has its segment's index")),
            engine_log::ScanEnd::Torn { at, cause } | engine_log::ScanEnd::Corrupt { at, cause } => {
                Err(damaged(segment, at, cause))
            }
        }
    }

    /// Stores a sealed segment's index beside it. What can't be stored is rebuilt when it is needed.
    pub(crate) async fn store_sidecar(&self, id: SegmentId) -> bool {
        let encoded = {
            let state = self.state.borrow();
            let segment = state.log.segment(id).filter(|segment| !segment.is_empty());
            segment.and_then(|segment| Some(encode_sidecar(segment.summary(), segment.index()?)))
        };
        let Some(bytes) = encoded else { return false };
        let path = layout::index(self.folder(), id.0);
        match self.shard.io.write_file(&path, bytes).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, file = %path.display(), "an index was not stored; it will be rebuilt when needed");
                false
            }
        }
    }
}
