//! Reading a WAL file after a stop of any kind: a pure scan over its bytes.

use raft::eraftpb::{Entry, HardState};
use thiserror::Error;

use super::frame::{Checkpoint, Frame, FrameWriter, HEADER_BYTES, Header, Record, decode_payload};
use crate::codec::DecodeError;
use crate::metadata::snapshot::LogPosition;

/// Why a WAL file is refused. None of these is what a crash leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WalError {
    /// The file doesn't begin with the frame that was durable before the file got its name.
    #[error("the file does not begin with a whole first frame")]
    NoStart,
    /// A frame that had been durable is damaged.
    #[error("frame {sequence}, which was durable, is damaged; it begins at byte {position}")]
    Damaged {
        /// The frame that should be there.
        sequence: u64,
        /// Where it should begin.
        position: usize,
    },
    /// A frame is whole and its records are not of a version that this program knows.
    #[error("frame {sequence} cannot be read: {error}")]
    Unreadable {
        /// The frame.
        sequence: u64,
        /// Why.
        error: DecodeError,
    },
    /// A frame is whole and its records contradict what stands before them.
    #[error("frame {sequence} contradicts what stands before it")]
    Contradiction {
        /// The frame.
        sequence: u64,
    },
}

/// The largest number of a frame or an entry: one more can always be counted.
const NUMBER_MAX: u64 = u64::MAX - 1;

/// The state that a WAL file holds.
#[derive(Debug, PartialEq)]
pub struct Recovered {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) entries: Vec<Entry>,
    pub(crate) hard_state: HardState,
    sequence: u64,
    crc: u32,
    bytes: usize,
    torn: bool,
}

/// Reads a WAL file from its first byte to the end of its last whole frame.
///
/// # Errors
///
/// Something durable is damaged or unknown: the node must not start from this file.
pub fn recover(file: &[u8]) -> Result<Recovered, WalError> {
    let start = Frame::parse(file, |_| true).ok_or(WalError::NoStart)?;
    let mut log = Recovered::begin(&start)?;
    while let Some(frame) = log.next_frame(file) {
        log.take(&frame)?;
    }
    let rest = file.get(log.bytes..).unwrap_or_default();
    if follows_a_durable_frame(rest, log.sequence) {
        return Err(WalError::Damaged { sequence: log.sequence + 1, position: log.bytes });
    }
    log.torn = rest.iter().any(|byte| *byte != 0);
    Ok(log)
}

impl Recovered {
    /// The snapshot that this log builds on. Its file holds the metadata up to there.
    #[must_use]
    pub fn snapshot(&self) -> LogPosition {
        self.checkpoint.snapshot
    }

