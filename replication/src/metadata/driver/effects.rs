//! What a driver hands out and what it refuses.

use engine_record::NodeId;
use thiserror::Error;

use crate::codec::DecodeError;
use crate::metadata::commands::Command;
use crate::metadata::image::ClusterId;
use crate::metadata::membership::Membership;
use crate::metadata::message::PeerMessage;
use crate::metadata::snapshot::{LogPosition, Snapshot};
use crate::metadata::wal::WalFrame;

/// What the shell does next, in this order.
#[derive(Debug, Default)]
#[must_use]
pub struct Effects {
    /// First: a snapshot from the leader replaces the image.
    pub install: Option<Install>,
    /// Append these to the WAL, one after the other. When some are durable, [`Driver::persisted`] with the last one's
    /// number; on an error of the disk, stop the process.
    ///
    /// [`Driver::persisted`]: super::Driver::persisted
    pub wal: Vec<WalFrame>,
    /// Send these now. They may be lost, doubled and overtaken.
    pub messages: Vec<PeerMessage>,
    /// Apply these to the image, in order, and answer whoever proposed them.
    pub committed: Vec<Committed>,
    /// Proposals of this node whose outcome it will not learn: they may still be committed, by another leader.
    pub abandoned: Vec<Token>,
    /// Who votes has changed, and is now this.
    pub membership: Option<Membership>,
    /// Who leads has changed, and is now this. Holds with all of `committed` applied.
    pub leadership: Option<Leadership>,
    /// A snapshot is due: once all the above is done, [`Driver::snapshot`], its file, [`Driver::snapshot_written`]. Stays
    /// set until the first of these.
    ///
    /// [`Driver::snapshot`]: super::Driver::snapshot
    /// [`Driver::snapshot_written`]: super::Driver::snapshot_written
    pub snapshot_wanted: bool,
}

impl Effects {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let quiet = self.install.is_none() && self.wal.is_empty() && self.messages.is_empty();
        let settled = self.committed.is_empty() && self.abandoned.is_empty() && self.membership.is_none();
        quiet && settled && self.leadership.is_none() && !self.snapshot_wanted
    }
}

/// A snapshot from the leader.
///
/// Its file is made durable under its name before the first of [`Effects::wal`], which begins a new WAL file, is written.
/// The image becomes the snapshot's once that frame is durable.
#[derive(Debug)]
pub struct Install {
    /// The snapshot.
    pub snapshot: Snapshot,
}

/// Names a proposal to whoever made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub u64);

/// A committed entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its index.
    pub index: u64,
    /// The command; `None` for a change of membership.
    pub command: Option<Command>,
    /// Set where this node proposed it and still leads.
    pub token: Option<Token>,
}

/// Who leads the metadata quorum, as far as this node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The term: the controller epoch.
    pub term: u64,
    /// The leader: the controller.
    pub leader: Option<NodeId>,
    /// Whether this node leads and has applied all that earlier leaders committed: only then may it decide from its image.
    pub active: bool,
}

/// Why a driver doesn't start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The log builds on another snapshot.
    #[error("the log builds on the snapshot at {wanted:?}, and the one found is at {found:?}")]
    OtherSnapshot {
        /// The snapshot that the log names.
        wanted: LogPosition,
        /// The snapshot that was given.
        found: LogPosition,
    },
    /// The snapshot is another cluster's.
    #[error("the snapshot belongs to cluster {0}")]
    OtherCluster(ClusterId),
    /// The configuration or the recovered state breaks a rule of the `raft` crate.
    #[error(transparent)]
    Raft(#[from] raft::Error),
}

/// Why a message is refused.
#[derive(Debug, Error)]
pub enum StepError {
    /// It is addressed to another node.
    #[error("the message is for node {0}")]
    NotForUs(NodeId),
    /// It answers something this node never asked of the sender.
    #[error("node {0} is not in the quorum")]
    Stranger(NodeId),
    /// Its snapshot cannot be read.
    #[error("the snapshot in the message cannot be read: {0}")]
    Snapshot(DecodeError),
    /// Its snapshot is another cluster's.
    #[error("the snapshot in the message belongs to cluster {0}")]
    OtherCluster(ClusterId),
    /// The `raft` crate refuses it.
    #[error(transparent)]
    Refused(raft::Error),
}

/// Why something isn't proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProposeError {
    /// Another node leads, or nobody does.
    #[error("this node does not lead the metadata quorum")]
    NotLeader {
        /// Who to ask instead.
        leader: Option<NodeId>,
    },
    /// Too much is proposed and not committed yet, or a change of membership or a hand-over is under way.
    #[error("too much is under way")]
    Busy,
    /// The command is larger than [`COMMAND_BYTES_MAX`](crate::metadata::commands::COMMAND_BYTES_MAX).
    #[error("the command has {bytes} bytes")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The change would take this node's vote, and it leads: leadership is handed over first.
    #[error("the change takes the leader's vote")]
    TakesLeadersVote,
}
