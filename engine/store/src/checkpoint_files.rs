//! Reads the checkpoints that all shards have left, at start.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use engine_io::{DirectFile, Io, OpenMode};
use engine_record::ShardId;

use crate::checkpoint::frame::{SlotContent, read_slot};
use crate::checkpoint::{self, CorruptCheckpoint, Entries};
use crate::checkpointer::Checkpointer;
use crate::error::{Corruption, DiskError, DiskOperation, StoreError, disk};
use crate::layout::{Layout, Slot, checkpoint_slot};
use crate::slot::{FoundSlots, SlotWriter};
use crate::store::RecoveryReport;

/// How much of a slot is read at once, in bytes.
const READ_BYTES: usize = 1 << 20;

/// What the checkpoints of all shards say.
pub(crate) struct FoundCheckpoints {
    /// Of each partition the newest entry.
    entries: Entries,
    /// This shard's own slots, with those of the newest entries that lie there: it keeps them until another shard has
    /// them.
    own: FoundSlots,
    generation: u64,
}

/// What one shard's checkpoint says.
struct ShardCheckpoint {
    entries: Entries,
    /// Where the newest whole image is.
    slot: Option<Slot>,
    /// The newest whole image; 0 for none.
    image: u64,
    /// The newest image begun. Whoever writes goes on from there: what a crash has left of one that never was whole
    /// would pass for part of another under the same number.
    image_max: u64,
    generation: u64,
    /// The newest image of which something is lost, and its file.
    lost: Option<(u64, PathBuf)>,
}

impl FoundCheckpoints {
    pub(crate) fn report(&self) -> RecoveryReport {
        let live = self.entries.values().filter_map(|entry| entry.log.as_ref());
        let (mut partitions, mut unclosed) = (0, 0);
        for log in live {
            partitions += 1;
            unclosed += usize::from(!log.is_closed);
        }
        RecoveryReport { is_clean: unclosed == 0, partitions, unclosed }
    }

    pub(crate) fn entries(&self) -> &Entries {
        &self.entries
    }

    #[cfg(test)]
    pub(crate) fn into_own_slots(self) -> FoundSlots {
        self.own
    }

    pub(crate) fn into_checkpointer<I: Io>(self) -> Checkpointer<I> {
        Checkpointer::new(self.generation, SlotWriter::new(self.own), self.entries)
    }
}

/// Reads every shard's checkpoint.
///
/// # Errors
/// [`StoreError::Corrupt`] where one that had been durable can't be read; else as the system says.
pub(crate) async fn read_all<I: Io>(
    io: &I,
    layout: &Layout,
    own: ShardId,
) -> Result<FoundCheckpoints, StoreError> {
    let folder = layout.checkpoints();
    let names = io.list_folder(&folder).await.map_err(disk(DiskOperation::ListFolder, &folder))?;
    let mut slots: BTreeMap<ShardId, Vec<Slot>> = BTreeMap::new();
    for (shard, slot) in names.iter().filter_map(|name| checkpoint_slot(name)) {
        slots.entry(shard).or_default().push(slot);
    }
    let mut found = FoundCheckpoints {
        entries: Entries::new(),
        own: FoundSlots { entries: Entries::new(), elsewhere: BTreeSet::new(), slot: None, image: 0 },
        generation: 0,
    };
    for (shard, slots) in slots {
        let checkpoint = read_shard(io, layout, shard, &slots).await?;
        found.generation = found.generation.max(checkpoint.generation);
        if shard == own {
            (found.own.slot, found.own.image) = (checkpoint.slot, checkpoint.image_max);
            found.own.entries = checkpoint.entries.clone();
        } else {
            let live = checkpoint.entries.iter().filter(|(_, entry)| entry.log.is_some());
            found.own.elsewhere.extend(live.map(|(at, _)| *at));
        }
        checkpoint::merge(&mut found.entries, checkpoint.entries);
    }
    found.generation += 1;
    let (newest, FoundSlots { entries, elsewhere, .. }) = (&found.entries, &mut found.own);
    entries.retain(|at, entry| newest.get(at).is_some_and(|newest| newest.generation == entry.generation));
    entries.retain(|at, entry| entry.log.is_some() || elsewhere.contains(at));
    Ok(found)
}

/// The newest whole image of a shard with its changes; no entries where none was ever finished.
async fn read_shard<I: Io>(
    io: &I,
    layout: &Layout,
    shard: ShardId,
    slots: &[Slot],
) -> Result<ShardCheckpoint, StoreError> {
    let mut found = ShardCheckpoint::nothing();
    for slot in slots {
        let path = layout.checkpoint(shard, *slot);
        let bytes = read_file(io, &path).await?;
        found.take_over(*slot, &path, &read_slot(&bytes)).map_err(|why| corrupt(path, why))?;
    }
    if let Some((_, file)) = found.lost.take_if(|(image, _)| *image >= found.image) {
        return Err(corrupt(file, CorruptCheckpoint::FrameLost));
    }
    if found.image == 0 && slots.contains(&Slot::One) {
        // The second slot is made only once the first is whole, and the first written again only once the second is.
        return Err(corrupt(layout.checkpoint(shard, Slot::Zero), CorruptCheckpoint::BothSlots));
    }
    Ok(found)
}

fn corrupt(file: PathBuf, why: CorruptCheckpoint) -> StoreError {
    StoreError::Corrupt { file, position: 0, why: Corruption::Checkpoint(why) }
}

impl ShardCheckpoint {
    fn nothing() -> Self {
        Self { entries: Entries::new(), slot: None, image: 0, image_max: 0, generation: 0, lost: None }
    }

    /// Takes over what is newer in a slot.
    fn take_over(
        &mut self,
        slot: Slot,
        path: &Path,
        content: &SlotContent<'_>,
    ) -> Result<(), CorruptCheckpoint> {
        self.image_max = self.image_max.max(content.image_max);
        self.generation = self.generation.max(content.generation_max);
        let lost = content.lost.map(|image| (image, path.to_owned()));
        self.lost = self.lost.take().max(lost);
        let newer = content.whole.as_ref().filter(|whole| self.image < whole.image);
        let Some(newer) = newer else { return Ok(()) };
        (self.slot, self.image) = (Some(slot), newer.image);
        self.entries.clear();
        newer.payloads.iter().try_for_each(|payload| checkpoint::apply(payload, &mut self.entries))
    }
}

async fn read_file<I: Io>(io: &I, path: &Path) -> Result<Vec<u8>, DiskError> {
    let file = io.open(path, OpenMode::Existing).await.map_err(disk(DiskOperation::Open, path))?;
    let mut bytes = Vec::new();
    loop {
        let read =
            file.read(bytes.len() as u64, READ_BYTES).await.map_err(disk(DiskOperation::Read, path))?;
        let read = read.as_ref();
        bytes.extend(read);
        if read.len() < READ_BYTES {
            return Ok(bytes);
        }
    }
}

#[cfg(test)]
mod tests;
