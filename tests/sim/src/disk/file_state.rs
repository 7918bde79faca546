//! One file on the simulated disk: what reads see, what a power cut leaves, and what lies in between.

use core::mem;
use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::CrashMode;
use super::change::{Change, Piece, apply_survivors};
use super::image::Image;
use super::page_cache::PageCache;
use crate::random::Random;

/// A file.
///
/// A write is *in flight* from its start until it resolves; then it is in the live image and *unflushed*; a flush that
/// started later moves it into the durable image.
#[derive(Default)]
pub(crate) struct FileState {
    live: Image,
    durable: Image,
    /// Changes that no flush has covered, oldest first, each with its number.
    unflushed: VecDeque<(u64, Change)>,
    next_change: u64,
    in_flight: BTreeMap<u64, Piece>,
    /// Ranges sent from the page cache that the receiver hasn't taken yet, by parcel.
    owed: BTreeMap<u64, Range<u64>>,
    page_cache: PageCache,
    /// Shared with everything that holds the file open.
    open: Rc<()>,
    /// Whether a folder names it.
    pub(crate) is_linked: bool,
}

/// Keeps a file open.
#[derive(Clone)]
pub(crate) struct OpenToken {
    _open: Rc<()>,
}

impl FileState {
    /// Holds the file open while the token or a copy of it exists.
    pub(crate) fn open(&self) -> OpenToken {
        OpenToken { _open: Rc::clone(&self.open) }
    }

    /// Whether it still takes space: it has a name or is held open.
    pub(crate) fn is_alive(&self) -> bool {
        self.is_linked || Rc::strong_count(&self.open) > 1
    }

    /// What reads see.
    pub(crate) const fn live(&self) -> &Image {
        &self.live
    }

    /// What a crash leaves for certain.
    pub(crate) const fn durable(&self) -> &Image {
        &self.durable
    }

    /// A write is in flight from now on.
    ///
    /// # Panics
    /// Where it overlaps another one in flight, or bytes that a socket owes.
    pub(crate) fn start_write(&mut self, number: u64, piece: Piece) {
        self.check_unowed(&piece.range(), "a write");
        self.check_no_write_in_flight(&piece.range(), "a write");
        self.page_cache.drop_range(&piece.range());
        self.in_flight.insert(number, piece);
    }

    /// The device has taken all of it.
    pub(crate) fn complete_write(&mut self, number: u64) {
        let piece = self.take_in_flight(number);
        self.write(piece);
    }

    /// The device has failed: some sectors changed, or none.
    pub(crate) fn fail_write(&mut self, number: u64, random: &mut Random) {
        for survivor in self.take_in_flight(number).survivors(random) {
            if survivor.range().end <= self.live.size() {
                self.change(Change::Write(survivor));
            }
        }
    }

    /// What a read sees. Where a write is in flight it sees any mix of old and new sectors.
    pub(crate) fn read(&self, position: u64, bytes: usize, random: &mut Random) -> Vec<u8> {
        let range = position..position + bytes as u64;
        if !self.in_flight.values().any(|piece| overlaps(&piece.range(), &range)) {
            return self.live.read(position, bytes);
        }
        let mut mixed = self.live.clone();
        for piece in self.in_flight.values() {
            for survivor in piece.survivors(random) {
                mixed.put(survivor.position, survivor.bytes());
            }
        }
        mixed.read(position, bytes)
    }

    /// Gives the range space and covers it with the size.
    pub(crate) fn allocate(&mut self, range: Range<u64>) {
        self.change(Change::Allocate(range));
    }

    /// Sets the size.
    ///
    /// # Panics
    /// Where what is cut off is being written, or owed by a socket.
    pub(crate) fn truncate(&mut self, bytes: u64) {
        let cut = bytes..u64::MAX;
        self.check_unowed(&cut, "a truncation");
        self.check_no_write_in_flight(&cut, "a truncation");
        self.page_cache.drop_range(&(bytes..self.live.size().max(bytes)));
        self.change(Change::Truncate(bytes));
    }

    /// Replaces all it holds, as a small file's owner does before a rename.
    pub(crate) fn replace(&mut self, piece: Piece) {
        self.truncate(0);
        self.write(piece);
    }

    /// The number below which a flush that starts now covers changes.
    pub(crate) const fn flush_mark(&self) -> u64 {
        self.next_change
    }

    /// Makes the changes below the mark durable.
    pub(crate) fn complete_flush(&mut self, mark: u64) {
        while let Some((_, change)) = self.unflushed.pop_front_if(|(number, _)| *number < mark) {
            change.apply(&mut self.durable);
        }
    }

