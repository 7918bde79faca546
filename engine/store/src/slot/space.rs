//! The space that each slot's file has.

use std::io;
use std::path::Path;

use engine_io::{BLOCK_BYTES, DirectFile, Io, is_storage_full};

use crate::error::{DiskError, DiskOperation, disk};
use crate::layout::Slot;
use crate::reserve::AHEAD_BYTES;
use crate::shard::Shard;

/// A slot's space grows in steps of this size.
const ALLOCATION_BYTES: u64 = 1 << 20;

/// Up to where the two slots' files have space, in bytes; `None` where it wasn't looked at yet.
#[derive(Debug, Default)]
pub(super) struct Space {
    slots: [Option<u64>; 2],
}

impl Space {
    /// What each of both has at least.
    pub(super) fn both(&self) -> u64 {
        self.slots.iter().map(|known| known.unwrap_or(0)).min().unwrap_or(0)
    }

    /// Gives a slot space up to `end`, in steps; where there is none for a whole step, up to `end` alone. To be flushed.
    pub(super) async fn allocate<I: Io>(
        &mut self,
        shard: &Shard<I>,
        slot: Slot,
        file: &I::File,
        path: &Path,
        end: u64,
    ) -> Result<(), DiskError> {
        let known = self.known(shard, slot, file, path).await?;
        if end <= known {
            return Ok(());
        }
        let allocated = allocate(shard, file, known, end, end.next_multiple_of(ALLOCATION_BYTES)).await;
        let to = allocated.map_err(disk(DiskOperation::Allocate, path))?;
        self.set(slot, to);
        Ok(())
    }

    /// Gives a slot space for `needed` bytes, durably, and where there is some for more to come.
    pub(super) async fn extend<I: Io>(
        &mut self,
        shard: &Shard<I>,
        slot: Slot,
        file: &I::File,
        path: &Path,
        needed: u64,
    ) -> Result<(), DiskError> {
        let known = self.known(shard, slot, file, path).await?;
        if needed + AHEAD_BYTES / 2 <= known {
            return Ok(());
        }
        let ahead = (needed + AHEAD_BYTES).next_multiple_of(ALLOCATION_BYTES);
        let to = match allocate(shard, file, known, needed, ahead).await {
            Err(error) if is_storage_full(error.kind()) && needed <= known => return Ok(()),
            allocated => allocated.map_err(disk(DiskOperation::Allocate, path))?,
        };
        file.flush().await.map_err(disk(DiskOperation::Flush, path))?;
        self.set(slot, to);
        Ok(())
    }

    /// A file has space as far as it is long, unless it was copied with holes: where these can't be filled it has none.
    async fn known<I: Io>(
        &mut self,
        shard: &Shard<I>,
        slot: Slot,
        file: &I::File,
        path: &Path,
    ) -> Result<u64, DiskError> {
        if let Some(known) = self.slots[usize::from(slot.digit())] {
            return Ok(known);
        }
        let size = file.size().await.map_err(disk(DiskOperation::Open, path))?;
        let mut known = size - size % BLOCK_BYTES as u64;
        if known > 0 {
            let fill = async || file.allocate(0, known).await;
            match shard.descriptors.spare(&shard.io, fill).await {
                Err(error) if is_storage_full(error.kind()) => known = 0,
                filled => filled.map_err(disk(DiskOperation::Allocate, path))?,
            }
            file.flush().await.map_err(disk(DiskOperation::Flush, path))?;
        }
        self.set(slot, known);
        Ok(known)
    }

    fn set(&mut self, slot: Slot, to: u64) {
        self.slots[usize::from(slot.digit())] = Some(to);
    }
}

/// Allocates from `from` on up to `wanted`, or else up to `least`, whichever there is space for; up to where.
async fn allocate<I: Io>(
    shard: &Shard<I>,
    file: &I::File,
    from: u64,
    least: u64,
    wanted: u64,
) -> io::Result<u64> {
    let up_to = async |end: u64| {
        let given = async || file.allocate(from, end.saturating_sub(from)).await;
        shard.descriptors.spare(&shard.io, given).await.map(|()| end)
    };
    match up_to(wanted).await {
        Err(error) if is_storage_full(error.kind()) && from < least => up_to(least).await,
        allocated => allocated,
    }
}
