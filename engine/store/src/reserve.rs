//! Keeps account of the space that the checkpoint's slots need, so that whatever a shutdown writes has its place already.
//!
//! The most that a shutdown can have to write is an image in which every log that is open now is closed. Of each open log
//! the bytes that this takes are promised before it grows; what is promised has space in *both* slots. So an image fits
//! whichever slot is its turn, and one after it, also when the drive gave nothing in between.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use engine_record::TopicPartition;

use crate::checkpoint::frame;

/// What may still be promised without more space, in bytes, below which more is looked for ahead.
pub(crate) const AHEAD_BYTES: u64 = 256 << 10;

/// Promises come in steps of this size, in bytes.
const STEP_BYTES: u64 = 512;

/// What of a partition is in an image.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// Its entry as it is now, in bytes; 0 without one.
    entry: u64,
    /// What its entry may take in time, in bytes; 0 where nobody was promised anything.
    promised: u64,
}

impl Share {
    fn bytes(self) -> u64 {
        self.entry.max(self.promised)
    }
}

/// What an image may take at most, and what space it has.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    shares: RefCell<BTreeMap<TopicPartition, Share>>,
    /// Of all shares, in bytes.
    sum: Cell<u64>,
    /// What each of the two slots has for sure, also after a crash, in bytes.
    space: Cell<u64>,
}

impl Reserve {
    /// Notes how many bytes the partition's entry takes in an image; 0 for none.
    pub(crate) fn set_entry(&self, at: TopicPartition, bytes: u64) {
        self.change(at, |share| share.entry = bytes);
    }

    /// Promises the partition `bytes` for its entry instead of what it was promised before, whether there is space or not.
    pub(crate) fn set_promise(&self, at: TopicPartition, bytes: u64) {
        self.change(at, |share| share.promised = bytes);
    }

    /// Promises the partition `bytes` for its entry where there is space for it; whether there is.
    pub(crate) fn try_promise(&self, at: TopicPartition, bytes: u64) -> bool {
        let before = self.shares.borrow().get(&at).copied().unwrap_or_default();
        self.set_promise(at, bytes);
        let is_backed = self.is_backed();
        if !is_backed {
            self.set_promise(at, before.promised);
        }
        is_backed
    }

    fn change(&self, at: TopicPartition, change: impl FnOnce(&mut Share)) {
        let mut shares = self.shares.borrow_mut();
        let share = shares.entry(at).or_default();
        let before = share.bytes();
        change(share);
        let after = share.bytes();
        if after == 0 {
            shares.remove(&at);
        }
        self.sum.set(self.sum.get() - before + after);
    }

    /// The space that each slot needs, in bytes: whole blocks.
    pub(crate) fn needed(&self) -> u64 {
        frame::image_bytes_max(self.sum.get())
    }

    /// Whether there is space for all that was promised.
    pub(crate) fn is_backed(&self) -> bool {
        self.needed() <= self.space.get()
    }

    /// Whether there is so little beyond it that more should be looked for.
    pub(crate) fn is_short(&self) -> bool {
        self.needed() + AHEAD_BYTES / 2 > self.space.get()
    }

    /// Notes what each slot has for sure, in bytes.
    pub(crate) fn set_space(&self, bytes: u64) {
        self.space.set(bytes);
    }
}

/// What is to be promised where `bytes` are needed.
pub(crate) fn in_steps(bytes: usize) -> u64 {
    (bytes as u64).next_multiple_of(STEP_BYTES)
}

#[cfg(test)]
mod tests {
    use engine_record::{PartitionIndex, TopicId};

    use super::*;

    fn at(number: i32) -> TopicPartition {
        TopicPartition { topic: TopicId([7; 16]), partition: PartitionIndex(number) }
    }

    #[test]
    fn a_partition_takes_what_it_was_promised_or_its_entry_whichever_is_larger() {
        let reserve = Reserve::default();
        let nothing = reserve.needed();
        reserve.set_entry(at(0), 1_000_000);
        reserve.set_promise(at(0), 700_000);
        assert_eq!(reserve.needed(), frame::image_bytes_max(1_000_000));
        reserve.set_promise(at(0), 1_200_000);
        reserve.set_promise(at(1), 10);
        assert_eq!(reserve.needed(), frame::image_bytes_max(1_200_010));
        reserve.set_entry(at(0), 0);
        reserve.set_promise(at(0), 0);
        reserve.set_promise(at(1), 0);
        assert_eq!(reserve.needed(), nothing);
    }

    #[test]
    fn what_has_no_space_is_not_promised_and_takes_nothing_from_others() {
        let reserve = Reserve::default();
        assert!(!reserve.try_promise(at(0), 512));
        reserve.set_space(1 << 20);
        assert!(reserve.try_promise(at(0), 512 << 10));
        assert!(!reserve.try_promise(at(1), 600 << 10));
        assert!(!reserve.try_promise(at(0), 2 << 20), "it keeps what it has");
        assert!(!reserve.is_short() && reserve.try_promise(at(1), 400 << 10));
        assert!(reserve.is_backed() && reserve.is_short());
        reserve.set_promise(at(2), 1 << 20);
        assert!(!reserve.is_backed());
        assert!(!reserve.try_promise(at(3), 1), "what others were promised comes first");
    }
}
