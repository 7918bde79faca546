//! Writes the two slots of a checkpoint.

use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;

use engine_io::{Buffer, DirectFile, Io, OpenMode};
use engine_record::TopicPartition;

use crate::checkpoint::frame::{self, FrameHeader, FrameKind};
use crate::checkpoint::{self, Entries, Entry};
use crate::error::{DiskError, DiskOperation, disk};
use crate::layout::Slot;
use crate::reserve::Reserve;
use crate::shard::Shard;
use space::Space;

mod space;

/// Changes may take this many bytes, or as many times the image, before a new image is written.
const CHANGES_BYTES_MIN: u64 = 1 << 20;
const CHANGES_PER_IMAGE: u64 = 4;

/// What the checkpoint's slots hold when a store is opened.
#[derive(Debug)]
pub(crate) struct FoundSlots {
    /// The entries that this shard keeps.
    pub(crate) entries: Entries,
    /// Partitions that other shards' checkpoints know.
    pub(crate) elsewhere: BTreeSet<TopicPartition>,
    /// Where the newest whole image is; `None` where none was ever finished.
    pub(crate) slot: Option<Slot>,
    /// The number of the newest image, whole or not; 0 for none.
    pub(crate) image: u64,
}

/// The checkpoint's slots and what they hold.
pub(crate) struct SlotWriter<I: Io> {
    entries: Entries,
    /// Partitions that other shards' checkpoints know. That one of them was deleted stands here until they have
    /// forgotten it, since their older entry would count again.
    elsewhere: BTreeSet<TopicPartition>,
    /// Where the newest whole image is.
    slot: Option<Slot>,
    /// The number of the newest image, whole or not.
    image: u64,
    /// Open while changes may be added to the image.
    open: Option<OpenSlot<I>>,
    space: Space,
    /// What both slots must have space for.
    reserve: Rc<Reserve>,
}

/// A slot being written.
struct OpenSlot<I: Io> {
    file: I::File,
    position: u64,
    image_bytes: u64,
    next_sequence: u32,
}

impl<I: Io> SlotWriter<I> {
    pub(crate) fn new(found: FoundSlots) -> Self {
        let FoundSlots { entries, elsewhere, slot, image } = found;
        let reserve = Rc::new(Reserve::default());
        for (at, entry) in &entries {
            reserve.set_entry(*at, checkpoint::encoded_bytes(entry) as u64);
        }
        Self { entries, elsewhere, slot, image, open: None, space: Space::default(), reserve }
    }

    /// What both slots must have space for.
    pub(crate) fn reserve(&self) -> Rc<Reserve> {
        Rc::clone(&self.reserve)
    }

    /// Writes entries durably: as a change, or with all others as a new image. What could not be written is forgotten:
    /// an image that is written later for another partition must not say it, since it may be true no more.
    ///
    /// # Errors
    /// After want of space or of descriptors it can be called again, after another it must not.
    pub(crate) async fn write(
        &mut self,
        shard: &Shard<I>,
        generation: u64,
        mut entries: Vec<(TopicPartition, Entry)>,
    ) -> Result<(), DiskError> {
        // That a log is no more needs saying only where one is known.
        entries.retain(|(at, entry)| {
            entry.log.is_some() || self.entries.contains_key(at) || self.elsewhere.contains(at)
        });
        if entries.is_empty() {
            return Ok(());
        }
        let change = if self.open.is_some() { self.encode_change(&entries) } else { None };
        let needed = self.reserve.needed();
        let replaced = self.take_over(entries);
        let has_grown = self.reserve.needed() > needed;
        let written = self.write_taken_over(shard, generation, change, has_grown).await;
        if written.is_err() {
            self.put_back(replaced);
        }
        self.reserve.set_space(self.space.both());
        written
    }

    /// Sees to it that both slots have the space they need, and where the drive has it some ahead.
    ///
    /// # Errors
    /// As [`SlotWriter::write`].
    pub(crate) async fn extend(&mut self, shard: &Shard<I>, generation: u64) -> Result<(), DiskError> {
        self.begin(shard, generation).await?;
        let needed = self.reserve.needed();
        let mut extended = Ok(());
        for slot in [self.target(), self.target().other()] {
            if extended.is_ok() {
                extended = self.extend_slot(shard, slot, needed).await;
            }
        }
        self.reserve.set_space(self.space.both());
        extended
    }

