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
//! can be torn: a good one of the same image behind it means damage, and so does a change whose image isn't whole.
//! Neither does in a slot older than the other, which may be half overwritten.

use engine_io::BLOCK_BYTES;

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

/// The payload of an image's frame, about: it ends with the first entry that reaches this size.
pub(crate) const IMAGE_PAYLOAD_BYTES: usize = 1 << 20;

/// The largest payload of a change: what is longer is written as an image, in several frames.
pub(crate) const CHANGE_PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// What a frame takes in its slot with this payload, in bytes: whole blocks.
pub(crate) const fn frame_bytes(payload_bytes: usize) -> usize {
    (HEADER_BYTES + payload_bytes).next_multiple_of(BLOCK_BYTES)
}

/// What an image takes in its slot at most, in bytes, whose entries take `entries_bytes`: whole blocks.
pub(crate) const fn image_bytes_max(entries_bytes: u64) -> u64 {
    let frames = entries_bytes / IMAGE_PAYLOAD_BYTES as u64 + 1;
    let bytes = entries_bytes + frames * (HEADER_BYTES + BLOCK_BYTES - 1) as u64;
    bytes - bytes % BLOCK_BYTES as u64
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
    bytes.resize(frame_bytes(payload.len()), 0);
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
    Some((FrameHeader { kind, generation, image, sequence }, payload, frame_bytes(payload_bytes)))
}

/// What a slot holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SlotContent<'a> {
    /// The image at the slot's front with its changes, where it is whole.
    pub(crate) whole: Option<WholeImage<'a>>,
    /// The newest image that a good frame is of, whole or not; 0 for none.
    pub(crate) image_max: u64,
    /// The newest start of a store that wrote a good frame; 0 for none.
    pub(crate) generation_max: u64,
    /// The newest image of which a frame that had been durable is damaged, as good ones show that came later.
    pub(crate) lost: Option<u64>,
}

/// An image with the changes since.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WholeImage<'a> {
    pub(crate) image: u64,
    /// The payloads of the image's frames and of the changes, in order.
    pub(crate) payloads: Vec<&'a [u8]>,
}

/// A good frame, and where in its slot it ends.
struct Frame<'a> {
    header: FrameHeader,
    payload: &'a [u8],
    begin: usize,
    end: usize,
}

/// Reads a slot, whatever a crash has left of it.
pub(crate) fn read_slot(bytes: &[u8]) -> SlotContent<'_> {
    let frames: Vec<_> = frames(bytes).collect();
    let (chain, others) = frames.split_at(chain_len(&frames));
    let is_whole = chain.iter().any(|frame| frame.header.kind == FrameKind::ImageEnd);
    let first = chain.first().filter(|_| is_whole);
    let whole = first.map(|first| WholeImage {
        image: first.header.image,
        payloads: chain.iter().map(|frame| frame.payload).collect(),
    });
    // A change is written once its image is flushed, and behind a flushed one.
    let image = whole.as_ref().map(|whole| whole.image);
    let later = others
        .iter()
        .map(|frame| frame.header)
        .filter(|header| header.kind == FrameKind::Change || image == Some(header.image));
    SlotContent {
        whole,
        image_max: frames.iter().map(|frame| frame.header.image).max().unwrap_or_default(),
        generation_max: frames.iter().map(|frame| frame.header.generation).max().unwrap_or_default(),
        lost: later.map(|header| header.image).max(),
    }
}

/// The good frames of a slot, wherever they lie.
fn frames(bytes: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    let mut begin = 0;
    core::iter::from_fn(move || {
        while begin < bytes.len() {
            let here = begin;
            let Some((header, payload, frame_bytes)) = decode(bytes.get(here..)?) else {
                begin += BLOCK_BYTES;
                continue;
            };
            begin += frame_bytes;
            return Some(Frame { header, payload, begin: here, end: begin });
        }
        None
    })
}

/// How many of the frames are one image and its changes, from the slot's front on without a gap.
fn chain_len(frames: &[Frame<'_>]) -> usize {
    let (mut end, mut is_whole) = (0, false);
    let continues = |(frame, sequence): &(&Frame<'_>, u32)| {
        let Frame { header, .. } = frame;
        let is_next = frame.begin == end
            && header.sequence == *sequence
            && frames.first().is_some_and(|first| first.header.image == header.image);
        let is_in_order = (header.kind == FrameKind::Change) == is_whole;
        (end, is_whole) = (frame.end, is_whole || header.kind == FrameKind::ImageEnd);
        is_next && is_in_order
    };
    frames.iter().zip(0..).take_while(continues).count()
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
        read_slot(bytes).whole.map(|whole| whole.payloads.len())
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
    fn an_image_takes_no_more_than_was_said_before_however_its_entries_lie_in_frames() {
        for last in [0, 1, 4059, 4060, 4061, IMAGE_PAYLOAD_BYTES - 1] {
            for over in [0, 1, 4060, 70_000] {
                let payloads = [IMAGE_PAYLOAD_BYTES + over, IMAGE_PAYLOAD_BYTES, last];
                let bytes: usize = payloads.iter().map(|payload| frame_bytes(*payload)).sum();
                let bytes_max = image_bytes_max(payloads.iter().sum::<usize>() as u64);
                assert!(bytes as u64 <= bytes_max && bytes_max < bytes as u64 + 5 * BLOCK_BYTES as u64);
            }
        }
        assert_eq!(image_bytes_max(0), BLOCK_BYTES as u64);
    }

    #[test]
    fn a_whole_image_and_its_changes_are_read_back() {
        let bytes = slot(&KINDS);
        let content = read_slot(&bytes);
        assert_eq!((content.generation_max, content.image_max, content.lost), (3, 8, None));
        let whole = content.whole.unwrap();
        assert_eq!((whole.image, whole.payloads.len()), (8, 4));
        assert_eq!(whole.payloads[3], [3; 5000]);
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
        assert_eq!(read_slot(&bytes).lost, Some(8));
    }

    #[test]
    fn a_damaged_image_with_a_change_behind_it_is_damage() {
        for block in [0, 2] {
            let mut bytes = slot(&KINDS);
            bytes[block * BLOCK_BYTES + 50] ^= 1;
            let content = read_slot(&bytes);
            assert_eq!((content.whole, content.lost), (None, Some(8)));
        }
    }

    #[test]
    fn frames_of_an_image_that_was_never_whole_are_counted_and_no_damage() {
        let mut bytes = slot(&[FrameKind::Image, FrameKind::Image, FrameKind::ImageEnd]);
        bytes[50] ^= 1;
        let content = read_slot(&bytes);
        assert_eq!((content.image_max, content.generation_max), (8, 3));
        assert_eq!((content.whole, content.lost), (None, None));
    }

    #[test]
    fn remains_of_an_older_image_are_no_damage() {
        let older = FrameHeader { kind: FrameKind::Change, image: 6, sequence: 4, generation: 2 };
        let mut bytes = slot(&KINDS);
        bytes.extend(encode(older, b"old"));
        let content = read_slot(&bytes);
        assert_eq!(content.lost, Some(6), "older than the image: nobody needs it");
        assert_eq!(content.whole.map(|whole| whole.payloads.len()), Some(4));
    }
}
