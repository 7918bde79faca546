//! Fetch: record batches to read. A broker writes the response with [`crate::fetch::FetchResponseWriter`], which leaves
//! the records where they are; the structure here is what clients read.

use super::{LeaderIdAndEpoch, NodeEndpoint};
use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};
use crate::uuid::Uuid;

wire_structs! {
    /// Asks for records of some partitions, or in a session, for news of those the session knows.
    message FetchRequest<'a> for Fetch {
        /// The cluster the sender takes this for, if it knows.
        cluster_id: Option<&'a str>, since 12, tag 0, else ignored;
        /// Broker id of a follower, -1 for a consumer.
        replica_id: i32 = -1, until 14;
        /// Who the follower is.
        replica_state: ReplicaState, since 15, tag 1, else ignored;
        /// How long to wait for `min_bytes`, in milliseconds.
        max_wait_ms: i32;
        /// Bytes of records worth answering for.
        min_bytes: i32;
        /// Bytes of records to answer at most; a first batch above it is sent all the same.
        max_bytes: i32 = i32::MAX, else ignored;
        /// 0 reads to the high watermark, 1 to the last stable offset.
        isolation_level: i8;
        /// The fetch session, 0 for none.
        session_id: i32, since 7, else ignored;
        /// The session's epoch: -1 without a session, 0 to begin one.
        session_epoch: i32 = -1, since 7, else ignored;
        /// The partitions to fetch.
        topics: Vec<FetchTopic<'a>>;
        /// The partitions to drop from the session.
        forgotten_topics_data: Vec<ForgottenTopic<'a>>, since 7;
        /// The consumer's rack.
        rack_id: &'a str, since 11, else ignored;
    }

    /// Who a follower is.
    structure ReplicaState {
        /// Broker id of the follower, -1 for a consumer.
        replica_id: i32 = -1;
        /// The follower's broker epoch, -1 if unknown.
        replica_epoch: i64 = -1;
    }

    /// A topic to fetch from.
    structure FetchTopic<'a> {
        /// The topic's name.
        topic: &'a str, until 12, else ignored;
        /// The topic's id.
        topic_id: Uuid, since 13, else ignored;
        /// The partitions.
        partitions: Vec<FetchPartition>;
    }

    /// A partition to fetch from.
    structure FetchPartition {
        /// Partition index.
        partition: i32;
        /// The leader epoch the sender knows, -1 if none.
        current_leader_epoch: i32 = -1, since 9, else ignored;
        /// Offset to start at.
        fetch_offset: i64;
        /// Epoch of the follower's last record, -1 if none.
        last_fetched_epoch: i32 = -1, since 12;
        /// The follower's log start offset, -1 from consumers.
        log_start_offset: i64 = -1, since 5, else ignored;
        /// Bytes of records to answer at most for this partition.
        partition_max_bytes: i32;
        /// The follower's directory.
        replica_directory_id: Uuid, since 17, tag 0, else ignored;
    }

    /// Partitions to drop from a session.
    structure ForgottenTopic<'a> {
        /// The topic's name.
        topic: &'a str, until 12, else ignored;
        /// The topic's id.
        topic_id: Uuid, since 13, else ignored;
        /// Partition indexes.
        partitions: Vec<i32>;
    }

    /// Records, and how far each partition goes.
    message FetchResponse<'a> for Fetch {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, else ignored;
        /// What was wrong with the request as a whole.
        error_code: ErrorCode, since 7, else ignored;
        /// The fetch session, 0 for none.
        session_id: i32, since 7;
        /// The answers by topic.
        responses: Vec<FetchableTopicResponse<'a>>;
        /// Where the leaders named in the answers can be reached.
        node_endpoints: Vec<NodeEndpoint<'a>>, since 16, tag 0, else ignored;
    }

    /// A topic's answers.
    structure FetchableTopicResponse<'a> {
        /// The topic's name.
        topic: &'a str, until 12, else ignored;
        /// The topic's id.
        topic_id: Uuid, since 13, else ignored;
        /// The answers by partition.
        partitions: Vec<PartitionData<'a>>;
    }

    /// A partition's answer.
    structure PartitionData<'a> {
        /// Partition index.
        partition_index: i32;
        /// Whether the partition could be read.
        error_code: ErrorCode;
        /// High watermark: exclusive.
        high_watermark: i64;
        /// Last stable offset: exclusive; -1 if unknown.
        last_stable_offset: i64 = -1, else ignored;
        /// Log start offset, -1 if unknown.
        log_start_offset: i64 = -1, since 5, else ignored;
        /// Where the follower's log and the leader's part.
        diverging_epoch: EpochEndOffset, since 12, tag 0, else ignored;
        /// Who leads the partition, where the error says that this broker doesn't.
        current_leader: LeaderIdAndEpoch, since 12, tag 1, else ignored;
        /// The snapshot to fetch instead.
        snapshot_id: SnapshotId, since 12, tag 2, else ignored;
        /// The aborted transactions among the records; null unless only committed records were asked for.
        aborted_transactions: Option<Vec<AbortedTransaction>> = Some(Vec::new()), else ignored;
        /// Broker id of a replica nearer to the consumer, -1 for none.
        preferred_read_replica: i32 = -1, since 11;
        /// Record batches as they are stored. The first may begin before the offset asked for.
        records: Option<&'a [u8]> = Some(&[]);
    }

    /// The largest epoch before the follower's last that both logs have, and where it ends in the leader's.
    #[derive(Copy, Eq)]
    structure EpochEndOffset {
        /// The epoch, -1 for none.
        epoch: i32 = -1;
        /// Its end offset: exclusive; -1 for none.
        end_offset: i64 = -1;
    }

    /// A snapshot of the metadata log.
    structure SnapshotId {
        /// Its end offset: exclusive; -1 for none.
        end_offset: i64 = -1;
        /// Its epoch, -1 for none.
        epoch: i32 = -1;
    }

    /// A transaction whose records a committed reader drops.
    #[derive(Copy, Eq)]
    structure AbortedTransaction {
        /// Its producer id.
        producer_id: i64;
        /// Offset of its first record.
        first_offset: i64;
    }
}

impl Request for FetchRequest<'_> {
    type Response<'r> = FetchResponse<'r>;
}