    /// A flush of another file has reached the device: of the writes below the mark, the blocks that were durably
    /// written before are durable again. The rest needs the file system to note something, and a flush of its own.
    pub(crate) fn complete_device_flush(&mut self, mark: u64) {
        let is_truncation =
            |(number, change): &(u64, Change)| *number < mark && matches!(change, Change::Truncate(_));
        if self.unflushed.iter().any(is_truncation) {
            return;
        }
        for (number, change) in mem::take(&mut self.unflushed) {
            match change {
                Change::Write(piece) if number < mark => self.keep_fresh_blocks(number, &piece),
                other @ (Change::Write(_) | Change::Allocate(_) | Change::Truncate(_)) => {
                    self.unflushed.push_back((number, other));
                }
            }
        }
    }

    /// Makes the blocks of a write durable that were so before; the others stay unflushed.
    fn keep_fresh_blocks(&mut self, number: u64, piece: &Piece) {
        for block in piece.blocks() {
            if self.durable.has_block(block.position) {
                self.durable.put(block.position, block.bytes());
            } else {
                self.unflushed.push_back((number, Change::Write(block)));
            }
        }
    }

    /// The flush failed: chance decides now what it had made durable, and no later flush changes that.
    pub(crate) fn fail_flush(&mut self, mark: u64, random: &mut Random) {
        let covered = self.unflushed.partition_point(|(number, _)| *number < mark);
        let covered: Vec<Change> = self.unflushed.drain(..covered).map(|(_, change)| change).collect();
        apply_survivors(covered.iter(), &mut self.durable, random);
    }

    /// How many bytes from the start of the range on are in the page cache; none past the end of the file.
    pub(crate) fn resident(&mut self, range: &Range<u64>, random: &mut Random) -> u64 {
        let end = range.end.min(self.live.size());
        if range.start >= end {
            return 0;
        }
        self.page_cache.resident(&(range.start..end), random)
    }

    /// Brings the range into the page cache.
    pub(crate) fn prefetch(&mut self, range: &Range<u64>) {
        self.page_cache.fill(&(range.start..range.end.min(self.live.size()).max(range.start)));
    }

    /// Takes bytes for a socket straight from the page cache; they are owed until [`Self::release`].
    pub(crate) fn lend(&mut self, parcel: u64, position: u64, bytes: usize) -> Vec<u8> {
        let range = position..position + bytes as u64;
        self.check_no_write_in_flight(&range, "a send_file");
        self.owed.insert(parcel, range);
        self.live.read(position, bytes)
    }

    /// The parcel was received, or never will be.
    pub(crate) fn release(&mut self, parcel: u64) {
        self.owed.remove(&parcel);
    }

    /// The machine stops. What is durable is all there is; what else the mode lets through becomes so.
    pub(crate) fn crash(&mut self, mode: CrashMode, random: &mut Random) {
        for piece in mem::take(&mut self.in_flight).into_values() {
            self.write(piece);
        }
        let lost: Vec<Change> = self.unflushed.drain(..).map(|(_, change)| change).collect();
        match mode {
            CrashMode::LoseAllUnflushed => {}
            CrashMode::KeepRandomSectors => apply_survivors(lost.iter(), &mut self.durable, random),
            CrashMode::KeepAll => lost.iter().for_each(|change| change.apply(&mut self.durable)),
        }
        self.durable.clip();
        self.live = self.durable.clone();
        self.owed.clear();
        self.page_cache = PageCache::default();
        self.open = Rc::default();
    }

    /// Flips a bit at rest, in what reads see and in what a power cut leaves.
    pub(crate) fn flip_bit(&mut self, position: u64) {
        for image in [&mut self.live, &mut self.durable] {
            if let [byte] = image.read(position, 1)[..] {
                image.put(position, &[byte ^ 1]);
            }
        }
    }

    fn write(&mut self, piece: Piece) {
        let range = piece.range();
        if range.end > self.live.size() || self.live.missing_bytes(&range) > 0 {
            self.change(Change::Allocate(range));
        }
        self.change(Change::Write(piece));
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.unflushed.push_back((self.next_change, change));
        self.next_change += 1;
    }

    fn take_in_flight(&mut self, number: u64) -> Piece {
        self.in_flight.remove(&number).expect("a write is in flight until it ends")
    }

    fn check_unowed(&self, range: &Range<u64>, what: &str) {
        let owed = self.owed.values().find(|owed| overlaps(owed, range));
        assert!(
            owed.is_none(),
            "{what} of {range:?} changes bytes that a socket still owes its client: send_file of {owed:?}"
        );
    }

    fn check_no_write_in_flight(&self, range: &Range<u64>, what: &str) {
        let other = self.in_flight.values().map(Piece::range).find(|other| overlaps(other, range));
        assert!(other.is_none(), "{what} of {range:?} overlaps a write in flight of {other:?}");
    }
}

fn overlaps(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