    async fn extend_slot(&mut self, shard: &Shard<I>, slot: Slot, needed: u64) -> Result<(), DiskError> {
        let path = shard.layout.checkpoint(shard.config.shard, slot);
        match &self.open {
            Some(open) if self.slot == Some(slot) => {
                self.space.extend(shard, slot, &open.file, &path, needed).await
            }
            Some(_) | None => {
                let file = open_slot(shard, slot).await?;
                let extended = self.space.extend(shard, slot, &file, &path, needed).await;
                // What is allocated is flushed: how closing goes changes nothing.
                let _closed = file.close().await;
                extended
            }
        }
    }

    /// Writes the first image, of nothing. The second slot's file is made once that is whole: two files without an image
    /// are damage.
    async fn begin(&mut self, shard: &Shard<I>, generation: u64) -> Result<(), DiskError> {
        match self.slot {
            Some(_) => Ok(()),
            None => self.write_image(shard, generation).await,
        }
    }

    /// Where the next image goes.
    fn target(&self) -> Slot {
        self.slot.map_or(Slot::Zero, Slot::other)
    }

    /// `None` where it is larger than a change may be.
    fn encode_change(&self, entries: &[(TopicPartition, Entry)]) -> Option<Vec<u8>> {
        let mut change = Vec::new();
        for (at, entry) in entries {
            change.extend(checkpoint::encode_change(*at, entry, self.entries.get(at)));
            if change.len() > frame::CHANGE_PAYLOAD_BYTES_MAX {
                return None;
            }
        }
        Some(change)
    }

    /// Answers what stood in the place of each entry.
    fn take_over(&mut self, entries: Vec<(TopicPartition, Entry)>) -> Vec<(TopicPartition, Option<Entry>)> {
        let replace = |(at, entry): (TopicPartition, Entry)| {
            let stays = entry.log.is_some() || self.elsewhere.contains(&at);
            (at, self.replace(at, stays.then_some(entry)))
        };
        entries.into_iter().map(replace).collect()
    }

    fn put_back(&mut self, replaced: Vec<(TopicPartition, Option<Entry>)>) {
        for (at, before) in replaced {
            self.replace(at, before);
        }
    }

    fn replace(&mut self, at: TopicPartition, entry: Option<Entry>) -> Option<Entry> {
        self.reserve.set_entry(at, entry.as_ref().map_or(0, |entry| checkpoint::encoded_bytes(entry) as u64));
        match entry {
            Some(entry) => self.entries.insert(at, entry),
            None => self.entries.remove(&at),
        }
    }

    /// Writes what was taken over: the way that is due, or else the other, for which there may be space.
    async fn write_taken_over(
        &mut self,
        shard: &Shard<I>,
        generation: u64,
        change: Option<Vec<u8>>,
        has_grown: bool,
    ) -> Result<(), DiskError> {
        // The last write of all needs space for itself alone.
        if has_grown && !shard.is_closing() && !self.reserve.is_backed() {
            self.extend(shard, generation).await?;
        }
        let Some(change) = change else { return self.write_image(shard, generation).await };
        let has_room = self.open.as_ref().is_some_and(OpenSlot::has_room);
        let written = match has_room {
            true => self.write_change(shard, generation, &change).await,
            false => self.write_image(shard, generation).await,
        };
        match written {
            Err(error) if error.is_refusal() && has_room => self.write_image(shard, generation).await,
            Err(error) if error.is_refusal() => self.write_change(shard, generation, &change).await,
            written => written,
        }
    }

    async fn write_change(
        &mut self,
        shard: &Shard<I>,
        generation: u64,
        payload: &[u8],
    ) -> Result<(), DiskError> {
        let slot = self.slot.expect("a change is added to an image");
        let path = shard.layout.checkpoint(shard.config.shard, slot);
        let open = self.open.as_mut().expect("a change is added to an open slot");
        let end = open.position + frame::frame_bytes(payload.len()) as u64;
        self.space.allocate(shard, slot, &open.file, &path, end).await?;
        let header = FrameHeader {
            kind: FrameKind::Change,
            generation,
            image: self.image,
            sequence: open.next_sequence,
        };
        open.write(shard, &frame::encode(header, payload))
            .await
            .map_err(disk(DiskOperation::Write, &path))?;
        open.file.flush().await.map_err(disk(DiskOperation::Flush, &path))
    }

