//! What an operation did to a file, and how much of it a crash leaves.

use core::ops::Range;
use std::rc::Rc;

use engine_io::{BLOCK_BYTES, Buffer};

use super::image::Image;
use crate::buffer::SimBuffer;
use crate::random::Random;

/// What a device writes as a whole: a crash tears a write between sectors, never within one.
const SECTOR_BYTES: u64 = 512;

/// A change of a file that a flush has yet to make durable.
#[derive(Clone)]
pub(crate) enum Change {
    Write(Piece),
    /// Space for a range, and size to cover it.
    Allocate(Range<u64>),
    /// The size.
    Truncate(u64),
}

/// A part of a buffer, at its place in the file.
#[derive(Clone)]
pub(crate) struct Piece {
    pub(crate) position: u64,
    buffer: Rc<SimBuffer>,
    part: Range<usize>,
}

impl Piece {
    /// A whole buffer at `position`.
    pub(crate) fn whole(position: u64, buffer: Rc<SimBuffer>) -> Self {
        let part = 0..buffer.as_slice().len();
        Self { position, buffer, part }
    }

    /// What is to lie there.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer.as_slice()[self.part.clone()]
    }

    /// The bytes of the file it covers.
    pub(crate) fn range(&self) -> Range<u64> {
        self.position..self.position + self.part.len() as u64
    }

    /// The sectors of it that reach the disk where nothing is promised: none, all, a first part, or any.
    pub(crate) fn survivors(&self, random: &mut Random) -> Vec<Self> {
        let count = (self.part.len() as u64).div_ceil(SECTOR_BYTES);
        match random.below(4) {
            0 => Vec::new(),
            1 => vec![self.clone()],
            2 => vec![self.sectors(0..random.below(count + 1))],
            _ => (0..count)
                .filter(|_| random.one_in(2))
                .map(|sector| self.sectors(sector..sector + 1))
                .collect(),
        }
    }

    /// Its blocks, one by one.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Self> {
        let sectors_per_block = BLOCK_BYTES as u64 / SECTOR_BYTES;
        let blocks = (self.part.len() as u64).div_ceil(BLOCK_BYTES as u64);
        (0..blocks).map(move |block| self.sectors(block * sectors_per_block..(block + 1) * sectors_per_block))
    }

    fn sectors(&self, sectors: Range<u64>) -> Self {
        let at = |sector: u64| {
            let bytes = usize::try_from(sector * SECTOR_BYTES).expect("a sector of a buffer lies in memory");
            self.part.len().min(bytes)
        };
        let (start, end) = (at(sectors.start), at(sectors.end));
        Self {
            position: self.position + start as u64,
            buffer: Rc::clone(&self.buffer),
            part: self.part.start + start..self.part.start + end,
        }
    }
}

impl Change {
    /// Does it to an image, all of it.
    pub(crate) fn apply(&self, image: &mut Image) {
        match self {
            Self::Write(piece) => image.put(piece.position, piece.bytes()),
            Self::Allocate(range) => image.allocate(range),
            Self::Truncate(bytes) => image.set_size(*bytes),
        }
    }
}

/// Applies what chance lets through of changes that were never flushed: any sectors of the writes, and sizes and space
/// up to some change, since a journal keeps their order.
pub(crate) fn apply_survivors<'a>(
    changes: impl Iterator<Item = &'a Change> + Clone,
    image: &mut Image,
    random: &mut Random,
) {
    let layouts = changes.clone().filter(|change| !matches!(change, Change::Write(_))).count();
    let mut layouts_kept = random.index(layouts + 1);
    for change in changes {
        match change {
            Change::Write(piece) => {
                for survivor in piece.survivors(random) {
                    image.put(survivor.position, survivor.bytes());
                }
            }
            Change::Allocate(_) | Change::Truncate(_) => {
                if layouts_kept > 0 {
                    layouts_kept -= 1;
                    change.apply(image);
                }
            }
        }
    }
    image.clip();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_survives_of_a_write_is_whole_sectors_of_it() {
        let buffer = Rc::new(SimBuffer::of_any_length((1..=4).flat_map(|sector| [sector; 512]).collect()));
        let mut random = Random::new(5);
        for _ in 0..100 {
            for piece in Piece::whole(4096, Rc::clone(&buffer)).survivors(&mut random) {
                assert_eq!((piece.position % 512, piece.bytes().len() % 512), (0, 0));
                let sector = u8::try_from((piece.position - 4096) / 512 + 1).unwrap();
                assert!(piece.bytes().first().is_none_or(|byte| *byte == sector));
            }
        }
    }
}
