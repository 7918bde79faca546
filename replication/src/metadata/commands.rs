//! What may be asked of the metadata, and its bytes in the metadata log.
//!
//! ```text
//! version (1) | tag | fields of the command
//! ```
//!
//! A command says what is wanted, with everything random or timed in it already drawn (a topic's id, the node order of an
//! assignment): applying it is left no choice. The log entry around it carries its length and its checksum.

use engine_record::{NodeId, ShardId, TopicId};

use crate::codec::{DecodeError, Reader, Writer};
use crate::metadata::lanes::Lane;

/// The version of the bytes that [`Command::encode`] writes.
const VERSION: u8 = 1;

/// The largest encoding of a command that may be proposed, in bytes.
pub const COMMAND_BYTES_MAX: usize = 1 << 20;

/// The producer ids a node asks for at a time.
pub const PRODUCER_ID_BLOCK: u32 = 1_000;

/// One change to the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A node's process has started and says who and where it is.
    RegisterNode(RegisterNode),
    /// A topic comes to be, with its partitions placed.
    CreateTopic(CreateTopic),
    /// A topic ends. Its id never returns.
    DeleteTopic {
        /// The topic.
        id: TopicId,
    },
    /// Every partition led by a node gets a new leader epoch, under the same leader.
    BumpLeaderEpochs {
        /// The leader.
        node: NodeId,
        /// Why.
        reason: BumpReason,
    },
    /// A node takes a block of producer ids for itself.
    AllocateProducerIds {
        /// The node.
        node: NodeId,
        /// The process that asks; refused where a newer one has registered.
        incarnation: Incarnation,
        /// How many ids, usually [`PRODUCER_ID_BLOCK`]; 0 is refused.
        count: u32,
    },
    /// A topic's own settings change.
    AlterTopic(AlterTopic),
    /// A topic gets more partitions.
    CreatePartitions(CreatePartitions),
}

/// One run of a node's process: a random number drawn at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incarnation(pub u128);

/// The fields of [`Command::RegisterNode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterNode {
    /// The node.
    pub node: NodeId,
    /// The identity of its data directory, drawn when that was formatted.
    pub directory_id: u128,
    /// The process.
    pub incarnation: Incarnation,
    /// How many shards it runs: from 1 to [`SHARD_COUNT_MAX`](crate::metadata::image::SHARD_COUNT_MAX).
    pub shards: u16,
    /// Where clients and peers reach it: at most one address per listener and shard.
    pub endpoints: Vec<ListenerEndpoint>,
    /// Whether its logs were closed in order. An unclean start bumps the leader epoch of every partition it leads.
    pub clean_start: bool,
}

/// One address of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerEndpoint {
    /// The listener's name, as the configuration spells it.
    pub listener: String,
    /// The shard that is reached there.
    pub shard: ShardId,
    /// The advertised host name or address.
    pub host: String,
    /// The advertised port.
    pub port: u16,
}

/// The fields of [`Command::CreateTopic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTopic {
    /// The topic's name.
    pub name: String,
    /// A fresh random id.
    pub id: TopicId,
    /// Where each partition lies, from partition 0.
    pub partitions: Vec<PartitionAssignment>,
    /// Settings of the topic, by Kafka's names, already checked; a name at most once.
    pub configs: Vec<(String, String)>,
}

/// The fields of [`Command::AlterTopic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTopic {
    /// The topic.
    pub id: TopicId,
    /// What becomes of the topic's settings that aren't named.
    pub others: OtherConfigs,
    /// By Kafka's names, a name at most once: the new value, already checked, or `None` where the topic is to have none
    /// of its own.
    pub changes: Vec<(String, Option<String>)>,
}

/// The fields of [`Command::CreatePartitions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatePartitions {
    /// The topic.
    pub id: TopicId,
    /// How many partitions it has before; refused where it has another number by now.
    pub first: u32,
    /// Where each of the new ones lies, from partition `first`.
    pub partitions: Vec<PartitionAssignment>,
}

/// What becomes of a topic's own settings that a change doesn't name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherConfigs {
    /// They stay.
    Stay,
    /// They go: the change names all that the topic is to have.
    Go,
}

/// Where one partition lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionAssignment {
    /// The nodes that hold it, the preferred leader first.
    pub replicas: Vec<NodeId>,
    /// Which of a node's shards owns it: the lane modulo the node's shards.
    pub lane: Lane,
}

/// Why leader epochs are bumped without a change of leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BumpReason {
    /// The leader found, after an unclean stop, that its logs may have lost what no flush had covered.
    UncleanStart,
}

