//! From a socket to request frames.
//!
//! Small frames are cut from a buffer that one receive fills with as many as have come. A frame that is larger than
//! the buffer is received straight into memory of its own, which the request then keeps.
//!
//! Memory is taken as bytes arrive, not as they are announced: a client that announces much and sends little holds
//! little. Several frames that are each half here could wait for each other's memory, so a frame that gets none for
//! [`MEMORY_WAIT_MAX`] is given up with its connection.

use core::time::Duration;
use std::io;

use engine_io::{Io, StreamReader, deadline};
use net_wire::frame::{FrameError, FrameStep, SIZE_BYTES, next_frame};

use crate::budget::{Budget, Share};

/// The receive buffer of a connection that sends little, in bytes.
const QUIET_BYTES: usize = 256;
/// The receive buffer of a connection that has just filled a buffer, in bytes.
const BUSY_BYTES: usize = 16 << 10;

/// A large frame's memory grows by at least this much, and by as much as is there already.
const STEP_BYTES: usize = 1 << 20;
/// How long a frame that has begun waits for more memory.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(10);

/// One request as it came, without its size.
pub(crate) struct RequestFrame {
    pub(crate) bytes: Vec<u8>,
    /// Its part of the connection's and of the shard's request memory.
    pub(crate) memory: [Share; 2],
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
    /// Other requests hold the shard's memory, and don't let go of it.
    #[error("there was no memory for the rest of a frame in {MEMORY_WAIT_MAX:?}")]
    NoMemory,
    /// The connection failed.
    #[error("receiving failed: {0}")]
    Receive(io::Error),
}

/// Reads the frames of one connection.
pub(crate) struct FrameReader<I: Io, R: StreamReader> {
    io: I,
    stream: R,
    buffer: Vec<u8>,
    /// Where the first unread byte of `buffer` is.
    start: usize,
    /// Whether the last receive filled its buffer.
    busy: bool,
    limit: usize,
    /// The connection's own allowance: a frame of any size beside as much again that is under way, so that no client
    /// takes all of the shard's.
    own: Budget,
    /// The shard's.
    memory: Budget,
}

impl<I: Io, R: StreamReader> FrameReader<I, R> {
    pub(crate) fn new(io: I, stream: R, limit: usize, memory: Budget) -> Self {
        let own = Budget::new(2 * limit as u64);
        Self { io, stream, buffer: Vec::new(), start: 0, busy: false, limit, own, memory }
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
                    let bytes = range.len() as u64;
                    let memory = [self.own.take(bytes).await, self.memory.take(bytes).await];
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
        let size = self.buffer.len() - self.start - SIZE_BYTES + lacking;
        let first = size.min(STEP_BYTES);
        let mut memory = [self.own.take(first as u64).await, self.memory.take(first as u64).await];
        let mut bytes = Vec::with_capacity(first);
        bytes.extend_from_slice(&self.buffer[self.start + SIZE_BYTES..]);
        self.buffer.clear();
        self.start = 0;
        self.busy = true;
        let mut target = first;
        loop {
            bytes = self.receive_until(bytes, target).await?;
            if target == size {
                return Ok(RequestFrame { bytes, memory });
            }
            let step = (size - target).min(target.max(STEP_BYTES));
            self.wait_for_memory(&mut memory, step).await?;
            bytes.reserve_exact(step);
            target += step;
        }
    }

    async fn receive_until(&mut self, bytes: Vec<u8>, target: usize) -> Result<Vec<u8>, FrameReadError> {
        let lacking = target - bytes.len();
        let (received, bytes) = self.stream.receive_exactly(bytes, lacking).await;
        match received {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(FrameReadError::CutShort),
            Err(error) => Err(FrameReadError::Receive(error)),
        }
    }

    async fn wait_for_memory(&self, memory: &mut [Share; 2], bytes: usize) -> Result<(), FrameReadError> {
        let until = self.io.now().after(MEMORY_WAIT_MAX);
        for share in memory {
            let grown = deadline(&self.io, until, share.grow(bytes as u64)).await;
            grown.ok_or(FrameReadError::NoMemory)?;
        }
        Ok(())
    }
}
