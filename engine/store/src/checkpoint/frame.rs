//! Frames: how the entries of a checkpoint lie in a slot, and how a slot is read back after any crash.
//!
//! ```text
//! byte  field
//!    0  magic        u32  "RLCK"
//!    4  version      u16  1
//!    6  kind         u16  0 image, 1 last of the image, 2 change
//!    8  generation   u64  the start of the store that wrote it
//!   16  image        u64  which image of this shard; a slot holds the frames of one, and remains of older ones
//!   24  sequence     u32  number of the frame in its slot, from 0
//!   28  bytes        u32  of the payload
//!   32  crc          u32  CRC-32C of bytes 0-31 and the payload
//!   36  payload           entries, whole
//!       zeros to the next multiple of 4,096
//! ```
//!
//! A slot counts when its image is whole. Every change is flushed before the next is written, so only the last frame
//! can be torn; a good frame behind a bad one means damage.

use engine_io::BLOCK_BYTES;

use super::CorruptCheckpoint;
use super::bytes::{Reader, Writer};

const MAGIC: u32 = u32::from_le_bytes(*b"RLCK");
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 36;

/// The largest payload that is read. Entries are far below: a segment takes 24 bytes, a producer some hundred.
const PAYLOAD_BYTES_MAX: usize = 256 << 20;

/// What a frame is to its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Part of the image, more follows.
    Image,
    /// The image is whole with this one.
    ImageEnd,
    /// Entries that replace those of the image.
    Change,
}

impl FrameKind {
    fn number(self) -> u16 {
        match self {
            Self::Image => 0,
            Self::ImageEnd => 1,
            Self::Change => 2,
        }
    }

    fn of_number(number: u16) -> Option<Self> {
        [Self::Image, Self::ImageEnd, Self::Change].into_iter().find(|kind| kind.number() == number)
    }
}

/// A frame's place and meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: FrameKind,
    pub(crate) generation: u64,
    pub(crate) image: u64,
    pub(crate) sequence: u32,
}

/// The frame's bytes, padded to whole blocks.
pub(crate) fn encode(header: FrameHeader, payload: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u32(MAGIC);
    writer.raw(&VERSION.to_le_bytes());
    writer.raw(&header.kind.number().to_le_bytes());
    writer.u64(header.generation);
    writer.u64(header.image);
    writer.u32(header.sequence);
    writer.count(payload.len());
    let mut bytes = writer.into_bytes();
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes), payload);
    bytes.extend(crc.to_le_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    bytes
}

/// The frame at the front of `bytes`, its payload, and the bytes it takes with its padding; `None` where there is none.
fn decode(bytes: &[u8]) -> Option<(FrameHeader, &[u8], usize)> {
    let (head, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let (covered, crc) = head.split_last_chunk::<4>()?;
    let mut reader = Reader::new(covered);
    if reader.u32().ok()? != MAGIC || reader.u16().ok()? != VERSION {
        return None;
    }
    let kind = FrameKind::of_number(reader.u16().ok()?)?;
    let (generation, image) = (reader.u64().ok()?, reader.u64().ok()?);
    let sequence = reader.u32().ok()?;
    let payload_bytes = reader.u32().ok()? as usize;
    let payload = rest.get(..payload_bytes).filter(|payload| payload.len() <= PAYLOAD_BYTES_MAX)?;
    let computed = crc32c::crc32c_append(crc32c::crc32c(covered), payload);
    if computed != u32::from_le_bytes(*crc) {
        return None;
    }
    let frame_bytes = (HEADER_BYTES + payload_bytes).next_multiple_of(BLOCK_BYTES);
    Some((FrameHeader { kind, generation, image, sequence }, payload, frame_bytes))
}

/// What a slot holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SlotContent<'a> {
    /// The newest start of a store that wrote to it.
    pub(crate) generation: u64,
    pub(crate) image: u64,
    /// The payloads of the image and of the changes since, in order.
    pub(crate) payloads: Vec<&'a [u8]>,
}

