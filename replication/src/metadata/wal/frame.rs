//! One frame: written by the driver, read by recovery.

use raft::eraftpb::{Entry, HardState};

use crate::codec::{DecodeError, Reader, Writer};
use crate::metadata::message::{ENTRY_BYTES_MIN, read_entry, write_entry};
use crate::metadata::snapshot::LogPosition;

/// Bytes of a frame before its payload.
pub(super) const HEADER_BYTES: usize = 28;

const VERSION: u8 = 1;

/// Bytes for the shell to append to the WAL, in the order handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalFrame {
    /// The frame's number, for [`Driver::persisted`].
    ///
    /// [`Driver::persisted`]: crate::metadata::driver::Driver::persisted
    pub sequence: u64,
    /// Whether this frame begins a new file. It then restates everything before it: the file becomes the WAL when it is
    /// durable under its name, and older files and snapshots may go.
    pub starts_file: bool,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What a frame's payload is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// Only first in a file: the log begins anew on a snapshot.
    Checkpoint(Checkpoint),
    /// These entries are appended; whatever stood at their indexes or after is gone.
    Entries(Vec<Entry>),
    /// Term, vote and how far the log is known committed.
    HardState(HardState),
}

/// What a file builds on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// The snapshot.
    pub(crate) snapshot: LogPosition,
    /// The place right before the first entry kept: at the snapshot or before it.
    pub(crate) base: LogPosition,
}

/// Numbers the frames and chains them.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    sequence: u64,
    crc: u32,
}

impl FrameWriter {
    /// Goes on after the frame with this number and crc.
    pub(crate) fn after(sequence: u64, crc: u32) -> Self {
        Self { sequence, crc }
    }

    /// The number of the last frame made.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Makes the next frame, knowing that all up to number `flushed` are durable.
    pub(crate) fn frame(&mut self, flushed: u64, records: &[Record]) -> WalFrame {
        let starts_file = matches!(records.first(), Some(Record::Checkpoint(_)));
        assert!(!records.is_empty(), "an empty frame would look like the end of the log");
        assert!(flushed <= self.sequence, "a frame cannot be durable before it is made");
        let payload = encode_payload(records);
        self.sequence += 1;
        let header = Header { sequence: self.sequence, flushed, previous: self.crc };
        let bytes = header.frame(&payload);
        self.crc = crc_of(&bytes);
        WalFrame { sequence: self.sequence, starts_file, bytes }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) sequence: u64,
    pub(super) flushed: u64,
    pub(super) previous: u32,
}

impl Header {
    pub(super) fn frame(self, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("a turn's records are bounded far below 4 GiB");
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.flushed.to_le_bytes());
        bytes.extend_from_slice(&self.previous.to_le_bytes());
        assert_eq!(bytes.len(), HEADER_BYTES, "the header's fields fill the header");
        bytes.extend_from_slice(payload);
        let crc = crc_of(&bytes);
        let place = bytes.get_mut(4..8).expect("a frame is longer than its header");
        place.copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// The CRC-32C of a frame without the field that holds it.
fn crc_of(frame: &[u8]) -> u32 {
    let (length, rest) = frame.split_at(4);
    crc32c::crc32c_append(crc32c::crc32c(length), rest.get(4..).unwrap_or_default())
}

/// A frame that checks out.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub(super) header: Header,
    pub(super) crc: u32,
    pub(super) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame at the front of `bytes`, or `None` where there is none that checks out. Before the checksum, which reads
    /// all of it, `plausible` may refuse the header.
    pub(super) fn parse(bytes: &'a [u8], plausible: impl FnOnce(Header) -> bool) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let length = usize::try_from(u32::from_le_bytes(reader.array().ok()?)).ok()?;
        let crc = u32::from_le_bytes(reader.array().ok()?);
        let header = Header {
            sequence: u64::from_le_bytes(reader.array().ok()?),
            flushed: u64::from_le_bytes(reader.array().ok()?),
            previous: u32::from_le_bytes(reader.array().ok()?),
        };
        let payload = reader.slice(length).ok()?;
        let whole = bytes.get(..HEADER_BYTES + length)?;
        let checks_out = length > 0 && plausible(header) && crc_of(whole) == crc;
        checks_out.then_some(Self { header, crc, payload })
    }

    pub(super) fn bytes(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }
}

fn encode_payload(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u8(VERSION);
    for record in records {
        match record {
            Record::Checkpoint(checkpoint) => {
                writer.u8(1);
                for position in [checkpoint.snapshot, checkpoint.base] {
                    writer.number(position.index);
                    writer.number(position.term);
                }
            }
            Record::Entries(entries) => {
                writer.u8(2);
                writer.list(entries, write_entry);
            }
            Record::HardState(state) => {
                writer.u8(3);
                writer.number(state.term);
                writer.number(state.vote);
                writer.number(state.commit);
            }
        }
    }
    writer.into_bytes()
}

pub(super) fn decode_payload(payload: &[u8]) -> Result<Vec<Record>, DecodeError> {
    let mut reader = Reader::new(payload);
    match reader.u8()? {
        VERSION => {}
        other => return Err(DecodeError::Version(other)),
    }
    let mut records = Vec::new();
    while !reader.is_empty() {
        records.push(read_record(&mut reader)?);
    }
    Ok(records)
}

fn read_record(reader: &mut Reader<'_>) -> Result<Record, DecodeError> {
    match reader.u8()? {
        1 => {
            let snapshot = LogPosition { index: reader.u64()?, term: reader.u64()? };
            let base = LogPosition { index: reader.u64()?, term: reader.u64()? };
            Ok(Record::Checkpoint(Checkpoint { snapshot, base }))
        }
        2 => reader.list(ENTRY_BYTES_MIN, read_entry).map(Record::Entries),
        3 => {
            let (term, vote, commit) = (reader.u64()?, reader.u64()?, reader.u64()?);
            Ok(Record::HardState(HardState { term, vote, commit, ..HardState::default() }))
        }
        other => Err(DecodeError::Tag(other)),
    }
}
