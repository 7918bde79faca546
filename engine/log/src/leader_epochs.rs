//! Which leader epoch wrote from which offset on: where two logs parted is read off this list (KIP-101, KIP-279).

use engine_record::{LeaderEpoch, Offset};

use crate::decoder::{Decoder, Ended};

/// From `start_offset` on (inclusive), up to the next entry, records were appended in `epoch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// The first offset of it.
    pub start_offset: Offset,
}

/// The epochs of a log, oldest first: both epoch and start offset rise strictly from entry to entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderEpochs {
    starts: Vec<EpochStart>,
}

/// Why bytes are no list of epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaderEpochsError {
    /// The bytes end early.
    #[error("the list of leader epochs ends early")]
    Truncated,
    /// An epoch or offset is negative, or doesn't rise.
    #[error("the list of leader epochs doesn't rise")]
    Order,
}

impl From<Ended> for LeaderEpochsError {
    fn from(Ended: Ended) -> Self {
        Self::Truncated
    }
}

/// Size of an encoded entry: epoch i32, start offset i64.
pub(crate) const ENTRY_BYTES: usize = 12;

/// Size of an encoded list of `count` entries.
pub(crate) const fn encoded_bytes(count: usize) -> usize {
    4 + count * ENTRY_BYTES
}

