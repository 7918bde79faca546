//! The memory of requests, from their first bytes until they are answered.
//!
//! A small request never waits for others' memory. Where the shard's is short, each connection may still have
//! [`SMALL_BYTES`] of small requests at a time, and waits for its own alone.
//!
//! A large request takes memory in steps, as its bytes arrive. Where a step can't be had it waits, [`WAIT_MAX`] at most:
//! those that lack the least come first, since they give memory back the soonest.
//! Several that are each half here could wait for each other's memory, so one at a time may go beyond the limit until
//! it is answered: it waits for nothing but its client. While some wait, those that would take long at their pace lose
//! their connection, first those that lack the most ([`reclaim`]).

use core::time::Duration;
use std::rc::Rc;

use engine_io::{Io, deadline, first};

use crate::budget::{Budget, Share};
use crate::notices::Notice;
use crate::shard::Shard;
use crate::throttle::Load;

/// A small request's frame, its size included, has at most so many bytes.
pub(crate) const SMALL_BYTES: usize = 16 << 10;

/// How long a request that has begun waits for more memory.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// While memory is waited for, a large request must be here within this, at the pace it has.
const REMAINING_MAX: Duration = WAIT_MAX;

/// There was no memory for the rest of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there was no memory for the rest of a request in {WAIT_MAX:?}")]
pub(crate) struct NoMemory;

/// A shard's memory for requests.
#[derive(Clone, Debug)]
pub(crate) struct RequestMemory {
    shared: Budget,
    /// The one who may go beyond the limit has it.
    beyond: Budget,
}

/// The same, as one connection has it.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionMemory {
    shard: RequestMemory,
    /// The connection's own allowance: a frame of any size beside as much again that is under way, so that no client
    /// takes all of the shard's.
    own: Budget,
    /// For small requests where the shard's memory is short.
    small: Budget,
}

/// What one request holds; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    own: Share,
    shared: Share,
    /// Its part of what a connection may have anyway, or its turn to go beyond the limit.
    anyway: Option<Share>,
}

impl RequestMemory {
    /// `total` bytes for all requests, of which one may have `frame` bytes. The one that goes beyond the limit has its
    /// place within `total`, where that is at least twice as large.
    pub(crate) fn new(total: u64, frame: u64) -> Self {
        let shared = total.saturating_sub(frame).max(frame).max(SMALL_BYTES as u64);
        Self { shared: Budget::new(shared), beyond: Budget::new(1) }
    }

    /// The bytes held now.
    pub(crate) fn used(&self) -> u64 {
        self.shared.used()
    }

    /// How it is used by so many connections.
    pub(crate) fn load(&self, connections: usize) -> Load {
        Load { used: self.shared.used(), total: self.shared.total(), connections }
    }

    /// Whether somebody waits for it.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.shared.lacking() > 0
    }

    /// For a connection whose frames have at most `frame` bytes.
    pub(crate) fn of_connection(&self, frame: usize) -> ConnectionMemory {
        let own = Budget::new(2 * frame.max(SMALL_BYTES) as u64);
        let small = Budget::new(SMALL_BYTES as u64);
        ConnectionMemory { shard: self.clone(), own, small }
    }
}

impl ConnectionMemory {
    /// The bytes that the connection's requests hold now.
    pub(crate) fn used(&self) -> u64 {
        self.own.used()
    }

    /// Takes memory for a small request. Waits for earlier requests of the connection at most.
    pub(crate) async fn small(&self, bytes: u64) -> Held {
        let own = self.own.take(bytes).await;
        let shared = &self.shard.shared;
        if let Some(shared) = shared.try_take(bytes, shared.total() / 2) {
            return Held { own, shared, anyway: None };
        }
        let anyway = self.small.take(bytes.min(self.small.total())).await;
        let shared = shared.take_anyway(bytes);
        Held { own, shared, anyway: Some(anyway) }
    }

    /// Whether more than half of the shard's memory is free, and nobody waits for it.
    pub(crate) fn is_ample(&self) -> bool {
        let shared = &self.shard.shared;
        shared.free() > shared.total() / 2 && shared.lacking() == 0
    }

    /// What a large request begins with.
    pub(crate) fn nothing(&self) -> Held {
        let (own, shared) = (self.own.take_anyway(0), self.shard.shared.take_anyway(0));
        Held { own, shared, anyway: None }
    }

    /// Takes `bytes` more for a large request, of which `lacking` bytes haven't come.
    ///
    /// # Errors
    /// Others hold the memory, and don't let go of it.
    pub(crate) async fn grow<I: Io>(
        &self,
        io: &I,
        held: &mut Held,
        bytes: u64,
        lacking: u64,
    ) -> Result<(), NoMemory> {
        let until = io.now().after(WAIT_MAX);
        deadline(io, until, self.grow_in_turn(held, bytes, lacking)).await.ok_or(NoMemory)
    }

    async fn grow_in_turn(&self, held: &mut Held, bytes: u64, lacking: u64) {
        held.own.grow(bytes, 0).await;
        if held.anyway.is_none() {
            match first(held.shared.grow(bytes, lacking), self.shard.beyond.take(1)).await {
                Ok(()) => return,
                Err(turn) => held.anyway = Some(turn),
            }
        }
        held.shared.set(held.shared.amount() + bytes);
    }
}

/// Closes connections whose large requests come too slowly, while memory is waited for, until the task is dropped.
pub(crate) async fn reclaim<I: Io>(shard: Rc<Shard<I>>) {
    const EVERY: Duration = Duration::from_millis(500);
    loop {
        shard.io().sleep(EVERY).await;
        let lacking = shard.request_memory().shared.lacking();
        if lacking == 0 {
            continue;
        }
        // Twice as much: those who get it will want more.
        let closed = shard.connections().close_slow(shard.io().now(), REMAINING_MAX, 2 * lacking);
        if closed > 0 {
            shard.notice(Notice::RequestsHoldMemory, |held_back| {
                tracing::warn!(
                    closed,
                    lacking,
                    held_back,
                    "memory for requests is short: closed connections whose requests come too slowly"
                );
            });
        }
    }
}
