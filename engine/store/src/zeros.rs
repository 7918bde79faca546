//! Space written with zeros ahead of the appends.
//!
//! A write into space that was never written makes the file system note something, which costs the flush that follows
//! a journal commit for each file. Written space costs none: then one flush of the device serves all files. So where
//! appends are small and waited for, zeros are written ahead of them, a step at a time.

use core::cell::Cell;

use engine_io::Signal;

/// What of one segment's space lies ready, written with zeros and flushed.
#[derive(Debug, Default)]
pub(crate) struct Zeros {
    /// From inclusive, to exclusive; whole blocks.
    ready: Cell<(u64, u64)>,
    /// Where the zeros begin that are being written. No other write may reach there.
    writing_from: Cell<Option<u64>>,
    written: Signal,
}

impl Zeros {
    /// The end of what lies ready.
    pub(crate) fn end(&self) -> u64 {
        self.ready.get().1
    }

    /// Whether a write from `start` to `end` stays within what is ready, where everything below `settled` is too.
    pub(crate) fn cover(&self, start: u64, end: u64, settled: u64) -> bool {
        let (from, to) = self.ready.get();
        end <= to && (start >= from || from <= settled)
    }

    /// Up to where everything is ready, if everything below `settled` is.
    pub(crate) fn extend(&self, settled: u64) -> u64 {
        let (from, to) = self.ready.get();
        if from <= settled { settled.max(to) } else { settled }
    }

    /// Notes that zeros are being written from `from` on.
    pub(crate) fn begin(&self, from: u64) {
        assert!(self.writing_from.get().is_none(), "zeros are written one step at a time");
        self.writing_from.set(Some(from));
    }

    /// Notes that they are written, or never will be.
    pub(crate) fn end_writing(&self) {
        self.writing_from.set(None);
        self.written.notify();
    }

    /// Notes that zeros from `from` to `to` are written and flushed.
    pub(crate) fn add(&self, from: u64, to: u64) {
        let (known_from, known_to) = self.ready.get();
        self.ready.set(if known_to == from { (known_from, to) } else { (from, to) });
    }

    /// Forgets everything: the file was cut.
    pub(crate) fn clear(&self) {
        self.ready.set((0, 0));
    }

    /// Resolves when no zeros are being written below `end`.
    pub(crate) async fn out_of_the_way(&self, end: u64) {
        loop {
            let written = self.written.wait();
            if self.writing_from.get().is_none_or(|from| end <= from) {
                return;
            }
            written.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, poll_once};

    use super::*;

    #[test]
    fn a_write_is_covered_where_all_of_it_was_written_before() {
        let zeros = Zeros::default();
        zeros.add(8192, 16384);
        assert!(zeros.cover(8192, 12288, 0));
        assert!(!zeros.cover(4096, 12288, 4096), "a block lies between");
        assert!(zeros.cover(4096, 12288, 8192));
        assert!(!zeros.cover(12288, 20480, 8192));
        zeros.add(16384, 20480);
        assert!(zeros.cover(12288, 20480, 0));
        assert_eq!((zeros.extend(4096), zeros.extend(8192)), (4096, 20480));
        zeros.add(40960, 45056);
        assert_eq!(zeros.extend(20480), 20480);
    }

    #[test]
    fn a_write_waits_for_zeros_where_it_would_meet_them() {
        let zeros = Zeros::default();
        zeros.begin(8192);
        assert_eq!(block_on(poll_once(zeros.out_of_the_way(8192))), Some(()));
        assert_eq!(block_on(poll_once(zeros.out_of_the_way(8193))), None);
        zeros.end_writing();
        block_on(zeros.out_of_the_way(8193));
    }
}