impl Command {
    /// The command's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(VERSION);
        match self {
            Self::RegisterNode(registration) => registration.write(&mut writer),
            Self::CreateTopic(topic) => topic.write(&mut writer),
            Self::DeleteTopic { id } => {
                writer.u8(3);
                writer.topic_id(*id);
            }
            Self::BumpLeaderEpochs { node, reason: BumpReason::UncleanStart } => {
                writer.u8(4);
                writer.node(*node);
                writer.u8(1);
            }
            Self::AllocateProducerIds { node, incarnation, count } => {
                writer.u8(5);
                writer.node(*node);
                writer.u128(incarnation.0);
                writer.number(*count);
            }
            Self::AlterTopic(alteration) => alteration.write(&mut writer),
            Self::CreatePartitions(growth) => growth.write(&mut writer),
        }
        writer.into_bytes()
    }

    /// Reads what [`Command::encode`] wrote.
    ///
    /// # Errors
    ///
    /// The bytes are no command of a version that this program knows.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            VERSION => {}
            other => return Err(DecodeError::Version(other)),
        }
        let command = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(command)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => RegisterNode::read(reader).map(Self::RegisterNode),
            2 => CreateTopic::read(reader).map(Self::CreateTopic),
            3 => Ok(Self::DeleteTopic { id: reader.topic_id()? }),
            4 => Ok(Self::BumpLeaderEpochs { node: reader.node()?, reason: BumpReason::read(reader)? }),
            5 => Ok(Self::AllocateProducerIds {
                node: reader.node()?,
                incarnation: Incarnation(reader.u128()?),
                count: reader.number()?,
            }),
            6 => AlterTopic::read(reader).map(Self::AlterTopic),
            7 => CreatePartitions::read(reader).map(Self::CreatePartitions),
            other => Err(DecodeError::Tag(other)),
        }
    }
}

impl BumpReason {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::UncleanStart),
            other => Err(DecodeError::Tag(other)),
        }
    }
}

impl RegisterNode {
    fn write(&self, writer: &mut Writer) {
        writer.u8(1);
        writer.node(self.node);
        writer.u128(self.directory_id);
        writer.u128(self.incarnation.0);
        writer.number(self.shards);
        writer.list(&self.endpoints, |writer, endpoint| endpoint.write(writer));
        writer.flag(self.clean_start);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            node: reader.node()?,
            directory_id: reader.u128()?,
            incarnation: Incarnation(reader.u128()?),
            shards: reader.number()?,
            endpoints: reader.list(ListenerEndpoint::BYTES_MIN, ListenerEndpoint::read)?,
            clean_start: reader.flag()?,
        })
    }
}

impl ListenerEndpoint {
    /// The least an endpoint takes: two empty texts, a shard and a port.
    pub(crate) const BYTES_MIN: usize = 4;

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.text(&self.listener);
        writer.number(self.shard.0);
        writer.text(&self.host);
        writer.number(self.port);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            listener: reader.text()?,
            shard: ShardId(reader.number()?),
            host: reader.text()?,
            port: reader.number()?,
        })
    }
}

impl CreateTopic {
    fn write(&self, writer: &mut Writer) {
        writer.u8(2);
        writer.text(&self.name);
        writer.topic_id(self.id);
        writer.list(&self.partitions, |writer, partition| partition.write(writer));
        writer.list(&self.configs, |writer, (name, value)| {
            writer.text(name);
            writer.text(value);
        });
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: reader.text()?,
            id: reader.topic_id()?,
            partitions: reader.list(PartitionAssignment::BYTES_MIN, PartitionAssignment::read)?,
            configs: reader.list(2, |reader| Ok((reader.text()?, reader.text()?)))?,
        })
    }
}

impl AlterTopic {
    fn write(&self, writer: &mut Writer) {
        writer.u8(6);
        writer.topic_id(self.id);
        writer.flag(self.others == OtherConfigs::Go);
        writer.list(&self.changes, |writer, (name, value)| {
            writer.text(name);
            writer.flag(value.is_some());
            if let Some(value) = value {
                writer.text(value);
            }
        });
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let id = reader.topic_id()?;
        let others = if reader.flag()? { OtherConfigs::Go } else { OtherConfigs::Stay };
        let changes = reader.list(2, |reader| {
            let name = reader.text()?;
            let value = if reader.flag()? { Some(reader.text()?) } else { None };
            Ok((name, value))
        })?;
        Ok(Self { id, others, changes })
    }
}

