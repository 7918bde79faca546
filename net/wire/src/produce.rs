//! [`ProduceView`]: a Produce request read in place.
//!
//! The request is walked once when it is decoded, which checks everything that [`ProduceRequest`] would check; after
//! that, going through topics and partitions walks the same bytes again and can't fail. Nothing is allocated, and records
//! stay slices of the frame.
//!
//! [`ProduceRequest`]: crate::messages::ProduceRequest

use crate::api::ApiKey;
use crate::error::DecodeError;
use crate::messages::produce::{PartitionProduceData, TopicProduceData};
use crate::reader::Reader;
use crate::topic_ref::TopicRef;
use crate::wire::{Version, Wire, array_count};

/// The first version that names topics by id.
pub(crate) const TOPIC_ID_FROM: i16 = 13;

/// A Produce request, valid as a whole.
#[derive(Debug, Clone)]
pub struct ProduceView<'a> {
    /// The transactional id, or `None` outside transactions.
    pub transactional_id: Option<&'a str>,
    /// When to answer: 0 never, 1 when the leader has it, -1 when the in-sync replicas have it. Other values are read
    /// too; refusing them is the handler's.
    pub acks: i16,
    /// How long to wait for `acks`, in milliseconds.
    pub timeout_ms: i32,
    /// Partitions of all topics together.
    pub partition_count: usize,
    topics: ProduceTopics<'a>,
}

impl<'a> ProduceView<'a> {
    /// Reads a request's body, which must be all that is left in `reader`.
    ///
    /// # Errors
    /// [`DecodeError::UnsupportedVersion`] before a byte is read; anything else for bytes that aren't such a request.
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let unsupported = DecodeError::UnsupportedVersion { api: ApiKey::Produce, version };
        let version = Version::served(ApiKey::Produce, version).ok_or(unsupported)?;
        let transactional_id =
            Wire::read(reader, version).map_err(|error| error.within("transactional_id"))?;
        let acks = reader.i16().map_err(|error| error.within("acks"))?;
        let timeout_ms = reader.i32().map_err(|error| error.within("timeout_ms"))?;
        let left = count(reader, version, TopicProduceData::bytes_min(version), "topic_data")?;
        let topics = ProduceTopics { reader: reader.clone(), version, left, unpassed: None };
        let partition_count = check_topics(reader, version, left)?;
        end_structure(reader, version)?;
        reader.finish()?;
        Ok(Self { transactional_id, acks, timeout_ms, partition_count, topics })
    }

    /// The topics, in the request's order.
    #[must_use]
    pub fn topics(&self) -> ProduceTopics<'a> {
        self.topics.clone()
    }
}

/// A topic of a Produce request.
#[derive(Debug, Clone)]
pub struct ProduceTopic<'a> {
    /// Which topic.
    pub topic: TopicRef<'a>,
    partitions: ProducePartitions<'a>,
}

impl<'a> ProduceTopic<'a> {
    /// The topic's partitions, in the request's order.
    #[must_use]
    pub fn partitions(&self) -> ProducePartitions<'a> {
        self.partitions.clone()
    }
}

/// A partition of a Produce request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducePartition<'a> {
    /// Partition index.
    pub index: i32,
    /// The record batch as it came, unchecked.
    pub records: Option<&'a [u8]>,
}

/// Goes through the topics of a Produce request.
#[derive(Debug, Clone)]
pub struct ProduceTopics<'a> {
    reader: Reader<'a>,
    version: Version,
    left: usize,
    /// Partitions of the topic given out last. They are passed over only if another topic is asked for, so those of a
    /// lone topic are walked once.
    unpassed: Option<usize>,
}

impl<'a> ProduceTopics<'a> {
    fn read(&mut self) -> Result<ProduceTopic<'a>, DecodeError> {
        if let Some(partitions) = self.unpassed {
            check_partitions(&mut self.reader, self.version, partitions)?;
        }
        let (topic, left) = read_topic_head(&mut self.reader, self.version)?;
        self.unpassed = Some(left);
        let partitions = ProducePartitions { reader: self.reader.clone(), version: self.version, left };
        Ok(ProduceTopic { topic, partitions })
    }
}

impl<'a> Iterator for ProduceTopics<'a> {
    type Item = ProduceTopic<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(self.read().expect("these bytes were walked when the request was decoded"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for ProduceTopics<'_> {}

/// Goes through the partitions of a topic.
#[derive(Debug, Clone)]
pub struct ProducePartitions<'a> {
    reader: Reader<'a>,
    version: Version,
    left: usize,
}

impl<'a> Iterator for ProducePartitions<'a> {
    type Item = ProducePartition<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let partition = read_partition(&mut self.reader, self.version);
        Some(partition.expect("these bytes were walked when the request was decoded"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for ProducePartitions<'_> {}

/// Passes over topics; answers how many partitions they have together.
fn check_topics(reader: &mut Reader<'_>, version: Version, topics: usize) -> Result<usize, DecodeError> {
    let mut partition_count = 0_usize;
    for _ in 0..topics {
        let (_, partitions) = read_topic_head(reader, version)?;
        check_partitions(reader, version, partitions)?;
        partition_count = partition_count.saturating_add(partitions);
    }
    Ok(partition_count)
}

/// Passes over a topic's partitions and the topic's end.
fn check_partitions(reader: &mut Reader<'_>, version: Version, partitions: usize) -> Result<(), DecodeError> {
    for _ in 0..partitions {
        read_partition(reader, version)?;
    }
    end_structure(reader, version)
}

fn read_topic_head<'a>(
    reader: &mut Reader<'a>,
    version: Version,
) -> Result<(TopicRef<'a>, usize), DecodeError> {
    let topic = TopicRef::read(reader, version, TOPIC_ID_FROM)?;
    let partitions = count(reader, version, PartitionProduceData::bytes_min(version), "partition_data")?;
    Ok((topic, partitions))
}

#[inline]
fn read_partition<'a>(
    reader: &mut Reader<'a>,
    version: Version,
) -> Result<ProducePartition<'a>, DecodeError> {
    let index = reader.i32().map_err(|error| error.within("index"))?;
    let records = Wire::read(reader, version).map_err(|error| error.within("records"))?;
    end_structure(reader, version)?;
    Ok(ProducePartition { index, records })
}

fn count(
    reader: &mut Reader<'_>,
    version: Version,
    element_bytes_min: usize,
    field: &'static str,
) -> Result<usize, DecodeError> {
    let at = reader.place();
    array_count(reader, version, element_bytes_min)
        .and_then(|count| count.ok_or(DecodeError::NullNotAllowed { at }))
        .map_err(|error| error.within(field))
}

/// No tagged field of a Produce request has a meaning yet.
#[inline]
fn end_structure(reader: &mut Reader<'_>, version: Version) -> Result<(), DecodeError> {
    if version.flexible { reader.skip_tagged_fields() } else { Ok(()) }
}
