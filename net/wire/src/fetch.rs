//! [`FetchResponseWriter`]: a Fetch response without its records.
//!
//! Records go from where they are (memory or file) to the socket without being copied into the response. So what is
//! written here is everything around them, in one vector, and where the records are to be spliced in:
//!
//! ```text
//! head:    size header throttle .. topic partition len │ tags partition len │ tags .. tags
//!                                                      │                    │
//! splices:                                       records 0            records 1
//! ```
//!
//! The size at the front counts the records too.

use core::ops::Range;

use crate::api::ApiKey;
use crate::error::EncodeError;
use crate::error_code::ErrorCode;
use crate::frame;
use crate::header::encode_response_header;
use crate::messages::fetch::{AbortedTransaction, EpochEndOffset};
use crate::messages::{LeaderIdAndEpoch, NodeEndpoint};
use crate::topic_ref::TopicRef;
use crate::wire::{Version, Wire, require_default, write_array, write_count};
use crate::writer::Writer;

/// The first version that names topics by id.
pub(crate) const TOPIC_ID_FROM: i16 = 13;

/// What a Fetch response starts with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchResponseStart {
    /// The request's version.
    pub version: i16,
    /// The request's correlation id.
    pub correlation_id: i32,
    /// Throttle time in milliseconds.
    pub throttle_time_ms: i32,
    /// What was wrong with the request as a whole; dropped before version 7, which can't say it.
    pub error_code: ErrorCode,
    /// The fetch session, 0 for none.
    pub session_id: i32,
    /// How many topics follow.
    pub topic_count: usize,
}

/// What a Fetch response says of a partition, besides its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchedPartition<'p> {
    /// Partition index.
    pub partition_index: i32,
    /// Whether the partition could be read.
    pub error_code: ErrorCode,
    /// High watermark: exclusive.
    pub high_watermark: i64,
    /// Last stable offset: exclusive; -1 if unknown.
    pub last_stable_offset: i64,
    /// Log start offset, -1 if unknown.
    pub log_start_offset: i64,
    /// Where the follower's log and the leader's part; dropped before version 12.
    pub diverging_epoch: Option<EpochEndOffset>,
    /// Who leads the partition, where this broker doesn't; dropped before version 12.
    pub current_leader: Option<LeaderIdAndEpoch>,
    /// The aborted transactions among the records, by first offset; `None` unless only committed records were asked for.
    pub aborted_transactions: Option<&'p [AbortedTransaction]>,
    /// Broker id of a replica nearer to the consumer, -1 for none; must be -1 before version 11.
    pub preferred_read_replica: i32,
}

impl Default for FetchedPartition<'_> {
    fn default() -> Self {
        Self {
            partition_index: 0,
            error_code: ErrorCode::NONE,
            high_watermark: 0,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: None,
            current_leader: None,
            aborted_transactions: None,
            preferred_read_replica: -1,
        }
    }
}

/// A place for records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Splice {
    /// The records go before this byte of the head.
    pub position: usize,
    /// Bytes of records; never 0.
    pub bytes: usize,
}

/// A Fetch response without its records. Give it back to [`FetchResponseWriter::begin`] to use its memory again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchFrame {
    /// Everything but records, from the size on.
    pub head: Vec<u8>,
    /// Where records go, ascending: one for each partition that was given more than 0 bytes of them, in their order.
    pub splices: Vec<Splice>,
    /// Bytes of head and records together.
    pub total_bytes: usize,
}

/// A piece of a response, to be sent in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// These bytes of the head.
    Head(Range<usize>),
    /// The records of the splice with this index.
    Records(usize),
}

impl FetchFrame {
    /// Head and records in the order in which they are sent.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let starts = core::iter::once(0).chain(self.splices.iter().map(|splice| splice.position));
        let between = starts.zip(self.splices.iter().enumerate()).flat_map(|(start, (index, splice))| {
            [Piece::Head(start..splice.position), Piece::Records(index)]
        });
        let last = self.splices.last().map_or(0, |splice| splice.position);
        between.chain(core::iter::once(Piece::Head(last..self.head.len())))
    }
}

/// Writes a Fetch response around records that stay where they are.
///
/// Call [`topic`](Self::topic) as often as was said at the beginning, and after each, [`partition`](Self::partition) as
/// often as was said there. After an error the response is worthless: drop the writer.
#[derive(Debug)]
pub struct FetchResponseWriter {
    frame: FetchFrame,
    version: Version,
    topics_left: usize,
    partitions_left: usize,
    spliced_bytes: usize,
    in_topic: bool,
}

impl FetchResponseWriter {
    /// Begins a response in the memory of `frame`, whose contents are dropped.
    ///
    /// # Errors
    /// [`EncodeError::UnsupportedVersion`]; [`EncodeError::FieldNotInVersion`] for a session before version 7.
    pub fn begin(mut frame: FetchFrame, start: &FetchResponseStart) -> Result<Self, EncodeError> {
        let unsupported = EncodeError::UnsupportedVersion { api: ApiKey::Fetch, version: start.version };
        let version = Version::served(ApiKey::Fetch, start.version).ok_or(unsupported)?;
        frame.head.clear();
        frame.splices.clear();
        let mut writer = Writer::new(&mut frame.head);
        frame::open(&mut writer);
        encode_response_header(&mut writer, ApiKey::Fetch, start.version, start.correlation_id);
        writer.i32(start.throttle_time_ms);
        if version.number >= 7 {
            writer.i16(start.error_code.0);
            writer.i32(start.session_id);
        } else {
            require_default(start.session_id == 0, version, "session_id")?;
        }
        write_count(&mut writer, version, Some(start.topic_count))?;
        let topics_left = start.topic_count;
        Ok(Self { frame, version, topics_left, partitions_left: 0, spliced_bytes: 0, in_topic: false })
    }

