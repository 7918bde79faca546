//! The index sidecar: a sealed segment's summary and index as bytes. Rebuildable from the segment at any time.
//!
//! ```text
//! byte  field                         all numbers big-endian
//!    0  magic                  8 B    "RINGLOGI"
//!    8  version                u32    1
//!   12  header checksum        u32    CRC-32C of bytes 16 to 71
//!   16  segment base offset    i64
//!   24  end offset             i64    exclusive
//!   32  latest record time     i64
//!   40  first append time      i64    by the broker's clock
//!   48  last append time       i64
//!   56  log bytes covered      u32    the whole segment
//!   60  entry count            u32
//!   64  entries checksum       u32    CRC-32C of bytes 72 to the end
//!   68  zero                   u32
//!   72  entries, 16 B each: offset delta u32, position u32, latest record time before it i64
//! ```
//! The header has its own checksum so that a start can learn all it needs of a thousand segments from 72 bytes each.

use crate::decoder::{Decoder, Ended};
use crate::offset_index::{INDEX_ENTRY_BYTES, PackedEntry, SegmentIndex};
use crate::segment::{SegmentId, SegmentSummary};

/// Size of a sidecar without entries.
pub const SIDECAR_HEADER_BYTES: usize = 72;

const MAGIC: [u8; 8] = *b"RINGLOGI";
const VERSION: u32 = 1;
const HEADER_CHECKSUM_FROM: usize = 16;

/// Why bytes are no sidecar. The remedy is always the same: scan the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SidecarError {
    /// Fewer bytes than the header, or than its entry count says.
    #[error("the bytes end early")]
    Truncated,
    /// Not a sidecar.
    #[error("no index sidecar")]
    Magic,
    /// Written by another version.
    #[error("index sidecar of version {0}")]
    Version(u32),
    /// A checksum is wrong.
    #[error("the checksum is wrong")]
    Checksum,
    /// The checksum is right, but the content contradicts itself.
    #[error("the content contradicts itself")]
    Content,
}

impl From<Ended> for SidecarError {
    fn from(Ended: Ended) -> Self {
        Self::Truncated
    }
}

/// The sidecar of a segment with batches.
///
/// # Panics
/// Where the segment is empty or the index isn't its own: sidecars are written of sealed segments.
#[must_use]
pub fn encode_sidecar(summary: &SegmentSummary, index: &SegmentIndex) -> Vec<u8> {
    assert!(!summary.is_empty(), "a sealed segment has batches");
    index.check(summary);
    let entries: Vec<u8> = index.entries().iter().flat_map(entry_bytes).collect();
    let covered = covered_header(summary, index.entries().len(), crc32c::crc32c(&entries));
    let checksum = crc32c::crc32c(&covered).to_be_bytes();
    assert!(!entries.is_empty(), "the first batch is indexed");
    assert_eq!(entries.len() % INDEX_ENTRY_BYTES, 0, "entries have their size");
    let parts: [&[u8]; 5] = [&MAGIC, &VERSION.to_be_bytes(), &checksum, &covered, &entries];
    parts.concat()
}

fn covered_header(summary: &SegmentSummary, entry_count: usize, entries_checksum: u32) -> Vec<u8> {
    assert!(summary.is_sound(), "a segment contradicts itself nowhere");
    let count = u32::try_from(entry_count).expect("a segment has fewer entries than bytes");
    let longs = [
        summary.segment.0.value(),
        summary.end_offset.value(),
        summary.max_timestamp.0,
        summary.first_append.map_or(i64::MIN, |time| time.0),
        summary.last_append.map_or(i64::MIN, |time| time.0),
    ];
    let words = [summary.end_position, count, entries_checksum, 0];
    let longs = longs.into_iter().flat_map(i64::to_be_bytes);
    let bytes: Vec<u8> = longs.chain(words.into_iter().flat_map(u32::to_be_bytes)).collect();
    assert_eq!(bytes.len(), SIDECAR_HEADER_BYTES - HEADER_CHECKSUM_FROM, "the header has its size");
    bytes
}

