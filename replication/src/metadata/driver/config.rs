//! What a driver is told at its start.

use engine_record::NodeId;

use crate::metadata::image::ClusterId;
use crate::metadata::membership::raft_id;

/// The settings of one node's part in the quorum. A tick is whatever the shell makes it, 20 to 50 ms as a rule.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// This node.
    pub node: NodeId,
    /// The cluster; a snapshot of another one is refused.
    pub cluster: ClusterId,
    /// Seeds the election timeouts: different on every node and at every start.
    pub seed: u64,
    /// Ticks without a leader until an election: at least this many, and below twice as many.
    pub election_ticks: usize,
    /// Ticks between a leader's heartbeats, fewer than `election_ticks`.
    pub heartbeat_ticks: usize,
    /// A snapshot is due this many entries after the last one.
    pub snapshot_entries: u64,
    /// A snapshot is due this many bytes of commands after the last one.
    pub snapshot_bytes: u64,
    /// Entries kept before a snapshot, for followers a little behind.
    pub kept_entries: u64,
    /// Ticks after which a snapshot sent and not confirmed counts as lost.
    pub snapshot_ticks: usize,
    /// The most bytes of entries in one message, unless a single entry is larger.
    pub message_bytes_max: u64,
    /// The most bytes proposed and not committed yet; beyond, proposals are refused.
    pub uncommitted_bytes_max: u64,
}

impl Config {
    /// The usual settings.
    #[must_use]
    pub fn new(node: NodeId, cluster: ClusterId, seed: u64) -> Self {
        Self {
            node,
            cluster,
            seed,
            election_ticks: 10,
            heartbeat_ticks: 2,
            snapshot_entries: 10_000,
            snapshot_bytes: 16 << 20,
            kept_entries: 1_000,
            snapshot_ticks: 100,
            message_bytes_max: 1 << 20,
            uncommitted_bytes_max: 16 << 20,
        }
    }

    pub(super) fn raft(&self, applied: u64) -> raft::Config {
        raft::Config {
            id: raft_id(self.node),
            election_tick: self.election_ticks,
            heartbeat_tick: self.heartbeat_ticks,
            applied,
            max_size_per_msg: self.message_bytes_max,
            check_quorum: true,
            pre_vote: true,
            max_uncommitted_size: self.uncommitted_bytes_max,
            ..raft::Config::default()
        }
    }
}
