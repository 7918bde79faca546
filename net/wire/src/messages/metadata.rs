//! Metadata: brokers, topics, leaders.

use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};
use crate::uuid::Uuid;

/// `*_authorized_operations` of a response whose request didn't ask for them.
pub const OPERATIONS_NOT_ASKED: i32 = i32::MIN;

wire_structs! {
    /// Asks about topics, and always about brokers.
    message MetadataRequest<'a> for Metadata {
        /// The topics. Null asks for all; in version 0, where null can't be said, none asks for all.
        topics: Option<Vec<MetadataRequestTopic<'a>>> = Some(Vec::new()), null 1;
        /// Whether to create topics that aren't there, if the broker may.
        allow_auto_topic_creation: bool = true, since 4;
        /// Whether to answer what the client may do with the cluster.
        include_cluster_authorized_operations: bool, since 8, until 10;
        /// Whether to answer what the client may do with each topic.
        include_topic_authorized_operations: bool, since 8;
    }

    /// A topic asked about, by id if it isn't zero, else by name.
    structure MetadataRequestTopic<'a> {
        /// The topic's id.
        topic_id: Uuid, since 10, else ignored;
        /// The topic's name.
        name: Option<&'a str> = Some(""), null 10;
    }

    /// The brokers, and the topics asked about.
    message MetadataResponse<'a> for Metadata {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, since 3, else ignored;
        /// The brokers.
        brokers: Vec<MetadataResponseBroker<'a>>;
        /// The cluster's id.
        cluster_id: Option<&'a str>, since 2, else ignored;
        /// Broker id to send the controller's requests to, -1 if there is none.
        controller_id: i32 = -1, since 1, else ignored;
        /// The topics.
        topics: Vec<MetadataResponseTopic<'a>>;
        /// What the client may do with the cluster, a bit an operation.
        cluster_authorized_operations: i32 = OPERATIONS_NOT_ASKED, since 8, until 10;
        /// What was wrong with the request as a whole.
        error_code: ErrorCode, since 13, else ignored;
    }

    /// A broker.
    structure MetadataResponseBroker<'a> {
        /// Broker id.
        node_id: i32;
        /// Host name or address.
        host: &'a str;
        /// Port.
        port: i32;
        /// Rack, if it has one.
        rack: Option<&'a str>, since 1, else ignored;
    }

    /// A topic.
    structure MetadataResponseTopic<'a> {
        /// Whether there is such a topic.
        error_code: ErrorCode;
        /// The topic's name; null for an unknown id.
        name: Option<&'a str> = Some(""), null 12;
        /// The topic's id.
        topic_id: Uuid, since 10, else ignored;
        /// Whether the broker keeps its own records in it.
        is_internal: bool, since 1, else ignored;
        /// The partitions.
        partitions: Vec<MetadataResponsePartition>;
        /// What the client may do with the topic, a bit an operation.
        topic_authorized_operations: i32 = OPERATIONS_NOT_ASKED, since 8;
    }

    /// A partition.
    structure MetadataResponsePartition {
        /// Whether the partition has a leader.
        error_code: ErrorCode;
        /// Partition index.
        partition_index: i32;
        /// Broker id of the leader, -1 if there is none.
        leader_id: i32;
        /// The leader's epoch, -1 if unknown.
        leader_epoch: i32 = -1, since 7, else ignored;
        /// Broker ids of the replicas, the preferred leader first.
        replica_nodes: Vec<i32>;
        /// Broker ids of the in-sync replicas.
        isr_nodes: Vec<i32>;
        /// Broker ids of the replicas that are offline.
        offline_replicas: Vec<i32>, since 5, else ignored;
    }
}

impl Request for MetadataRequest<'_> {
    type Response<'r> = MetadataResponse<'r>;
}
