//! The ways from shard to shard: one mailbox a shard, in which others announce clients, and for each of these an inbox.

use core::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine_io::{Closed, Io, Receiver, Reply, ReplySlot, Sender, mailbox, reply};
use engine_record::ShardId;

use super::Forwarded;
use crate::config::{Config, Routing};
use crate::connection::{Client, Connection};

/// How many clients may be announced to a shard that it hasn't seen yet; who announces more waits.
const OPENINGS_MAX: usize = 64;
/// How many parts of one client's requests may wait for a shard: one produce, one reply that is driven and the next
/// one. Who sends more waits.
const INBOX_MAX: usize = 4;

/// A client of another shard, and the inbox for the parts of its requests.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) client: Client,
    pub(crate) inbox: Receiver<Forwarded>,
}

/// A shard's way to all shards of its node, its own included.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    openings: Vec<Sender<Opening>>,
    /// By shard, whether others wait there for the memory of replies.
    short: Arc<[AtomicBool]>,
}

/// What a shard is given that accepts clients from the same port as the others.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) peers: Peers,
    pub(crate) openings: Receiver<Opening>,
    pub(crate) ports: Ports,
}

/// How the shards come to listen on the same ports, also where the first picks free ones.
#[derive(Debug)]
pub(crate) enum Ports {
    /// The shard that binds first, and tells the others where.
    First(Vec<ReplySlot<Vec<SocketAddr>>>),
    /// The shard binds where the first has.
    AsTheFirst(Reply<Vec<SocketAddr>>),
}

/// The seats of a node's shards, in their order; `None` where each has ports of its own.
pub(crate) fn seats(config: &Config) -> Vec<Option<Seat>> {
    if config.routing == Routing::Shard {
        return (0..config.shards).map(|_| None).collect();
    }
    let (openings, received): (Vec<_>, Vec<_>) = (0..config.shards).map(|_| mailbox(OPENINGS_MAX)).unzip();
    let peers = Peers { openings, short: (0..config.shards).map(|_| AtomicBool::new(false)).collect() };
    let (tell, told): (Vec<_>, Vec<_>) = (1..config.shards).map(|_| reply()).unzip();
    let ports = core::iter::once(Ports::First(tell)).chain(told.into_iter().map(Ports::AsTheFirst));
    let seat = |(openings, ports)| Some(Seat { peers: peers.clone(), openings, ports });
    received.into_iter().zip(ports).map(seat).collect()
}

impl Peers {
    /// Notes whether others wait on this shard for the memory of replies; whether they do on any.
    pub(crate) fn note_short(&self, shard: ShardId, is_short: bool) -> bool {
        if let Some(own) = self.short.get(usize::from(shard.0)) {
            own.store(is_short, Ordering::Relaxed);
        }
        self.short.iter().any(|short| short.load(Ordering::Relaxed))
    }
}

/// One client's ways to other shards.
#[derive(Debug, Default)]
pub(crate) struct Links {
    inboxes: RefCell<BTreeMap<ShardId, Sender<Forwarded>>>,
    closed: core::cell::Cell<bool>,
}

impl Links {
    /// Nothing is forwarded any more; what was is let go of.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.inboxes.borrow_mut().clear();
    }

    /// The way to a shard, and how to announce it where it is new.
    fn to(&self, shard: ShardId, client: impl FnOnce() -> Client) -> (Sender<Forwarded>, Option<Opening>) {
        let mut inboxes = self.inboxes.borrow_mut();
        if let Some(known) = inboxes.get(&shard) {
            return (known.clone(), None);
        }
        let (sender, inbox) = mailbox(INBOX_MAX);
        inboxes.insert(shard, sender.clone());
        (sender, Some(Opening { client: client(), inbox }))
    }
}

/// Sends a part to its owner, waiting while its inbox is full.
///
/// # Errors
/// The owner or the client is gone.
pub(super) async fn send<I: Io>(
    peers: &Peers,
    connection: &Connection<I>,
    owner: ShardId,
    part: Forwarded,
) -> Result<(), Closed> {
    let links = connection.links();
    if links.closed.get() {
        return Err(Closed);
    }
    let (inbox, opening) = links.to(owner, || connection.client());
    if let Some(opening) = opening {
        peers.openings.get(usize::from(owner.0)).ok_or(Closed)?.send(opening).await?;
    }
    inbox.send(part).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_anywhere_is_seen_by_all_until_it_is_over() {
        let peers =
            Peers { openings: Vec::new(), short: [false, false].map(AtomicBool::new).into_iter().collect() };
        assert!(!peers.note_short(ShardId(0), false));
        assert!(peers.note_short(ShardId(1), true));
        assert!(peers.note_short(ShardId(0), false));
        assert!(!peers.note_short(ShardId(1), false));
    }
}
