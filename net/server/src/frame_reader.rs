//! From a socket to request frames.
//!
//! Small frames are cut from a buffer that one receive fills with as many as have come. A frame that is larger than
//! the buffer is received straight into memory of its own, which the request then keeps.

use std::io;

use engine_io::StreamReader;
use net_wire::frame::{FrameError, FrameStep, SIZE_BYTES, next_frame};

use crate::budget::{Budget, Share};

/// The receive buffer of a connection that sends little, in bytes.
const QUIET_BYTES: usize = 256;
/// The receive buffer of a connection that has just filled a buffer, in bytes.
const BUSY_BYTES: usize = 16 << 10;

/// One request as it came, without its size.
pub(crate) struct RequestFrame {
    pub(crate) bytes: Vec<u8>,
    /// Its part of the shard's request memory.
    pub(crate) memory: Share,
}

/// Why no more frames come from a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameReadError {
    /// A size that can't be accepted.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The client closed the connection in the middle of a frame.
    #[error("the client closed the connection within a frame")]
    CutShort,
    /// The connection failed.
    #[error("receiving failed: {0}")]
    Receive(io::Error),
}

/// Reads the frames of one connection.
pub(crate) struct FrameReader<R: StreamReader> {
    stream: R,
    buffer: Vec<u8>,
    /// Where the first unread byte of `buffer` is.
    start: usize,
    /// Whether the last receive filled its buffer.
    busy: bool,
    limit: usize,
    memory: Budget,
}

impl<R: StreamReader> FrameReader<R> {
    pub(crate) fn new(stream: R, limit: usize, memory: Budget) -> Self {
        Self { stream, buffer: Vec::new(), start: 0, busy: false, limit, memory }
    }

    /// Waits for the first bytes of the next frame. False where the client has closed its side.
    ///
    /// # Errors
    /// [`FrameReadError::Receive`].
    pub(crate) async fn begin(&mut self) -> Result<bool, FrameReadError> {
        self.receive().await
    }

    /// The next frame, once there is memory for it; `None` where the client has closed the connection between frames.
    pub(crate) async fn next(&mut self) -> Result<Option<RequestFrame>, FrameReadError> {
        loop {
            let unread = &self.buffer[self.start..];
            match next_frame(unread, self.limit)? {
                FrameStep::Frame(range) => {
                    let memory = self.memory.take(range.len() as u64).await;
                    let bytes = self.buffer[self.start..][range.clone()].to_vec();
                    self.start += range.end;
                    return Ok(Some(RequestFrame { bytes, memory }));
                }
                FrameStep::NeedMore(lacking) if unread.len() + lacking > BUSY_BYTES => {
                    return self.receive_large(lacking).await.map(Some);
                }
                FrameStep::NeedMore(_) => {
                    if !self.receive().await? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Whether a part of a frame is here.
    pub(crate) fn is_within_frame(&self) -> bool {
        self.start < self.buffer.len()
    }

    /// Receives what has come; `false` at the end of the stream.
    async fn receive(&mut self) -> Result<bool, FrameReadError> {
        self.make_room();
        let buffer = core::mem::take(&mut self.buffer);
        let spare = buffer.capacity() - buffer.len();
        let (received, buffer) = self.stream.receive_some(buffer).await;
        self.buffer = buffer;
        match received.map_err(FrameReadError::Receive)? {
            0 if self.is_within_frame() => Err(FrameReadError::CutShort),
            0 => Ok(false),
            received => {
                self.busy = received == spare;
                Ok(true)
            }
        }
    }

    /// Moves what is unread to the front of a buffer as large as the connection's pace asks for. A quiet connection
    /// holds a small one, since there may be thousands of them.
    fn make_room(&mut self) {
        let unread = self.buffer.len() - self.start;
        let wanted = if self.busy || unread > 0 { BUSY_BYTES } else { QUIET_BYTES };
        if self.buffer.capacity() == wanted && unread < wanted {
            self.buffer.drain(..self.start);
        } else {
            let mut roomier = Vec::with_capacity(wanted.max(unread + 1));
            roomier.extend_from_slice(&self.buffer[self.start..]);
            self.buffer = roomier;
        }
        self.start = 0;
    }

    /// Receives the rest of a frame of which all but `lacking` bytes are here, into memory of its own.
    async fn receive_large(&mut self, lacking: usize) -> Result<RequestFrame, FrameReadError> {
        let here = &self.buffer[self.start + SIZE_BYTES..];
        let size = here.len() + lacking;
        let memory = self.memory.take(size as u64).await;
        let mut bytes = Vec::with_capacity(size);
        bytes.extend_from_slice(&self.buffer[self.start + SIZE_BYTES..]);
        self.buffer.clear();
        self.start = 0;
        self.busy = true;
        let (received, bytes) = self.stream.receive_exactly(bytes, lacking).await;
        match received {
            Ok(()) => Ok(RequestFrame { bytes, memory }),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(FrameReadError::CutShort),
            Err(error) => Err(FrameReadError::Receive(error)),
        }
    }
}
