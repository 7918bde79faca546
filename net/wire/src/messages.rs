//! The messages, a file an API, each with request and response. Fields keep the protocol's names and order.

pub mod alter_configs;
pub mod api_versions;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_records;
pub mod delete_topics;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_log_dirs;
pub mod describe_topic_partitions;
pub mod fetch;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod list_config_resources;
pub mod list_offsets;
pub mod metadata;
pub mod offset_for_leader_epoch;
pub mod produce;

pub use alter_configs::{AlterConfigsRequest, AlterConfigsResponse};
pub use api_versions::{ApiVersionsRequest, ApiVersionsResponse};
pub use create_partitions::{CreatePartitionsRequest, CreatePartitionsResponse};
pub use create_topics::{CreateTopicsRequest, CreateTopicsResponse};
pub use delete_records::{DeleteRecordsRequest, DeleteRecordsResponse};
pub use delete_topics::{DeleteTopicsRequest, DeleteTopicsResponse};
pub use describe_cluster::{DescribeClusterRequest, DescribeClusterResponse};
pub use describe_configs::{DescribeConfigsRequest, DescribeConfigsResponse};
pub use describe_log_dirs::{DescribeLogDirsRequest, DescribeLogDirsResponse};
pub use describe_topic_partitions::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};
pub use fetch::{FetchRequest, FetchResponse};
pub use incremental_alter_configs::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
pub use init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
pub use list_config_resources::{ListConfigResourcesRequest, ListConfigResourcesResponse};
pub use list_offsets::{ListOffsetsRequest, ListOffsetsResponse};
pub use metadata::{MetadataRequest, MetadataResponse};
pub use offset_for_leader_epoch::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
pub use produce::{ProduceRequest, ProduceResponse};

use crate::message::wire_structs;

wire_structs! {
    /// Who leads a partition now, sent along with errors that say that the one asked doesn't.
    #[derive(Copy, Eq)]
    structure LeaderIdAndEpoch {
        /// Broker id of the leader, -1 if there is none.
        leader_id: i32 = -1;
        /// The leader's epoch, -1 if unknown.
        leader_epoch: i32 = -1;
    }

    /// Where a broker named in a [`LeaderIdAndEpoch`] can be reached.
    structure NodeEndpoint<'a> {
        /// Broker id.
        node_id: i32;
        /// Host name or address.
        host: &'a str;
        /// Port.
        port: i32;
        /// Rack, if it has one.
        rack: Option<&'a str>;
    }
}
