//! Frames: where one ends in a stream of bytes, and how one is built.

use core::ops::Range;

use crate::error::EncodeError;
use crate::header::{self, RequestHeader};
use crate::message::Message;
use crate::writer::{self, Writer};

/// Bytes of the size that stands before each frame.
pub const SIZE_BYTES: usize = 4;

/// What the front of a byte stream holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameStep {
    /// At least this many more bytes are needed; never 0. Once the size is there, it is exactly what the frame lacks.
    NeedMore(usize),
    /// The first frame's content, without its size; the next frame starts at the end of the range.
    Frame(Range<usize>),
}

/// Why a stream cannot be read on: what follows a bad size has no meaning, so close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The size is negative.
    #[error("frame size {size} is negative")]
    Negative {
        /// The size as it came.
        size: i32,
    },
    /// The size exceeds the limit.
    #[error("frame of {size} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Bytes of the frame, without the size itself.
        size: usize,
        /// The limit in force, inclusive.
        limit: usize,
    },
}

/// Finds the first frame in `bytes`, of at most `limit` bytes without the size itself. The limit is checked as soon as
/// the size is there, so a caller can make room for what is needed without being lied to.
///
/// # Errors
/// [`FrameError`] where the size can't be accepted.
pub fn next_frame(bytes: &[u8], limit: usize) -> Result<FrameStep, FrameError> {
    let Some((prefix, content)) = bytes.split_first_chunk::<SIZE_BYTES>() else {
        return Ok(FrameStep::NeedMore(SIZE_BYTES.saturating_sub(bytes.len())));
    };
    let size = i32::from_be_bytes(*prefix);
    let size = usize::try_from(size).map_err(|_| FrameError::Negative { size })?;
    if size > limit {
        return Err(FrameError::TooLarge { size, limit });
    }
    match size.checked_sub(content.len()) {
        None | Some(0) => Ok(FrameStep::Frame(SIZE_BYTES..SIZE_BYTES.saturating_add(size))),
        Some(lacking) => Ok(FrameStep::NeedMore(lacking)),
    }
}

/// Appends a whole request frame: size, header, body.
///
/// # Errors
/// Those of [`Message::encode`]; `buffer` is then as it was.
pub fn encode_request<'a, M: Message<'a>>(
    buffer: &mut Vec<u8>,
    header: &RequestHeader<'_>,
    message: &M,
) -> Result<(), EncodeError> {
    frame(buffer, |writer| {
        header.encode(writer)?;
        message.encode(writer, header.version)
    })
}

/// Appends a whole response frame: size, header, body.
///
/// # Errors
/// Those of [`Message::encode`]; `buffer` is then as it was.
pub fn encode_response<'a, M: Message<'a>>(
    buffer: &mut Vec<u8>,
    correlation_id: i32,
    version: i16,
    message: &M,
) -> Result<(), EncodeError> {
    frame(buffer, |writer| {
        header::encode_response_header(writer, M::API, version, correlation_id);
        message.encode(writer, version)
    })
}

fn frame(
    buffer: &mut Vec<u8>,
    body: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let mut writer = Writer::new(buffer);
    let start = open(&mut writer);
    body(&mut writer)
        .and_then(|()| close(&mut writer, start, 0))
        .map(|_| ())
        .inspect_err(|_| writer.rewind(start))
}

/// Leaves room for the size; answers where.
pub(crate) fn open(writer: &mut Writer<'_>) -> usize {
    let start = writer.position();
    writer.i32(0);
    start
}

/// Puts the size in its place, counting `spliced` bytes that aren't in the buffer. Answers the bytes of the whole frame
/// with its size.
pub(crate) fn close(writer: &mut Writer<'_>, start: usize, spliced: usize) -> Result<usize, EncodeError> {
    let total = writer.position().saturating_sub(start).saturating_add(spliced);
    writer.patch_i32(start, writer::length(total.saturating_sub(SIZE_BYTES))?);
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 100;

    #[test]
    fn a_size_that_has_not_come_whole_asks_for_its_rest() {
        assert_eq!(next_frame(&[], LIMIT), Ok(FrameStep::NeedMore(4)));
        assert_eq!(next_frame(&[0, 0, 0], LIMIT), Ok(FrameStep::NeedMore(1)));
    }

    #[test]
    fn a_frame_that_has_not_come_whole_asks_for_exactly_its_rest() {
        assert_eq!(next_frame(&[0, 0, 0, 3], LIMIT), Ok(FrameStep::NeedMore(3)));
        assert_eq!(next_frame(&[0, 0, 0, 3, 1, 2], LIMIT), Ok(FrameStep::NeedMore(1)));
    }

    #[test]
    fn a_whole_frame_ends_where_the_next_one_starts() {
        assert_eq!(next_frame(&[0, 0, 0, 0], LIMIT), Ok(FrameStep::Frame(4..4)));
        assert_eq!(next_frame(&[0, 0, 0, 2, 7, 8, 0, 0], LIMIT), Ok(FrameStep::Frame(4..6)));
    }

    #[test]
    fn the_limit_is_inclusive_and_checked_before_the_content_is_there() {
        assert_eq!(next_frame(&[0, 0, 0, 100], LIMIT), Ok(FrameStep::NeedMore(100)));
        assert_eq!(next_frame(&[0, 0, 0, 101], LIMIT), Err(FrameError::TooLarge { size: 101, limit: LIMIT }));
        let largest = Err(FrameError::TooLarge { size: 0x7fff_ffff, limit: LIMIT });
        assert_eq!(next_frame(&[0x7f, 0xff, 0xff, 0xff], LIMIT), largest);
    }

    #[test]
    fn a_negative_size_is_refused() {
        assert_eq!(next_frame(&[0xff; 4], LIMIT), Err(FrameError::Negative { size: -1 }));
        assert_eq!(next_frame(&[0x80, 0, 0, 0], LIMIT), Err(FrameError::Negative { size: i32::MIN }));
    }
}
