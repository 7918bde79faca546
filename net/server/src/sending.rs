//! Replies on their way to a client: those that are ready leave together, in steps, so that it is seen whether the client
//! takes them.

use core::ops::Range;
use std::io;
use std::rc::Rc;

use engine_io::{Io, SendPiece, StreamWriter};

use crate::reply_memory::ReplyMemory;
use crate::response::{CloseReason, Reply, ReplyPiece, Response};

/// Replies that are ready are sent together until they reach this many bytes.
const TOGETHER_BYTES: usize = 256 << 10;
/// As much is sent at once, before other tasks get their turn. Twice as much as is gathered, so that the end of what is
/// usual doesn't leave alone: a few bytes cost a system call and a packet as many do.
const STEP_BYTES: usize = 2 * TOGETHER_BYTES;

/// Replies that leave together.
pub(crate) struct Sending<'m, I: Io> {
    replies: Vec<Reply<I>>,
    /// Bytes of them that are in memory.
    bytes: usize,
    /// Requests answered by them, those without a reply included.
    count: usize,
    memory: &'m ReplyMemory,
}

impl<'m, I: Io> Sending<'m, I> {
    /// None yet; their memory is counted in `memory`.
    pub(crate) fn new(memory: &'m ReplyMemory) -> Self {
        Self { replies: Vec::new(), bytes: 0, count: 0, memory }
    }

    /// Adds a response, whose memory is counted from now on if it wasn't before; `Some` where the connection must be
    /// closed after what is here.
    pub(crate) fn add(&mut self, response: Response<I>) -> Option<CloseReason> {
        self.count += 1;
        match response {
            Response::Reply(mut reply) => {
                let bytes = reply.pieces.iter().map(ReplyPiece::memory_bytes).sum::<usize>();
                if reply.memory.is_none() {
                    reply.memory = Some(self.memory.count(reply.bytes_kept()));
                }
                self.bytes += bytes;
                self.replies.push(reply);
                None
            }
            Response::Fetched(_) => unreachable!("only a shard without the client's socket answers so"),
            Response::Nothing => None,
            Response::Close(reason) => Some(reason),
        }
    }

    /// Whether no more are to be waited for. Where memory is short, each leaves alone: a client that takes none has one
    /// made for it, and not as many as go together.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= TOGETHER_BYTES || (self.bytes > 0 && self.memory.is_used_up())
    }

    /// How many requests they answer.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Sends them all; calls `taken` whenever a step of them was taken.
    pub(crate) async fn send(
        self,
        writer: &mut impl StreamWriter<Io = I>,
        taken: impl Fn(),
    ) -> io::Result<()> {
        let mut kept = Vec::with_capacity(self.replies.len());
        let mut steps = Steps { writer, taken, pieces: Vec::new(), bytes: 0 };
        for reply in self.replies {
            kept.push((reply.held, reply.memory));
            for piece in reply.pieces {
                match piece {
                    ReplyPiece::Memory(piece) => steps.send(piece).await?,
                    ReplyPiece::File { file, position, bytes } => {
                        steps.send_file(&file, position..position + bytes).await?;
                    }
                }
            }
        }
        steps.flush().await?;
        drop(kept);
        Ok(())
    }
}

/// Cuts what is sent into steps.
struct Steps<'w, I: Io, W, T> {
    writer: &'w mut W,
    taken: T,
    pieces: Vec<SendPiece<I>>,
    bytes: usize,
}

impl<I: Io, W: StreamWriter<Io = I>, T: Fn()> Steps<'_, I, W, T> {
    async fn send(&mut self, piece: SendPiece<I>) -> io::Result<()> {
        let size = piece.as_slice().len();
        if size < STEP_BYTES - self.bytes {
            self.bytes += size;
            self.pieces.push(piece);
            return Ok(());
        }
        let piece = shared(piece);
        let mut at = 0;
        while at < size {
            let part = (size - at).min(STEP_BYTES - self.bytes);
            self.bytes += part;
            self.pieces.push(part_of(&piece, at..at + part));
            at += part;
            if self.bytes == STEP_BYTES {
                self.flush().await?;
            }
        }
        Ok(())
    }

    async fn send_file(&mut self, file: &I::SendFile, range: Range<u64>) -> io::Result<()> {
        self.flush().await?;
        for position in range.clone().step_by(STEP_BYTES) {
            let bytes = (range.end - position).min(STEP_BYTES as u64);
            self.writer.send_file(file, position, bytes).await?;
            (self.taken)();
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        self.bytes = 0;
        self.writer.send(core::mem::take(&mut self.pieces)).await?;
        (self.taken)();
        Ok(())
    }
}

/// The piece, so that parts of it share its memory.
fn shared<I: Io>(piece: SendPiece<I>) -> SendPiece<I> {
    match piece {
        SendPiece::Owned(bytes) => {
            let whole = 0..bytes.len();
            SendPiece::Shared(Rc::new(bytes), whole)
        }
        shared @ (SendPiece::Shared(..) | SendPiece::Buffer(..) | SendPiece::Read(..)) => shared,
    }
}

fn part_of<I: Io>(piece: &SendPiece<I>, part: Range<usize>) -> SendPiece<I> {
    let within = |range: &Range<usize>| range.start + part.start..range.start + part.end;
    match piece {
        SendPiece::Owned(bytes) => SendPiece::Owned(bytes[part].to_vec()),
        SendPiece::Shared(bytes, range) => SendPiece::Shared(Rc::clone(bytes), within(range)),
        SendPiece::Buffer(buffer, range) => SendPiece::Buffer(Rc::clone(buffer), within(range)),
        SendPiece::Read(bytes, range) => SendPiece::Read(bytes.clone(), within(range)),
    }
}

impl<I: Io> ReplyPiece<I> {
    fn memory_bytes(&self) -> usize {
        match self {
            Self::Memory(piece) => piece.as_slice().len(),
            Self::File { .. } => 0,
        }
    }
}
