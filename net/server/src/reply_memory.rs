//! The memory of replies, from their making until their clients have taken them.
//!
//! A fetched batch is sent from the very buffer it was appended in, so a client that doesn't read keeps buffers that the
//! store has let go of long since. All replies of a shard together have a limit. Of it, what came of produces has at
//! most a quarter and what is said of topics at most half: neither keeps records from those who fetch.
//!
//! - What may be much larger than its request waits for memory before it is made: metadata, topics created or grown,
//!   settings and sizes told ([`reserve_list`]).
//! - Fetches have memory for records before they read them ([`try_reserve_fetched`]). Where there is none, they read from
//!   files also what is in the store's memory, and hold next to nothing ([`try_reserve_anyway`]). Only where that gives
//!   them no records do they wait ([`reserve_fetched`]).
//! - What came of a produce is kept until the replies before it have left, so it has memory before the produce is begun
//!   ([`reserve_queued`]): a client that doesn't read is served no further.
//! - Every other answer is about as large as its request. A large one waits for memory before it is sent ([`paid`]), and
//!   holds its request's turn meanwhile.
//! - A small answer waits for nobody. It is counted, and those that wait, wait for it too.
//!
//! A reply that holds such memory, or waits for it, is driven also while its connection sends the ones before it
//! ([`crate::driven`]): else each of these would be until the client takes those.
//!
//! Nobody who holds such memory waits for any other to let go of it. Who holds it, until when, and what takes it back
//! where others wait for it:
//!
//! | held by | until | taken back |
//! | --- | --- | --- |
//! | a fetch being read | the disk has read | the disk is waited for |
//! | metadata being made | their turn has come and is over | long ones are made one after the other, and whoever has the turn waits for no client ([`Shard::turn_to_make`]) |
//! | another list being made | its steps are over | it waits for nothing but its turns of the shard |
//! | what came of a produce | its log has it as `acks` says | the disk is waited for; other replicas up to the request's timeout |
//! | the same | the replies before it have left: a fetch that waits | the fetch is answered early ([`crate::hurrying`]) |
//! | the same | the same: topics being created, altered, grown or deleted | the controller is waited for, up to the request's timeout |
//! | the same | the same: a reply that waits for memory itself | it is given up after [`WAIT_MAX`] |
//! | a reply being sent, and the one behind it that was made meanwhile | its client has taken it | who takes nothing for [`STUCK_MAX`] loses its connection |
//! | all of these | their connection ends | it gives everything back at once |

use core::time::Duration;

use engine_io::{Buffer, Io, SendPiece, deadline};
use net_wire::ApiKey;

use crate::budget::{Budget, Share};
use crate::connection::Connection;
use crate::connections::STUCK_MAX;
use crate::response::{CloseReason, Response};
use crate::shard::Shard;

/// A reply of so many bytes waits for no memory: so much is said of a list that waits for no turn of its own.
pub(crate) const SMALL_BYTES: u64 = 32 << 10;
/// What came of a connection's produces and isn't answered yet, in bytes: of one of any size, or of as many as there may
/// be of 100 partitions.
const OUTCOMES_BYTES: u64 = 1 << 20;

/// How long a reply waits for memory. A fetch then has no records: clients that wait for more than 30 s for an answer
/// usually give the connection up.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A shard's memory for replies.
#[derive(Debug)]
pub(crate) struct ReplyMemory {
    all: Budget,
    /// The part of it that what came of produces may have.
    outcomes: Budget,
    /// The part of it that lists may have.
    lists: Budget,
}

/// What one reply holds; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    shared: Share,
    /// Its part of what its kind may have.
    of_kind: Option<Share>,
}

impl ReplyMemory {
    pub(crate) fn new(total: u64) -> Self {
        Self { all: Budget::new(total), outcomes: Budget::new(total / 4), lists: Budget::new(total / 2) }
    }

    /// The bytes held now.
    pub(crate) fn used(&self) -> u64 {
        self.all.used()
    }

    /// Whether there is none left.
    pub(crate) fn is_used_up(&self) -> bool {
        self.all.free() == 0
    }

    /// Whether somebody has had to wait since the last call.
    pub(crate) fn has_run_short(&self) -> bool {
        // Each is asked: it forgets when it has answered.
        let short = [&self.all, &self.outcomes, &self.lists].map(Budget::has_run_short);
        short.contains(&true)
    }

    /// Whether somebody waits for what those hold whose produces aren't answered yet.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.all.lacking() > 0 || self.outcomes.lacking() > 0
    }

    /// Counts a reply that is there already.
    pub(crate) fn count(&self, bytes: u64) -> Held {
        Held { shared: self.all.take_anyway(bytes), of_kind: None }
    }

    /// Those who want little of a kind come first: few would be served before who wants much.
    async fn take(&self, kind: &Budget, bytes: u64) -> Held {
        let of_kind = kind.take_by_size(bytes.min(kind.total())).await;
        let shared = self.all.take(bytes.min(self.all.total())).await;
        Held { shared, of_kind: Some(of_kind) }
    }

    fn try_take_outcome(&self, bytes: u64) -> Option<Held> {
        let of_kind = self.outcomes.try_take(bytes.min(self.outcomes.total()), 0)?;
        let shared = self.all.try_take(bytes, 0)?;
        Some(Held { shared, of_kind: Some(of_kind) })
    }
}

impl Held {
    /// What is held.
    pub(crate) fn amount(&self) -> u64 {
        self.shared.amount()
    }

    /// It is so many bytes after all.
    pub(crate) fn set(&mut self, bytes: u64) {
        self.shared.set(bytes);
        if let Some(of_kind) = &mut self.of_kind {
            of_kind.set(bytes);
        }
    }
}