impl LeaderEpochs {
    /// No epoch yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { starts: Vec::new() }
    }

    /// The entries, oldest first.
    #[must_use]
    pub fn starts(&self) -> &[EpochStart] {
        &self.starts
    }

    /// The latest epoch; `None` where the log never had one.
    #[must_use]
    pub fn latest(&self) -> Option<LeaderEpoch> {
        self.starts.last().map(|start| start.epoch)
    }

    /// The epoch of the last record below `end`; `None` where there is no record, or its epoch isn't known.
    #[must_use]
    pub fn latest_below(&self, end: Offset) -> Option<LeaderEpoch> {
        let below = self.first_at_or_above(end);
        self.starts.get(below.checked_sub(1)?).map(|start| start.epoch)
    }

    /// The largest epoch of the log at or below `epoch`, and the exclusive end of its records: the start of the next
    /// epoch, or `log_end`. `None` where the log has no epoch so old.
    #[must_use]
    pub fn end_offset_for(&self, epoch: LeaderEpoch, log_end: Offset) -> Option<(LeaderEpoch, Offset)> {
        let above = self.starts.partition_point(|start| start.epoch <= epoch);
        let found = self.starts.get(above.checked_sub(1)?)?;
        let end = self.starts.get(above).map_or(log_end, |next| next.start_offset);
        assert!(found.epoch <= epoch, "an end is asked for of an epoch or an older one");
        assert!(found.start_offset <= end, "an epoch ends behind its start");
        Some((found.epoch, end))
    }

    /// Notes that records from `start_offset` on, where the log ends now, are of `epoch`. An epoch that began there has
    /// no record and is replaced, also by an older one: its leader appended nothing, and follows another's log now.
    pub(crate) fn note(&mut self, epoch: LeaderEpoch, start_offset: Offset) {
        assert!(epoch.0 >= 0, "an epoch in the log is known");
        self.starts.truncate(self.first_at_or_above(start_offset));
        let latest = self.latest();
        assert!(latest.is_none_or(|latest| latest <= epoch), "epochs never fall");
        if latest != Some(epoch) {
            self.starts.push(EpochStart { epoch, start_offset });
        }
        assert_eq!(self.latest(), Some(epoch), "what is noted is known");
    }

    fn first_at_or_above(&self, offset: Offset) -> usize {
        self.starts.partition_point(|start| start.start_offset < offset)
    }

    /// Forgets the epochs that begin at or above `end`.
    pub(crate) fn truncate(&mut self, end: Offset) {
        self.starts.truncate(self.first_at_or_above(end));
        assert!(self.starts.last().is_none_or(|last| last.start_offset < end), "later epochs are gone");
    }

    /// Forgets the epochs that end at or below `log_start`; one that reaches over it begins there now.
    pub(crate) fn advance_start(&mut self, log_start: Offset) {
        let above = self.starts.partition_point(|start| start.start_offset <= log_start);
        let Some(reaching) = above.checked_sub(1) else { return };
        self.starts.drain(..reaching);
        if let Some(first) = self.starts.first_mut() {
            first.start_offset = log_start;
        }
        assert!(
            self.starts.first().is_some_and(|first| first.start_offset == log_start),
            "one epoch reaches over"
        );
    }

    /// Asserts the order of the list, and that it ends within the log.
    pub(crate) fn check(&self, log_end: Offset) {
        assert!(
            self.starts.last().is_none_or(|last| last.start_offset <= log_end),
            "epochs begin in the log"
        );
        assert!(self.starts.first().is_none_or(|first| first.epoch.0 >= 0), "an epoch in the log is known");
        if cfg!(debug_assertions) {
            assert!(self.rises(), "epochs and their starts rise");
        }
    }

    fn rises(&self) -> bool {
        self.starts.is_sorted_by(|a, b| a.epoch < b.epoch && a.start_offset < b.start_offset)
    }

    /// Appends the list to `out`: a count u32, then epoch i32 and start offset i64 each, big-endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let count = u32::try_from(self.starts.len()).expect("epochs are fewer than 2^31");
        assert!(self.rises(), "epochs and their starts rise");
        out.extend_from_slice(&count.to_be_bytes());
        for start in &self.starts {
            out.extend_from_slice(&start.epoch.0.to_be_bytes());
            out.extend_from_slice(&start.start_offset.value().to_be_bytes());
        }
    }

    /// Takes a list from the front of `bytes`; also returns the bytes behind it. Checksums are the holder's business.
    ///
    /// # Errors
    /// See [`LeaderEpochsError`].
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), LeaderEpochsError> {
        let mut decoder = Decoder::new(bytes);
        let count = decoder.u32()? as usize;
        if count > decoder.rest().len() / ENTRY_BYTES {
            return Err(LeaderEpochsError::Truncated);
        }
        let mut starts = Vec::with_capacity(count);
        for _ in 0..count {
            let epoch = LeaderEpoch(decoder.i32()?);
            let start_offset = decoder.offset()?.ok_or(LeaderEpochsError::Order)?;
            starts.push(EpochStart { epoch, start_offset });
        }
        let epochs = Self { starts };
        let known = epochs.starts.first().is_none_or(|first| first.epoch.0 >= 0);
        if known && epochs.rises() { Ok((epochs, decoder.rest())) } else { Err(LeaderEpochsError::Order) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offset(value: i64) -> Offset {
        Offset::new(value).unwrap()
    }

    fn epochs(starts: &[(i32, i64)]) -> LeaderEpochs {
        let mut epochs = LeaderEpochs::new();
        for &(epoch, start) in starts {
            epochs.note(LeaderEpoch(epoch), offset(start));
        }
        epochs.check(offset(1_000));
        epochs
    }

    fn end_of(epochs: &LeaderEpochs, epoch: i32) -> Option<(i32, i64)> {
        let found = epochs.end_offset_for(LeaderEpoch(epoch), offset(100));
        found.map(|(epoch, end)| (epoch.0, end.value()))
    }

    #[test]
    fn an_epoch_ends_where_the_next_begins_and_the_latest_at_the_logs_end() {
        let epochs = epochs(&[(2, 10), (5, 40)]);
        assert_eq!(end_of(&epochs, 2), Some((2, 40)));
        assert_eq!(end_of(&epochs, 3), Some((2, 40)), "an epoch without records here: the one before");
        assert_eq!(end_of(&epochs, 5), Some((5, 100)));
        assert_eq!(end_of(&epochs, 9), Some((5, 100)));
        assert_eq!(end_of(&epochs, 1), None);
        assert_eq!(end_of(&LeaderEpochs::new(), 1), None);
    }

    #[test]
    fn an_epoch_without_records_is_replaced_by_the_next() {
        assert_eq!(epochs(&[(1, 0), (2, 30), (3, 30)]), epochs(&[(1, 0), (3, 30)]));
        assert_eq!(epochs(&[(1, 0), (1, 30)]), epochs(&[(1, 0)]));
    }

    #[test]
    fn a_truncation_forgets_the_epochs_that_begin_at_or_above_it() {
        let all = [(1, 0), (2, 30), (3, 60)];
        for (end, kept) in [(61, 3), (60, 2), (31, 2), (30, 1), (0, 0)] {
            let mut epochs = epochs(&all);
            epochs.truncate(offset(end));
            assert_eq!(epochs.starts().len(), kept, "truncated to {end}");
        }
    }

    #[test]
    fn an_epoch_that_reaches_over_the_logs_start_begins_there() {
        let mut epochs = epochs(&[(1, 10), (2, 30), (3, 60)]);
        epochs.advance_start(offset(5));
        assert_eq!(epochs.starts().len(), 3);
        epochs.advance_start(offset(45));
        let expected = [(2, 45), (3, 60)]
            .map(|(epoch, start)| EpochStart { epoch: LeaderEpoch(epoch), start_offset: offset(start) });
        assert_eq!(epochs.starts(), expected);
    }

    #[test]
    #[should_panic(expected = "epochs never fall")]
    fn an_epoch_never_falls() {
        epochs(&[(2, 0), (1, 10)]);
    }

    #[test]
    fn a_list_that_does_not_rise_or_lies_about_its_count_is_refused() {
        let bytes = |count: u32, starts: &[(i32, i64)]| {
            let mut out = count.to_be_bytes().to_vec();
            for (epoch, start) in starts {
                out.extend_from_slice(&epoch.to_be_bytes());
                out.extend_from_slice(&start.to_be_bytes());
            }
            out
        };
        let refused = |bytes: &[u8]| LeaderEpochs::decode(bytes).unwrap_err();
        assert_eq!(refused(&bytes(2, &[(1, 0), (1, 5)])), LeaderEpochsError::Order);
        assert_eq!(refused(&bytes(2, &[(1, 5), (2, 5)])), LeaderEpochsError::Order);
        assert_eq!(refused(&bytes(1, &[(-1, 5)])), LeaderEpochsError::Order);
        assert_eq!(refused(&bytes(1, &[(1, -5)])), LeaderEpochsError::Order);
        assert_eq!(refused(&bytes(u32::MAX, &[(1, 5)])), LeaderEpochsError::Truncated);
        assert_eq!(refused(&[0, 0]), LeaderEpochsError::Truncated);
    }

    proptest! {
        #[test]
        fn a_list_is_read_back_with_what_follows(steps in prop::collection::vec((1_i32..5, 1_i64..50), 0..20)) {
            let mut at = (0, 0);
            let starts: Vec<_> = steps.iter().map(|(epoch, start)| {
                at = (at.0 + epoch, at.1 + start);
                at
            }).collect();
            let epochs = epochs(&starts);
            let mut bytes = Vec::new();
            epochs.encode(&mut bytes);
            bytes.push(7);
            prop_assert_eq!(LeaderEpochs::decode(&bytes), Ok((epochs, &[7][..])));
        }
    }
}