impl CreatePartitions {
    fn write(&self, writer: &mut Writer) {
        writer.u8(7);
        writer.topic_id(self.id);
        writer.number(self.first);
        writer.list(&self.partitions, |writer, partition| partition.write(writer));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            id: reader.topic_id()?,
            first: reader.number()?,
            partitions: reader.list(PartitionAssignment::BYTES_MIN, PartitionAssignment::read)?,
        })
    }
}

impl PartitionAssignment {
    /// The least an assignment takes: no replicas, and a lane.
    const BYTES_MIN: usize = 2;

    fn write(&self, writer: &mut Writer) {
        writer.list(&self.replicas, |writer, node| writer.node(*node));
        writer.number(self.lane.value());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { replicas: reader.list(1, Reader::node)?, lane: Lane::read(reader)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn endpoint() -> impl Strategy<Value = ListenerEndpoint> {
        (".{0,8}", 0..64_u16, ".{0,8}", any::<u16>()).prop_map(|(listener, shard, host, port)| {
            ListenerEndpoint { listener, shard: ShardId(shard), host, port }
        })
    }

    fn node() -> impl Strategy<Value = NodeId> {
        (0..=i32::MAX).prop_map(NodeId)
    }

    fn assignment() -> impl Strategy<Value = PartitionAssignment> {
        (prop::collection::vec(node(), 0..4), 0..1024_u16)
            .prop_map(|(replicas, lane)| PartitionAssignment { replicas, lane: Lane::new(lane).unwrap() })
    }

    fn registration() -> impl Strategy<Value = Command> {
        (node(), any::<(u128, u128, u16, bool)>(), prop::collection::vec(endpoint(), 0..5)).prop_map(
            |(node, (directory_id, incarnation, shards, clean_start), endpoints)| {
                Command::RegisterNode(RegisterNode {
                    node,
                    directory_id,
                    incarnation: Incarnation(incarnation),
                    shards,
                    endpoints,
                    clean_start,
                })
            },
        )
    }

    fn creation() -> impl Strategy<Value = Command> {
        let configs = prop::collection::vec((".{0,9}", ".{0,9}"), 0..3);
        (".{0,12}", any::<[u8; 16]>(), prop::collection::vec(assignment(), 0..5), configs).prop_map(
            |(name, id, partitions, configs)| {
                Command::CreateTopic(CreateTopic { name, id: TopicId(id), partitions, configs })
            },
        )
    }

    fn alteration() -> impl Strategy<Value = Command> {
        let changes = prop::collection::vec((".{0,9}", prop::option::of(".{0,9}")), 0..4);
        (any::<[u8; 16]>(), any::<bool>(), changes).prop_map(|(id, others_go, changes)| {
            let others = if others_go { OtherConfigs::Go } else { OtherConfigs::Stay };
            Command::AlterTopic(AlterTopic { id: TopicId(id), others, changes })
        })
    }

    fn growth() -> impl Strategy<Value = Command> {
        (any::<[u8; 16]>(), any::<u32>(), prop::collection::vec(assignment(), 0..5)).prop_map(
            |(id, first, partitions)| {
                Command::CreatePartitions(CreatePartitions { id: TopicId(id), first, partitions })
            },
        )
    }

    fn command() -> impl Strategy<Value = Command> {
        let allocation = (node(), any::<u128>(), any::<u32>()).prop_map(|(node, incarnation, count)| {
            Command::AllocateProducerIds { node, incarnation: Incarnation(incarnation), count }
        });
        prop_oneof![
            registration(),
            creation(),
            any::<[u8; 16]>().prop_map(|id| Command::DeleteTopic { id: TopicId(id) }),
            node().prop_map(|node| Command::BumpLeaderEpochs { node, reason: BumpReason::UncleanStart }),
            allocation,
            alteration(),
            growth(),
        ]
    }

    proptest! {
        #[test]
        fn a_command_is_read_as_it_was_written(command in command()) {
            prop_assert_eq!(Command::decode(&command.encode()), Ok(command));
        }

        #[test]
        fn a_command_cut_short_is_refused(command in command(), cut in any::<prop::sample::Index>()) {
            let bytes = command.encode();
            prop_assert!(Command::decode(&bytes[..cut.index(bytes.len())]).is_err());
        }

        #[test]
        fn any_bytes_are_a_command_in_its_one_form_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64), tag in 1..8_u8) {
            let bytes = [&[VERSION, tag], &bytes[..]].concat();
            if let Ok(command) = Command::decode(&bytes) {
                prop_assert_eq!(command.encode(), bytes);
            }
        }
    }

