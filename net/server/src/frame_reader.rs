//! From a socket to request frames.
//!
//! Small frames are cut from a buffer that one receive fills with as many as have come. A frame that is larger than
//! the buffer is received straight into memory of its own, which the request then keeps.
//!
//! Memory is taken as bytes arrive, not as they are announced: a client that announces much and sends little holds
//! little ([`request_memory`](crate::request_memory)).

use core::cell::Cell;
use core::time::Duration;
use std::io;
use std::rc::Rc;

use engine_io::{Io, Signal, StreamReader, first};
use engine_record::Instant;
use net_wire::frame::{FrameError, FrameStep, SIZE_BYTES, next_frame};

use crate::request_memory::{ConnectionMemory, Held, NoMemory, SMALL_BYTES};

/// The receive buffer of a connection that sends little, in bytes.
const QUIET_BYTES: usize = 256;
/// The receive buffer of a connection that has just filled a buffer, in bytes. A frame that fits is a small one.
const BUSY_BYTES: usize = SMALL_BYTES;

/// The first room of a large frame, taken when a whole buffer of it has come: while memory is ample, so much that the
/// frames of most producers are received without being moved.
const AMPLE_BYTES: usize = 1 << 20;
/// And where it isn't.
const FIRST_BYTES: usize = 64 << 10;
/// Up to this size its room becomes four times as large whenever it is full, then twice: so it is copied little, and
/// holds little that hasn't come.
const FOURFOLD_BYTES: usize = 1 << 20;
/// A frame goes on where so much more of it has come, or all.
const PART_BYTES: usize = 128 << 10;

/// One request as it came, without its size.
pub(crate) struct RequestFrame {
    pub(crate) bytes: Vec<u8>,
    /// Its part of the connection's and of the shard's request memory.
    pub(crate) memory: Held,
}

/// Why no more frames come from a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameReadError {
    /// A size that can't be accepted.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The connection was closed in the middle of a frame.
    #[error("the connection was closed within a frame")]
    CutShort,
    /// Other requests hold the shard's memory, and don't let go of it.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// The connection failed.
    #[error("receiving failed: {0}")]
    Receive(io::Error),
}

/// How far a connection's large frame is.
#[derive(Debug)]
pub(crate) struct Unfinished {
    progress: Cell<Progress>,
    /// The connection has ended: the frame is given up.
    given_up: Cell<bool>,
    giving_up: Signal,
}

/// What a large frame has, and what it waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The memory it holds.
    pub(crate) held: u64,
    /// The memory it waits for; 0 where it waits for its client alone.
    pub(crate) wanted: u64,
    /// Bytes that haven't come.
    pub(crate) lacking: u64,
    /// Since when it is being received.
    pub(crate) begun_at: Instant,
}