/// Memory for records: at least `least` bytes, or as much as there is in all, and at most `most` or a quarter of what is
/// free, so that some is left for others while they are read from a disk. `None` where other replies hold it and don't
/// let go.
pub(crate) async fn reserve_fetched<I: Io>(shard: &Shard<I>, least: u64, most: u64) -> Option<Held> {
    let memory = &shard.reply_memory().all;
    let until = shard.io().now().after(WAIT_MAX);
    let (least, most) = for_fetched(memory, least, most);
    let shared = deadline(shard.io(), until, memory.take_between(least, most)).await?;
    Some(Held { shared, of_kind: None })
}

/// The same at once; `None` where other replies hold it. Who takes nothing of these is let go of then.
pub(crate) fn try_reserve_fetched<I: Io>(shard: &Shard<I>, least: u64, most: u64) -> Option<Held> {
    let memory = &shard.reply_memory().all;
    let (least, most) = for_fetched(memory, least, most);
    Some(Held { shared: memory.try_take_between(least, most)?, of_kind: None })
}

fn for_fetched(memory: &Budget, least: u64, most: u64) -> (u64, u64) {
    let least = least.min(memory.total());
    (least, most.min(memory.free() / 4).max(least))
}

/// [`SMALL_BYTES`] of a connection's own where the shard's memory is short, for what little of a fetch from files is in
/// memory. `None` while the connection holds some of them.
pub(crate) fn try_reserve_anyway<I: Io>(shard: &Shard<I>, connection: &Connection<I>) -> Option<Held> {
    let of_kind = connection.outcomes().anyway.try_take(SMALL_BYTES, 0)?;
    Some(Held { of_kind: Some(of_kind), ..shard.reply_memory().count(SMALL_BYTES) })
}

/// Memory for a list of `bytes`. `None` where other replies hold it and don't let go; a small one doesn't ask.
pub(crate) async fn reserve_list<I: Io>(shard: &Shard<I>, bytes: u64) -> Option<Held> {
    let memory = shard.reply_memory();
    if bytes <= SMALL_BYTES {
        return Some(memory.count(bytes));
    }
    let until = shard.io().now().after(WAIT_MAX);
    deadline(shard.io(), until, memory.take(&memory.lists, bytes)).await
}

/// What a connection may hold of the memory of replies for what came of its produces, until they are answered.
#[derive(Debug)]
pub(crate) struct ConnectionOutcomes {
    /// At any time, so that no client takes all of the shard's.
    own: Budget,
    /// Where the shard's is short. Fetches from files have their memory of it, too.
    anyway: Budget,
}

/// What came of a produce holds this until it is answered.
#[derive(Debug)]
pub(crate) struct Queued {
    own: Share,
    held: Held,
    _anyway: Option<Share>,
}

impl ConnectionOutcomes {
    pub(crate) fn new() -> Self {
        Self { own: Budget::new(OUTCOMES_BYTES), anyway: Budget::new(SMALL_BYTES) }
    }

    /// Whether any of its produces isn't answered yet.
    pub(crate) fn are_held(&self) -> bool {
        self.own.used() > 0
    }
}

impl Queued {
    /// It is so many bytes after all.
    pub(crate) fn set(&mut self, bytes: u64) {
        self.own.set(bytes.min(OUTCOMES_BYTES));
        self.held.set(bytes);
    }

    /// The response, made from what was queued, keeps its memory from now on.
    pub(crate) fn passed_to<I: Io>(self, response: Response<I>) -> Response<I> {
        response.counted(self.held)
    }
}

/// Memory for `bytes` of what will have come of a request, which wait to be answered behind others of its connection. It
/// waits for the connection's earlier ones first; a client that takes none of them loses its connection. Where the shard's
/// memory is short, a connection has [`SMALL_BYTES`] all the same; what doesn't fit there waits for [`WAIT_MAX`].
pub(crate) async fn reserve_queued<I: Io>(
    shard: &Shard<I>,
    connection: &Connection<I>,
    bytes: u64,
) -> Option<Queued> {
    let outcomes = connection.outcomes();
    let own = take_own(shard, connection, &outcomes.own, bytes.min(OUTCOMES_BYTES)).await?;
    let memory = shard.reply_memory();
    if let Some(held) = memory.try_take_outcome(bytes) {
        return Some(Queued { own, held, _anyway: None });
    }
    if bytes > SMALL_BYTES {
        let until = shard.io().now().after(WAIT_MAX);
        let held = deadline(shard.io(), until, memory.take(&memory.outcomes, bytes)).await?;
        return Some(Queued { own, held, _anyway: None });
    }
    let anyway = take_own(shard, connection, &outcomes.anyway, bytes).await?;
    Some(Queued { own, held: memory.count(bytes), _anyway: Some(anyway) })
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

/// The response, once there is memory for it where it is large and has none yet. What is said of partitions that had no
/// records is a fetch's all the same, and waits for no list.
pub(crate) async fn paid<I: Io>(shard: &Shard<I>, api: ApiKey, response: Response<I>) -> Response<I> {
    let bytes = match &response {
        Response::Reply(reply) if reply.memory.is_none() => reply.bytes_kept(),
        Response::Reply(_) | Response::Fetched(_) | Response::Nothing | Response::Close(_) => {
            return response;
        }
    };
    let memory = if api == ApiKey::Fetch && bytes > SMALL_BYTES {
        reserve_fetched(shard, bytes, bytes).await
    } else {
        reserve_list(shard, bytes).await
    };
    memory.map_or(Response::Close(CloseReason::NoMemory), |memory| response.counted(memory))
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
