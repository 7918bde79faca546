//! What is done to a valid frame before it is sent.

use std::ops::Range;

use integration::Random;

use crate::catalogue::{Catalogue, Frame};

/// Bytes of the size before each frame.
const SIZE_BYTES: usize = 4;
/// Where a request says which it is: behind the size, the API and its version. The answer repeats it.
const CORRELATION_ID: Range<usize> = 8..12;
/// In a batch, the checksum stands before what it covers.
const CRC_AT: usize = 17;
const CRC_COVERS_FROM: usize = 21;
/// The most junk that is put behind a frame or in its place.
const JUNK_BYTES_MAX: usize = 4_096;

/// Numbers that counts and lengths rarely are, as they stand in a frame: ends of the signed and unsigned ranges, and
/// the longest variable-length numbers.
const EXTREMES: [&[u8]; 10] = [
    &[0x7f, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff],
    &[0x80, 0x00, 0x00, 0x00],
    &[0x00, 0xff, 0xff, 0xff],
    &[0x7f, 0xff],
    &[0x80, 0x00],
    &[0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0x00],
];

/// Sizes that no frame has, and some that a frame may have but this one hasn't.
const SIZES: [i32; 9] = [i32::MIN, -1, 0, 1, 7, 65_536, 104_857_600, 104_857_601, i32::MAX];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Some bytes are others.
    Flip,
    /// A count or length is extreme.
    Extreme,
    /// The end is missing, and the size says so.
    Cut,
    /// More follows, and the size says so.
    Lengthen,
    /// The first half of one frame and the second of another.
    Splice,
    /// Another API or version.
    Relabel,
    /// The size is wrong.
    Size,
    /// A frame of junk.
    Junk,
    /// The batch is wrong but its checksum is right.
    Batch,
    /// None: valid frames stand between the others.
    Valid,
}

const MUTATIONS: [Mutation; 10] = [
    Mutation::Flip,
    Mutation::Extreme,
    Mutation::Cut,
    Mutation::Lengthen,
    Mutation::Splice,
    Mutation::Relabel,
    Mutation::Size,
    Mutation::Junk,
    Mutation::Batch,
    Mutation::Valid,
];

/// A frame to send.
#[derive(Clone, Debug)]
pub(crate) struct Next {
    pub(crate) bytes: Vec<u8>,
    /// Whether it is another than the valid one it was made of.
    pub(crate) is_mutated: bool,
}

/// The next frame to send. Where it is long enough to be a request, an answer to it begins with `correlation_id`.
pub(crate) fn next_frame(catalogue: &Catalogue, random: &mut Random, correlation_id: u32) -> Next {
    let frame = random.choose(&catalogue.frames);
    let (mut bytes, mut valid) = (mutated(frame, catalogue, random), frame.bytes.clone());
    number(&mut bytes, correlation_id);
    number(&mut valid, correlation_id);
    // Chance may put in place what was there.
    let is_mutated = bytes != valid;
    Next { bytes, is_mutated }
}

fn number(bytes: &mut [u8], correlation_id: u32) {
    if let Some(place) = bytes.get_mut(CORRELATION_ID) {
        place.copy_from_slice(&correlation_id.to_be_bytes());
    }
}

fn mutated(frame: &Frame, catalogue: &Catalogue, random: &mut Random) -> Vec<u8> {
    let mut bytes = frame.bytes.clone();
    match random.choose(&MUTATIONS) {
        Mutation::Valid => {}
        Mutation::Flip => flip(&mut bytes, SIZE_BYTES..frame.bytes.len(), random),
        Mutation::Extreme => put_extreme(&mut bytes, SIZE_BYTES..frame.bytes.len(), random),
        Mutation::Cut => bytes.truncate(SIZE_BYTES + random.below(frame.bytes.len() - SIZE_BYTES)),
        Mutation::Lengthen => bytes.extend(junk(random)),
        Mutation::Splice => splice(&mut bytes, random.choose(&catalogue.frames), random),
        Mutation::Relabel => flip(&mut bytes, SIZE_BYTES..SIZE_BYTES + 4, random),
        Mutation::Junk => bytes = [&[0; SIZE_BYTES], &junk(random)[..]].concat(),
        Mutation::Batch => change_batch(&mut bytes, frame, random),
        Mutation::Size => {
            let size = random.choose(&SIZES).to_be_bytes();
            bytes[..SIZE_BYTES].copy_from_slice(&size);
            return bytes;
        }
    }
    repair_size(&mut bytes);
    bytes
}

fn flip(bytes: &mut [u8], within: Range<usize>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        bytes[within.start + random.below(within.len())] = random.byte();
    }
}

fn put_extreme(bytes: &mut [u8], within: Range<usize>, random: &mut Random) {
    let extreme = random.choose(&EXTREMES);
    let start = within.start + random.below(within.len());
    let end = within.end.min(start + extreme.len());
    bytes[start..end].copy_from_slice(&extreme[..end - start]);
}

fn junk(random: &mut Random) -> Vec<u8> {
    let len = 1 + random.below(JUNK_BYTES_MAX);
    random.bytes(len)
}

fn splice(bytes: &mut Vec<u8>, other: &Frame, random: &mut Random) {
    bytes.truncate(SIZE_BYTES + random.below(bytes.len() - SIZE_BYTES));
    let from = SIZE_BYTES + random.below(other.bytes.len() - SIZE_BYTES);
    bytes.extend_from_slice(&other.bytes[from..]);
}

/// Gets past the checksum, so that what stands behind it is tested. Frames without a batch are flipped instead.
fn change_batch(bytes: &mut [u8], frame: &Frame, random: &mut Random) {
    let Some(batch) = frame.batch.clone() else { return flip(bytes, SIZE_BYTES..frame.bytes.len(), random) };
    let covered = batch.start + CRC_COVERS_FROM..batch.end;
    match random.below(2) {
        0 => flip(bytes, covered.clone(), random),
        _ => put_extreme(bytes, covered.clone(), random),
    }
    let crc = crc32c::crc32c(&bytes[covered]);
    bytes[batch.start + CRC_AT..batch.start + CRC_COVERS_FROM].copy_from_slice(&crc.to_be_bytes());
}

fn repair_size(bytes: &mut [u8]) {
    let size = u32::try_from(bytes.len() - SIZE_BYTES).expect("frames are short");
    bytes[..SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
}

#[test]
fn a_changed_batch_keeps_a_right_checksum() {
    let catalogue = Catalogue::new(net_wire::Uuid([7; 16]));
    let frame = catalogue.frames.iter().find(|frame| frame.batch.is_some()).expect("Produce has a batch");
    let mut random = Random::new(1);
    let mut bytes = frame.bytes.clone();
    change_batch(&mut bytes, frame, &mut random);
    let batch = &bytes[frame.batch.clone().expect("it has one")];
    assert_ne!(bytes, frame.bytes);
    assert_eq!(crc32c::crc32c(&batch[21..]).to_be_bytes(), batch[17..21]);
}

#[test]
fn a_seed_repeats_its_frames() {
    let catalogue = Catalogue::new(net_wire::Uuid([7; 16]));
    let frames = |seed| {
        let mut random = Random::new(seed);
        (0..100).map(|number| next_frame(&catalogue, &mut random, number).bytes).collect::<Vec<_>>()
    };
    assert_eq!(frames(1), frames(1));
    assert_ne!(frames(1), frames(2));
}
