//! What happens to a segment once the next is begun: in the background, and whatever of it fails costs only time.

use std::rc::Rc;

use engine_io::{DirectFile, Io};

use crate::partition::{Partition, end_position};
use crate::segment_file::SegmentFile;

/// How much is appended to a segment between two times its index is stored, in bytes.
const INDEX_STORED_EVERY_BYTES: u32 = 16 << 20;

impl<I: Io> Partition<I> {
    /// Seals a segment that nothing is appended to any more, once it is flushed.
    pub(crate) fn seal_behind(self: &Rc<Self>, segment: &Rc<SegmentFile<I>>) {
        let (partition, segment, work) = (Rc::clone(self), Rc::clone(segment), self.begin_work());
        let hold = segment.hold();
        self.shard.background.spawn(&self.shard.io, async move {
            partition.seal(&segment).await;
            drop((hold, work));
        });
    }

    /// Stores the active segment's index once so much was appended since it was stored last: a start after a crash
    /// scans from the checkpoint only, and finds what lies before it by that index.
    pub(crate) fn store_index_behind(self: &Rc<Self>) {
        let active = {
            let mut state = self.state.borrow_mut();
            let (active, end) = (state.log.active_segment().id(), end_position(&state.log));
            let (known, stored) = state.index_stored;
            let since = if known == active { end.saturating_sub(stored) } else { end };
            if since < INDEX_STORED_EVERY_BYTES || self.is_deleted() {
                return;
            }
            state.index_stored = (active, end);
            active
        };
        let (partition, work) = (Rc::clone(self), self.begin_work());
        self.shard.background.spawn(&self.shard.io, async move {
            partition.store_sidecar(active).await;
            drop(work);
        });
    }

    async fn seal(self: &Rc<Self>, segment: &Rc<SegmentFile<I>>) {
        let Some(summary) = self.state.borrow().log.segment(segment.id()).map(|known| *known.summary())
        else {
            return;
        };
        if self.wait_for(|offsets| offsets.flushed >= summary.end_offset).await.is_err() {
            return;
        }
        if self.store_sidecar(segment.id()).await {
            self.shard.indexes.note(&self.shard, self.at, segment.id());
        }
        self.give_back_space(segment, summary.end_position).await;
        self.shard.counters.count(|metrics| metrics.segments_sealed += 1);
    }

    /// Cuts the space behind the segment's last byte off. No reader was ever given bytes from there.
    async fn give_back_space(&self, segment: &Rc<SegmentFile<I>>, end: u32) {
        segment.zeros.out_of_the_way(u64::MAX).await;
        let cut = match segment.direct(&self.shard.io, &self.shard.descriptors).await {
            Ok(file) => file.truncate(u64::from(end)).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match cut {
            Ok(()) => segment.cut(u64::from(end), end),
            Err(error) => {
                tracing::warn!(error, file = %segment.path().display(), "a sealed segment keeps its spare space")
            }
        }
    }
}