impl Progress {
    /// How long it takes from `now` on, at the pace it has had so far.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        let nanoseconds = now.since(self.begun_at).as_nanos() * u128::from(self.lacking);
        let nanoseconds = nanoseconds / u128::from(self.held.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

impl Unfinished {
    pub(crate) fn none() -> Self {
        let nothing = Progress { held: 0, wanted: 0, lacking: 0, begun_at: Instant::ZERO };
        Self { progress: Cell::new(nothing), given_up: Cell::new(false), giving_up: Signal::new() }
    }

    /// `None` where there is no such frame.
    pub(crate) fn progress(&self) -> Option<Progress> {
        let progress = self.progress.get();
        (progress.held + progress.wanted > 0).then_some(progress)
    }

    /// Gives the frame up, also where it waits for memory and not for its client.
    pub(crate) fn give_up(&self) {
        self.given_up.set(true);
        self.giving_up.notify();
    }

    async fn is_given_up(&self) {
        loop {
            let giving_up = self.giving_up.wait();
            if self.given_up.get() {
                return;
            }
            giving_up.await;
        }
    }

    fn begins(&self, begun_at: Instant) {
        self.progress.set(Progress { begun_at, ..self.progress.get() });
    }

    fn is(&self, held: usize, wanted: usize, lacking: usize) {
        let (held, wanted, lacking) = (held as u64, wanted as u64, lacking as u64);
        self.progress.set(Progress { held, wanted, lacking, ..self.progress.get() });
    }
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
    memory: ConnectionMemory,
    unfinished: Rc<Unfinished>,
}

impl<I: Io, R: StreamReader> FrameReader<I, R> {
    pub(crate) fn new(
        io: I,
        stream: R,
        limit: usize,
        memory: ConnectionMemory,
        unfinished: Rc<Unfinished>,
    ) -> Self {
        Self { io, stream, buffer: Vec::new(), start: 0, busy: false, limit, memory, unfinished }
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
                    let memory = self.memory.small(range.len() as u64).await;
                    let bytes = self.buffer[self.start..][range.clone()].to_vec();
                    self.start += range.end;
                    return Ok(Some(RequestFrame { bytes, memory }));
                }
                FrameStep::NeedMore(lacking)
                    if unread.len() >= BUSY_BYTES && unread.len() + lacking > BUSY_BYTES =>
                {
                    return Box::pin(self.receive_large(lacking)).await.map(Some);
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

    /// Receives the rest of a frame of which all but `lacking` bytes are here, into memory of its own. More is taken when
    /// more bytes have come than there is room for.
    async fn receive_large(&mut self, lacking: usize) -> Result<RequestFrame, FrameReadError> {
        let size = self.buffer.len() - self.start - SIZE_BYTES + lacking;
        self.start += SIZE_BYTES;
        let mut memory = self.memory.nothing();
        let mut bytes = Vec::new();
        self.unfinished.begins(self.io.now());
        loop {
            let room = self.roomier(bytes.len()).min(size);
            let step = room - bytes.len();
            let lacking = size - bytes.len();
            self.unfinished.is(bytes.len(), step, lacking);
            let grown = self.memory.grow(&self.io, &mut memory, step as u64, lacking as u64);
            first(grown, self.unfinished.is_given_up()).await.map_err(|()| FrameReadError::CutShort)??;
            bytes.reserve_exact(step);
            self.move_here(&mut bytes, step);
            bytes = self.fill(bytes, room, size).await?;
            if room == size {
                self.unfinished.is(0, 0, 0);
                return Ok(RequestFrame { bytes, memory });
            }
            self.unfinished.is(room, 0, size - room);
            self.busy = true;
            if !self.receive().await? {
                return Err(FrameReadError::CutShort);
            }
        }
    }

    /// The next room of a large frame that has filled `room`.
    fn roomier(&self, room: usize) -> usize {
        match room {
            0 if self.memory.is_ample() => AMPLE_BYTES,
            0 => FIRST_BYTES,
            1..FOURFOLD_BYTES => 4 * room,
            FOURFOLD_BYTES.. => 2 * room,
        }
    }

    /// Moves what is in the buffer, at most so many bytes.
    fn move_here(&mut self, bytes: &mut Vec<u8>, most: usize) {
        let end = self.buffer.len().min(self.start + most);
        bytes.extend_from_slice(&self.buffer[self.start..end]);
        self.start = end;
    }

    /// Receives until `room` bytes of `size` are here, part by part, so that it is seen whether the client sends them.
    async fn fill(
        &mut self,
        mut bytes: Vec<u8>,
        room: usize,
        size: usize,
    ) -> Result<Vec<u8>, FrameReadError> {
        while bytes.len() < room {
            self.unfinished.is(room, 0, size - bytes.len());
            let part = (room - bytes.len()).min(PART_BYTES);
            let (received, filled) = self.stream.receive_exactly(bytes, part).await;
            received.map_err(|error| match error.kind() == io::ErrorKind::UnexpectedEof {
                true => FrameReadError::CutShort,
                false => FrameReadError::Receive(error),
            })?;
            bytes = filled;
        }
        Ok(bytes)
    }
}
