//! Decompression a piece at a time.
//!
//! What comes out is bounded by a limit, but how long it takes isn't: a gzip stream can consist of empty members or of
//! blocks with nothing but their tables, 0.3 s of work for a megabyte from which not a byte comes. So both what goes in
//! and what comes out are bounded for a piece.

use std::io::{self, BufRead, Read};

use super::{Compression, DecompressError, Failed, snappy};

/// At most so many bytes come out of a piece; of a codec with blocks at least one block.
const PIECE_BYTES: usize = 64 << 10;

/// At most so many compressed bytes go into a piece, where the codec's library can stop between any two.
const PIECE_INPUT_BYTES: usize = 4 << 10;

/// A decompression on its way.
pub struct Decompression<'a> {
    codec: Compression,
    limit: usize,
    source: Source<'a>,
    out: Vec<u8>,
}

enum Source<'a> {
    Plain(&'a [u8]),
    Gzip(flate2::bufread::MultiGzDecoder<Metered<'a>>),
    Snappy(snappy::Blocks<'a>),
    Lz4(lz4_flex::frame::FrameDecoder<&'a [u8]>),
    Zstd(zstd::stream::read::Decoder<'static, Metered<'a>>),
}

impl<'a> Decompression<'a> {
    /// Of all of `bytes`, from which at most `limit` bytes may come.
    ///
    /// # Errors
    /// [`DecompressError::Damaged`].
    pub fn new(codec: Compression, bytes: &'a [u8], limit: usize) -> Result<Self, DecompressError> {
        let metered = Metered { rest: bytes, allowance: 0 };
        let source = match codec {
            Compression::None => Ok(Source::Plain(bytes)),
            Compression::Gzip => Ok(Source::Gzip(flate2::bufread::MultiGzDecoder::new(metered))),
            Compression::Snappy => snappy::Blocks::of(bytes).map(Source::Snappy),
            Compression::Lz4 => Ok(Source::Lz4(lz4_flex::frame::FrameDecoder::new(bytes))),
            Compression::Zstd => {
                zstd::stream::read::Decoder::with_buffer(metered).map(Source::Zstd).map_err(Failed::Damaged)
            }
        };
        let source = source.map_err(|failed| failed.of(codec, limit))?;
        Ok(Self { codec, limit, source, out: Vec::new() })
    }

    /// Does a piece of it. Whether there is more to do.
    ///
    /// # Errors
    /// See [`DecompressError`]; nothing can be done any more then.
    pub fn go_on(&mut self) -> Result<bool, DecompressError> {
        let Self { codec, limit, source, out } = self;
        let more = match source {
            Source::Plain(bytes) => read_piece(bytes, *limit, out),
            Source::Gzip(decoder) => {
                decoder.get_mut().allowance = PIECE_INPUT_BYTES;
                read_piece(decoder, *limit, out)
            }
            Source::Snappy(blocks) => blocks.next(*limit, out),
            Source::Lz4(decoder) => read_piece(decoder, *limit, out),
            Source::Zstd(decoder) => {
                decoder.get_mut().allowance = PIECE_INPUT_BYTES;
                read_piece(decoder, *limit, out)
            }
        };
        more.map_err(|failed| failed.of(*codec, *limit))
    }

    /// What came out so far; all of it once there is nothing more to do.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }
}

/// Reads on for a piece. Whether there may be more.
fn read_piece(reader: &mut impl Read, limit: usize, out: &mut Vec<u8>) -> Result<bool, Failed> {
    let one_more = limit.saturating_sub(out.len()).saturating_add(1);
    let most = PIECE_BYTES.min(one_more) as u64;
    let read = reader.take(most).read_to_end(out);
    if out.len() > limit {
        return Err(Failed::TooLarge);
    }
    match read {
        Ok(bytes) => Ok(bytes as u64 == most),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(Failed::Damaged(error)),
    }
}

/// Bytes of which only so many are given out before it says that it would block.
struct Metered<'a> {
    rest: &'a [u8],
    allowance: usize,
}

impl BufRead for Metered<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.allowance == 0 && !self.rest.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(self.rest.get(..self.allowance).unwrap_or(self.rest))
    }

    fn consume(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
        self.allowance = self.allowance.saturating_sub(bytes);
    }
}

impl Read for Metered<'_> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?.read(target)?;
        self.consume(bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::{compress, decompress};

    fn pieces(codec: Compression, bytes: &[u8], limit: usize) -> (usize, Vec<u8>) {
        let mut decompression = Decompression::new(codec, bytes, limit).unwrap();
        let mut pieces = 1;
        while decompression.go_on().unwrap() {
            pieces += 1;
        }
        (pieces, decompression.into_bytes())
    }

    #[test]
    fn input_from_which_nothing_comes_is_taken_in_pieces() {
        for codec in [Compression::Gzip, Compression::Zstd] {
            let empty = compress(codec, b"").unwrap();
            let many = empty.repeat((256 << 10) / empty.len());
            let (pieces, out) = pieces(codec, &many, 1000);
            assert!(pieces >= many.len() / PIECE_INPUT_BYTES, "{codec:?}: {pieces} pieces");
            assert_eq!(out, b"");
        }
    }

    #[test]
    fn what_comes_out_comes_in_pieces() {
        let data: Vec<u8> = (0..1_u32 << 18).flat_map(|number| (number * 7).to_le_bytes()).collect();
        let codecs =
            [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
        for codec in codecs {
            let compressed = compress(codec, &data).unwrap();
            let (pieces, out) = pieces(codec, &compressed, data.len());
            assert!(pieces >= data.len() / PIECE_BYTES, "{codec:?}: {pieces} pieces");
            assert!(out == data, "{codec:?}");
        }
    }

    #[test]
    fn a_stream_of_several_members_and_a_cut_one_are_told_apart_wherever_a_piece_ends() {
        for codec in [Compression::Gzip, Compression::Zstd] {
            let data: Vec<u8> =
                (0..3_000_u32).flat_map(|number| number.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
            let member = compress(codec, &data).unwrap();
            assert!(member.len() > 2 * PIECE_INPUT_BYTES);
            let twice = member.repeat(2);
            assert_eq!(decompress(codec, &twice, 2 * data.len()).unwrap(), data.repeat(2), "{codec:?}");
            for end in (1..twice.len()).filter(|end| end % 7 == 0 && *end != member.len()) {
                let outcome = decompress(codec, &twice[..end], 2 * data.len());
                assert!(matches!(outcome, Err(DecompressError::Damaged { .. })), "{codec:?} cut at {end}");
            }
        }
    }
}
