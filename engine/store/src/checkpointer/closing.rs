//! Space to say of each open log that it is closed: it is there before the log takes an append.

use std::rc::Rc;

use engine_io::Io;
use engine_log::Log;

use super::{Checkpointer, unless_failed};
use crate::checkpoint::{APPEND_BYTES_MAX, LogEntry};
use crate::error::StoreError;
use crate::partition::{Partition, Recorded};
use crate::reserve::in_steps;
use crate::shard::Shard;

impl<I: Io> Checkpointer<I> {
    /// Sees to it that there is space to say that the log is closed, also after one more append. Mostly at once.
    ///
    /// # Errors
    /// No space or no descriptor; or the store has ended.
    pub(crate) async fn reserve_closing(
        &self,
        shard: &Rc<Shard<I>>,
        partition: &Rc<Partition<I>>,
    ) -> Result<(), StoreError> {
        let wanted = partition.closing_bytes_wanted();
        if wanted <= partition.closing_bytes() {
            return Ok(());
        }
        if self.reserve.try_promise(partition.at, wanted) {
            partition.set_closing_bytes(wanted);
            self.look_ahead(shard);
            return Ok(());
        }
        let (owned, partition) = (Rc::clone(shard), Rc::clone(partition));
        let promised = async move {
            let checkpointer = &owned.checkpointer;
            let _turn = checkpointer.turn.acquire(1).await.map_err(|_| StoreError::Closed)?;
            checkpointer.promise_closing(&owned, &[partition]).await
        };
        shard.background.carry_out(&shard.io, promised).await.unwrap_or(Err(StoreError::Closed))
    }

    /// As [`Checkpointer::reserve_closing`] for several, all or none. Under the turn.
    pub(super) async fn promise_closing(
        &self,
        shard: &Rc<Shard<I>>,
        partitions: &[Rc<Partition<I>>],
    ) -> Result<(), StoreError> {
        let wanted = |partition: &Rc<Partition<I>>| {
            (Rc::clone(partition), partition.closing_bytes_wanted().max(partition.closing_bytes()))
        };
        let wanted: Vec<_> = partitions.iter().map(wanted).collect();
        wanted.iter().for_each(|(partition, bytes)| self.reserve.set_promise(partition.at, *bytes));
        let is_backed = match self.reserve.is_backed() {
            true => Ok(()),
            false => self.extend(shard).await,
        };
        for (partition, bytes) in wanted {
            if is_backed.is_ok() && !partition.is_deleted() {
                partition.set_closing_bytes(bytes.max(partition.closing_bytes()));
            }
            self.reserve.set_promise(partition.at, partition.closing_bytes());
        }
        is_backed
    }

    /// Counts what it takes to say that a log is closed that was found open. When it was appended to there was space for
    /// that; in another shard's checkpoint perhaps.
    pub(crate) fn claim_closing(&self, partition: &Partition<I>) {
        let bytes = in_steps(LogEntry::bytes_max(&partition.state.borrow().log));
        let bytes = bytes.max(partition.closing_bytes());
        partition.set_closing_bytes(bytes);
        self.reserve.set_promise(partition.at, bytes);
    }

    /// Gives the space back where the checkpoint doesn't say that the log is open after all.
    pub(crate) fn settle_closing(&self, partition: &Partition<I>) {
        if partition.recorded() != Recorded::Open {
            self.release_closing(partition);
        }
    }

    /// Gives the space back: the log is closed, or gone.
    pub(crate) fn release_closing(&self, partition: &Partition<I>) {
        partition.set_closing_bytes(0);
        self.reserve.set_promise(partition.at, 0);
    }

    /// Gets more space in the background before it is lacking.
    fn look_ahead(&self, shard: &Rc<Shard<I>>) {
        if !self.reserve.is_short() || self.is_extending.replace(true) {
            return;
        }
        let owned = Rc::clone(shard);
        shard.background.spawn(&shard.io, async move {
            let checkpointer = &owned.checkpointer;
            if let Ok(_turn) = checkpointer.turn.acquire(1).await {
                // Without space the next append looks again.
                let _extended_or_not = checkpointer.extend(&owned).await;
            }
            checkpointer.is_extending.set(false);
        });
    }

    /// Under the turn.
    async fn extend(&self, shard: &Rc<Shard<I>>) -> Result<(), StoreError> {
        shard.check()?;
        let mut slots =
            self.slots.take().expect("the turn's holder has the slots, and a dropped one ends the store");
        let extended = slots.extend(shard, self.generation).await;
        self.slots.replace(Some(slots));
        unless_failed(shard, extended)
    }
}

impl<I: Io> Partition<I> {
    /// Whether the log can be closed after one more append.
    pub(crate) fn has_closing_space(&self, log: &Log) -> bool {
        (LogEntry::bytes_max(log) + APPEND_BYTES_MAX) as u64 <= self.closing_bytes()
    }

    fn closing_bytes_wanted(&self) -> u64 {
        in_steps(LogEntry::bytes_max(&self.state.borrow().log) + APPEND_BYTES_MAX)
    }
}