    /// Changes nothing where there is no space or no descriptor.
    async fn write_image(&mut self, shard: &Shard<I>, generation: u64) -> Result<(), DiskError> {
        let target = self.target();
        let path = shard.layout.checkpoint(shard.config.shard, target);
        let file = open_slot(shard, target).await?;
        let image_bytes = self.image_bytes();
        self.space.allocate(shard, target, &file, &path, image_bytes).await?;
        self.close().await;
        self.image += 1;
        let mut open = OpenSlot { file, position: 0, image_bytes, next_sequence: 0 };
        let written = self.write_entries(shard, generation, &mut open).await;
        written.map_err(disk(DiskOperation::Write, &path))?;
        assert_eq!(open.position, image_bytes, "an image is as long as was said");
        open.file.flush().await.map_err(disk(DiskOperation::Flush, &path))?;
        self.slot = Some(target);
        self.open = Some(open);
        Ok(())
    }

    /// What an image of all entries takes in its slot, in bytes.
    fn image_bytes(&self) -> u64 {
        let (mut bytes, mut payload) = (0, 0);
        for entry in self.entries.values() {
            if payload >= frame::IMAGE_PAYLOAD_BYTES {
                bytes += frame::frame_bytes(payload);
                payload = 0;
            }
            payload += checkpoint::encoded_bytes(entry);
        }
        (bytes + frame::frame_bytes(payload)) as u64
    }

    /// Writes all entries, in frames of about the same size, one at least. One frame at a time is in memory.
    async fn write_entries(
        &self,
        shard: &Shard<I>,
        generation: u64,
        open: &mut OpenSlot<I>,
    ) -> io::Result<()> {
        let mut header = FrameHeader { kind: FrameKind::Image, generation, image: self.image, sequence: 0 };
        let mut payload = Vec::new();
        for (at, entry) in &self.entries {
            if payload.len() >= frame::IMAGE_PAYLOAD_BYTES {
                open.write(shard, &frame::encode(header, &payload)).await?;
                header.sequence = open.next_sequence;
                payload.clear();
            }
            payload.extend(checkpoint::encode(*at, entry));
        }
        header.kind = FrameKind::ImageEnd;
        open.write(shard, &frame::encode(header, &payload)).await
    }

    /// Closes the open slot. Everything in it is flushed: how closing goes changes nothing.
    pub(crate) async fn close(&mut self) {
        if let Some(slot) = self.open.take() {
            let _closed = slot.file.close().await;
        }
    }
}

/// The slot's file, made where it isn't there.
async fn open_slot<I: Io>(shard: &Shard<I>, slot: Slot) -> Result<I::File, DiskError> {
    let (io, path) = (&shard.io, shard.layout.checkpoint(shard.config.shard, slot));
    let open = async |mode| shard.descriptors.spare(io, async || io.open(&path, mode).await).await;
    match open(OpenMode::Existing).await {
        Ok(file) => return Ok(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(DiskError::new(DiskOperation::Open, &path, &error)),
    }
    let file = open(OpenMode::New).await.map_err(disk(DiskOperation::Open, &path))?;
    let folder = shard.layout.checkpoints();
    // Not to be left for later: the next time the file is there.
    shard.flush_folder(&folder).await?;
    Ok(file)
}

impl<I: Io> OpenSlot<I> {
    fn has_room(&self) -> bool {
        let changes = self.position - self.image_bytes;
        changes < CHANGES_BYTES_MIN.max(self.image_bytes * CHANGES_PER_IMAGE)
    }

    /// Writes a frame behind the last, where there is space, without a flush.
    async fn write(&mut self, shard: &Shard<I>, frame: &[u8]) -> io::Result<()> {
        for part in frame.chunks(shard.config.write_bytes_max) {
            let mut buffer = shard.io.buffer(part.len());
            buffer.as_mut_slice().copy_from_slice(part);
            self.file.write(self.position, Rc::new(buffer)).await?;
            self.position += part.len() as u64;
        }
        self.next_sequence += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
