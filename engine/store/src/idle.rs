//! Gives back what partitions hold that nobody has appended to for a while. While all are idle: no task, no timer.

use core::cell::Cell;
use std::rc::Rc;

use engine_io::{BLOCK_BYTES, DirectFile, Io, Signal, first};

use crate::partition::{Partition, Recorded};
use crate::shard::Shard;

/// Looks after partitions that are appended to, until they aren't any more.
#[derive(Debug, Default)]
pub(crate) struct IdleSweep {
    is_running: Cell<bool>,
    /// Whether something was appended since the last look began: perhaps to a partition that was looked at already.
    is_appended: Cell<bool>,
    stop: Signal,
}

impl IdleSweep {
    /// Notes that something was appended.
    pub(crate) fn note_append<I: Io>(&self, shard: &Rc<Shard<I>>) {
        self.is_appended.set(true);
        if self.is_running.replace(true) {
            return;
        }
        let owned = Rc::clone(shard);
        shard.background.spawn(&shard.io, async move { owned.idle.run(&owned).await });
    }

    /// Ends the sweeps.
    pub(crate) fn stop(&self) {
        self.stop.notify();
    }

    async fn run<I: Io>(&self, shard: &Rc<Shard<I>>) {
        let mut is_any_active = true;
        while is_any_active && !shard.is_closing() && shard.check().is_ok() {
            let stop = self.stop.wait();
            if shard.is_closing() || first(stop, shard.io.sleep(shard.config.idle_after)).await.is_ok() {
                break;
            }
            is_any_active = false;
            self.is_appended.set(false);
            for partition in shard.all_partitions() {
                is_any_active |= !partition.release_if_idle().await;
            }
            is_any_active |= self.is_appended.get();
        }
        self.is_running.set(false);
    }
}

impl<I: Io> Partition<I> {
    /// Gives back memory, descriptors and space ahead where nothing was appended for long; whether it is idle.
    async fn release_if_idle(self: &Rc<Self>) -> bool {
        if self.recorded() != Recorded::Open {
            return true;
        }
        let Ok(_turn) = self.turn().await else { return true };
        let idle_for = self.shard.io.now().since(self.state.borrow().last_append);
        if idle_for < self.shard.config.idle_after || !self.is_at_rest() {
            return false;
        }
        // Whoever appends would wait with us.
        if self.has_work() {
            return false;
        }
        // A deletion waits for it: it must not find made again what it has removed.
        let _work = self.begin_work();
        if self.is_deleted() {
            return true;
        }
        self.evict_tail();
        self.give_back_ahead().await;
        let closed = self.shard.checkpointer.write_closed(&self.shard, vec![Rc::clone(self)]).await;
        if let Err(error) = closed {
            tracing::warn!(%error, partition = %self.at, "an idle partition stays open in the checkpoint");
        }
        for segment in self.all_segments() {
            self.shard.descriptors.close_idle(&segment);
        }
        true
    }

    /// Whether everything appended is written and flushed.
    fn is_at_rest(&self) -> bool {
        let state = self.state.borrow();
        let offsets = state.log.offsets();
        !state.is_writing && state.fill.is_empty() && offsets.flushed == offsets.log_end
    }

    pub(crate) fn all_segments(&self) -> Vec<Rc<crate::segment_file::SegmentFile<I>>> {
        self.state.borrow().segments.values().cloned().collect()
    }

    /// Cuts off the active segment's space behind the last block, and removes spare segments.
    async fn give_back_ahead(self: &Rc<Self>) {
        self.remove_spares().await;
        let (segment, end) = {
            let mut state = self.state.borrow_mut();
            let end = crate::partition::end_position(&state.log);
            state.fill = crate::chunk::Fill::new(end);
            let active = state.log.active_segment().id();
            (state.segments.get(&active).cloned(), end)
        };
        let Some(segment) = segment else { return };
        let Ok(file) = segment.direct(&self.shard.io, &self.shard.descriptors).await else { return };
        let size = u64::from(end).next_multiple_of(BLOCK_BYTES as u64);
        match file.truncate(size).await {
            Ok(()) => segment.cut(size, end),
            Err(error) => {
                tracing::warn!(%error, file = %segment.path().display(), "an idle segment keeps its spare space")
            }
        }
    }
}
