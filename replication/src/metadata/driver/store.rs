//! The log as the `raft` crate reads it: in memory, the same as what has been handed out to the WAL.

use std::cell::Cell;

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot as RaftSnapshot};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};

use crate::metadata::membership::{Membership, node_of};
use crate::metadata::snapshot::{LogPosition, Snapshot};
use crate::metadata::wal::{Checkpoint, Record, Recovered};

pub(super) struct Store {
    /// The place right before the first entry.
    base: LogPosition,
    entries: Vec<Entry>,
    /// What the node starts with.
    hard_state: HardState,
    snapshot: RaftSnapshot,
    /// Where the snapshot is in the log, and whom it names.
    position: LogPosition,
    membership: Membership,
    /// A peer needs a snapshot that names it.
    lacking: Cell<bool>,
}

impl Store {
    pub(super) fn new(snapshot: &Snapshot, log: Recovered) -> Self {
        let mut hard_state = log.hard_state;
        hard_state.commit = hard_state.commit.max(snapshot.position().index);
        let store = Self {
            base: log.checkpoint.base,
            entries: log.entries,
            hard_state,
            snapshot: snapshot.to_raft(),
            position: snapshot.position(),
            membership: snapshot.membership().clone(),
            lacking: Cell::new(false),
        };
        store.check();
        store
    }

    pub(super) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else {
            return;
        };
        assert!(first.index > self.base.index, "an entry before the log's beginning");
        assert!(first.index <= self.last() + 1, "a gap in the log");
        self.entries.truncate(self.place(first.index));
        self.entries.extend_from_slice(entries);
        self.check();
    }

    /// Begins the log anew on a snapshot from the leader.
    pub(super) fn install(&mut self, snapshot: &Snapshot) -> Record {
        assert!(snapshot.position().index >= self.snapshot_index(), "a snapshot from the leader is no older");
        self.base = snapshot.position();
        self.entries.clear();
        self.set_snapshot(snapshot);
        self.check();
        self.checkpoint()
    }

    /// Drops the entries that the snapshot makes needless, but for the last `kept`. Answers the records that restate all.
    pub(super) fn rebase(&mut self, snapshot: &Snapshot, kept: u64, issued: &HardState) -> Vec<Record> {
        let index = snapshot.position().index;
        assert_eq!(self.term(index).ok(), Some(snapshot.position().term), "a snapshot of another log");
        self.set_snapshot(snapshot);
        let base = index.saturating_sub(kept).max(self.base.index);
        assert!(base <= index, "entries after the snapshot stay");
        let term = self.term(base).expect("the new base is between the old one and the snapshot");
        self.entries.drain(..self.place(base + 1));
        self.base = LogPosition { index: base, term };
        let mut state = issued.clone();
        state.commit = state.commit.max(index);
        self.check();
        vec![self.checkpoint(), Record::Entries(self.entries.clone()), Record::HardState(state)]
    }

    /// Whether a peer was refused a snapshot because the newest one doesn't name it.
    pub(super) fn lacks_snapshot(&self) -> bool {
        self.lacking.get()
    }

    fn set_snapshot(&mut self, snapshot: &Snapshot) {
        self.snapshot = snapshot.to_raft();
        self.position = snapshot.position();
        self.membership = snapshot.membership().clone();
        self.lacking.set(false);
    }

    fn checkpoint(&self) -> Record {
        Record::Checkpoint(Checkpoint { snapshot: self.position, base: self.base })
    }

    fn snapshot_index(&self) -> u64 {
        self.position.index
    }

    fn last(&self) -> u64 {
        self.entries.last().map_or(self.base.index, |last| last.index)
    }

    /// Where in `entries` the entry at `index` is or would be.
    fn place(&self, index: u64) -> usize {
        assert!(index > self.base.index, "an entry before the log's beginning");
        usize::try_from(index - self.base.index - 1).expect("no more entries than memory holds")
    }

    fn check(&self) {
        assert!(self.base.index <= self.snapshot_index(), "entries are missing after the snapshot");
        assert!(self.snapshot_index() <= self.last(), "the log ends before the snapshot");
        let first = self.entries.first().map_or(self.base.index + 1, |first| first.index);
        assert_eq!(first, self.base.index + 1, "the log doesn't begin at its base");
        let count = u64::try_from(self.entries.len()).expect("lengths fit 64 bits");
        assert_eq!(self.base.index + count, self.last(), "the log has a gap");
    }
}

impl Storage for Store {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let conf_state: ConfState = self.snapshot.get_metadata().get_conf_state().clone();
        Ok(RaftState::new(self.hard_state.clone(), conf_state))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.base.index {
            return Err(Error::Store(StorageError::Compacted));
        }
        let range = self.entries.get(self.place(low)..self.place(high));
        let mut entries = range.ok_or(Error::Store(StorageError::Unavailable))?.to_vec();
        raft::util::limit_size(&mut entries, max_size.into());
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.base.index {
            return Ok(self.base.term);
        }
        if index < self.base.index {
            return Err(Error::Store(StorageError::Compacted));
        }
        let entry = self.entries.get(self.place(index));
        entry.map(|entry| entry.term).ok_or(Error::Store(StorageError::Unavailable))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.base.index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<RaftSnapshot> {
        if self.snapshot_index() < request_index || !self.membership.names(node_of(to)) {
            self.lacking.set(true);
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        Ok(self.snapshot.clone())
    }
}
