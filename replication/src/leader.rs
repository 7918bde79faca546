//! How far a partition is committed, as its leader decides it.
//!
//! The leader knows of every replica how far its log reaches and how far that is flushed. From these it computes the high
//! watermark: below it a record is committed, answered to `acks=all`, and shown to consumers.
//!
//! ```text
//! maximal ISR  = in-sync replicas, and whoever a change under way would add; nobody leaves before the change is through
//! appended     = the least log end in the maximal ISR
//! flushed      = by the flush mode:
//!   quorum       the F-th largest flushed offset of the in-sync replicas,
//!                F = max(min.insync.replicas, majority of the replicas), at most all in sync
//!   isr          the least flushed offset in the maximal ISR
//!   leader       the leader's flushed offset
//!   async        nothing need be flushed
//! high watermark = min(appended, flushed), where at least min.insync.replicas are in sync; and never less than it was
//! ```
//!
//! With one replica this says: `quorum`, `isr` and `leader` commit what is flushed, `async` what is appended.
//!
//! Why the maximal ISR: the answer to a proposed change may be lost, and the controller may have carried it out. Whoever
//! may be in sync by its books must have all that is committed by ours.

use std::collections::{BTreeMap, BTreeSet};

use engine_record::{LeaderEpoch, NodeId, Offset};
use thiserror::Error;

/// What must be flushed before a record counts as committed: the topic's `flush.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// `max(min.insync.replicas, majority of the replicas)` of the in-sync replicas, at most all of them.
    Quorum,
    /// Every in-sync replica.
    Isr,
    /// The leader.
    Leader,
    /// Nothing: flushes happen in the background.
    Async,
}

/// The topic's settings that decide what is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitRules {
    /// What must be flushed.
    pub flush_mode: FlushMode,
    /// `min.insync.replicas`: with fewer in sync nothing more is committed. At least 1.
    pub min_insync: usize,
}

/// How far one replica is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The offset its next record gets: exclusive.
    pub log_end: Offset,
    /// The offset below which all is on its disk: exclusive, at most `log_end`.
    pub flushed: Offset,
}

/// Why the leader doesn't take something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LeaderError {
    /// Not one of the partition's replicas.
    #[error("node {0} holds no replica of this partition")]
    NotReplica(NodeId),
    /// A replica that has flushed more than it has.
    #[error("node {0} reports more flushed than appended")]
    FlushedAhead(NodeId),
    /// In-sync replicas without the leader.
    #[error("the leader is not among the in-sync replicas")]
    LeaderNotInSync,
    /// A change is proposed while the outcome of another is unknown.
    #[error("another change of the in-sync replicas is under way")]
    ChangePending,
    /// `min.insync.replicas` of 0.
    #[error("min.insync.replicas is at least 1")]
    MinInsync,
}

/// One partition, as the node that leads it sees it in one leader epoch.
#[derive(Clone, Debug)]
pub struct LeaderState {
    node: NodeId,
    epoch: LeaderEpoch,
    rules: CommitRules,
    replicas: BTreeMap<NodeId, Progress>,
    isr: BTreeSet<NodeId>,
    /// The in-sync replicas proposed to the controller, until its answer is known.
    pending: Option<BTreeSet<NodeId>>,
    high_watermark: Offset,
}

impl LeaderState {
    /// `node` leads in `epoch`. Of the followers nothing is known until they fetch. The high watermark is the one this
    /// replica knew before, at most its log end.
    ///
    /// # Errors
    ///
    /// The leader is no replica or not in sync, an in-sync replica is no replica, or a number is impossible.
    pub fn new(
        (node, epoch): (NodeId, LeaderEpoch),
        rules: CommitRules,
        replicas: &[NodeId],
        isr: &[NodeId],
        progress: Progress,
        high_watermark: Offset,
    ) -> Result<Self, LeaderError> {
        if rules.min_insync == 0 {
            return Err(LeaderError::MinInsync);
        }
        let mut leader = Self {
            node,
            epoch,
            rules,
            replicas: replicas.iter().map(|replica| (*replica, Progress::default())).collect(),
            isr: BTreeSet::new(),
            pending: None,
            high_watermark: high_watermark.min(progress.log_end),
        };
        leader.isr = leader.in_sync_of(isr)?;
        leader.report(node, progress)?;
        Ok(leader)
    }

    /// The leader's own log has grown or been flushed.
    ///
    /// # Panics
    ///
    /// More is flushed than appended, or the log has shrunk: a leader's never does.
    pub fn advance(&mut self, progress: Progress) {
        assert!(progress.log_end >= self.progress(self.node).log_end, "a leader's log never shrinks");
        assert!(progress.flushed >= self.progress(self.node).flushed, "what is flushed stays flushed");
        let reported = self.report(self.node, progress);
        assert_eq!(reported, Ok(()), "a leader has not flushed more than it has");
    }

