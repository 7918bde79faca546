//! Who votes in the metadata quorum and who only follows, and how that changes.
//!
//! Changes are always joint: the old and the new majority must both agree until the change is through, and the quorum
//! leaves the joint state by itself. In the log a change is an entry in the form the `raft` crate reads; the bytes of
//! strangers are parsed here, strictly, before that crate sees them.

use engine_record::NodeId;
use raft::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState};

use crate::codec::{DecodeError, Reader, Writer};

/// The nodes of the quorum. Empty on a node that hasn't joined one yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// The nodes whose majority commits.
    pub voters: Vec<NodeId>,
    /// The nodes that follow without a vote.
    pub learners: Vec<NodeId>,
    /// While a change is under way: the voters before it, whose majority is needed too.
    pub outgoing: Vec<NodeId>,
    /// While a change is under way: outgoing voters that will be learners.
    pub learners_next: Vec<NodeId>,
    /// Whether the quorum leaves the joint state by itself.
    pub auto_leave: bool,
}

/// One step of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    /// The node follows without a vote; a voter loses its vote.
    Learner(NodeId),
    /// The node votes.
    Voter(NodeId),
    /// The node leaves.
    Remove(NodeId),
}

impl Membership {
    /// A quorum of one.
    #[must_use]
    pub fn alone(node: NodeId) -> Self {
        Self { voters: vec![node], ..Self::default() }
    }

    /// Whether `node` can win every election by itself.
    #[must_use]
    pub fn is_sole_voter(&self, node: NodeId) -> bool {
        self.voters == [node] && self.outgoing.is_empty()
    }

    /// Whether `node` has a vote, be it in the outgoing half only.
    #[must_use]
    pub fn votes(&self, node: NodeId) -> bool {
        self.voters.contains(&node) || self.outgoing.contains(&node)
    }

    /// Whether `node` is in it, in whatever part.
    #[must_use]
    pub fn names(&self, node: NodeId) -> bool {
        [&self.voters, &self.learners, &self.outgoing].iter().any(|nodes| nodes.contains(&node))
    }

    /// Whether a change is under way.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    pub(crate) fn from_raft(state: &ConfState) -> Self {
        let nodes = |ids: &[u64]| {
            let mut nodes: Vec<_> = ids.iter().map(|id| node_of(*id)).collect();
            nodes.sort_unstable();
            nodes
        };
        Self {
            voters: nodes(&state.voters),
            learners: nodes(&state.learners),
            outgoing: nodes(&state.voters_outgoing),
            learners_next: nodes(&state.learners_next),
            auto_leave: state.auto_leave,
        }
    }

    pub(crate) fn to_raft(&self) -> ConfState {
        let ids = |nodes: &[NodeId]| nodes.iter().map(|node| raft_id(*node)).collect();
        let mut state = ConfState::default();
        state.set_voters(ids(&self.voters));
        state.set_learners(ids(&self.learners));
        state.set_voters_outgoing(ids(&self.outgoing));
        state.set_learners_next(ids(&self.learners_next));
        state.set_auto_leave(self.auto_leave);
        state
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        for nodes in [&self.voters, &self.learners, &self.outgoing, &self.learners_next] {
            writer.list(nodes, |writer, node| writer.node(*node));
        }
        writer.flag(self.auto_leave);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let membership = Self {
            voters: read_nodes(reader)?,
            learners: read_nodes(reader)?,
            outgoing: read_nodes(reader)?,
            learners_next: read_nodes(reader)?,
            auto_leave: reader.flag()?,
        };
        membership.is_legal().then_some(membership).ok_or(DecodeError::Inconsistent)
    }

    /// Learners have no vote, now or in the outgoing half; who will be a learner votes in that half now.
    fn is_legal(&self) -> bool {
        let joint = self.is_joint() || (self.learners_next.is_empty() && !self.auto_leave);
        let leaving = |node: &NodeId| self.outgoing.contains(node) && !self.voters.contains(node);
        let voted = self.learners_next.iter().all(leaving);
        let populated = !self.voters.is_empty() || (self.learners.is_empty() && !self.is_joint());
        joint && voted && populated && !self.learners.iter().any(|node| self.votes(*node))
    }
}

fn read_nodes(reader: &mut Reader<'_>) -> Result<Vec<NodeId>, DecodeError> {
    let nodes = reader.list(1, Reader::node)?;
    if nodes.is_sorted_by(|a, b| a < b) { Ok(nodes) } else { Err(DecodeError::KeyOrder) }
}

/// The `raft` crate's id of a node: one more, since it keeps 0 for "nobody".
pub(crate) fn raft_id(node: NodeId) -> u64 {
    u64::try_from(node.0).expect("a node id is never negative") + 1
}

/// The node with this id of the `raft` crate.
pub(crate) fn node_of(id: u64) -> NodeId {
    assert!(id != 0, "nobody is no node");
    let node = id.checked_sub(1).and_then(|node| i32::try_from(node).ok());
    NodeId(node.expect("ids are made of node ids"))
}

