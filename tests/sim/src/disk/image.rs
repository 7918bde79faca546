//! What a file holds, block by block; blocks never written are zeros and cost nothing.

use core::ops::Range;
use std::collections::BTreeMap;
use std::rc::Rc;

use engine_io::BLOCK_BYTES;

use super::extents::Extents;

pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;

/// A file's content, size and space. A clone shares the blocks until one of the two changes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    size: u64,
    blocks: BTreeMap<u64, Rc<[u8; BLOCK_BYTES]>>,
    space: Extents,
}

impl Image {
    /// The size in bytes.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// How many bytes of space the file takes.
    pub(crate) fn space_bytes(&self) -> u64 {
        self.space.count() * BLOCK
    }

    /// How many bytes of space the range still needs.
    pub(crate) fn missing_bytes(&self, range: &Range<u64>) -> u64 {
        self.space.missing(&blocks_of(range)) * BLOCK
    }

    /// Gives the range space and grows the size to cover it.
    pub(crate) fn allocate(&mut self, range: &Range<u64>) {
        self.space.insert(blocks_of(range));
        self.size = self.size.max(range.end);
    }

    /// Sets the size. What is cut off reads as zeros, should the file grow again.
    pub(crate) fn set_size(&mut self, bytes: u64) {
        let kept_blocks = bytes.div_ceil(BLOCK);
        self.space.truncate(kept_blocks);
        drop(self.blocks.split_off(&kept_blocks));
        let cut = in_block(bytes);
        if cut > 0
            && let Some(last) = self.blocks.get_mut(&(bytes / BLOCK))
        {
            Rc::make_mut(last)[cut..].fill(0);
        }
        self.size = bytes;
    }

    /// Puts bytes at `position`; neither size nor space change.
    pub(crate) fn put(&mut self, position: u64, bytes: &[u8]) {
        let (mut position, mut rest) = (position, bytes);
        while !rest.is_empty() {
            let start = in_block(position);
            let (now, later) = rest.split_at(rest.len().min(BLOCK_BYTES - start));
            let block = self.blocks.entry(position / BLOCK).or_insert_with(|| Rc::new([0; BLOCK_BYTES]));
            Rc::make_mut(block)[start..start + now.len()].copy_from_slice(now);
            position += now.len() as u64;
            rest = later;
        }
    }

    /// Whether the block at `position` was written before: writing it again changes nothing but its bytes.
    pub(crate) fn has_block(&self, position: u64) -> bool {
        position < self.size && self.blocks.contains_key(&(position / BLOCK))
    }

    /// Up to `bytes` bytes from `position` on; less only at the end of the file.
    pub(crate) fn read(&self, position: u64, bytes: usize) -> Vec<u8> {
        let available = usize::try_from(self.size.saturating_sub(position)).unwrap_or(usize::MAX);
        let mut read = vec![0; bytes.min(available)];
        let (mut position, mut rest) = (position, read.as_mut_slice());
        while !rest.is_empty() {
            let start = in_block(position);
            let len = rest.len().min(BLOCK_BYTES - start);
            let (now, later) = rest.split_at_mut(len);
            if let Some(block) = self.blocks.get(&(position / BLOCK)) {
                now.copy_from_slice(&block[start..start + len]);
            }
            position += len as u64;
            rest = later;
        }
        read
    }

    /// Forgets blocks that lie past the end: a write that was kept while the growth it needed was lost.
    pub(crate) fn clip(&mut self) {
        self.set_size(self.size);
    }
}

fn blocks_of(range: &Range<u64>) -> Range<u64> {
    range.start / BLOCK..range.end.div_ceil(BLOCK)
}

fn in_block(position: u64) -> usize {
    usize::try_from(position % BLOCK).expect("a block's length is a usize")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_where_they_were_put_and_zeros_elsewhere() {
        let mut image = Image::default();
        image.allocate(&(0..3 * BLOCK));
        image.put(BLOCK - 2, &[1, 2, 3, 4]);
        assert_eq!(image.read(BLOCK - 3, 6), [0, 1, 2, 3, 4, 0]);
        assert_eq!(image.read(3 * BLOCK - 1, 10), [0]);
        assert_eq!(image.read(9 * BLOCK, 10), [0_u8; 0]);
    }

    #[test]
    fn what_was_cut_off_reads_as_zeros_when_the_file_grows_again() {
        let mut image = Image::default();
        image.allocate(&(0..2 * BLOCK));
        image.put(0, &[7; 2 * BLOCK_BYTES]);
        image.set_size(10);
        assert_eq!(image.space_bytes(), BLOCK);
        image.allocate(&(0..2 * BLOCK));
        assert_eq!(image.read(9, 2), [7, 0]);
        assert_eq!(image.read(BLOCK, 1), [0]);
    }

    #[test]
    fn a_clone_keeps_its_content_while_the_other_changes() {
        let mut image = Image::default();
        image.allocate(&(0..BLOCK));
        image.put(0, &[1]);
        let clone = image.clone();
        image.put(0, &[2]);
        assert_eq!((clone.read(0, 1), image.read(0, 1)), (vec![1], vec![2]));
    }
}