    /// A replica says how far it is. A follower may say less than before: it may have been truncated or replaced.
    ///
    /// # Errors
    ///
    /// The node holds no replica, or the numbers contradict each other. Nothing has changed.
    pub fn report(&mut self, node: NodeId, progress: Progress) -> Result<(), LeaderError> {
        if progress.flushed > progress.log_end {
            return Err(LeaderError::FlushedAhead(node));
        }
        *self.replicas.get_mut(&node).ok_or(LeaderError::NotReplica(node))? = progress;
        self.raise_high_watermark();
        Ok(())
    }

    /// A change of the in-sync replicas is sent to the controller. Until its outcome is known, both count.
    ///
    /// # Errors
    ///
    /// The outcome of an earlier change is unknown, or the change isn't a set of replicas with the leader in it.
    pub fn propose_isr(&mut self, isr: &[NodeId]) -> Result<(), LeaderError> {
        if self.pending.is_some() {
            return Err(LeaderError::ChangePending);
        }
        self.pending = Some(self.in_sync_of(isr)?);
        self.check();
        Ok(())
    }

    /// The controller says which replicas are in sync: the outcome of any change under way.
    ///
    /// # Errors
    ///
    /// It isn't a set of replicas with the leader in it. Nothing has changed.
    pub fn isr_committed(&mut self, isr: &[NodeId]) -> Result<(), LeaderError> {
        self.isr = self.in_sync_of(isr)?;
        self.pending = None;
        self.raise_high_watermark();
        Ok(())
    }

    /// The topic's settings have changed. What is committed stays committed.
    ///
    /// # Errors
    ///
    /// `min.insync.replicas` is 0.
    pub fn set_rules(&mut self, rules: CommitRules) -> Result<(), LeaderError> {
        if rules.min_insync == 0 {
            return Err(LeaderError::MinInsync);
        }
        self.rules = rules;
        self.raise_high_watermark();
        Ok(())
    }

    /// The leader epoch.
    #[must_use]
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// Below it everything is committed: exclusive.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// Whether enough replicas are in sync for `acks=all`: asked before the append, and again before the answer.
    #[must_use]
    pub fn has_min_insync(&self) -> bool {
        self.isr.len() >= self.rules.min_insync
    }

    /// The in-sync replicas that the controller knows of, by id.
    pub fn isr(&self) -> impl ExactSizeIterator<Item = NodeId> {
        self.isr.iter().copied()
    }

    /// How far a replica said it was; from the beginning where it hasn't said yet.
    #[must_use]
    pub fn progress(&self, node: NodeId) -> Progress {
        self.replicas.get(&node).copied().unwrap_or_default()
    }

    fn in_sync_of(&self, isr: &[NodeId]) -> Result<BTreeSet<NodeId>, LeaderError> {
        let isr: BTreeSet<_> = isr.iter().copied().collect();
        if let Some(stranger) = isr.iter().find(|node| !self.replicas.contains_key(node)) {
            return Err(LeaderError::NotReplica(*stranger));
        }
        if isr.contains(&self.node) { Ok(isr) } else { Err(LeaderError::LeaderNotInSync) }
    }

    fn raise_high_watermark(&mut self) {
        let before = self.high_watermark;
        if self.has_min_insync() {
            self.high_watermark = before.max(self.appended().min(self.flushed()));
        }
        assert!(self.high_watermark >= before, "a high watermark never goes back");
        self.check();
    }

    /// Below it every replica that is or may be in sync has everything.
    fn appended(&self) -> Offset {
        let ends = self.maximal_isr().map(|node| self.progress(node).log_end);
        ends.min().expect("the leader is in sync")
    }

    /// Below it as much is flushed as the mode asks for.
    fn flushed(&self) -> Offset {
        match self.rules.flush_mode {
            FlushMode::Quorum => self.flushed_by_quorum(),
            FlushMode::Isr => {
                let flushed = self.maximal_isr().map(|node| self.progress(node).flushed);
                flushed.min().expect("the leader is in sync")
            }
            FlushMode::Leader => self.progress(self.node).flushed,
            FlushMode::Async => Offset::MAX,
        }
    }

    fn flushed_by_quorum(&self) -> Offset {
        let majority = self.replicas.len() / 2 + 1;
        let needed = self.rules.min_insync.max(majority).min(self.isr.len());
        assert!(needed >= 1, "at least the leader is in sync");
        let mut flushed: Vec<_> = self.isr.iter().map(|node| self.progress(*node).flushed).collect();
        flushed.sort_unstable_by(|a, b| b.cmp(a));
        *flushed.get(needed - 1).expect("no more are needed than are in sync")
    }

    fn maximal_isr(&self) -> impl Iterator<Item = NodeId> {
        self.isr.iter().chain(self.pending.iter().flatten()).copied()
    }

    fn check(&self) {
        assert!(self.rules.min_insync >= 1, "somebody must be in sync");
        assert!(self.isr.contains(&self.node), "the leader is in sync");
        assert!(self.maximal_isr().all(|node| self.replicas.contains_key(&node)), "in sync and no replica");
        let own = self.progress(self.node);
        assert!(self.high_watermark <= own.log_end, "committed is what the leader doesn't have");
        assert!(self.replicas.values().all(|one| one.flushed <= one.log_end), "flushed is what isn't there");
    }
}

#[cfg(test)]
mod tests;
