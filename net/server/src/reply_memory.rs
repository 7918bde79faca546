//! The memory of replies, from their making until their clients have taken them.
//!
//! A fetched batch is sent from the very buffer it was appended in, so a client that doesn't read keeps buffers that the
//! store has let go of long since. All replies of a shard together have a limit, and a client that takes nothing while
//! others wait for it loses its connection.
//!
//! - What may be much larger than its request waits for memory before it is made ([`reserve`]): fetches, metadata,
//!   topics created.
//! - What came of a produce is kept until the replies before it have left, so it has memory before the produce is begun
//!   ([`reserve_queued`]): a client that doesn't read is served no further.
//! - Every other answer is about as large as its request. A large one waits for memory before it is sent ([`paid`]), and
//!   holds its request's turn meanwhile; a small one is counted, and those that wait, wait for it too.
//!
//! Nobody who holds such memory waits for any other, but for its client, the disk, and the replies before its own: what
//! came of a produce behind a fetch that waits for records holds its memory as long as that.

use core::time::Duration;

use engine_io::{Buffer, Io, SendPiece, deadline};

use crate::budget::{Budget, Share};
use crate::connection::Connection;
use crate::connections::STUCK_MAX;
use crate::response::{CloseReason, Response};
use crate::shard::Shard;

/// A reply of so many bytes waits for no memory: so much is said of a list that waits for no turn of its own.
const SMALL_BYTES: u64 = 32 << 10;
/// What came of a connection's produces and isn't answered yet, in bytes: of one of any size, or of as many as there may
/// be of 100 partitions.
const OUTCOMES_BYTES: u64 = 1 << 20;

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

/// What a connection may hold of the memory of replies for what came of its produces, until they are answered.
#[derive(Debug)]
pub(crate) struct ConnectionOutcomes {
    /// At any time, so that no client takes all of the shard's.
    own: Budget,
    /// Where the shard's is short.
    anyway: Budget,
}

/// What came of a produce holds this until it is answered.
#[derive(Debug)]
pub(crate) struct Queued {
    own: Share,
    shared: Share,
    _anyway: Option<Share>,
}

impl ConnectionOutcomes {
    pub(crate) fn new() -> Self {
        Self { own: Budget::new(OUTCOMES_BYTES), anyway: Budget::new(SMALL_BYTES) }
    }
}

impl Queued {
    /// It is so many bytes after all.
    pub(crate) fn set(&mut self, bytes: u64) {
        self.own.set(bytes.min(OUTCOMES_BYTES));
        self.shared.set(bytes);
    }

    /// The response, made from what was queued, keeps its memory from now on.
    pub(crate) fn passed_to<I: Io>(self, response: Response<I>) -> Response<I> {
        response.counted(self.shared)
    }
}

/// Memory for `bytes` of what will have come of a request, which wait to be answered behind others of its connection. It
/// waits for the connection's earlier ones first; a client that takes none of them loses its connection. Where the shard's
/// memory is short, a connection has [`SMALL_BYTES`] all the same; what doesn't fit there waits as in [`reserve`].
pub(crate) async fn reserve_queued<I: Io>(
    shard: &Shard<I>,
    connection: &Connection<I>,
    bytes: u64,
) -> Option<Queued> {
    let outcomes = connection.outcomes();
    let own = take_own(shard, connection, &outcomes.own, bytes.min(OUTCOMES_BYTES)).await?;
    let memory = shard.reply_memory();
    if let Some(shared) = memory.try_take(bytes, 0) {
        return Some(Queued { own, shared, _anyway: None });
    }
    if bytes > SMALL_BYTES {
        let shared = reserve(shard, bytes, bytes).await?;
        return Some(Queued { own, shared, _anyway: None });
    }
    let anyway = take_own(shard, connection, &outcomes.anyway, bytes).await?;
    Some(Queued { own, shared: memory.take_anyway(bytes), _anyway: Some(anyway) })
}

async fn take_own<I: Io>(
    shard: &Shard<I>,
    connection: &Connection<I>,
    own: &Budget,
    bytes: u64,
) -> Option<Share> {
    loop {
        let until = shard.io().now().after(WAIT_MAX);
        if let Some(share) = deadline(shard.io(), until, own.take(bytes)).await {
            return Some(share);
        }
        // Its request's memory is waited for, perhaps.
        if connection.stuck(shard.io().now()).is_some_and(|stuck| stuck > STUCK_MAX) {
            connection.close();
            return None;
        }
    }
}

/// The response, once there is memory for it where it is large and has none yet.
pub(crate) async fn paid<I: Io>(shard: &Shard<I>, response: Response<I>) -> Response<I> {
    let bytes = match &response {
        Response::Reply(reply) if reply.memory.is_none() => reply.bytes_kept(),
        Response::Reply(_) | Response::Nothing | Response::Close(_) => return response,
    };
    if bytes <= SMALL_BYTES {
        return response;
    }
    match reserve(shard, bytes, bytes).await {
        Some(memory) => response.counted(memory),
        None => Response::Close(CloseReason::NoMemory),
    }
}

/// The bytes that a piece keeps in memory: all of what it is a part of.
pub(crate) fn bytes_kept<I: Io>(piece: &SendPiece<I>) -> u64 {
    let bytes = match piece {
        SendPiece::Owned(bytes) => bytes.capacity(),
        SendPiece::Shared(bytes, _) => bytes.len(),
        SendPiece::Buffer(buffer, _) => buffer.as_slice().len(),
        SendPiece::Read(bytes, _) => bytes.as_ref().len(),
    };
    bytes as u64
}
