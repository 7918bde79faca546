//! The first files of a node: what formatting a data directory writes.
//!
//! Only a node formatted to be alone begins a quorum; every other one waits to be added to one. So two nodes that were
//! started by mistake never make two clusters of one name.

use engine_record::NodeId;
use raft::eraftpb::HardState;

use crate::metadata::image::{ClusterId, Image};
use crate::metadata::membership::Membership;
use crate::metadata::snapshot::{LogPosition, Snapshot};
use crate::metadata::wal::{Checkpoint, FrameWriter, Record, WalFrame};

/// A snapshot, and the first frame of the WAL that builds on it. Both are made durable, the snapshot first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The first frame.
    pub frame: WalFrame,
}

/// Begins a quorum of one: `node` votes alone in a new cluster.
#[must_use]
pub fn alone(cluster: ClusterId, node: NodeId) -> Genesis {
    genesis(cluster, LogPosition { index: 1, term: 1 }, Membership::alone(node))
}

/// Begins a node that will be added to the quorum of `cluster`: it knows nothing yet and votes for nobody.
#[must_use]
pub fn joining(cluster: ClusterId) -> Genesis {
    genesis(cluster, LogPosition::default(), Membership::default())
}

fn genesis(cluster: ClusterId, position: LogPosition, membership: Membership) -> Genesis {
    let snapshot = Snapshot::new(position, membership, Image::new(cluster));
    let checkpoint = Checkpoint { snapshot: position, base: position };
    let state = HardState { term: position.term, commit: position.index, ..HardState::default() };
    let records = [Record::Checkpoint(checkpoint), Record::HardState(state)];
    let frame = FrameWriter::after(0, 0).frame(0, &records);
    assert!(frame.starts_file, "the first frame begins a file");
    Genesis { snapshot, frame }
}