/// The change as an entry of the log proposes it.
pub(crate) fn joint_change(changes: &[MembershipChange]) -> ConfChangeV2 {
    let single = |change: &MembershipChange| {
        let (kind, node) = match *change {
            MembershipChange::Learner(node) => (ConfChangeType::AddLearnerNode, node),
            MembershipChange::Voter(node) => (ConfChangeType::AddNode, node),
            MembershipChange::Remove(node) => (ConfChangeType::RemoveNode, node),
        };
        let mut single = ConfChangeSingle::default();
        single.set_change_type(kind);
        single.set_node_id(raft_id(node));
        single
    };
    let mut change = ConfChangeV2::default();
    change.set_transition(ConfChangeTransition::Implicit);
    change.set_changes(changes.iter().map(single).collect::<Vec<_>>().into());
    change
}

/// Reads the entry of a change: protocol buffer fields 1 (transition) and 2 (changes, each of 1 kind and 2 node).
///
/// # Errors
///
/// The bytes have any other field, or break the rules of these.
pub(crate) fn parse_change(bytes: &[u8]) -> Result<ConfChangeV2, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut change = ConfChangeV2::default();
    while !reader.is_empty() {
        match reader.u8()? {
            0x08 => change.set_transition(transition(reader.u64()?)?),
            0x12 => change.mut_changes().push(parse_single(reader.bytes()?)?),
            other => return Err(DecodeError::Tag(other)),
        }
    }
    Ok(change)
}

fn transition(value: u64) -> Result<ConfChangeTransition, DecodeError> {
    match value {
        0 => Ok(ConfChangeTransition::Auto),
        1 => Ok(ConfChangeTransition::Implicit),
        2 => Ok(ConfChangeTransition::Explicit),
        _ => Err(DecodeError::Number),
    }
}

fn parse_single(bytes: &[u8]) -> Result<ConfChangeSingle, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut single = ConfChangeSingle::default();
    while !reader.is_empty() {
        match reader.u8()? {
            0x08 => single.set_change_type(change_type(reader.u64()?)?),
            0x10 => single.set_node_id(read_raft_id(&mut reader)?),
            other => return Err(DecodeError::Tag(other)),
        }
    }
    if single.get_node_id() == 0 { Err(DecodeError::Inconsistent) } else { Ok(single) }
}

fn change_type(value: u64) -> Result<ConfChangeType, DecodeError> {
    match value {
        0 => Ok(ConfChangeType::AddNode),
        1 => Ok(ConfChangeType::RemoveNode),
        2 => Ok(ConfChangeType::AddLearnerNode),
        _ => Err(DecodeError::Number),
    }
}

/// An id of the `raft` crate that is some node's.
pub(crate) fn read_raft_id(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let id = reader.u64()?;
    let node = id.checked_sub(1).and_then(|node| i32::try_from(node).ok());
    node.map(|_| id).ok_or(DecodeError::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_change_is_read_from_the_bytes_the_raft_crate_would_write() {
        // transition 1; a change of the default kind (voter) to id 4; a learner with id 300.
        let bytes = [0x08, 1, 0x12, 2, 0x10, 4, 0x12, 5, 0x08, 2, 0x10, 0xac, 0x02];
        let expected =
            joint_change(&[MembershipChange::Voter(NodeId(3)), MembershipChange::Learner(NodeId(299))]);
        assert_eq!(parse_change(&bytes), Ok(expected));
        assert_eq!(parse_change(&[]), Ok(ConfChangeV2::default()), "the entry that leaves the joint state");
    }

    #[test]
    fn a_change_with_anything_else_in_it_is_refused() {
        assert_eq!(parse_change(&[0x1a, 0]), Err(DecodeError::Tag(0x1a)));
        assert_eq!(parse_change(&[0x08, 3]), Err(DecodeError::Number));
        assert_eq!(parse_change(&[0x12, 9]), Err(DecodeError::Count { count: 9, remaining: 0 }));
        assert_eq!(parse_change(&[0x12, 0]), Err(DecodeError::Inconsistent), "nobody's id");
        assert_eq!(parse_change(&[0x12, 2, 0x08, 7]), Err(DecodeError::Number));
    }

    fn nodes() -> impl Strategy<Value = Vec<NodeId>> {
        prop::collection::btree_set(0..6_i32, 0..4).prop_map(|nodes| nodes.into_iter().map(NodeId).collect())
    }

    proptest! {
        #[test]
        fn a_membership_is_read_as_written_where_it_is_legal(
            voters in nodes(), learners in nodes(), outgoing in nodes(), next in nodes(), auto_leave: bool
        ) {
            let membership = Membership { voters, learners, outgoing, learners_next: next, auto_leave };
            let mut writer = Writer::new();
            membership.write(&mut writer);
            let bytes = writer.into_bytes();
            let read = Membership::read(&mut Reader::new(&bytes));
            if membership.is_legal() {
                prop_assert_eq!(Membership::from_raft(&membership.to_raft()), membership.clone());
                prop_assert_eq!(read, Ok(membership));
            } else {
                prop_assert_eq!(read, Err(DecodeError::Inconsistent));
            }
        }
    }
}