    #[test]
    fn the_bytes_of_a_command_are_a_contract() {
        let command = Command::AllocateProducerIds {
            node: NodeId(300),
            incarnation: Incarnation(0x0102),
            count: PRODUCER_ID_BLOCK,
        };
        let mut expected = vec![1, 5, 0xac, 0x02, 0x02, 0x01];
        expected.extend([0; 14]);
        expected.extend([0xe8, 0x07]);
        assert_eq!(command.encode(), expected);
        let command = Command::AlterTopic(AlterTopic {
            id: TopicId([7; 16]),
            others: OtherConfigs::Go,
            changes: vec![("ab".to_owned(), Some("-1".to_owned())), ("c".to_owned(), None)],
        });
        let mut expected = vec![1, 6];
        expected.extend([7; 16]);
        expected.extend([1, 2, 2, b'a', b'b', 1, 2, b'-', b'1', 1, b'c', 0]);
        assert_eq!(command.encode(), expected);
        let placed = |nodes: &[i32], lane| PartitionAssignment {
            replicas: nodes.iter().copied().map(NodeId).collect(),
            lane: Lane::new(lane).unwrap(),
        };
        let command = Command::CreatePartitions(CreatePartitions {
            id: TopicId([7; 16]),
            first: 200,
            partitions: vec![placed(&[1, 2], 5), placed(&[2], 300)],
        });
        let mut expected = vec![1, 7];
        expected.extend([7; 16]);
        expected.extend([0xc8, 0x01, 2, 2, 1, 2, 5, 1, 2, 0xac, 0x02]);
        assert_eq!(command.encode(), expected);
    }

    /// One command of each kind as it was written when there was no other kind after it. These bytes are in the
    /// metadata logs of clusters: none of them is ever edited.
    #[test]
    fn commands_of_older_logs_are_read_as_they_were_meant() {
        let id = [0x22; 16];
        let after = |head: &[u8], tail: &[u8]| [head, &id, tail].concat();
        let node = [&[1, 1, 7][..], &[3; 16], &[4; 16], &[2, 1, 1, b'C', 1, 1, b'h', 0x84, 0x47, 0]].concat();
        let logged = [
            node,
            after(&[1, 2, 1, b't'], &[1, 1, 7, 9, 1, 1, b'k', 1, b'v']),
            after(&[1, 3], &[]),
            vec![1, 4, 7, 1],
            [&[1, 5, 7][..], &[4; 16], &[10]].concat(),
            after(&[1, 6], &[0, 1, 1, b'k', 0]),
            after(&[1, 7], &[1, 1, 1, 7, 10]),
        ];
        let (node, incarnation) = (NodeId(7), Incarnation(u128::from_le_bytes([4; 16])));
        let topic = TopicId(id);
        let endpoint = ListenerEndpoint {
            listener: "C".to_owned(),
            shard: ShardId(1),
            host: "h".to_owned(),
            port: 9_092,
        };
        let placed =
            |lane| vec![PartitionAssignment { replicas: vec![node], lane: Lane::new(lane).unwrap() }];
        let meant = [
            Command::RegisterNode(RegisterNode {
                node,
                directory_id: u128::from_le_bytes([3; 16]),
                incarnation,
                shards: 2,
                endpoints: vec![endpoint],
                clean_start: false,
            }),
            Command::CreateTopic(CreateTopic {
                name: "t".to_owned(),
                id: topic,
                partitions: placed(9),
                configs: vec![("k".to_owned(), "v".to_owned())],
            }),
            Command::DeleteTopic { id: topic },
            Command::BumpLeaderEpochs { node, reason: BumpReason::UncleanStart },
            Command::AllocateProducerIds { node, incarnation, count: 10 },
            Command::AlterTopic(AlterTopic {
                id: topic,
                others: OtherConfigs::Stay,
                changes: vec![("k".to_owned(), None)],
            }),
            Command::CreatePartitions(CreatePartitions { id: topic, first: 1, partitions: placed(10) }),
        ];
        for (bytes, command) in logged.iter().zip(meant) {
            assert_eq!(Command::decode(bytes), Ok(command));
        }
    }

    #[test]
    fn a_newer_version_and_an_unknown_tag_are_named() {
        assert_eq!(Command::decode(&[2, 1]), Err(DecodeError::Version(2)));
        assert_eq!(Command::decode(&[1, 99]), Err(DecodeError::Tag(99)));
        assert_eq!(Command::decode(&[]), Err(DecodeError::Truncated));
    }
}
