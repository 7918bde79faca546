//! A shard's life: listen, open its storage, wait for the metadata, serve, drain, shut down.

use core::time::Duration;
use std::net::SocketAddr;
use std::rc::Rc;

use engine_io::{Io, ListenMode, Listener, Receiver, Tasks, first};
use engine_store::{Store, StoreError};
use replication::metadata::commands::Command;

use crate::config::ListenerConfig;
use crate::control::channel::{AppliedReport, Delta};
use crate::deltas::Deltas;
use crate::forward::{self, Opening, Ports};
use crate::hurrying;
use crate::listener::{self, Bound};
use crate::log_directories::LogDirectories;
use crate::log_directories::placement::DirectoryIndex;
use crate::node::{Ended, Listening, NodeError, Opened, ShardCommand, ShardSeat};
use crate::opening;
use crate::reopening;
use crate::request_memory;
use crate::retention;
use crate::shard::Shard;

/// How much of the limit of an orderly stop is for connections to end once they are closed. And how long removals may go on
/// once they have.
const CLOSING: Duration = Duration::from_millis(500);

/// Runs one shard on this executor until it is stopped or its storage fails.
///
/// # Errors
/// Why it didn't start, or has failed. The node is told too.
pub async fn run_shard<I: Io>(io: I, seat: ShardSeat) -> Result<(), NodeError> {
    let (shard, ended) = (seat.shard, seat.ended.clone());
    let result = run(io, seat).await;
    let told = Ended { shard: Some(shard), result: result.clone() };
    // There is room for every part's end; nobody listening is fine.
    let _nobody_listens = ended.try_send(told);
    result
}

async fn run<I: Io>(io: I, mut seat: ShardSeat) -> Result<(), NodeError> {
    let begun_at = io.now();
    let (peers, openings, ports) = match seat.forward.take() {
        Some(forward::Seat { peers, openings, ports }) => (Some(peers), Some(openings), Some(ports)),
        None => (None, None, None),
    };
    let begun = begin(&io, &mut seat, ports).await;
    let (listeners, directories, is_clean) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            seat.listening.answer(Err(error.clone()));
            seat.opened.answer(Err(error.clone()));
            return Err(error);
        }
    };
    let addresses: Vec<_> = listeners.iter().map(|bound| bound.listener.local_address()).collect();
    seat.listening.answer(Ok(Listening { addresses: addresses.clone(), is_clean }));
    let Ok(image) = seat.image.wait().await else {
        seat.opened.answer(Err(NodeError::PeerStopped));
        return Err(NodeError::PeerStopped);
    };
    let applied = image.applied();
    let shard = Shard::new(io.clone(), seat.shard, seat.config, directories, seat.control, (*image).clone());
    let shard = Rc::new(shard.with_peers(peers));
    let offline = opening::open_all(&shard).await;
    shard.remove_orphans();
    seat.applied.advance(applied);
    let serving = Serving::begin(&shard, listeners, seat.deltas, seat.applied);
    serving.serve_others(&shard, openings);
    seat.opened.answer(Ok(Opened {
        shard: seat.shard,
        addresses,
        partitions: shard.partition_count(),
        offline,
        is_clean,
        scanned_bytes: shard.directories().metrics().bytes_recovered,
        log_directories: shard.directory_views(),
        took: io.now().since(begun_at),
    }));
    let outcome = first(answer_commands(&shard, &seat.commands), shard.directories().all_offline()).await;
    serving.end(&shard).await;
    match outcome {
        Ok(()) => shard.directories().shutdown().await,
        Err(failure) => Err(StoreError::Failed(failure)),
    }
    .map_err(|error| NodeError::Store { shard: shard.id(), error })
}

async fn begin<I: Io>(
    io: &I,
    seat: &mut ShardSeat,
    ports: Option<Ports>,
) -> Result<(Vec<Bound<I>>, LogDirectories<I>, bool), NodeError> {
    let listeners = listen(io, seat, ports).await?;
    let share = seat.log_directories.take().expect("a shard begins once");
    let (directories, is_clean) = LogDirectories::open(io, seat.shard, &seat.config, share).await?;
    Ok((listeners, directories, is_clean))
}

/// Binds each of the node's listeners for this shard: at ports of its own, or where all shards listen.
async fn listen<I: Io>(io: &I, seat: &ShardSeat, ports: Option<Ports>) -> Result<Vec<Bound<I>>, NodeError> {
    let mode = if ports.is_some() { ListenMode::SharedByShards } else { ListenMode::Exclusive };
    let (told, tell) = match ports {
        Some(Ports::AsTheFirst(told)) => (Some(told.wait().await?), Vec::new()),
        Some(Ports::First(tell)) => (None, tell),
        None => (None, Vec::new()),
    };
    let addresses = match told {
        Some(addresses) => addresses,
        None => seat
            .config
            .listeners
            .iter()
            .map(|listener| address_of(seat, listener))
            .collect::<Result<_, _>>()?,
    };
    let mut listeners: Vec<Bound<I>> = Vec::with_capacity(addresses.len());
    for (place, (listener, address)) in seat.config.listeners.iter().zip(addresses).enumerate() {
        let bound = io.listen(address, mode).await.map_err(|error| NodeError::Listen {
            shard: seat.shard,
            listener: listener.name.clone(),
            address,
            why: error.to_string(),
            kind: error.kind(),
        })?;
        listeners.push(Bound { place, listener: bound });
    }
    let bound: Vec<_> = listeners.iter().map(|bound| bound.listener.local_address()).collect();
    tell.into_iter().for_each(|other| other.answer(bound.clone()));
    Ok(listeners)
}

