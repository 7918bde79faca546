//! The metadata quorum on one node: the `raft` crate as a pure state machine that hands out what is to be done.
//!
//! ```text
//!  tick, step(message), propose(command), persisted(sequence)            time, the network, clients, the disk
//!                         │
//!                         ▼
//!                      Driver ── drain() ──▶ Effects                     what the shell does next
//! ```
//!
//! The shell's loop: feed in what has happened, [`Driver::drain`], carry out the [`Effects`], say what became durable. It
//! owns the image and the files; nothing here waits.
//!
//! The rules:
//!
//! 1. What a node says it must remember. A follower's or candidate's message waits until all that was made before it is
//!    durable; a leader's until the term and vote it speaks in are. The second half matters to a node that becomes leader by
//!    its own vote alone: were its term lost in a crash, it would lead the same term twice, with other entries.
//! 2. While a snapshot from the leader is being installed nothing is fed in: no tick, no message. Both may be lost anyway.
//! 3. After a restart at least what the snapshot holds is committed.
//! 4. The membership at a restart is the snapshot's; later changes are applied again from the log.
//! 5. A snapshot is due with every applied change of membership: a joining node refuses one that doesn't name it.
//! 6. A snapshot sent and not confirmed is reported lost after a while, or its receiver would be left alone for ever.
//! 7. When the `raft` crate finds its invariants broken it panics. Never catch that: the process must stop.

mod config;
mod durability;
mod effects;
mod proposals;
mod ready;
mod snapshots;
mod store;
#[cfg(test)]
mod tests;
mod timeouts;

pub use config::Config;
pub use effects::{Committed, Effects, Install, Leadership, ProposeError, StartError, StepError, Token};

use engine_record::NodeId;
use raft::eraftpb::MessageType;
use raft::{RawNode, SnapshotStatus, StateRole};

use crate::metadata::commands::{COMMAND_BYTES_MAX, Command};
use crate::metadata::image::Image;
use crate::metadata::membership::{Membership, MembershipChange, joint_change, node_of, raft_id};
use crate::metadata::message::PeerMessage;
use crate::metadata::snapshot::{LogPosition, Snapshot};
use crate::metadata::wal;
use durability::Durability;
use proposals::Proposals;
use snapshots::Snapshots;
use store::Store;
use timeouts::Timeouts;

/// The metadata quorum as one node takes part in it.
pub struct Driver {
    config: Config,
    raft: RawNode<Store>,
    timeouts: Timeouts,
    durability: Durability,
    proposals: Proposals,
    snapshots: Snapshots,
    /// The last entry handed out to be applied.
    applied: LogPosition,
    /// The last command handed out: where the shell's image is.
    image_applied: u64,
    leadership: Leadership,
    effects: Effects,
}

impl Driver {
    /// Takes part again from what is durable: a snapshot, and the log that builds on it.
    ///
    /// A node that is the only voter campaigns at once and leads when its first frame is durable.
    ///
    /// # Errors
    ///
    /// The snapshot isn't the one the log builds on, or belongs to another cluster, or the configuration breaks a rule.
    pub fn new(config: Config, snapshot: &Snapshot, log: wal::Recovered) -> Result<Self, StartError> {
        if snapshot.position() != log.snapshot() {
            return Err(StartError::OtherSnapshot { wanted: log.snapshot(), found: snapshot.position() });
        }
        if snapshot.image().cluster() != config.cluster {
            return Err(StartError::OtherCluster(snapshot.image().cluster()));
        }
        let durability = Durability::new(&log);
        let store = Store::new(snapshot, log);
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raft = RawNode::new(&config.raft(snapshot.position().index), store, &logger)?;
        assert!(
            snapshot.image().applied() <= snapshot.position().index,
            "a snapshot's image is not ahead of it"
        );
        let mut driver = Self {
            timeouts: Timeouts::new(config.seed, config.election_ticks),
            snapshots: Snapshots::new(snapshot, &config),
            config,
            raft,
            durability,
            proposals: Proposals::default(),
            applied: snapshot.position(),
            image_applied: snapshot.image().applied(),
            leadership: Leadership::default(),
            effects: Effects::default(),
        };
        driver.begin();
        Ok(driver)
    }

