//! Answers on their way to another shard. What lies in memory is copied, as memory belongs to a shard; what lies in files
//! stays there, and the file goes as it is open.

use core::fmt;
use std::any::Any;

use engine_io::{Io, SendFile, SendPiece};
use engine_store::{Piece, Read};
use net_wire::fetch::FetchedPartition;

use crate::response::{Fetched, Reply, ReplyPiece};

/// So much is copied in a turn of the shard.
const STEP_BYTES: usize = 512 << 10;

/// What is said of a partition, and its records.
#[derive(Debug)]
pub(crate) struct CarriedPartition {
    pub(super) told: FetchedPartition<'static>,
    pub(super) records: Vec<Carried>,
}

/// Bytes of records.
pub(super) enum Carried {
    Memory(Vec<u8>),
    File {
        /// What [`SendFile::carried`] gave: its type is the seam's, which is the same on all shards of a node.
        file: Box<dyn Any + Send>,
        position: u64,
        bytes: u64,
    },
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, bytes) = match self {
            Self::Memory(_) => ("memory", self.bytes()),
            Self::File { .. } => ("file", self.bytes()),
        };
        write!(f, "{bytes} bytes in {place}")
    }
}

impl Carried {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File { bytes, .. } => *bytes,
        }
    }

    /// What it takes of memory.
    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.capacity() as u64,
            Self::File { .. } => 0,
        }
    }

    /// On the shard that has the socket.
    pub(super) fn taken<I: Io>(self, io: &I) -> ReplyPiece<I> {
        match self {
            Self::Memory(bytes) => ReplyPiece::Memory(SendPiece::Owned(bytes)),
            Self::File { file, position, bytes } => {
                let file = file.downcast::<<I::SendFile as SendFile>::Carried>();
                let file = file.expect("all shards of a node have one seam");
                ReplyPiece::File { file: io.carried_file(*file), position, bytes }
            }
        }
    }
}

impl CarriedPartition {
    pub(super) fn bytes(&self) -> u64 {
        self.records.iter().map(Carried::bytes).sum()
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.records.iter().map(Carried::memory_bytes).sum()
    }

    pub(super) fn has_files(&self) -> bool {
        self.records.iter().any(|records| matches!(records, Carried::File { .. }))
    }
}

/// What was fetched, to be taken by another shard.
pub(super) async fn carried<I: Io>(io: &I, fetched: &Fetched<I>) -> Vec<CarriedPartition> {
    let mut partitions = Vec::with_capacity(fetched.partitions.len());
    for (told, read) in &fetched.partitions {
        let records = match read {
            Some(read) => carried_read(io, read).await,
            None => Vec::new(),
        };
        partitions.push(CarriedPartition { told: *told, records });
    }
    partitions
}

async fn carried_read<I: Io>(io: &I, read: &Read<I>) -> Vec<Carried> {
    let (mut carried, mut memory) = (Vec::new(), Vec::new());
    for piece in &read.pieces {
        match piece {
            Piece::Memory(piece) => memory.push(piece),
            Piece::File { file, position, bytes } => {
                carried.extend(copied(io, &mut memory).await.map(Carried::Memory));
                carried.push(Carried::File {
                    file: Box::new(file.carried()),
                    position: *position,
                    bytes: *bytes,
                });
            }
        }
    }
    carried.extend(copied(io, &mut memory).await.map(Carried::Memory));
    carried
}

/// The frame of a reply that has no records.
pub(super) async fn carried_frame<I: Io>(io: &I, mut reply: Reply<I>) -> Vec<u8> {
    if let [ReplyPiece::Memory(SendPiece::Owned(bytes))] = &mut reply.pieces[..] {
        return core::mem::take(bytes);
    }
    copied(io, &mut reply.pieces.iter().map(in_memory).collect()).await.unwrap_or_default()
}

fn in_memory<I: Io>(piece: &ReplyPiece<I>) -> &SendPiece<I> {
    match piece {
        ReplyPiece::Memory(piece) => piece,
        ReplyPiece::File { .. } => unreachable!("only records lie in files"),
    }
}

/// The bytes of pieces in memory, which are none then; `None` where they are none already.
async fn copied<I: Io>(io: &I, pieces: &mut Vec<&SendPiece<I>>) -> Option<Vec<u8>> {
    if pieces.is_empty() {
        return None;
    }
    let mut copy = Vec::with_capacity(pieces.iter().map(|piece| piece.as_slice().len()).sum());
    for piece in pieces.drain(..) {
        for step in piece.as_slice().chunks(STEP_BYTES) {
            copy.extend_from_slice(step);
            if step.len() == STEP_BYTES {
                io.yield_now().await;
            }
        }
    }
    Some(copy)
}