fn entry_bytes(entry: &PackedEntry) -> [u8; INDEX_ENTRY_BYTES] {
    let [a, b, c, d] = entry.offset_delta.to_be_bytes();
    let [e, f, g, h] = entry.position.to_be_bytes();
    let [i, j, k, l, m, n, o, p] = entry.max_timestamp_before.0.to_be_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

/// What a sidecar's header says; `bytes` may be the header alone.
///
/// # Errors
/// See [`SidecarError`].
pub fn decode_sidecar_summary(bytes: &[u8]) -> Result<SegmentSummary, SidecarError> {
    decode_header(bytes).map(|header| header.summary)
}

struct Header {
    summary: SegmentSummary,
    entry_count: u32,
    entries_checksum: u32,
}

fn decode_header(bytes: &[u8]) -> Result<Header, SidecarError> {
    let mut decoder = Decoder::new(bytes.get(..SIDECAR_HEADER_BYTES).ok_or(SidecarError::Truncated)?);
    if decoder.array()? != MAGIC {
        return Err(SidecarError::Magic);
    }
    let version = decoder.u32()?;
    if version != VERSION {
        return Err(SidecarError::Version(version));
    }
    if decoder.u32()? != crc32c::crc32c(decoder.rest()) {
        return Err(SidecarError::Checksum);
    }
    let header = decode_covered(&mut decoder)?;
    let summary = &header.summary;
    let sound = summary.end_position > 0 && summary.end_offset > summary.segment.0 && header.entry_count > 0;
    if sound { Ok(header) } else { Err(SidecarError::Content) }
}

fn decode_covered(decoder: &mut Decoder<'_>) -> Result<Header, SidecarError> {
    let segment = SegmentId(decoder.offset()?.ok_or(SidecarError::Content)?);
    let end_offset = decoder.offset()?.ok_or(SidecarError::Content)?;
    let max_timestamp = decoder.timestamp()?;
    let (first_append, last_append) = (Some(decoder.timestamp()?), Some(decoder.timestamp()?));
    let end_position = decoder.u32()?;
    let summary =
        SegmentSummary { segment, end_offset, end_position, max_timestamp, first_append, last_append };
    Ok(Header { summary, entry_count: decoder.u32()?, entries_checksum: decoder.u32()? })
}

/// The summary and index that a whole sidecar holds.
///
/// # Errors
/// See [`SidecarError`].
pub fn decode_sidecar(bytes: &[u8]) -> Result<(SegmentSummary, SegmentIndex), SidecarError> {
    let header = decode_header(bytes)?;
    let entries = bytes.get(SIDECAR_HEADER_BYTES..).ok_or(SidecarError::Truncated)?;
    let (entries, rest) = entries.as_chunks::<INDEX_ENTRY_BYTES>();
    if entries.len() < header.entry_count as usize {
        return Err(SidecarError::Truncated);
    }
    if entries.len() > header.entry_count as usize || !rest.is_empty() {
        return Err(SidecarError::Content);
    }
    if crc32c::crc32c(entries.as_flattened()) != header.entries_checksum {
        return Err(SidecarError::Checksum);
    }
    let entries = entries.iter().map(decode_entry).collect::<Result<Vec<_>, _>>()?;
    sound_index(&header.summary, entries).map(|index| (header.summary, index)).ok_or(SidecarError::Content)
}

fn decode_entry(bytes: &[u8; INDEX_ENTRY_BYTES]) -> Result<PackedEntry, SidecarError> {
    let mut decoder = Decoder::new(bytes);
    Ok(PackedEntry {
        offset_delta: decoder.u32()?,
        position: decoder.u32()?,
        max_timestamp_before: decoder.timestamp()?,
    })
}

/// The index, where the entries are such as the log writes.
fn sound_index(summary: &SegmentSummary, entries: Vec<PackedEntry>) -> Option<SegmentIndex> {
    let end_delta = summary.end_offset.since(summary.segment.0)?;
    let within = |entry: &PackedEntry| u64::from(entry.offset_delta) < end_delta;
    if !entries.iter().all(within) || !entries.is_sorted_by_key(|entry| entry.position) {
        return None;
    }
    let index = SegmentIndex::from_entries(summary.segment, entries);
    (index.fits(summary) && index.is_sorted()).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::BatchPosition;
    use engine_record::{Offset, Timestamp};

    fn offset(value: i64) -> Offset {
        Offset::new(value).unwrap()
    }

    fn sample() -> (SegmentSummary, SegmentIndex) {
        let segment = SegmentId(offset(500));
        let begin = BatchPosition { offset: offset(620), position: 40_000 };
        let summary = SegmentSummary {
            segment,
            end_offset: offset(700),
            end_position: 70_000,
            max_timestamp: Timestamp(90),
            first_append: Some(Timestamp(10)),
            last_append: Some(Timestamp(95)),
        };
        let mut index = SegmentIndex::of_first_batch(segment);
        index.note_batch(begin, Timestamp(80), 32_768);
        (summary, index)
    }

    fn encoded() -> Vec<u8> {
        let (summary, index) = sample();
        encode_sidecar(&summary, &index)
    }

    #[test]
    fn a_sidecar_is_written_as_the_format_says() {
        let bytes = encoded();
        assert_eq!(bytes.len(), 72 + 2 * 16);
        assert_eq!(bytes[..12], *b"RINGLOGI\0\0\0\x01");
        assert_eq!(bytes[16..32], [0, 0, 0, 0, 0, 0, 1, 0xf4, 0, 0, 0, 0, 0, 0, 2, 0xbc]);
        assert_eq!(bytes[56..64], [0, 1, 0x11, 0x70, 0, 0, 0, 2]);
        assert_eq!(bytes[68..72], [0; 4]);
        assert_eq!(bytes[72..88], [0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[88..], [0, 0, 0, 120, 0, 0, 0x9c, 0x40, 0, 0, 0, 0, 0, 0, 0, 80]);
    }

    #[test]
    fn a_sidecar_is_read_back() {
        assert_eq!(decode_sidecar(&encoded()), Ok(sample()));
        assert_eq!(decode_sidecar_summary(&encoded()[..SIDECAR_HEADER_BYTES]), Ok(sample().0));
    }

    #[test]
    fn every_flipped_bit_of_a_sidecar_is_found() {
        for position in 0..encoded().len() {
            for bit in 0..8 {
                let mut damaged = encoded();
                damaged[position] ^= 1 << bit;
                assert!(decode_sidecar(&damaged).is_err(), "bit {bit} of byte {position}");
            }
        }
    }

    #[test]
    fn every_cut_and_every_added_byte_is_found() {
        let whole = encoded();
        for end in 0..whole.len() {
            assert!(decode_sidecar(&whole[..end]).is_err(), "cut at {end}");
        }
        assert_eq!(decode_sidecar(&[whole, vec![0]].concat()), Err(SidecarError::Content));
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut newer = encoded();
        newer[11] = 2;
        assert_eq!(decode_sidecar(&newer), Err(SidecarError::Version(2)));
    }

    #[test]
    fn entries_that_contradict_the_summary_are_refused_though_the_checksum_is_right() {
        let (summary, index) = sample();
        let (mut late, mut short) = (summary, summary);
        late.max_timestamp = Timestamp(79);
        short.end_offset = offset(620);
        for wrong in [late, short] {
            assert_eq!(sound_index(&wrong, index.entries().to_vec()), None);
        }
        let mut unsorted = index.entries().to_vec();
        unsorted.reverse();
        assert_eq!(sound_index(&summary, unsorted), None);
        assert_eq!(sound_index(&summary, Vec::new()), None);
    }
}
