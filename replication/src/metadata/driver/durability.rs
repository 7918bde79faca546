//! What has been handed out to be made durable, what is durable, and which messages wait for that.

use std::collections::VecDeque;

use raft::eraftpb::{HardState, Message};

use crate::metadata::message::PeerMessage;
use crate::metadata::wal::{FrameWriter, Record, Recovered, WalFrame};

/// The order of frames, and everything that waits for one.
pub(super) struct Durability {
    writer: FrameWriter,
    durable: u64,
    /// The term in the last durable frame.
    durable_term: u64,
    /// The hard state in the last frame.
    issued: HardState,
    /// The frame that carries the present term and vote.
    identity: u64,
    /// What waits, by the frame it waits for, oldest first.
    waiting: VecDeque<Waiting>,
    held: VecDeque<Held>,
    installing: Option<Installing>,
}

struct Waiting {
    sequence: u64,
    ready: Option<u64>,
    term: u64,
}

struct Held {
    after: u64,
    message: Message,
}

#[derive(Clone, Copy)]
struct Installing {
    sequence: u64,
    index: u64,
}

/// What a frame's becoming durable sets free.
pub(super) struct Persisted {
    /// The last turn of the `raft` crate that is durable.
    pub(super) ready: Option<u64>,
    /// The index of the snapshot that is installed now.
    pub(super) installed: Option<u64>,
}

impl Durability {
    pub(super) fn new(log: &Recovered) -> Self {
        Self {
            writer: log.writer(),
            durable: log.sequence(),
            durable_term: log.hard_state.term,
            issued: log.hard_state.clone(),
            identity: log.sequence(),
            waiting: VecDeque::new(),
            held: VecDeque::new(),
            installing: None,
        }
    }

    /// The hard state in the last frame.
    pub(super) fn issued(&self) -> &HardState {
        &self.issued
    }

    /// Whether frames are on their way.
    pub(super) fn is_behind(&self) -> bool {
        self.durable < self.writer.sequence()
    }

    /// Whether a snapshot from the leader isn't durable yet.
    pub(super) fn is_installing(&self) -> bool {
        self.installing.is_some()
    }

    /// Makes the frame of `records`; `ready` is the turn of the `raft` crate that it completes.
    pub(super) fn issue(&mut self, records: &[Record], ready: Option<u64>) -> WalFrame {
        let frame = self.writer.frame(self.durable, records);
        if let Some(Record::HardState(state)) = records.last() {
            let known = (self.issued.term, self.issued.vote);
            if (state.term, state.vote) != known {
                assert!(state.term >= self.issued.term, "a term never goes back");
                self.identity = frame.sequence;
            }
            self.issued = state.clone();
        }
        self.waiting.push_back(Waiting { sequence: frame.sequence, ready, term: self.issued.term });
        self.check();
        frame
    }

    /// The frame just issued holds a snapshot from the leader.
    pub(super) fn install(&mut self, index: u64) {
        assert!(self.installing.is_none(), "one snapshot at a time");
        self.installing = Some(Installing { sequence: self.writer.sequence(), index });
    }

    /// A turn without a frame is over with the frames before it; true where those are durable already.
    pub(super) fn pass(&mut self, ready: u64) -> bool {
        let last = self.writer.sequence();
        if self.is_behind() {
            self.waiting.push_back(Waiting { sequence: last, ready: Some(ready), term: self.issued.term });
        }
        self.durable == last
    }

    /// Holds messages back until what they say is durable: a leader's term and vote, anyone else's everything.
    pub(super) fn hold(&mut self, messages: Vec<Message>, leads: bool) {
        let after = if leads { self.identity } else { self.writer.sequence() };
        self.held.extend(messages.into_iter().map(|message| Held { after, message }));
    }

    /// Frames up to `sequence` are durable; `None` where that was known.
    pub(super) fn persisted(&mut self, sequence: u64) -> Option<Persisted> {
        assert!(sequence <= self.writer.sequence(), "frame {sequence} has not been handed out");
        if sequence <= self.durable {
            return None;
        }
        self.durable = sequence;
        let mut persisted = Persisted { ready: None, installed: None };
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| waiting.sequence <= sequence) {
            assert!(waiting.term >= self.durable_term, "a term never goes back");
            self.durable_term = waiting.term;
            persisted.ready = waiting.ready.or(persisted.ready);
        }
        if let Some(installing) = self.installing.take_if(|installing| installing.sequence <= sequence) {
            persisted.installed = Some(installing.index);
        }
        self.check();
        Some(persisted)
    }

    /// The messages that may leave now, in the order they were made.
    pub(super) fn release(&mut self) -> Vec<PeerMessage> {
        let mut released = Vec::new();
        while let Some(held) = self.held.pop_front_if(|held| held.after <= self.durable) {
            let message = PeerMessage(held.message);
            let remembered = message.term().is_none_or(|term| term <= self.durable_term);
            assert!(remembered, "said in a term that isn't durable");
            released.push(message);
        }
        released
    }

    fn check(&self) {
        let last = self.writer.sequence();
        assert!(self.durable <= last, "a frame is durable that was never made");
        assert!(self.identity <= last, "a term is in a frame that was never made");
        assert!(self.durable_term <= self.issued.term, "a term is durable that was never issued");
        assert_eq!(self.waiting.is_empty(), self.durable == last, "nobody waits for a frame on its way");
        assert!(self.waiting.iter().is_sorted_by_key(|waiting| waiting.sequence), "frames wait out of order");
        assert!(
            self.waiting.iter().all(|waiting| waiting.sequence > self.durable),
            "waiting for what is durable"
        );
        let installing = self.installing.is_none_or(|installing| installing.sequence > self.durable);
        assert!(installing, "a snapshot is durable and still being installed");
    }
}
