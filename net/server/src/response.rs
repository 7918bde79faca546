//! What a request is answered with.

use core::any::Any;

use engine_io::{Io, SendPiece};
use engine_store::Read;
use net_wire::fetch::FetchedPartition;
use net_wire::{EncodeError, Message};

use crate::reply_memory::{self, Held};

/// What becomes of a connection after a request.
pub(crate) enum Response<I: Io> {
    /// The client gets this frame.
    Reply(Reply<I>),
    /// The shard that has the client's socket gets this, and makes the frame.
    Fetched(Fetched<I>),
    /// The client asked for no answer.
    Nothing,
    /// The client can't be answered in its protocol: what came before is answered, then the connection is closed.
    Close(CloseReason),
}

/// Why a connection is closed without an answer. Kafka's protocol has no frame that says so; the log does.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CloseReason {
    /// The request's bytes are not what its header says.
    #[error("malformed request: {0}")]
    Malformed(#[from] net_wire::DecodeError),
    /// An API version that isn't served.
    #[error("{api} version {version} is not served")]
    UnsupportedVersion {
        /// The API.
        api: net_wire::ApiKey,
        /// The version asked for.
        version: i16,
    },
    /// An answer that can't be put into the version asked for: a fault of ours.
    #[error("the answer could not be encoded: {0}")]
    Encode(#[from] EncodeError),
    /// A request that takes many times its size in memory, and is larger than such a request may be.
    #[error("{api} of {bytes} bytes, more than the {most} it may have")]
    TooLarge {
        /// The API.
        api: net_wire::ApiKey,
        /// The size of its body.
        bytes: usize,
        /// What it may be.
        most: usize,
    },
    /// A produce request with more partitions than may be in one.
    #[error("a produce request with more than {0} partitions")]
    TooManyPartitions(usize),
    /// Other requests or replies hold the shard's memory, and don't let go of it.
    #[error("there was no memory for an answer")]
    NoMemory,
    /// The shard that is asked for has ended: the broker is stopping.
    #[error("the shard that owns the partitions has stopped")]
    ShardGone,
    /// A produce request that wants no answer failed; closing is the only way to tell.
    #[error("a produce request without acknowledgement failed")]
    UnacknowledgedFailure,
}

/// One frame on its way to a client.
pub(crate) struct Reply<I: Io> {
    /// The frame's bytes in order.
    pub(crate) pieces: Vec<ReplyPiece<I>>,
    /// Its part of the shard's reply memory, where that was reserved before it was made.
    pub(crate) memory: Option<Held>,
    /// What must live until the bytes are sent, such as the segments they lie in.
    pub(crate) held: Vec<Box<dyn Any>>,
}

/// A part of a reply.
pub(crate) enum ReplyPiece<I: Io> {
    /// Bytes in memory.
    Memory(SendPiece<I>),
    /// A range of a file, in the page cache.
    File {
        /// The file.
        file: I::SendFile,
        /// Where the range begins.
        position: u64,
        /// How long it is.
        bytes: u64,
    },
}

/// What is answered to a part of a fetch.
pub(crate) struct Fetched<I: Io> {
    /// What is said of each partition asked for, in order, and its records, which stay where they are while this lives.
    pub(crate) partitions: Vec<(FetchedPartition<'static>, Option<Read<I>>)>,
    /// Their part of the shard's reply memory.
    pub(crate) memory: Option<Held>,
}

impl<I: Io> Reply<I> {
    /// A reply that is all in memory.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self { pieces: vec![ReplyPiece::Memory(SendPiece::Owned(bytes))], memory: None, held: Vec::new() }
    }

    /// The memory that its pieces keep, in bytes. Those that share some are counted as if they didn't.
    pub(crate) fn bytes_kept(&self) -> u64 {
        let kept = |piece: &ReplyPiece<I>| match piece {
            ReplyPiece::Memory(piece) => reply_memory::bytes_kept(piece),
            ReplyPiece::File { .. } => 0,
        };
        self.pieces.iter().map(kept).sum()
    }
}

impl<I: Io> Response<I> {
    /// Encodes `message` as the whole answer.
    pub(crate) fn encode<'a, M: Message<'a>>(correlation_id: i32, version: i16, message: &M) -> Self {
        let mut frame = Vec::new();
        match net_wire::frame::encode_response(&mut frame, correlation_id, version, message) {
            Ok(()) => Self::Reply(Reply::of(frame)),
            Err(error) => Self::Close(CloseReason::Encode(error)),
        }
    }

    /// The same, with `memory` for what it keeps; what it doesn't need goes back.
    pub(crate) fn counted(self, mut memory: Held) -> Self {
        match self {
            Self::Reply(mut reply) => {
                memory.set(reply.bytes_kept());
                reply.memory = Some(memory);
                Self::Reply(reply)
            }
            other @ (Self::Fetched(_) | Self::Nothing | Self::Close(_)) => other,
        }
    }
}