    /// Where in the file the next frame goes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a write that never became durable left something behind there: to be cut or zeroed before the next append.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    /// The number of the last frame, which is durable.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The term the node was in.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.hard_state.term
    }

    pub(crate) fn writer(&self) -> FrameWriter {
        FrameWriter::after(self.sequence, self.crc)
    }

    fn begin(frame: &Frame<'_>) -> Result<Self, WalError> {
        let sequence = frame.header.sequence;
        let records = records(frame)?;
        let Some((Record::Checkpoint(checkpoint), rest)) = records.split_first() else {
            return Err(WalError::Contradiction { sequence });
        };
        let mut log = Self {
            checkpoint: *checkpoint,
            entries: Vec::new(),
            hard_state: HardState::default(),
            sequence,
            crc: frame.crc,
            bytes: frame.bytes(),
            torn: false,
        };
        let countable = sequence <= NUMBER_MAX && checkpoint.base.index <= NUMBER_MAX;
        let based = countable && checkpoint.base.index <= checkpoint.snapshot.index;
        let held = based && log.apply(rest) && log.last_index() >= checkpoint.snapshot.index;
        held.then_some(log).ok_or(WalError::Contradiction { sequence })
    }

    /// The frame that comes next, where it is there. A frame of another chain is the residue of an earlier crash.
    fn next_frame<'a>(&self, file: &'a [u8]) -> Option<Frame<'a>> {
        let expected = |header: Header| header.sequence == self.sequence + 1 && header.previous == self.crc;
        Frame::parse(file.get(self.bytes..)?, expected)
    }

    fn take(&mut self, frame: &Frame<'_>) -> Result<(), WalError> {
        let sequence = frame.header.sequence;
        assert_eq!(sequence, self.sequence + 1, "frames are taken in order");
        assert_eq!(frame.header.previous, self.crc, "frames are taken along the chain");
        if sequence > NUMBER_MAX || !self.apply(&records(frame)?) {
            return Err(WalError::Contradiction { sequence });
        }
        self.sequence = sequence;
        self.crc = frame.crc;
        self.bytes += frame.bytes();
        self.check();
        Ok(())
    }

    fn check(&self) {
        let base = self.checkpoint.base.index;
        assert!(base <= self.checkpoint.snapshot.index, "entries are missing after the snapshot");
        assert!(self.checkpoint.snapshot.index <= self.last_index(), "the log ends before its snapshot");
        assert!(self.hard_state.commit <= self.last_index(), "committed is what isn't there");
        let count = u64::try_from(self.entries.len()).expect("lengths fit 64 bits");
        assert_eq!(base + count, self.last_index(), "the entries have a gap");
    }

    /// Applies records; false where they contradict what stands before them.
    fn apply(&mut self, records: &[Record]) -> bool {
        records.iter().all(|record| match record {
            Record::Checkpoint(_) => false,
            Record::Entries(entries) => self.append(entries),
            Record::HardState(state) => self.set_hard_state(state),
        }) && self.hard_state.commit <= self.last_index()
    }

    fn append(&mut self, entries: &[Entry]) -> bool {
        let Some(first) = entries.first() else {
            return true;
        };
        let Some(kept) = first.index.checked_sub(self.checkpoint.base.index + 1) else {
            return false;
        };
        // What is known committed, or is in the snapshot, is never replaced.
        let fixed = self.hard_state.commit.max(self.checkpoint.base.index);
        if first.index > self.last_index() + 1 || first.index <= fixed {
            return false;
        }
        self.entries.truncate(usize::try_from(kept).expect("no more entries are kept than are in memory"));
        entries.iter().all(|entry| self.push(entry))
    }

    fn push(&mut self, entry: &Entry) -> bool {
        let term = self.entries.last().map_or(self.checkpoint.base.term, |last| last.term);
        let countable = entry.index <= NUMBER_MAX;
        let follows = countable && entry.index == self.last_index() + 1 && entry.term >= term;
        if follows {
            self.entries.push(entry.clone());
        }
        follows
    }

    fn set_hard_state(&mut self, state: &HardState) -> bool {
        let known = &self.hard_state;
        let revoted = state.term == known.term && known.vote != 0 && state.vote != known.vote;
        let forward = state.term >= known.term && state.commit >= known.commit && !revoted;
        self.hard_state = state.clone();
        forward
    }

    fn last_index(&self) -> u64 {
        self.entries.last().map_or(self.checkpoint.base.index, |last| last.index)
    }
}

fn records(frame: &Frame<'_>) -> Result<Vec<Record>, WalError> {
    let sequence = frame.header.sequence;
    decode_payload(frame.payload).map_err(|error| WalError::Unreadable { sequence, error })
}

/// Whether `rest`, which follows frame `last`, has a whole frame in it that was made when the one after `last` was durable.
fn follows_a_durable_frame(rest: &[u8], last: u64) -> bool {
    let frames_max = u64::try_from(rest.len() / HEADER_BYTES).unwrap_or(u64::MAX);
    let telling = |header: Header| {
        let near = header.sequence > last && header.sequence - last <= frames_max;
        near && header.flushed > last && header.flushed < header.sequence
    };
    let mut at = 0;
    while let Some(skipped) = rest.get(at..).and_then(|rest| rest.iter().position(|byte| *byte != 0)) {
        // Zeros begin no frame: of the four bytes of a length one isn't zero.
        at = at.max((at + skipped).saturating_sub(3));
        if Frame::parse(rest.get(at..).unwrap_or_default(), telling).is_some() {
            return true;
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests;
