//! The memory of replies, from their making until their clients have taken them.
//!
//! A fetched batch is sent from the very buffer it was appended in, so a client that doesn't read keeps buffers that the
//! store has let go of long since. All replies of a shard together have a limit. What may be large waits for memory
//! before it is made: fetches and metadata. Every other answer is about as large as its request; it is counted, and
//! those that wait, wait for it too. Nobody who holds such memory waits for any other, except for its client; and a
//! client that takes nothing while others wait loses its connection.

use core::time::Duration;

use engine_io::{Buffer, Io, SendPiece, deadline};

use crate::budget::Share;
use crate::shard::Shard;

/// How long a reply waits for memory. A fetch then has no records: clients that wait for more than 30 s for an answer
/// usually give the connection up.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Memory for a reply: at least `least` bytes, or as much as there is in all, and at most `most` or a quarter of what is
/// free, so that some is left for others while the reply's bytes are read from a disk. `None` where other replies hold it
/// and don't let go.
pub(crate) async fn reserve<I: Io>(shard: &Shard<I>, least: u64, most: u64) -> Option<Share> {
    let memory = shard.reply_memory();
    let least = least.min(memory.total());
    let until = shard.io().now().after(WAIT_MAX);
    let most = most.min(memory.free() / 4).max(least);
    deadline(shard.io(), until, memory.take_between(least, most)).await
}

/// The bytes that a piece keeps in memory: all of what it is a part of.
pub(crate) fn bytes_kept<I: Io>(piece: &SendPiece<I>) -> u64 {
    let bytes = match piece {
        SendPiece::Owned(bytes) => bytes.len(),
        SendPiece::Shared(bytes, _) => bytes.len(),
        SendPiece::Buffer(buffer, _) => buffer.as_slice().len(),
        SendPiece::Read(bytes, _) => bytes.as_ref().len(),
    };
    bytes as u64
}
