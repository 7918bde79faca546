//! Accepts a shard's clients, whatever listener they come by: the limits of connections are those of the shard.

use core::time::Duration;
use std::rc::Rc;

use engine_io::{Io, Listener, Stream, Tasks, deadline};
use engine_record::Instant;

use crate::connection;
use crate::notices::Notice;
use crate::shard::Shard;

/// How long accepting rests after it failed: it fails when the process has no descriptor left, until one is closed.
const REST: Duration = Duration::from_millis(100);

/// A listener that is bound, and its place among those of the configuration.
pub(crate) struct Bound<I: Io> {
    pub(crate) place: usize,
    pub(crate) listener: I::Listener,
}

/// Accepts connections and serves each in a task of its own, until the task is dropped.
pub(crate) async fn accept<I: Io>(shard: Rc<Shard<I>>, bound: Bound<I>, served: Rc<Tasks<I>>) {
    loop {
        match bound.listener.accept().await {
            Ok(stream) => admit(&shard, bound.place, stream, &served),
            Err(error) => {
                shard.notice(Notice::AcceptFailed, |held_back| {
                    tracing::error!(%error, held_back, "a connection could not be accepted; raise `nofile`?");
                });
                shard.io().sleep(REST).await;
            }
        }
    }
}

fn admit<I: Io>(shard: &Rc<Shard<I>>, place: usize, stream: I::Stream, served: &Tasks<I>) {
    let peer = stream.peer_address();
    let setting = shard.config().broker.connections_max;
    match shard.connections().admit(peer.ip(), shard.limits(), setting) {
        Ok(admission) => {
            shard.metrics().connection_accepted();
            let shard = Rc::clone(shard);
            let io = shard.io().clone();
            served.spawn(&io, async move {
                connection::serve(shard, place, stream).await;
                drop(admission);
            });
        }
        Err(refused) => {
            shard.metrics().connection_refused();
            shard.notice(Notice::ConnectionRefused, |held_back| {
                tracing::warn!(%peer, %refused, held_back, "a connection is refused");
            });
        }
    }
}

/// Closes connections that do nothing, until the task is dropped.
pub(crate) async fn sweep<I: Io>(shard: Rc<Shard<I>>) {
    const EVERY: Duration = Duration::from_secs(1);
    loop {
        shard.io().sleep(EVERY).await;
        let is_short = shard.reply_memory().has_run_short();
        // What is forwarded holds memory where it is made, until the client here has taken it.
        let is_short = shard.peers().map_or(is_short, |peers| peers.note_short(shard.id(), is_short));
        let closed = shard.connections().close_stalled(shard.io().now(), is_short);
        if closed > 0 {
            shard.notice(Notice::ConnectionStalled, |held_back| {
                tracing::info!(closed, is_short, held_back, "connections were closed that did nothing");
            });
        }
    }
}

/// Lets the connections finish what they have begun until the moment given, then closes them.
pub(crate) async fn drain<I: Io>(shard: &Rc<Shard<I>>, until: Instant) {
    shard.connections().finish_all();
    if deadline(shard.io(), until, shard.connections().none_left()).await.is_none() {
        shard.connections().close_all();
    }
}
