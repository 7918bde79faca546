//! Writes the two slots of a checkpoint.

use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;

use engine_io::{Buffer, DirectFile, Io, OpenMode, is_storage_full};
use engine_record::TopicPartition;

use crate::checkpoint::frame::{self, FrameHeader, FrameKind};
use crate::checkpoint::{self, Entries, Entry};
use crate::error::{DiskError, DiskOperation, disk};
use crate::layout::Slot;
use crate::shard::Shard;

/// Changes may take this many bytes, or as many times the image, before a new image is written.
const CHANGES_BYTES_MIN: u64 = 1 << 20;
const CHANGES_PER_IMAGE: u64 = 4;

/// The payload of an image's frame, about.
const IMAGE_FRAME_BYTES: usize = 1 << 20;

/// A slot's space grows in steps of this size.
const ALLOCATION_BYTES: u64 = 1 << 20;

/// The checkpoint's slots and what they hold.
pub(crate) struct SlotWriter<I: Io> {
    entries: Entries,
    /// Partitions that other shards' checkpoints know. That one of them was deleted stands here until they have
    /// forgotten it, since their older entry would count again.
    elsewhere: BTreeSet<TopicPartition>,
    /// Where the newest whole image is, or would be.
    slot: Slot,
    /// The number of the newest image, whole or not.
    image: u64,
    /// Open while changes may be added to the image.
    open: Option<OpenSlot<I>>,
}

/// A slot being written.
struct OpenSlot<I: Io> {
    file: I::File,
    allocated: u64,
    position: u64,
    image_bytes: u64,
    next_sequence: u32,
}

impl<I: Io> SlotWriter<I> {
    /// With what was found: the entries this shard keeps, what others know, and the slot and number of the newest
    /// image.
    pub(crate) fn new(entries: Entries, elsewhere: BTreeSet<TopicPartition>, slot: Slot, image: u64) -> Self {
        Self { entries, elsewhere, slot, image, open: None }
    }

    /// Writes entries durably: as a change, or with all others as a new image. What could not be written is forgotten:
    /// an image that is written later for another partition must not say it, since it may be true no more.
    ///
    /// # Errors
    /// After [`io::ErrorKind::StorageFull`] it can be called again, after another it must not.
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
        let has_room = self.open.as_ref().is_some_and(OpenSlot::has_room);
        let change = if has_room { Some(self.encode_change(&entries)) } else { None };
        let replaced = self.take_over(entries);
        let written = match change {
            Some(payload) => self.write_change(shard, generation, &payload).await,
            None => self.write_image(shard, generation).await,
        };
        if written.is_err() {
            self.put_back(replaced);
        }
        written
    }

    fn encode_change(&self, entries: &[(TopicPartition, Entry)]) -> Vec<u8> {
        let bytes = entries
            .iter()
            .flat_map(|(at, entry)| checkpoint::encode_change(*at, entry, self.entries.get(at)));
        bytes.collect()
    }

    /// Answers what stood in the place of each entry.
    fn take_over(&mut self, entries: Vec<(TopicPartition, Entry)>) -> Vec<(TopicPartition, Option<Entry>)> {
        let replace = |(at, entry): (TopicPartition, Entry)| {
            let stays = entry.log.is_some() || self.elsewhere.contains(&at);
            let before = if stays { self.entries.insert(at, entry) } else { self.entries.remove(&at) };
            (at, before)
        };
        entries.into_iter().map(replace).collect()
    }

    fn put_back(&mut self, replaced: Vec<(TopicPartition, Option<Entry>)>) {
        for (at, before) in replaced {
            match before {
                Some(entry) => self.entries.insert(at, entry),
                None => self.entries.remove(&at),
            };
        }
    }

    async fn write_change(
        &mut self,
        shard: &Shard<I>,
        generation: u64,
        payload: &[u8],
    ) -> Result<(), DiskError> {
        let path = shard.layout.checkpoint(shard.config.shard, self.slot);
        let slot = self.open.as_mut().expect("a change is added to an open slot");
        let header = FrameHeader {
            kind: FrameKind::Change,
            generation,
            image: self.image,
            sequence: slot.next_sequence,
        };
        let written = slot.write(shard, &frame::encode(header, payload)).await;
        let written = match written {
            Ok(()) => slot.file.flush().await.map_err(|error| (DiskOperation::Flush, error)),
            Err(error) => Err(error),
        };
        if let Err((operation, error)) = written {
            self.open = None;
            return Err(DiskError::new(operation, &path, &error));
        }
        Ok(())
    }

    async fn write_image(&mut self, shard: &Shard<I>, generation: u64) -> Result<(), DiskError> {
        let target = self.slot.other();
        let path = shard.layout.checkpoint(shard.config.shard, target);
        self.open = None;
        self.image += 1;
        let mut slot = OpenSlot {
            file: open(shard, target).await?,
            allocated: 0,
            position: 0,
            image_bytes: 0,
            next_sequence: 0,
        };
        let payloads = self.image_payloads();
        let last = payloads.len() - 1;
        for (number, payload) in payloads.iter().enumerate() {
            let kind = if number == last { FrameKind::ImageEnd } else { FrameKind::Image };
            let header = FrameHeader { kind, generation, image: self.image, sequence: slot.next_sequence };
            let written = slot.write(shard, &frame::encode(header, payload)).await;
            written.map_err(|(operation, error)| DiskError::new(operation, &path, &error))?;
        }
        slot.file.flush().await.map_err(disk(DiskOperation::Flush, &path))?;
        slot.image_bytes = slot.position;
        self.slot = target;
        self.open = Some(slot);
        Ok(())
    }

    /// All entries, in payloads of about a frame's size; one at least.
    fn image_payloads(&self) -> Vec<Vec<u8>> {
        let mut payloads = vec![Vec::new()];
        for (at, entry) in &self.entries {
            if payloads.last().is_some_and(|last| last.len() >= IMAGE_FRAME_BYTES) {
                payloads.push(Vec::new());
            }
            let last = payloads.last_mut().expect("there is one from the start");
            last.extend(checkpoint::encode(*at, entry));
        }
        payloads
    }

    /// Closes the open slot.
    pub(crate) async fn close(&mut self) -> io::Result<()> {
        match self.open.take() {
            Some(slot) => slot.file.close().await,
            None => Ok(()),
        }
    }
}

