//! What the nodes of the quorum say to each other, and its bytes.
//!
//! ```text
//! version (1) | kind | to | from | term | log term | index | commit | commit term | reject | hint | context | entries | snapshot
//! ```
//!
//! The frame around a message, and the proof of who sent it, are the connection's. Proposals don't travel: only the leader
//! takes them, and whoever asks another node is told who leads.

use engine_record::NodeId;
use raft::eraftpb::{Entry, EntryType, Message, MessageType, Snapshot, SnapshotMetadata};

use crate::codec::{DecodeError, Reader, Writer};
use crate::metadata::commands::Command;
use crate::metadata::membership::{Membership, node_of, parse_change, read_raft_id};

const VERSION: u8 = 1;

/// A message from one node of the quorum to another.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerMessage(pub(crate) Message);

impl PeerMessage {
    /// The node it goes to.
    #[must_use]
    pub fn to(&self) -> NodeId {
        node_of(self.0.to)
    }

    /// The node it comes from.
    #[must_use]
    pub fn from(&self) -> NodeId {
        node_of(self.0.from)
    }

    /// The term its sender speaks in; `None` where it only asks, or answers, whether a vote in a term not entered yet would
    /// be given.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        let thought = [MessageType::MsgRequestPreVote, MessageType::MsgRequestPreVoteResponse];
        (!thought.contains(&self.0.get_msg_type())).then_some(self.0.term)
    }

    /// Whether it carries a whole snapshot: large, and worth telling [`Driver::report_snapshot`] how it went.
    ///
    /// [`Driver::report_snapshot`]: crate::metadata::driver::Driver::report_snapshot
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.0.get_msg_type() == MessageType::MsgSnapshot
    }

    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let message = &self.0;
        let mut writer = Writer::new();
        writer.u8(VERSION);
        writer.u8(kind_tag(message.get_msg_type()));
        for number in [message.to, message.from, message.term, message.log_term, message.index] {
            writer.number(number);
        }
        writer.number(message.commit);
        writer.number(message.commit_term);
        writer.flag(message.reject);
        writer.number(message.reject_hint);
        writer.bytes(message.get_context());
        writer.list(message.get_entries(), write_entry);
        writer.flag(message.has_snapshot());
        if message.has_snapshot() {
            write_snapshot(&mut writer, message.get_snapshot());
        }
        writer.into_bytes()
    }

    /// Reads what [`PeerMessage::encode`] wrote.
    ///
    /// # Errors
    ///
    /// The bytes are no message of a version that this program knows, or one whose entries don't follow each other or
    /// hold what isn't a known command.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            VERSION => {}
            other => return Err(DecodeError::Version(other)),
        }
        let message = read_message(&mut reader)?;
        reader.finish()?;
        let consistent = entries_follow(&message) && snapshot_belongs(&message);
        consistent.then_some(Self(message)).ok_or(DecodeError::Inconsistent)
    }
}

fn read_message(reader: &mut Reader<'_>) -> Result<Message, DecodeError> {
    let mut message = Message::default();
    message.set_msg_type(read_kind(reader)?);
    message.to = read_raft_id(reader)?;
    message.from = read_raft_id(reader)?;
    message.term = reader.u64()?;
    message.log_term = reader.u64()?;
    message.index = reader.u64()?;
    message.commit = reader.u64()?;
    message.commit_term = reader.u64()?;
    message.reject = reader.flag()?;
    message.reject_hint = reader.u64()?;
    message.set_context(reader.bytes()?.to_vec().into());
    message.set_entries(reader.list(ENTRY_BYTES_MIN, read_entry)?.into());
    if reader.flag()? {
        message.set_snapshot(read_snapshot(reader)?);
    }
    Ok(message)
}

/// Entries come after the message's index one by one, in terms that don't fall or pass the sender's.
fn entries_follow(message: &Message) -> bool {
    let (mut index, mut term) = (message.index, message.log_term);
    message.get_entries().iter().all(|entry| {
        let follows = index.checked_add(1) == Some(entry.index) && term <= entry.term;
        (index, term) = (entry.index, entry.term);
        follows && term <= message.term
    })
}

