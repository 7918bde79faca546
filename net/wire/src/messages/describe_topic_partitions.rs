//! DescribeTopicPartitions: topics and their partitions, a page at a time.

use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};
use crate::messages::metadata::OPERATIONS_NOT_ASKED;
use crate::uuid::Uuid;

wire_structs! {
    /// Asks for topics to be described.
    message DescribeTopicPartitionsRequest<'a> for DescribeTopicPartitions {
        /// The topics; none for all.
        topics: Vec<TopicRequest<'a>>;
        /// How many partitions the page may have.
        response_partition_limit: i32 = 2_000;
        /// Where the page begins, if not at the first topic.
        cursor: Option<Cursor<'a>>;
    }

    /// A topic to describe.
    structure TopicRequest<'a> {
        /// The topic's name.
        name: &'a str;
    }

    /// Where a page begins. Topics stand in the order of their names.
    structure Cursor<'a> {
        /// The first topic.
        topic_name: &'a str;
        /// Its first partition.
        partition_index: i32;
    }

    /// A page.
    message DescribeTopicPartitionsResponse<'a> for DescribeTopicPartitions {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, else ignored;
        /// The topics.
        topics: Vec<DescribeTopicPartitionsResponseTopic<'a>>;
        /// Where the next page begins; null where this is the last one.
        next_cursor: Option<Cursor<'a>>;
    }

    /// A topic.
    structure DescribeTopicPartitionsResponseTopic<'a> {
        /// Why it isn't described.
        error_code: ErrorCode;
        /// Its name.
        name: Option<&'a str> = Some("");
        /// Its id.
        topic_id: Uuid;
        /// Whether it is the cluster's own.
        is_internal: bool;
        /// Those of its partitions that are on the page.
        partitions: Vec<DescribeTopicPartitionsResponsePartition>;
        /// What the client may do with it, as bits.
        topic_authorized_operations: i32 = OPERATIONS_NOT_ASKED;
    }

    /// A partition.
    structure DescribeTopicPartitionsResponsePartition {
        /// Why it isn't described.
        error_code: ErrorCode;
        /// Partition index.
        partition_index: i32;
        /// Broker id of the leader, -1 where there is none.
        leader_id: i32;
        /// The leader's epoch.
        leader_epoch: i32 = -1;
        /// Broker ids of its replicas.
        replica_nodes: Vec<i32>;
        /// Broker ids of those in sync.
        isr_nodes: Vec<i32>;
        /// Broker ids of those that may lead although they aren't in sync.
        eligible_leader_replicas: Option<Vec<i32>>;
        /// Broker ids of those that were the last that might.
        last_known_elr: Option<Vec<i32>>;
        /// Broker ids of those that are offline.
        offline_replicas: Vec<i32>;
    }
}

impl Request for DescribeTopicPartitionsRequest<'_> {
    type Response<'r> = DescribeTopicPartitionsResponse<'r>;
}