/// The slot's file, made where it isn't there.
async fn open<I: Io>(shard: &Shard<I>, slot: Slot) -> Result<I::File, DiskError> {
    let path = shard.layout.checkpoint(shard.config.shard, slot);
    match shard.io.open(&path, OpenMode::Existing).await {
        Ok(file) => return Ok(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(DiskError::new(DiskOperation::Open, &path, &error)),
    }
    let file = shard.io.open(&path, OpenMode::New).await.map_err(disk(DiskOperation::Open, &path))?;
    let folder = shard.layout.checkpoints();
    shard.io.flush_folder(&folder).await.map_err(disk(DiskOperation::Flush, &folder))?;
    Ok(file)
}

impl<I: Io> OpenSlot<I> {
    fn has_room(&self) -> bool {
        let changes = self.position - self.image_bytes;
        changes < CHANGES_BYTES_MIN.max(self.image_bytes * CHANGES_PER_IMAGE)
    }

    /// Writes a frame behind the last, without a flush.
    async fn write(&mut self, shard: &Shard<I>, frame: &[u8]) -> Result<(), (DiskOperation, io::Error)> {
        self.allocate(self.position + frame.len() as u64)
            .await
            .map_err(|error| (DiskOperation::Allocate, error))?;
        for part in frame.chunks(shard.config.write_bytes_max) {
            let mut buffer = shard.io.buffer(part.len());
            buffer.as_mut_slice().copy_from_slice(part);
            let written = self.file.write(self.position, Rc::new(buffer)).await;
            written.map_err(|error| (DiskOperation::Write, error))?;
            self.position += part.len() as u64;
        }
        self.next_sequence += 1;
        Ok(())
    }

    /// A slot used before has space; to have it given again changes nothing. Where there is none for a whole step, the
    /// frame's own will do.
    async fn allocate(&mut self, end: u64) -> io::Result<()> {
        if end <= self.allocated {
            return Ok(());
        }
        match self.allocate_to(end.next_multiple_of(ALLOCATION_BYTES)).await {
            Err(error) if is_storage_full(error.kind()) => self.allocate_to(end).await,
            allocated => allocated,
        }
    }

    async fn allocate_to(&mut self, to: u64) -> io::Result<()> {
        self.file.allocate(self.allocated, to - self.allocated).await?;
        self.allocated = to;
        Ok(())
    }
}