/// Reads a slot; `None` where it holds no whole image.
///
/// # Errors
/// [`CorruptCheckpoint::FrameLost`] where good frames lie behind a bad one.
pub(crate) fn read_slot(bytes: &[u8]) -> Result<Option<SlotContent<'_>>, CorruptCheckpoint> {
    let Some((first, ..)) = decode(bytes).filter(|(header, ..)| header.sequence == 0) else {
        return Ok(None);
    };
    let mut content = SlotContent { generation: 0, image: first.image, payloads: Vec::new() };
    let (mut position, mut sequence, mut is_whole) = (0, 0, false);
    while let Some((header, payload, frame_bytes)) = decode(bytes.get(position..).unwrap_or_default()) {
        let is_next = header.image == content.image && header.sequence == sequence;
        if !is_next || (header.kind == FrameKind::Change) != is_whole {
            break;
        }
        is_whole |= header.kind == FrameKind::ImageEnd;
        content.generation = content.generation.max(header.generation);
        content.payloads.push(payload);
        position += frame_bytes;
        sequence += 1;
    }
    if !is_whole {
        return Ok(None);
    }
    refuse_later_frames(bytes.get(position..).unwrap_or_default(), content.image)?;
    Ok(Some(content))
}

/// Frames of this image behind the first bad one were written after it was flushed: it was good once.
fn refuse_later_frames(bytes: &[u8], image: u64) -> Result<(), CorruptCheckpoint> {
    let blocks = (0..bytes.len()).step_by(BLOCK_BYTES).skip(1);
    let mut later = blocks.filter_map(|at| decode(bytes.get(at..).unwrap_or_default()));
    let is_lost = later.any(|(header, ..)| header.image == image);
    if is_lost { Err(CorruptCheckpoint::FrameLost) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: FrameHeader = FrameHeader { kind: FrameKind::Image, generation: 3, image: 8, sequence: 0 };

    fn slot(kinds: &[FrameKind]) -> Vec<u8> {
        let frames = (0..).zip(kinds).map(|(sequence, kind)| {
            encode(FrameHeader { kind: *kind, sequence, ..HEADER }, &[u8::try_from(sequence).unwrap(); 5000])
        });
        frames.flatten().collect()
    }

    fn payload_count(bytes: &[u8]) -> Option<usize> {
        read_slot(bytes).unwrap().map(|content| content.payloads.len())
    }

    const KINDS: [FrameKind; 4] =
        [FrameKind::Image, FrameKind::ImageEnd, FrameKind::Change, FrameKind::Change];

    #[test]
    fn the_bytes_of_a_frame_are_as_drawn() {
        let bytes = encode(FrameHeader { kind: FrameKind::ImageEnd, ..HEADER }, b"abc");
        assert_eq!(bytes.len(), BLOCK_BYTES);
        assert_eq!(bytes[..8], [b'R', b'L', b'C', b'K', 1, 0, 1, 0]);
        assert_eq!(bytes[8..32], [3, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(bytes[32..36], 0x6772_870b_u32.to_le_bytes());
        assert_eq!(bytes[36..40], *b"abc\0");
    }

    #[test]
    fn a_whole_image_and_its_changes_are_read_back() {
        let bytes = slot(&KINDS);
        let content = read_slot(&bytes).unwrap().unwrap();
        assert_eq!((content.generation, content.image, content.payloads.len()), (3, 8, 4));
        assert_eq!(content.payloads[3], [3; 5000]);
    }

    #[test]
    fn an_image_cut_short_counts_for_nothing() {
        assert_eq!(payload_count(&slot(&KINDS[..1])), None);
        assert_eq!(payload_count(&[]), None);
        assert_eq!(payload_count(&[0; 3 * BLOCK_BYTES]), None);
    }

    #[test]
    fn a_torn_last_change_is_left_out() {
        let bytes = slot(&KINDS);
        for cut in [1, 100, BLOCK_BYTES, 2 * BLOCK_BYTES - 1] {
            let mut torn = bytes.clone();
            let len = torn.len();
            torn[len - 2 * BLOCK_BYTES..].rotate_left(cut);
            assert_eq!(payload_count(&torn), Some(3), "{cut}");
        }
    }

    #[test]
    fn a_bad_frame_with_good_ones_behind_it_is_damage() {
        let mut bytes = slot(&KINDS);
        bytes[4 * BLOCK_BYTES + 50] ^= 1;
        assert_eq!(read_slot(&bytes), Err(CorruptCheckpoint::FrameLost));
    }

    #[test]
    fn remains_of_an_older_image_are_no_damage() {
        let older = FrameHeader { kind: FrameKind::Change, image: 6, sequence: 4, generation: 2 };
        let mut bytes = slot(&KINDS);
        bytes.extend(encode(older, b"old"));
        assert_eq!(payload_count(&bytes), Some(4));
    }
}
