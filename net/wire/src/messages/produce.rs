//! Produce: record batches to append. A broker reads the request with [`crate::produce::ProduceView`]; the structure
//! here is what clients build.

use super::{LeaderIdAndEpoch, NodeEndpoint};
use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};
use crate::uuid::Uuid;

wire_structs! {
    /// Record batches to append.
    message ProduceRequest<'a> for Produce {
        /// The transactional id, or null outside transactions.
        transactional_id: Option<&'a str>;
        /// When to answer: 0 never, 1 when the leader has it, -1 when the in-sync replicas have it.
        acks: i16;
        /// How long to wait for `acks`, in milliseconds.
        timeout_ms: i32;
        /// The batches by topic.
        topic_data: Vec<TopicProduceData<'a>>;
    }

    /// A topic's batches.
    structure TopicProduceData<'a> {
        /// The topic's name.
        name: &'a str, until 12, else ignored;
        /// The topic's id.
        topic_id: Uuid, since 13, else ignored;
        /// The batches by partition.
        partition_data: Vec<PartitionProduceData<'a>>;
    }

    /// A partition's batch.
    structure PartitionProduceData<'a> {
        /// Partition index.
        index: i32;
        /// The record batch as it is to be stored.
        records: Option<&'a [u8]> = Some(&[]);
    }

    /// What became of the batches.
    message ProduceResponse<'a> for Produce {
        /// The outcomes by topic.
        responses: Vec<TopicProduceResponse<'a>>;
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, else ignored;
        /// Where the leaders named in the outcomes can be reached.
        node_endpoints: Vec<NodeEndpoint<'a>>, since 10, tag 0, else ignored;
    }

    /// A topic's outcomes.
    structure TopicProduceResponse<'a> {
        /// The topic's name.
        name: &'a str, until 12, else ignored;
        /// The topic's id.
        topic_id: Uuid, since 13, else ignored;
        /// The outcomes by partition.
        partition_responses: Vec<PartitionProduceResponse<'a>>;
    }

    /// A partition's outcome.
    structure PartitionProduceResponse<'a> {
        /// Partition index.
        index: i32;
        /// Whether the batch was appended.
        error_code: ErrorCode;
        /// Offset of the batch's first record.
        base_offset: i64;
        /// Milliseconds since the epoch at which the broker stamped the batch, -1 if it kept the producer's timestamps.
        log_append_time_ms: i64 = -1, else ignored;
        /// Log start offset.
        log_start_offset: i64 = -1, since 5, else ignored;
        /// The records for which the batch was refused.
        record_errors: Vec<BatchIndexAndErrorMessage<'a>>, since 8, else ignored;
        /// What was wrong with the batch, in words.
        error_message: Option<&'a str>, since 8, else ignored;
        /// Who leads the partition, where the error says that this broker doesn't.
        current_leader: LeaderIdAndEpoch, since 10, tag 0, else ignored;
    }

    /// A record for which a batch was refused.
    structure BatchIndexAndErrorMessage<'a> {
        /// The record's index in its batch.
        batch_index: i32;
        /// What is wrong with it, in words.
        batch_index_error_message: Option<&'a str>;
    }
}

impl Request for ProduceRequest<'_> {
    type Response<'r> = ProduceResponse<'r>;
}
