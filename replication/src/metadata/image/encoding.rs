//! The bytes of a whole image: the body of a snapshot. The snapshot's file has the checksum.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine_record::NodeId;

use super::{ClusterId, Image, NODE_ID_MAX, Node, Partition, SHARD_COUNT_MAX, Topic};
use crate::codec::{DecodeError, Reader, Writer};
use crate::metadata::commands::{Incarnation, ListenerEndpoint};
use crate::metadata::lanes::Lane;

const VERSION: u8 = 1;

/// The least a node, a topic and a partition take; they only bound what is allocated ahead.
const NODE_BYTES_MIN: usize = 37;
const TOPIC_BYTES_MIN: usize = 20;
const PARTITION_BYTES_MIN: usize = 6;

impl Image {
    /// The image's bytes. Equal images have equal bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(VERSION);
        writer.fixed(&self.cluster.0);
        writer.number(self.applied);
        writer.natural(self.next_producer_id);
        writer.count(self.nodes.len());
        self.nodes.values().for_each(|node| node.write(&mut writer));
        writer.count(self.topics.len());
        self.topics.values().for_each(|topic| topic.write(&mut writer));
        writer.into_bytes()
    }

    /// Reads what [`Image::encode`] wrote.
    ///
    /// # Errors
    ///
    /// The bytes are no image of a version that this program knows, or one that breaks a rule of [`Image::check`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            VERSION => {}
            other => return Err(DecodeError::Version(other)),
        }
        let mut image = Self::new(ClusterId(reader.array()?));
        image.applied = reader.u64()?;
        image.next_producer_id = reader.number()?;
        for node in reader.list(NODE_BYTES_MIN, Node::read)? {
            image.insert_node(node)?;
        }
        for topic in reader.list(TOPIC_BYTES_MIN, Topic::read)? {
            image.insert_topic(topic)?;
        }
        reader.finish()?;
        image.check();
        Ok(image)
    }

    fn insert_node(&mut self, node: Node) -> Result<(), DecodeError> {
        if node.epoch > self.applied {
            return Err(DecodeError::Inconsistent);
        }
        in_order(self.nodes.last_key_value().is_none_or(|(last, _)| *last < node.id))?;
        self.nodes.insert(node.id, Arc::new(node));
        Ok(())
    }

    fn insert_topic(&mut self, topic: Topic) -> Result<(), DecodeError> {
        in_order(self.topics.last_key_value().is_none_or(|(last, _)| *last < topic.id))?;
        if self.names.insert(topic.name.clone(), topic.id).is_some() {
            return Err(DecodeError::Inconsistent);
        }
        self.topics.insert(topic.id, Arc::new(topic));
        Ok(())
    }
}

fn in_order(rising: bool) -> Result<(), DecodeError> {
    if rising { Ok(()) } else { Err(DecodeError::KeyOrder) }
}

fn consistent(holds: bool) -> Result<(), DecodeError> {
    if holds { Ok(()) } else { Err(DecodeError::Inconsistent) }
}

impl Node {
    fn write(&self, writer: &mut Writer) {
        writer.node(self.id);
        writer.u128(self.directory_id);
        writer.u128(self.incarnation.0);
        writer.flag(self.replaced.is_some());
        if let Some(replaced) = self.replaced {
            writer.u128(replaced.0);
        }
        writer.number(self.epoch);
        writer.number(self.shards);
        writer.list(&self.endpoints, |writer, endpoint| endpoint.write(writer));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let node = Self {
            id: reader.node()?,
            directory_id: reader.u128()?,
            incarnation: Incarnation(reader.u128()?),
            replaced: if reader.flag()? { Some(Incarnation(reader.u128()?)) } else { None },
            epoch: reader.u64()?,
            shards: reader.number()?,
            endpoints: reader.list(ListenerEndpoint::BYTES_MIN, ListenerEndpoint::read)?,
        };
        consistent(node.id <= NODE_ID_MAX && (1..=SHARD_COUNT_MAX).contains(&node.shards))?;
        consistent(node.replaced != Some(node.incarnation))?;
        consistent(node.endpoints.iter().all(|endpoint| endpoint.shard.0 < node.shards))?;
        in_order(node.endpoints.is_sorted_by(|a, b| a.place() < b.place()))?;
        Ok(node)
    }
}

impl Topic {
    fn write(&self, writer: &mut Writer) {
        writer.topic_id(self.id);
        writer.text(&self.name);
        writer.list(&self.partitions, |writer, partition| partition.write(writer));
        writer.count(self.configs.len());
        for (name, value) in &self.configs {
            writer.text(name);
            writer.text(value);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let topic = Self {
            id: reader.topic_id()?,
            name: reader.text()?,
            partitions: reader.list(PARTITION_BYTES_MIN, Partition::read)?,
            configs: read_configs(reader)?,
        };
        consistent(!topic.id.is_zero() && !topic.partitions.is_empty())?;
        Ok(topic)
    }
}

fn read_configs(reader: &mut Reader<'_>) -> Result<BTreeMap<String, String>, DecodeError> {
    let pairs = reader.list(2, |reader| Ok((reader.text()?, reader.text()?)))?;
    in_order(pairs.is_sorted_by(|(a, _), (b, _)| a < b))?;
    Ok(pairs.into_iter().collect())
}

impl Partition {
    fn write(&self, writer: &mut Writer) {
        writer.list(&self.replicas, |writer, node| writer.node(*node));
        writer.list(&self.isr, |writer, node| writer.node(*node));
        writer.flag(self.leader.is_some());
        if let Some(leader) = self.leader {
            writer.node(leader);
        }
        writer.natural(self.leader_epoch.0);
        writer.natural(self.partition_epoch);
        writer.number(self.lane.value());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let partition = Self {
            replicas: reader.list(1, Reader::node)?,
            isr: reader.list(1, Reader::node)?,
            leader: if reader.flag()? { Some(reader.node()?) } else { None },
            leader_epoch: reader.leader_epoch()?,
            partition_epoch: reader.number()?,
            lane: Lane::read(reader)?,
        };
        consistent(!partition.replicas.is_empty())?;
        consistent(all_distinct(&partition.replicas) && all_distinct(&partition.isr))?;
        consistent(partition.isr.iter().all(|node| partition.replicas.contains(node)))?;
        consistent(partition.leader.is_none_or(|leader| partition.isr.contains(&leader)))?;
        consistent(partition.partition_epoch >= partition.leader_epoch.0)?;
        Ok(partition)
    }
}

fn all_distinct(nodes: &[NodeId]) -> bool {
    nodes.iter().enumerate().all(|(at, node)| !nodes.iter().take(at).any(|earlier| earlier == node))
}
