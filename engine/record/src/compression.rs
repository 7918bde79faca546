//! The codecs of a batch's records section.
//!
//! The broker stores what clients compressed and decompresses only to look for a record's time; tools and clients
//! do both. Whoever decompresses gives a limit: a few bytes can stand for gigabytes.

use core::fmt;
use std::io::{self, Write};

mod pieces;

pub use pieces::Decompression;

/// How a batch's records are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// gzip members.
    Gzip,
    /// Snappy: written in the framing of the Java library, read in that and as one raw block.
    Snappy,
    /// LZ4 in its frame format.
    Lz4,
    /// Zstandard frames.
    Zstd,
}

impl fmt::Display for Compression {
    /// The codec's name as clients and settings spell it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}

impl Compression {
    /// The codec with this number in the attributes, or the number where none has it.
    pub(crate) const fn from_codec(codec: u8) -> Result<Self, u8> {
        match codec {
            0 => Ok(Self::None),
            1 => Ok(Self::Gzip),
            2 => Ok(Self::Snappy),
            3 => Ok(Self::Lz4),
            4 => Ok(Self::Zstd),
            unassigned => Err(unassigned),
        }
    }

    /// The codec's number in the attributes.
    #[must_use]
    pub const fn codec(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }
}

/// Why bytes could not be decompressed.
#[derive(Debug, thiserror::Error)]
pub enum DecompressError {
    /// More bytes would come out than allowed.
    #[error("more than {limit} bytes after decompression")]
    TooLarge {
        /// The limit given, in bytes.
        limit: usize,
    },
    /// The bytes aren't what the codec writes.
    #[error("damaged {codec:?} data")]
    Damaged {
        /// The codec the bytes were said to be in.
        codec: Compression,
        /// What the codec's library says.
        #[source]
        cause: io::Error,
    },
}

/// A codec's library failed on data it should take.
#[derive(Debug, thiserror::Error)]
#[error("{codec:?} could not compress")]
pub struct CompressError {
    codec: Compression,
    #[source]
    cause: io::Error,
}

/// Decompresses all of `bytes`, of which at most `limit` bytes may come.
///
/// Memory: the output, its limit's worth at most, and the codec's own (Zstandard up to a window of 128 MiB, which
/// is what its strongest level uses and other clients accept). How long it takes has no bound that goes with `limit`: for
/// whoever must not be busy that long there is [`Decompression`].
///
/// # Errors
/// See [`DecompressError`].
pub fn decompress(codec: Compression, bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecompressError> {
    let mut decompression = Decompression::new(codec, bytes, limit)?;
    while decompression.go_on()? {}
    Ok(decompression.into_bytes())
}

enum Failed {
    TooLarge,
    Damaged(io::Error),
}

impl Failed {
    fn of(self, codec: Compression, limit: usize) -> DecompressError {
        match self {
            Self::TooLarge => DecompressError::TooLarge { limit },
            Self::Damaged(cause) => DecompressError::Damaged { codec, cause },
        }
    }
}

/// Compresses `bytes` with the codec's usual level.
///
/// # Errors
/// [`CompressError`] where the codec's library fails, which it does only for want of memory.
pub fn compress(codec: Compression, bytes: &[u8]) -> Result<Vec<u8>, CompressError> {
    let outcome = match codec {
        Compression::None => Ok(bytes.to_vec()),
        Compression::Gzip => gzip(bytes),
        Compression::Snappy => snappy::compress(bytes),
        Compression::Lz4 => lz4(bytes),
        Compression::Zstd => zstd::bulk::compress(bytes, zstd::DEFAULT_COMPRESSION_LEVEL),
    };
    outcome.map_err(|cause| CompressError { codec, cause })
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn lz4(bytes: &[u8]) -> io::Result<Vec<u8>> {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    let frame = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
    let mut encoder = FrameEncoder::with_frame_info(frame, Vec::new());
    encoder.write_all(bytes)?;
    encoder.finish().map_err(io::Error::from)
}

/// Snappy has no stream format of its own that Kafka uses: the Java library cuts the data into blocks, and writes a
/// 16-byte head (magic, version 1, compatible with version 1) and then each block behind its length. Other clients
/// write the whole section as one block and no head.
mod snappy {
    use std::io;

    use super::Failed;

    const HEAD: [u8; 16] = *b"\x82SNAPPY\x00\0\0\0\x01\0\0\0\x01";
    const MAGIC_BYTES: usize = 8;
    const BLOCK_BYTES: usize = 32 << 10;

    pub(super) fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = HEAD.to_vec();
        let mut encoder = snap::raw::Encoder::new();
        for block in bytes.chunks(BLOCK_BYTES) {
            let compressed = encoder.compress_vec(block)?;
            let length = u32::try_from(compressed.len()).map_err(io::Error::other)?;
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&compressed);
        }
        Ok(out)
    }

    /// What is still to be decompressed.
    pub(super) enum Blocks<'a> {
        /// One block without a head.
        Raw(&'a [u8]),
        /// Blocks, each behind its length.
        Framed(&'a [u8]),
    }

    impl<'a> Blocks<'a> {
        pub(super) fn of(bytes: &'a [u8]) -> Result<Self, Failed> {
            Ok(framed(bytes)?.map_or(Self::Raw(bytes), Self::Framed))
        }

        /// Decompresses the next block to `out`, which may have `limit` bytes then. Whether there are more.
        pub(super) fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Failed> {
            match self {
                Self::Raw(bytes) => block(bytes, limit, out).map(|()| false),
                Self::Framed([]) => Ok(false),
                Self::Framed(blocks) => {
                    let (&length, rest) = blocks.split_first_chunk().ok_or_else(cut)?;
                    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                    let (compressed, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
                    block(compressed, limit, out)?;
                    *blocks = rest;
                    Ok(true)
                }
            }
        }
    }

    /// The blocks behind the head, or `None` where there is no head.
    fn framed(bytes: &[u8]) -> Result<Option<&[u8]>, Failed> {
        if bytes.first_chunk::<MAGIC_BYTES>() != HEAD.first_chunk() {
            return Ok(None);
        }
        bytes.get(HEAD.len()..).map(Some).ok_or_else(cut)
    }

    fn block(compressed: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Failed> {
        let damaged = |cause: snap::Error| Failed::Damaged(cause.into());
        let start = out.len();
        let end = start.saturating_add(snap::raw::decompress_len(compressed).map_err(damaged)?);
        if end > limit {
            return Err(Failed::TooLarge);
        }
        out.resize(end, 0);
        let target = out.get_mut(start..).unwrap_or_default();
        snap::raw::Decoder::new().decompress(compressed, target).map_err(damaged)?;
        Ok(())
    }

    fn cut() -> Failed {
        Failed::Damaged(io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CODECS: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    #[test]
    fn a_codec_is_found_by_its_number_and_no_other() {
        for codec in CODECS {
            assert_eq!(Compression::from_codec(codec.codec()), Ok(codec));
        }
        for unassigned in 5..=7 {
            assert_eq!(Compression::from_codec(unassigned), Err(unassigned));
        }
    }

    #[test]
    fn a_bomb_is_stopped_at_the_limit() {
        let zeros = vec![0; 4 << 20];
        for codec in CODECS {
            let bomb = compress(codec, &zeros).unwrap();
            let outcome = decompress(codec, &bomb, 64 << 10);
            assert!(matches!(outcome, Err(DecompressError::TooLarge { limit: 0x1_0000 })), "{codec:?}");
        }
    }

    #[test]
    fn the_limit_itself_may_come_out() {
        for codec in CODECS {
            let compressed = compress(codec, &[7; 100]).unwrap();
            assert_eq!(decompress(codec, &compressed, 100).unwrap(), [7; 100], "{codec:?}");
            assert!(decompress(codec, &compressed, 99).is_err(), "{codec:?}");
        }
    }

    #[test]
    fn a_snappy_length_that_lies_costs_no_memory() {
        // A raw block that claims 4 GiB - 1.
        let outcome = decompress(Compression::Snappy, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0], 1 << 20);
        assert!(matches!(outcome, Err(DecompressError::TooLarge { .. })));
    }

    #[test]
    fn snappy_is_read_with_and_without_its_framing() {
        let data = b"some text some text some text".repeat(5_000);
        let raw = snap::raw::Encoder::new().compress_vec(&data).unwrap();
        assert_eq!(decompress(Compression::Snappy, &raw, data.len()).unwrap(), data);
        let framed = compress(Compression::Snappy, &data).unwrap();
        assert!(framed.starts_with(b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"));
        assert_eq!(decompress(Compression::Snappy, &framed, data.len()).unwrap(), data);
    }

    #[test]
    fn cut_data_is_an_error() {
        let data = b"what is cut must be seen to be cut".repeat(100);
        for codec in [Compression::Gzip, Compression::Snappy, Compression::Zstd] {
            let whole = compress(codec, &data).unwrap();
            for end in 1..whole.len() {
                let outcome = decompress(codec, &whole[..end], data.len());
                // A Snappy stream cut between its head and its first block is an empty stream.
                let empty = codec == Compression::Snappy && end == 16;
                assert_eq!(outcome.is_err(), !empty, "{codec:?} cut at {end}");
            }
        }
    }

    /// The library takes a frame without its end mark; batches have their checksum and record count for that.
    #[test]
    fn a_cut_lz4_frame_gives_an_error_or_its_whole_blocks() {
        let data = b"what is cut must be seen to be cut".repeat(4_000);
        let whole = compress(Compression::Lz4, &data).unwrap();
        for end in 1..whole.len() {
            let Ok(out) = decompress(Compression::Lz4, &whole[..end], data.len()) else { continue };
            assert!(data.starts_with(&out), "cut at {end}");
            let whole_blocks = out.len() % (64 << 10) == 0 || out.len() == data.len();
            assert!(whole_blocks, "{} bytes, cut at {end}", out.len());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_compressed_comes_back(data in prop::collection::vec(0_u8..4, 0..40_000)) {
            for codec in CODECS {
                let compressed = compress(codec, &data).unwrap();
                prop_assert_eq!(&decompress(codec, &compressed, data.len()).unwrap(), &data);
            }
        }

        #[test]
        fn noise_never_panics_nor_passes_the_limit(data in prop::collection::vec(any::<u8>(), 0..500)) {
            for codec in CODECS {
                if let Ok(out) = decompress(codec, &data, 4096) {
                    prop_assert!(out.len() <= 4096);
                }
            }
        }
    }
}