    /// Applies what is known committed, and only then campaigns: a change of membership may be in it.
    fn begin(&mut self) {
        self.settle(true);
        self.take_all_ready();
        if self.membership().is_sole_voter(self.config.node) {
            let campaigned = self.raft.campaign();
            assert!(campaigned.is_ok(), "a campaign is never refused, only not begun");
            self.settle(true);
        }
    }

    /// One tick of time has passed.
    ///
    /// A node that doesn't lead and has frames that aren't durable yet stands still: with a disk that slow it shouldn't
    /// begin an election, and a vote of its own must not overtake its log.
    pub fn tick(&mut self) {
        if self.durability.is_installing() || (!self.leads() && self.durability.is_behind()) {
            return;
        }
        let elected = self.raft.tick() && !self.leads();
        for peer in self.snapshots.tick() {
            self.raft.report_snapshot(peer, SnapshotStatus::Failure);
        }
        self.settle(elected);
    }

    /// A message has arrived. A message may be lost at any time, so this may ignore one.
    ///
    /// # Errors
    ///
    /// The message is not for this node, comes from a stranger, or carries a snapshot that cannot be read or is another
    /// cluster's. Nothing has changed.
    pub fn step(&mut self, message: PeerMessage) -> Result<(), StepError> {
        let PeerMessage(message) = message;
        if message.to != raft_id(self.config.node) {
            return Err(StepError::NotForUs(node_of(message.to)));
        }
        if message.get_msg_type() == MessageType::MsgSnapshot {
            let snapshot = Snapshot::from_raft(message.get_snapshot()).map_err(StepError::Snapshot)?;
            if snapshot.image().cluster() != self.config.cluster {
                return Err(StepError::OtherCluster(snapshot.image().cluster()));
            }
        }
        let campaign = message.get_msg_type() == MessageType::MsgTimeoutNow;
        if self.durability.is_installing() || (campaign && self.durability.is_behind()) {
            return Ok(());
        }
        let from = node_of(message.from);
        let stepped = self.raft.step(message);
        self.settle(false);
        stepped.map_err(|error| {
            let stranger = matches!(error, raft::Error::StepPeerNotFound);
            if stranger { StepError::Stranger(from) } else { StepError::Refused(error) }
        })
    }

    /// Proposes a command. Its fate is told with `token`: in [`Effects::committed`], or in [`Effects::abandoned`] where
    /// this node stops leading before it knows.
    ///
    /// # Errors
    ///
    /// The command isn't proposed: this node doesn't lead, or too much is under way, or the command is too large.
    pub fn propose(&mut self, command: &Command, token: Token) -> Result<(), ProposeError> {
        self.may_propose()?;
        let bytes = command.encode();
        if bytes.len() > COMMAND_BYTES_MAX {
            return Err(ProposeError::TooLarge { bytes: bytes.len() });
        }
        self.raft.propose(Vec::new(), bytes).map_err(|_| ProposeError::Busy)?;
        self.remember_proposal(token);
        Ok(())
    }

    /// Proposes to change who votes. Committed once the new membership holds on this node; the joint state is left after
    /// that. Only one change at a time.
    ///
    /// # Errors
    ///
    /// The change isn't proposed: this node doesn't lead, another change is under way, nothing is asked for, or the change
    /// would take this node's own vote. So there is always a voter left.
    pub fn propose_membership(
        &mut self,
        changes: &[MembershipChange],
        token: Token,
    ) -> Result<(), ProposeError> {
        self.may_propose()?;
        if changes.is_empty() || self.raft.raft.has_pending_conf() || self.membership().is_joint() {
            return Err(ProposeError::Busy);
        }
        let node = self.config.node;
        if changes.contains(&MembershipChange::Learner(node))
            || changes.contains(&MembershipChange::Remove(node))
        {
            return Err(ProposeError::TakesLeadersVote);
        }
        let proposed = self.raft.propose_conf_change(Vec::new(), joint_change(changes));
        proposed.map_err(|_| ProposeError::Busy)?;
        self.remember_proposal(token);
        Ok(())
    }

    fn may_propose(&self) -> Result<(), ProposeError> {
        if self.leads() { Ok(()) } else { Err(ProposeError::NotLeader { leader: self.leader() }) }
    }

    fn remember_proposal(&mut self, token: Token) {
        let log = &self.raft.raft.raft_log;
        self.proposals.insert(LogPosition { index: log.last_index(), term: self.term() }, token);
    }