    /// Begins the next topic, with so many partitions.
    ///
    /// # Errors
    /// [`EncodeError::CountMismatch`] where no topic is due; [`EncodeError::FieldNotInVersion`] for a name where the
    /// version has ids, or the other way round.
    pub fn topic(&mut self, topic: TopicRef<'_>, partition_count: usize) -> Result<(), EncodeError> {
        self.end_topic()?;
        self.topics_left = self.topics_left.checked_sub(1).ok_or(EncodeError::CountMismatch)?;
        self.partitions_left = partition_count;
        self.in_topic = true;
        let mut writer = Writer::new(&mut self.frame.head);
        topic.write(&mut writer, self.version, TOPIC_ID_FROM)?;
        write_count(&mut writer, self.version, Some(partition_count))
    }

    /// Writes the next partition of the topic, leaving a splice for so many bytes of records.
    ///
    /// # Errors
    /// [`EncodeError::CountMismatch`] where no partition is due; [`EncodeError::FieldNotInVersion`] for a preferred
    /// replica before version 11; [`EncodeError::TooLong`] above 2 GiB.
    pub fn partition(
        &mut self,
        partition: &FetchedPartition<'_>,
        records_bytes: usize,
    ) -> Result<(), EncodeError> {
        self.partitions_left = self.partitions_left.checked_sub(1).ok_or(EncodeError::CountMismatch)?;
        let mut writer = Writer::new(&mut self.frame.head);
        write_before_records(&mut writer, self.version, partition)?;
        write_count(&mut writer, self.version, Some(records_bytes))?;
        if records_bytes > 0 {
            self.spliced_bytes = self.spliced_bytes.saturating_add(records_bytes);
            self.frame.splices.push(Splice { position: writer.position(), bytes: records_bytes });
        }
        let mut writer = Writer::new(&mut self.frame.head);
        write_after_records(&mut writer, self.version, partition)
    }

    /// Ends the response; `node_endpoints` says where leaders named in it can be reached, and is dropped before
    /// version 16.
    ///
    /// # Errors
    /// [`EncodeError::CountMismatch`] where topics or partitions are due; [`EncodeError::TooLong`] above 2 GiB in all.
    pub fn finish(mut self, node_endpoints: &[NodeEndpoint<'_>]) -> Result<FetchFrame, EncodeError> {
        self.end_topic()?;
        if self.topics_left > 0 {
            return Err(EncodeError::CountMismatch);
        }
        let mut writer = Writer::new(&mut self.frame.head);
        write_end(&mut writer, self.version, node_endpoints)?;
        self.frame.total_bytes = frame::close(&mut writer, 0, self.spliced_bytes)?;
        Ok(self.frame)
    }

    fn end_topic(&mut self) -> Result<(), EncodeError> {
        if self.partitions_left > 0 {
            return Err(EncodeError::CountMismatch);
        }
        if self.in_topic && self.version.flexible {
            Writer::new(&mut self.frame.head).uvarint(0);
        }
        Ok(())
    }
}

fn write_before_records(
    writer: &mut Writer<'_>,
    version: Version,
    partition: &FetchedPartition<'_>,
) -> Result<(), EncodeError> {
    writer.i32(partition.partition_index);
    writer.i16(partition.error_code.0);
    writer.i64(partition.high_watermark);
    writer.i64(partition.last_stable_offset);
    if version.number >= 5 {
        writer.i64(partition.log_start_offset);
    }
    write_array(partition.aborted_transactions, writer, version)?;
    if version.number >= 11 {
        writer.i32(partition.preferred_read_replica);
        return Ok(());
    }
    require_default(partition.preferred_read_replica == -1, version, "preferred_read_replica")
}

fn write_after_records(
    writer: &mut Writer<'_>,
    version: Version,
    partition: &FetchedPartition<'_>,
) -> Result<(), EncodeError> {
    if !version.flexible {
        return Ok(());
    }
    let (diverging, leader) = (&partition.diverging_epoch, &partition.current_leader);
    writer.uvarint(u32::from(diverging.is_some()).saturating_add(u32::from(leader.is_some())));
    if let Some(diverging) = diverging {
        writer.tagged_field(0, |writer| diverging.write(writer, version))?;
    }
    if let Some(leader) = leader {
        writer.tagged_field(1, |writer| leader.write(writer, version))?;
    }
    Ok(())
}

fn write_end(
    writer: &mut Writer<'_>,
    version: Version,
    node_endpoints: &[NodeEndpoint<'_>],
) -> Result<(), EncodeError> {
    if !version.flexible {
        return Ok(());
    }
    if version.number < 16 || node_endpoints.is_empty() {
        writer.uvarint(0);
        return Ok(());
    }
    writer.uvarint(1);
    writer.tagged_field(0, |writer| write_array(Some(node_endpoints), writer, version))
}
