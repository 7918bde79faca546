//! A node: its shards and its control executor, and the handle by which its process starts, watches and stops them.
//!
//! The parts are made together, since they are joined by mailboxes, and then handed to executors: each [`ShardSeat`] to
//! [`run_shard`](crate::run_shard), the [`ControlSeat`] to [`run_control`](crate::run_control).

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use engine_io::{Closed, Receiver, Reply, ReplySlot, Sender, mailbox, reply};
use engine_record::ShardId;
use engine_store::StoreError;
use replication::metadata::image::Image;

use crate::config::Config;
use crate::control::channel::{
    AppliedReport, AppliedView, ControlHandle, ControlRequest, DELTAS_MAX, Delta, applied, requests,
};
use crate::disk_space::DiskSpaces;
use crate::endpoint::Endpoint;
use crate::format::Identity;
use crate::forward;
use crate::log_directories::failures::failures;
use crate::log_directories::{DirectoriesShare, LogDirectory, LogDirectoryView};
use crate::metrics::ShardSnapshot;

/// How many questions to one shard may wait.
const COMMANDS_MAX: usize = 16;

/// Why a node doesn't start, or has stopped.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NodeError {
    /// A shard can't listen.
    #[error("shard {shard} cannot listen on {address} (listener {listener}): {why}{}", listen_hint(*.kind))]
    Listen {
        /// The shard.
        shard: ShardId,
        /// The name of the listener.
        listener: String,
        /// Where.
        address: SocketAddr,
        /// What the system says.
        why: String,
        /// How the system calls it.
        kind: std::io::ErrorKind,
    },
    /// The ports of the shards run past the last port.
    #[error("{shards} shards from port {port} on need ports above 65535; choose a lower port")]
    PortsOverflow {
        /// The first port.
        port: u16,
        /// How many shards.
        shards: u16,
    },
    /// A shard's storage doesn't open, or has failed.
    #[error("shard {shard}: {error}")]
    Store {
        /// The shard.
        shard: ShardId,
        /// Why.
        error: StoreError,
    },
    /// The node's metadata can't be used.
    #[error("metadata: {0}")]
    Metadata(String),
    /// The registration was refused.
    #[error("the node was not registered: {0}")]
    Registration(String),
    /// Another part of the node has ended first.
    #[error("another part of the node has stopped")]
    PeerStopped,
}

/// What to do about each kind of refusal that a person can do something about.
const LISTEN_HINTS: [(std::io::ErrorKind, &str); 3] = [
    (
        std::io::ErrorKind::AddrInUse,
        "; another process has the port: stop it, or choose another with --listen or `listeners`",
    ),
    (
        std::io::ErrorKind::AddrNotAvailable,
        "; no network interface of this machine has that address: choose one that is there with --listen or `listeners`, or 0.0.0.0 for all",
    ),
    (
        std::io::ErrorKind::PermissionDenied,
        "; ports below 1024 are for who has CAP_NET_BIND_SERVICE: choose a higher one with --listen or `listeners`",
    ),
];

fn listen_hint(kind: std::io::ErrorKind) -> &'static str {
    LISTEN_HINTS.iter().find(|(known, _)| *known == kind).map_or("", |(_, hint)| hint)
}

impl From<Closed> for NodeError {
    fn from(Closed: Closed) -> Self {
        Self::PeerStopped
    }
}

/// A shard that listens and has opened its storage.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    /// By listener, in the configuration's order.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Whether its storage was shut down in order.
    pub(crate) is_clean: bool,
}

/// A shard that serves.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The shard.
    pub shard: ShardId,
    /// Where it listens: an address a listener, in the configuration's order.
    pub addresses: Vec<SocketAddr>,
    /// Partitions it owns.
    pub partitions: usize,
    /// Of these, how many can't be served.
    pub offline: usize,
    /// Whether its storage was shut down in order the last time.
    pub is_clean: bool,
    /// What recovery had to scan, in bytes.
    pub scanned_bytes: u64,
    /// The log directories, and what of the shard lies in each.
    pub log_directories: Vec<LogDirectoryView>,
    /// From the shard's start to its first client.
    pub took: Duration,
}

