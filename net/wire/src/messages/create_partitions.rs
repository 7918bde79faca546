//! CreatePartitions: gives topics more partitions.

use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};

wire_structs! {
    /// Asks for topics to get more partitions.
    message CreatePartitionsRequest<'a> for CreatePartitions {
        /// The topics.
        topics: Vec<CreatePartitionsTopic<'a>>;
        /// How long to wait until they have them, in milliseconds.
        timeout_ms: i32;
        /// Whether to check only.
        validate_only: bool;
    }

    /// A topic that is to get more partitions.
    structure CreatePartitionsTopic<'a> {
        /// The topic's name.
        name: &'a str;
        /// How many partitions it is to have.
        count: i32;
        /// Where the replicas of each new partition go; null where the controller puts them.
        assignments: Option<Vec<CreatePartitionsAssignment>> = Some(Vec::new());
    }

    /// Where a new partition's replicas go.
    structure CreatePartitionsAssignment {
        /// Broker ids, the preferred leader first.
        broker_ids: Vec<i32>;
    }

    /// What became of the topics.
    message CreatePartitionsResponse<'a> for CreatePartitions {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32;
        /// The outcomes.
        results: Vec<CreatePartitionsTopicResult<'a>>;
    }

    /// A topic's outcome.
    structure CreatePartitionsTopicResult<'a> {
        /// The topic's name.
        name: &'a str;
        /// Whether it has the partitions.
        error_code: ErrorCode;
        /// What was wrong, in words.
        error_message: Option<&'a str>;
    }
}

impl Request for CreatePartitionsRequest<'_> {
    type Response<'r> = CreatePartitionsResponse<'r>;
}