fn snapshot_belongs(message: &Message) -> bool {
    let carries = message.get_msg_type() == MessageType::MsgSnapshot;
    carries == message.has_snapshot() && message.get_snapshot().get_metadata().term <= message.term
}

/// The tags of the messages that travel. A vote is asked for and given twice: first only in thought (pre-vote).
const KINDS: [(u8, MessageType); 10] = [
    (1, MessageType::MsgAppend),
    (2, MessageType::MsgAppendResponse),
    (3, MessageType::MsgRequestVote),
    (4, MessageType::MsgRequestVoteResponse),
    (5, MessageType::MsgRequestPreVote),
    (6, MessageType::MsgRequestPreVoteResponse),
    (7, MessageType::MsgHeartbeat),
    (8, MessageType::MsgHeartbeatResponse),
    (9, MessageType::MsgSnapshot),
    (10, MessageType::MsgTimeoutNow),
];

fn kind_tag(kind: MessageType) -> u8 {
    let known = KINDS.iter().find(|(_, known)| *known == kind);
    known.map(|(tag, _)| *tag).expect("the driver lets only these messages out")
}

fn read_kind(reader: &mut Reader<'_>) -> Result<MessageType, DecodeError> {
    let tag = reader.u8()?;
    let known = KINDS.iter().find(|(known, _)| *known == tag);
    known.map(|(_, kind)| *kind).ok_or(DecodeError::Tag(tag))
}

/// The least an entry takes: term, index, kind and the length of no data.
pub(crate) const ENTRY_BYTES_MIN: usize = 4;

pub(crate) fn write_entry(writer: &mut Writer, entry: &Entry) {
    writer.number(entry.term);
    writer.number(entry.index);
    writer.u8(match entry.get_entry_type() {
        EntryType::EntryNormal => 0,
        EntryType::EntryConfChangeV2 => 1,
        EntryType::EntryConfChange => unreachable!("the driver proposes changes in the second form only"),
    });
    writer.bytes(entry.get_data());
}

/// Reads an entry, and whatever is in it: what is in the log can be applied.
pub(crate) fn read_entry(reader: &mut Reader<'_>) -> Result<Entry, DecodeError> {
    let mut entry = Entry { term: reader.u64()?, index: reader.u64()?, ..Entry::default() };
    let kind = reader.u8()?;
    let data = reader.bytes()?;
    match kind {
        0 if data.is_empty() => {}
        0 => drop(Command::decode(data)?),
        1 => {
            parse_change(data)?;
            entry.set_entry_type(EntryType::EntryConfChangeV2);
        }
        other => return Err(DecodeError::Tag(other)),
    }
    entry.set_data(data.to_vec().into());
    Ok(entry)
}

fn write_snapshot(writer: &mut Writer, snapshot: &Snapshot) {
    let metadata = snapshot.get_metadata();
    writer.number(metadata.index);
    writer.number(metadata.term);
    Membership::from_raft(metadata.get_conf_state()).write(writer);
    writer.bytes(snapshot.get_data());
}