/// A node that serves.
#[derive(Clone, Debug)]
pub struct Started {
    /// Each shard, in order.
    pub shards: Vec<Opened>,
    /// What a client on this machine is told by each listener, in the configuration's order.
    pub listeners: Vec<ListenerTold>,
}

/// What a client on this machine is told that comes by a listener.
#[derive(Clone, Debug)]
pub struct ListenerTold {
    /// The listener's name.
    pub name: String,
    /// The cluster's endpoints there.
    pub endpoints: Vec<Endpoint>,
}

/// What a shard is asked from outside.
#[derive(Debug)]
pub(crate) enum ShardCommand {
    /// Its counts.
    Snapshot(ReplySlot<ShardSnapshot>),
    /// To stop in order.
    Stop,
}

/// A shard has ended.
#[derive(Debug)]
pub struct Ended {
    /// The shard; `None` for the control executor.
    pub shard: Option<ShardId>,
    /// How.
    pub result: Result<(), NodeError>,
}

/// What a shard's executor is given.
pub struct ShardSeat {
    pub(crate) shard: ShardId,
    pub(crate) config: Config,
    /// Taken when the shard begins.
    pub(crate) log_directories: Option<DirectoriesShare>,
    pub(crate) control: ControlHandle,
    /// The metadata at the shard's start, to which the deltas are applied.
    pub(crate) image: Reply<Arc<Image>>,
    pub(crate) deltas: Receiver<Delta>,
    pub(crate) applied: AppliedReport,
    pub(crate) listening: ReplySlot<Result<Listening, NodeError>>,
    pub(crate) opened: ReplySlot<Result<Opened, NodeError>>,
    pub(crate) commands: Receiver<ShardCommand>,
    /// The ways to the other shards, where all accept clients from one port.
    pub(crate) forward: Option<forward::Seat>,
    pub(crate) ended: Sender<Ended>,
}

/// What the control executor is given.
pub struct ControlSeat {
    pub(crate) config: Config,
    pub(crate) identity: Identity,
    pub(crate) disk_spaces: DiskSpaces,
    pub(crate) requests: Receiver<ControlRequest>,
    /// Rings when a shard has applied something.
    pub(crate) applied: Receiver<()>,
    pub(crate) shards: Vec<ShardEnd>,
    pub(crate) registered: ReplySlot<Result<Vec<ListenerTold>, NodeError>>,
    pub(crate) stop: Receiver<()>,
    pub(crate) ended: Sender<Ended>,
}

/// The control executor's end towards one shard.
pub(crate) struct ShardEnd {
    pub(crate) shard: ShardId,
    pub(crate) image: Option<ReplySlot<Arc<Image>>>,
    pub(crate) deltas: Sender<Delta>,
    pub(crate) applied: AppliedView,
    pub(crate) listening: Option<Reply<Result<Listening, NodeError>>>,
}

/// By which the process starts, watches and stops its node.
pub struct NodeHandle {
    opened: Vec<Reply<Result<Opened, NodeError>>>,
    registered: Option<Reply<Result<Vec<ListenerTold>, NodeError>>>,
    commands: Vec<Sender<ShardCommand>>,
    control: Sender<()>,
    ended: Receiver<Ended>,
    /// Parts that have not ended yet.
    shards_left: usize,
    control_left: usize,
}

