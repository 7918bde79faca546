//! When a snapshot is due, which one is being written, and which peers have been sent one.

use std::collections::BTreeMap;

use super::config::Config;
use super::store::Store;
use crate::metadata::snapshot::{LogPosition, Snapshot};

pub(super) struct Snapshots {
    entries_max: u64,
    bytes_max: u64,
    ticks: usize,
    /// The index of the newest one that the log builds on.
    last: u64,
    /// Bytes of commands applied since.
    bytes: u64,
    /// Whether who votes has changed since.
    membership_changed: bool,
    writing: Option<Snapshot>,
    /// By peer: the ticks left until a snapshot sent to it counts as lost.
    sent: BTreeMap<u64, usize>,
}

impl Snapshots {
    pub(super) fn new(snapshot: &Snapshot, config: &Config) -> Self {
        Self {
            entries_max: config.snapshot_entries,
            bytes_max: config.snapshot_bytes,
            ticks: config.snapshot_ticks,
            last: snapshot.position().index,
            bytes: 0,
            membership_changed: false,
            writing: None,
            sent: BTreeMap::new(),
        }
    }

    pub(super) fn applied(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    pub(super) fn membership_changed(&mut self) {
        self.membership_changed = true;
    }

    pub(super) fn is_wanted(&self, applied: LogPosition, store: &Store) -> bool {
        assert!(applied.index >= self.last, "a snapshot is ahead of what was applied");
        let many = applied.index - self.last >= self.entries_max || self.bytes >= self.bytes_max;
        let asked = many || self.membership_changed || store.lacks_snapshot();
        asked && applied.index > self.last && self.writing.is_none()
    }

    pub(super) fn begin(&mut self, snapshot: Snapshot) {
        assert!(self.writing.is_none(), "one snapshot at a time is written");
        assert!(snapshot.position().index > self.last, "there is a snapshot of this place already");
        self.bytes = 0;
        self.membership_changed = false;
        self.writing = Some(snapshot);
    }

    /// The snapshot at `index` is durable; `None` where one from the leader has overtaken it.
    pub(super) fn finish(&mut self, index: u64) -> Option<Snapshot> {
        let snapshot = self.writing.take_if(|writing| writing.position().index == index)?;
        assert!(index > self.last, "a snapshot adds to the one before");
        self.last = index;
        Some(snapshot)
    }

    /// A snapshot from the leader takes the place of any of this node's.
    pub(super) fn installed(&mut self, index: u64) {
        assert!(index >= self.last, "a snapshot from the leader is no older");
        self.writing = None;
        self.bytes = 0;
        self.membership_changed = false;
        self.last = index;
    }

    pub(super) fn sent(&mut self, peer: u64) {
        self.sent.insert(peer, self.ticks);
    }

    pub(super) fn reported(&mut self, peer: u64) {
        self.sent.remove(&peer);
    }

    /// The peers whose snapshot counts as lost now.
    pub(super) fn tick(&mut self) -> Vec<u64> {
        self.sent.values_mut().for_each(|ticks| *ticks = ticks.saturating_sub(1));
        let lost: Vec<u64> =
            self.sent.iter().filter(|(_, ticks)| **ticks == 0).map(|(peer, _)| *peer).collect();
        self.sent.retain(|_, ticks| *ticks > 0);
        lost
    }
}