    /// Asks the leader, which this node must be, to hand over to `node`: for a planned stop.
    ///
    /// # Errors
    ///
    /// This node doesn't lead.
    pub fn transfer_leadership(&mut self, node: NodeId) -> Result<(), ProposeError> {
        self.may_propose()?;
        self.raft.transfer_leader(raft_id(node));
        Ok(())
    }

    /// All frames up to number `sequence` are durable.
    ///
    /// # Panics
    ///
    /// No such frame has been handed out.
    pub fn persisted(&mut self, sequence: u64) {
        let Some(persisted) = self.durability.persisted(sequence) else {
            return;
        };
        if let Some(number) = persisted.ready {
            self.raft.on_persist_ready(number);
        }
        if let Some(installed) = persisted.installed {
            self.raft.advance_apply_to(installed);
        }
        self.settle(false);
    }

    /// A message to `node` couldn't be sent, or its connection broke.
    pub fn report_unreachable(&mut self, node: NodeId) {
        self.raft.report_unreachable(raft_id(node));
    }

    /// A message with a snapshot has been delivered to `node`, or hasn't.
    pub fn report_snapshot(&mut self, node: NodeId, delivered: bool) {
        let status = if delivered { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
        self.snapshots.reported(raft_id(node));
        self.raft.report_snapshot(raft_id(node), status);
    }

    /// Makes a snapshot of `image`, to which everything handed out so far has been applied. The shell writes it to a file
    /// and answers with [`Driver::snapshot_written`].
    ///
    /// # Panics
    ///
    /// The image isn't where it would be with all that was handed out applied to it, or another snapshot is being written, or nothing was applied since the last one.
    #[must_use]
    pub fn snapshot(&mut self, image: &Image) -> Snapshot {
        assert!(!self.durability.is_installing(), "a snapshot from the leader is being installed");
        assert_eq!(image.applied(), self.image_applied, "the image is not where it should be");
        assert_eq!(image.cluster(), self.config.cluster, "the image of another cluster");
        let snapshot = Snapshot::new(self.applied, self.membership(), image.clone());
        self.snapshots.begin(snapshot.clone());
        snapshot
    }

    /// The file of the snapshot at `index` is durable under its name. The log before it goes: the next [`Effects::wal`]
    /// begins a new file.
    pub fn snapshot_written(&mut self, index: u64) {
        let Some(snapshot) = self.snapshots.finish(index) else {
            return;
        };
        assert!(index <= self.raft.raft.raft_log.persisted, "a snapshot is never ahead of the durable log");
        let kept = self.config.kept_entries;
        let records = self.raft.mut_store().rebase(&snapshot, kept, self.durability.issued());
        self.effects.wal.push(self.durability.issue(&records, None));
    }

    /// What is to be done now. See [`Effects`] for the order.
    pub fn drain(&mut self) -> Effects {
        self.take_all_ready();
        self.effects.messages.extend(self.durability.release());
        self.note_leadership();
        let wanted = self.snapshots.is_wanted(self.applied, self.raft.store());
        self.effects.snapshot_wanted = wanted && !self.durability.is_installing();
        std::mem::take(&mut self.effects)
    }

    /// This node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.config.node
    }

    /// The term: the controller epoch.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.raft.raft.term
    }

    /// The node that leads, where this one knows.
    #[must_use]
    pub fn leader(&self) -> Option<NodeId> {
        let leader = self.raft.raft.leader_id;
        (leader != raft::INVALID_ID).then(|| node_of(leader))
    }

    /// Whether this node leads, perhaps not knowing yet all that earlier leaders committed: see [`Leadership::active`].
    #[must_use]
    pub fn leads(&self) -> bool {
        self.raft.raft.state == StateRole::Leader
    }

    /// The last entry handed out to be applied.
    #[must_use]
    pub fn applied(&self) -> LogPosition {
        self.applied
    }

    /// Who votes, as of [`Driver::applied`].
    #[must_use]
    pub fn membership(&self) -> Membership {
        Membership::from_raft(&self.raft.raft.prs().conf().to_conf_state())
    }

    /// How far `node` has the log, where this node leads and `node` is a member: for deciding on promotions.
    #[must_use]
    pub fn matched(&self, node: NodeId) -> Option<u64> {
        let progress = self.raft.raft.prs().get(raft_id(node));
        progress.filter(|_| self.leads()).map(|progress| progress.matched)
    }
}
