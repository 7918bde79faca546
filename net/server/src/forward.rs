//! One port for all shards of a node: what belongs to another shard is forwarded to it.
//!
//! ```text
//!  client ── front: the shard that has the socket          owner: the shard that has the partitions
//!            reads a request, divides it by owner  ──one message──▶  a connection without a socket: its ordinary handlers,
//!            joins the answers in the request's order ◀──one back──  in the order in which the front sent
//! ```
//!
//! A request whose partitions are all the front's own takes the ordinary path; one whose partitions are all another
//! shard's goes there as it came, and its answer comes back as it is to be sent. But a fetch: owners say what there is of
//! each partition, and the front writes the answer around it. Records in memory are copied on this way; those in files
//! stay there, and the file is handed over as it is open.
//!
//! What holds:
//! - Each client's requests have one way to each owner (an inbox), made when it is first needed, closed with the
//!   client's connection. An owner begins what comes by it in order. The front reads no further before each owner has
//!   begun its part of a produce, so appends keep the order in which they were read, forwarded or not.
//! - A front waits for owners; an owner waits for no other shard. What a request holds of the memory of requests and
//!   of the turns of lists is counted where it was read, for the parts of it too; what its answer holds is counted
//!   where it is made, until the client has taken it. So shards can't wait for each other in a circle.
//! - The place for an answer comes with the question. Who waits for it no more drops it, and the owner lets go of the
//!   work.
//! - An owner that doesn't answer fails its own partitions.

mod ask;
mod carry;
mod divide;
pub(crate) mod fetch;
pub(crate) mod gather;
mod link;
mod lists;
mod owner;
pub(crate) mod produce;
pub(crate) mod request;

pub(crate) use link::{Links, Opening, Peers, Ports, Seat, seats};
pub(crate) use owner::accept;

use engine_io::{Io, ReplySlot};

use self::carry::CarriedPartition;
use crate::connection::Connection;
use crate::response::CloseReason;
use crate::shard::Shard;

/// A part of a request, on its way to the shard that owns its partitions.
#[derive(Debug)]
pub(crate) struct Forwarded {
    /// As a client would have sent it, without its size.
    frame: Vec<u8>,
    /// What the client is to be told of how long to wait.
    throttle_time_ms: i32,
    /// To be answered once its first stage is over.
    begun: ReplySlot<()>,
    /// Where the answer goes.
    answer: ReplySlot<Answer>,
    /// Gone once nobody waits for the answer any more.
    hurry: engine_io::Receiver<Hurry>,
}

/// The part is to be answered as soon as it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hurry;

/// What an owner says.
#[derive(Debug)]
pub(crate) enum Answer {
    /// This frame, its size included.
    Frame {
        bytes: Vec<u8>,
        /// Dropped when the client has taken them: until then their memory is counted at the owner.
        taken: Option<ReplySlot<()>>,
    },
    /// What there is of each partition of a fetch, in order.
    Fetched {
        partitions: Vec<CarriedPartition>,
        /// As above; their files stay as they are until then, too.
        taken: Option<ReplySlot<()>>,
    },
    /// No answer was asked for.
    Nothing,
    /// The connection is to be closed.
    Close(CloseReason),
}

/// Whether this client's requests may be for other shards: all shards accept clients from one port, and this one has
/// it.
pub(crate) fn forwards<I: Io>(shard: &Shard<I>, connection: &Connection<I>) -> bool {
    shard.peers().is_some() && !connection.is_forwarded()
}