/// Where the shard listens for the clients of a listener; port 0 for any that is free.
fn address_of(seat: &ShardSeat, listener: &ListenerConfig) -> Result<SocketAddr, NodeError> {
    let overflow = NodeError::PortsOverflow { port: listener.port, shards: seat.config.shards };
    let port = listener.port_of(seat.shard, seat.config.routing).ok_or(overflow)?;
    Ok(SocketAddr::new(listener.address, port))
}

/// The tasks of a shard that serves.
struct Serving<I: Io> {
    accepting: Tasks<I>,
    following: Tasks<I>,
    connections: Rc<Tasks<I>>,
}

impl<I: Io> Serving<I> {
    fn begin(
        shard: &Rc<Shard<I>>,
        listeners: Vec<Bound<I>>,
        deltas: Receiver<Delta>,
        applied: AppliedReport,
    ) -> Self {
        let serving =
            Self { accepting: Tasks::new(), following: Tasks::new(), connections: Rc::new(Tasks::new()) };
        let io = shard.io();
        serving.following.spawn(io, follow_deltas(Rc::clone(shard), deltas, applied));
        for (directory, store) in shard.directories().online() {
            serving.following.spawn(io, follow_progress(Rc::clone(shard), store.clone()));
            serving.following.spawn(io, watch_directory(Rc::clone(shard), directory, store.clone()));
        }
        serving.following.spawn(io, hear_of_failures(Rc::clone(shard)));
        serving.following.spawn(io, reopening::reopen(Rc::clone(shard)));
        serving.following.spawn(io, listener::sweep(Rc::clone(shard)));
        serving.following.spawn(io, request_memory::reclaim(Rc::clone(shard)));
        serving.following.spawn(io, hurrying::hurry_holders(Rc::clone(shard)));
        serving.following.spawn(io, retention::enforce(Rc::clone(shard)));
        for bound in listeners {
            let served = Rc::clone(&serving.connections);
            serving.accepting.spawn(io, listener::accept(Rc::clone(shard), bound, served));
        }
        serving
    }

    /// Serves what other shards forward, also while they stop: it ends with their clients.
    fn serve_others(&self, shard: &Rc<Shard<I>>, openings: Option<Receiver<Opening>>) {
        if let Some(openings) = openings {
            let served = Rc::clone(&self.connections);
            self.following.spawn(shard.io(), forward::accept(Rc::clone(shard), openings, served));
        }
    }

    /// No more clients; those there are get what they have begun. Nothing that a client does or leaves undone makes this
    /// take longer than the limit, and neither do files that are still to be removed: the next start does that.
    async fn end(self, shard: &Rc<Shard<I>>) {
        let io = shard.io();
        let limit = shard.limits().drain;
        let begun_at = io.now();
        let until = begun_at.after(limit);
        self.accepting.cancel();
        listener::drain(shard, begun_at.after(limit.saturating_sub(CLOSING.min(limit / 2)))).await;
        shard.close_partitions();
        self.connections.join_until(io, until).await;
        self.following.cancel();
        // What is removed stops only once its store closes.
        shard.background().join_until(io, until.min(io.now().after(CLOSING))).await;
    }
}

/// Applies what the control executor has decided, in order. New partitions that come together are opened together.
async fn follow_deltas<I: Io>(shard: Rc<Shard<I>>, deltas: Receiver<Delta>, applied: AppliedReport) {
    let adds = |command: &Command| matches!(command, Command::CreateTopic(_) | Command::CreatePartitions(_));
    let mut deltas = Deltas::new(deltas);
    while let Some(Delta { index: mut last, command }) = deltas.next().await {
        let mut added: Vec<_> = shard.apply(last, &command).into_iter().collect();
        while (1..opening::TOPICS_AT_ONCE).contains(&added.len())
            && let Some(Delta { index, command }) = deltas.next_if(adds)
        {
            added.extend(shard.apply(index, &command));
            last = index;
        }
        opening::open_added(&shard, &added, &mut deltas).await;
        applied.advance(last);
    }
}

/// Moves the high watermarks behind what is written and flushed in one log directory.
async fn follow_progress<I: Io>(shard: Rc<Shard<I>>, store: Store<I>) {
    // Whoever watches the directory is told of its end too.
    while let Ok(moved) = store.progress().await {
        shard.advance(&moved);
    }
}

/// Takes a log directory offline once its store has failed.
async fn watch_directory<I: Io>(shard: Rc<Shard<I>>, directory: DirectoryIndex, store: Store<I>) {
    let failure = store.failed().await;
    shard.lose_directory(directory, &failure);
}

/// Takes log directories offline that have failed on other shards: what is wrong with a drive is so for all.
async fn hear_of_failures<I: Io>(shard: Rc<Shard<I>>) {
    loop {
        for (directory, failure) in shard.directories().next_failures().await {
            shard.lose_directory(directory, &failure);
        }
    }
}

/// Answers questions until it is told to stop, or nobody is there to ask.
async fn answer_commands<I: Io>(shard: &Rc<Shard<I>>, commands: &Receiver<ShardCommand>) {
    while let Ok(command) = commands.receive().await {
        shard.metrics().question();
        match command {
            ShardCommand::Snapshot(slot) => slot.answer(shard.snapshot()),
            ShardCommand::Stop => return,
        }
    }
}