fn read_snapshot(reader: &mut Reader<'_>) -> Result<Snapshot, DecodeError> {
    let (index, term) = (reader.u64()?, reader.u64()?);
    let mut metadata = SnapshotMetadata { index, term, ..SnapshotMetadata::default() };
    metadata.set_conf_state(Membership::read(reader)?.to_raft());
    let mut snapshot = Snapshot::default();
    snapshot.set_metadata(metadata);
    snapshot.set_data(reader.bytes()?.to_vec().into());
    Ok(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::membership::{MembershipChange, joint_change, raft_id};
    use engine_record::TopicId;
    use proptest::prelude::*;

    fn entry(index: u64, term: u64, command: bool) -> Entry {
        let mut entry = Entry { index, term, ..Entry::default() };
        if command {
            entry.set_data(Command::DeleteTopic { id: TopicId([3; 16]) }.encode().into());
        }
        entry
    }

    fn message() -> impl Strategy<Value = Message> {
        let numbers = prop::array::uniform6(0..1_000_u64);
        let entries = prop::collection::vec(any::<bool>(), 0..4);
        (0..9_usize, numbers, entries, any::<bool>()).prop_map(
            |(kind, [a, b, c, d, e, f], entries, reject)| {
                let kinds: Vec<_> =
                    KINDS.iter().filter(|(_, kind)| *kind != MessageType::MsgSnapshot).collect();
                let mut message = Message::default();
                message.set_msg_type(kinds[kind].1);
                (message.to, message.from) = (raft_id(NodeId(1)), raft_id(NodeId(2)));
                (message.term, message.log_term, message.index) = (a + b, a, c);
                (message.commit, message.commit_term, message.reject_hint) = (d, e, f);
                message.reject = reject;
                let entries = (c + 1..).zip(entries).map(|(index, command)| entry(index, a, command));
                message.set_entries(entries.collect::<Vec<_>>().into());
                message
            },
        )
    }

    proptest! {
        #[test]
        fn a_message_is_read_as_it_was_written_and_refused_where_cut(
            message in message(),
            cut in any::<prop::sample::Index>(),
        ) {
            let bytes = PeerMessage(message.clone()).encode();
            prop_assert_eq!(PeerMessage::decode(&bytes), Ok(PeerMessage(message)));
            prop_assert!(PeerMessage::decode(&bytes[..cut.index(bytes.len())]).is_err());
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80), kind in 1..11_u8) {
            drop(PeerMessage::decode(&[&[VERSION, kind], &bytes[..]].concat()));
        }
    }

    fn snapshot_message() -> Message {
        let mut snapshot = Snapshot::default();
        snapshot.set_data(vec![1, 2, 3].into());
        let metadata = snapshot.mut_metadata();
        (metadata.index, metadata.term) = (9, 2);
        metadata.set_conf_state(Membership::alone(NodeId(1)).to_raft());
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgSnapshot);
        (message.to, message.from, message.term) = (1, 2, 3);
        message.set_snapshot(snapshot);
        message
    }

    #[test]
    fn a_snapshot_travels_with_its_membership() {
        let message = PeerMessage(snapshot_message());
        assert!(message.is_snapshot());
        assert_eq!(PeerMessage::decode(&message.encode()), Ok(message));
    }

    fn refused(change: impl FnOnce(&mut Message)) -> DecodeError {
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgAppend);
        (message.to, message.from, message.term) = (1, 2, 7);
        (message.index, message.log_term) = (4, 5);
        message.set_entries(vec![entry(5, 6, true), entry(6, 6, false)].into());
        assert!(PeerMessage::decode(&PeerMessage(message.clone()).encode()).is_ok());
        change(&mut message);
        PeerMessage::decode(&PeerMessage(message).encode()).unwrap_err()
    }

    #[test]
    fn entries_that_cannot_be_appended_are_refused_at_the_door() {
        assert_eq!(refused(|m| m.mut_entries()[1].index = 7), DecodeError::Inconsistent, "a gap");
        assert_eq!(refused(|m| m.mut_entries()[1].term = 5), DecodeError::Inconsistent, "a term that falls");
        assert_eq!(refused(|m| m.term = 5), DecodeError::Inconsistent, "a term above the sender's");
        assert_eq!(refused(|m| m.mut_entries()[0].set_data(vec![9].into())), DecodeError::Version(9));
        assert_eq!(refused(|m| m.to = 0), DecodeError::Number, "nobody");
        assert_eq!(
            refused(|m| m.set_snapshot(snapshot_message().take_snapshot())),
            DecodeError::Inconsistent
        );
    }

    #[test]
    fn a_change_of_membership_is_carried_and_its_bytes_are_checked() {
        let mut change = entry(5, 6, false);
        change.set_entry_type(EntryType::EntryConfChangeV2);
        change.set_data(vec![0x08, 1, 0x12, 2, 0x10, 4].into());
        let mut writer = Writer::new();
        write_entry(&mut writer, &change);
        let bytes = writer.into_bytes();
        let read = read_entry(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(read, change);
        let expected = joint_change(&[MembershipChange::Voter(NodeId(3))]);
        assert_eq!(parse_change(read.get_data()), Ok(expected));
    }
}