/// Makes the parts of a node whose partitions lie in `directories`, of which at least one is online.
#[must_use]
pub fn assemble(
    config: &Config,
    identity: &Identity,
    directories: &[LogDirectory],
) -> (Vec<ShardSeat>, ControlSeat, NodeHandle) {
    let (control, requests) = requests();
    let disk_spaces = DiskSpaces::new(&config.data_folder, directories);
    let (bell, rings) = mailbox(1);
    let (ended, ends) = mailbox(usize::from(config.shards) + 1);
    let (stop, stopped) = mailbox(1);
    let (registered, registration) = reply();
    let mut seats = Vec::new();
    let mut shard_ends = Vec::new();
    let mut handle = NodeHandle::new(config.shards, registration, stop, ends);
    let failures = failures(directories.len(), config.shards).into_iter();
    let given = failures.zip(forward::seats(config));
    for (shard, (failures, forward)) in (0..config.shards).map(ShardId).zip(given) {
        let (deltas, received) = mailbox(DELTAS_MAX);
        let (image, imaged) = reply();
        let (report, view) = applied(&bell);
        let (listening, listens) = reply();
        let (opened, opens) = reply();
        let (commands, commanded) = mailbox(COMMANDS_MAX);
        seats.push(ShardSeat {
            shard,
            config: config.clone(),
            log_directories: Some(DirectoriesShare {
                directories: directories.to_vec(),
                failures,
                spaces: disk_spaces.of_directories(),
            }),
            control: control.clone(),
            image: imaged,
            deltas: received,
            applied: report,
            listening,
            opened,
            commands: commanded,
            forward,
            ended: ended.clone(),
        });
        shard_ends.push(ShardEnd {
            shard,
            image: Some(image),
            deltas,
            applied: view,
            listening: Some(listens),
        });
        handle.opened.push(opens);
        handle.commands.push(commands);
    }
    let control = ControlSeat {
        config: config.clone(),
        identity: identity.clone(),
        disk_spaces,
        requests,
        applied: rings,
        shards: shard_ends,
        registered,
        stop: stopped,
        ended,
    };
    (seats, control, handle)
}

impl NodeHandle {
    /// Of a node whose shards aren't made yet.
    fn new(
        shards: u16,
        registration: Reply<Result<Vec<ListenerTold>, NodeError>>,
        stop: Sender<()>,
        ends: Receiver<Ended>,
    ) -> Self {
        Self {
            opened: Vec::new(),
            registered: Some(registration),
            commands: Vec::new(),
            control: stop,
            ended: ends,
            shards_left: usize::from(shards),
            control_left: 1,
        }
    }

    /// Resolves when every shard serves.
    ///
    /// # Errors
    /// The first that doesn't.
    ///
    /// # Panics
    /// When called again.
    pub async fn started(&mut self) -> Result<Started, NodeError> {
        let registered = self.registered.take().expect("a node starts once");
        let listeners = registered.wait().await??;
        let mut shards = Vec::with_capacity(self.opened.len());
        for opened in self.opened.drain(..) {
            shards.push(opened.wait().await??);
        }
        Ok(Started { shards, listeners })
    }

    /// Resolves when a part of the node has ended: after [`NodeHandle::stop`], or since it failed. `None` when all have.
    pub async fn ended(&mut self) -> Option<Ended> {
        let ended = self.ended.receive().await.ok()?;
        match ended.shard {
            Some(_) => self.shards_left = self.shards_left.saturating_sub(1),
            None => self.control_left = 0,
        }
        Some(ended)
    }

    /// Every shard's counts, without those that are stopping.
    pub async fn snapshots(&self) -> Vec<ShardSnapshot> {
        let mut answers = Vec::with_capacity(self.commands.len());
        for shard in &self.commands {
            let (slot, answer) = reply();
            if shard.send(ShardCommand::Snapshot(slot)).await.is_ok() {
                answers.push(answer);
            }
        }
        let mut snapshots = Vec::with_capacity(answers.len());
        for answer in answers {
            snapshots.extend(answer.wait().await.ok());
        }
        snapshots
    }

    /// Asks every shard to stop in order, then the control executor once the shards have.
    ///
    /// # Errors
    /// The first part that did not end well.
    pub async fn stop(mut self) -> Result<(), NodeError> {
        for shard in &self.commands {
            // A shard that has ended already needs no asking.
            let _ended_already = shard.send(ShardCommand::Stop).await;
        }
        let mut first_error = Ok(());
        loop {
            if self.shards_left == 0 {
                // The control executor may have ended already.
                let _ended_already = self.control.try_send(());
            }
            if self.shards_left + self.control_left == 0 {
                return first_error;
            }
            match self.ended().await {
                Some(ended) => first_error = first_error.and(ended.result),
                None => return first_error,
            }
        }
    }
}
