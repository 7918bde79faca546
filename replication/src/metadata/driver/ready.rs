//! One turn of the `raft` crate: what it has decided becomes frames, held messages and committed entries.

use raft::StateRole;
use raft::eraftpb::{Entry, EntryType, MessageType};
use raft::prelude::Ready;

use super::effects::{Committed, Install, Leadership};
use super::{Driver, LogPosition};
use crate::metadata::commands::Command;
use crate::metadata::membership::{Membership, parse_change};
use crate::metadata::snapshot::Snapshot;
use crate::metadata::wal::Record;

impl Driver {
    pub(super) fn take_all_ready(&mut self) {
        while !self.durability.is_installing() && self.raft.has_ready() {
            // What came before a snapshot is handed out before it.
            if self.raft.snap().is_some() && !self.effects.committed.is_empty() {
                return;
            }
            let ready = self.raft.ready();
            self.take_ready(ready);
        }
    }

    fn take_ready(&mut self, mut ready: Ready) {
        let number = ready.number();
        let records = self.records_of(&ready);
        let installing = !ready.snapshot().is_empty();
        if !records.is_empty() {
            let frame = self.durability.issue(&records, Some(number));
            assert_eq!(frame.starts_file, installing, "a turn begins a file where it brings a snapshot");
            self.effects.wal.push(frame);
        }
        if installing {
            self.durability.install(self.applied.index);
        }
        self.hold_messages(&mut ready);
        let committed = ready.take_committed_entries();
        let applies = !committed.is_empty();
        committed.into_iter().for_each(|entry| self.apply(entry));
        self.raft.advance_append_async(ready);
        if records.is_empty() && self.durability.pass(number) {
            self.raft.on_persist_ready(number);
        }
        if applies {
            assert!(!installing, "nothing is applied past a snapshot that isn't durable");
            self.raft.advance_apply_to(self.applied.index);
        }
        self.settle(false);
    }

    /// What of a turn must be durable. How far the log is committed can be learned again, so that alone is not worth a flush.
    fn records_of(&mut self, ready: &Ready) -> Vec<Record> {
        let mut records = Vec::new();
        if !ready.snapshot().is_empty() {
            records.push(self.install(ready));
        }
        if !ready.entries().is_empty() {
            self.raft.mut_store().append(ready.entries());
            records.push(Record::Entries(ready.entries().clone()));
        }
        if ready.must_sync() {
            records.push(Record::HardState(self.raft.raft.hard_state()));
        }
        records
    }

    fn install(&mut self, ready: &Ready) -> Record {
        let snapshot = Snapshot::from_raft(ready.snapshot()).expect("read once before it was fed in");
        self.applied = snapshot.position();
        self.image_applied = snapshot.image().applied();
        self.snapshots.installed(self.applied.index);
        let record = self.raft.mut_store().install(&snapshot);
        self.effects.membership = Some(snapshot.membership().clone());
        self.effects.install = Some(Install { snapshot });
        record
    }

    fn hold_messages(&mut self, ready: &mut Ready) {
        let leads = self.raft.raft.state == StateRole::Leader;
        let messages = if leads { ready.take_messages() } else { ready.take_persisted_messages() };
        for message in &messages {
            if message.get_msg_type() == MessageType::MsgSnapshot {
                self.snapshots.sent(message.to);
            }
        }
        self.durability.hold(messages, leads);
    }

    fn apply(&mut self, entry: Entry) {
        let position = LogPosition { index: entry.index, term: entry.term };
        assert_eq!(position.index, self.applied.index + 1, "entries are applied one after the other");
        assert!(position.term >= self.applied.term, "a term never goes back along the log");
        self.applied = position;
        self.snapshots.applied(entry.get_data().len());
        let token = self.proposals.take(position);
        match entry.get_entry_type() {
            EntryType::EntryNormal if entry.get_data().is_empty() => self.effects.abandoned.extend(token),
            EntryType::EntryNormal => {
                let command = Command::decode(entry.get_data()).expect("checked when it entered the log");
                self.image_applied = entry.index;
                self.effects.committed.push(Committed { index: entry.index, command: Some(command), token });
            }
            EntryType::EntryConfChangeV2 => {
                self.apply_change(&entry);
                self.effects.committed.push(Committed { index: entry.index, command: None, token });
            }
            EntryType::EntryConfChange => unreachable!("refused when it would enter the log"),
        }
    }

    fn apply_change(&mut self, entry: &Entry) {
        let change = parse_change(entry.get_data()).expect("checked when it entered the log");
        let applied = self.raft.apply_conf_change(&change);
        let state = applied.expect("a leader proposes only what can be applied to what was there");
        let membership = Membership::from_raft(&state);
        // A leader doesn't take its own vote, but it may have become leader while another's change was under way. Without a
        // vote it no longer counts what it has itself, so it stops leading.
        if self.leads() && !membership.votes(self.config.node) {
            let term = self.term();
            self.raft.raft.become_follower(term, raft::INVALID_ID);
        }
        self.effects.membership = Some(membership);
        self.snapshots.membership_changed();
    }

    /// After anything the `raft` crate was fed: its election timeout is ours, and only a leader has proposals.
    pub(super) fn settle(&mut self, elected: bool) {
        let raft = &mut self.raft.raft;
        let ticks = self.timeouts.ticks((raft.term, raft.state, raft.leader_id), elected);
        raft.set_randomized_election_timeout(ticks);
        if raft.state != StateRole::Leader {
            self.effects.abandoned.extend(self.proposals.abandon());
        }
        self.check();
    }

    fn check(&self) {
        let (raft, log) = (&self.raft.raft, &self.raft.raft.raft_log);
        assert!(self.applied.index <= log.committed, "applied is what isn't committed");
        let durable = self.applied.index <= log.persisted || self.durability.is_installing();
        assert!(durable, "applied is what isn't durable");
        assert!(self.image_applied <= self.applied.index, "the image is ahead of the log");
        assert!(self.applied.term <= raft.term, "applied is an entry of a later term");
        assert!(self.durability.issued().term <= raft.term, "a term went back");
        assert!(self.proposals.is_empty() || self.leads(), "only a leader has proposals");
    }

    pub(super) fn note_leadership(&mut self) {
        let active = self.leads() && self.applied.term == self.term();
        let leadership = Leadership { term: self.term(), leader: self.leader(), active };
        if leadership != self.leadership {
            self.leadership = leadership;
            self.effects.leadership = Some(leadership);
        }
    }
}
