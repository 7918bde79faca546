//! CreateTopics.

use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};
use crate::uuid::Uuid;

wire_structs! {
    /// Asks for topics to be created.
    message CreateTopicsRequest<'a> for CreateTopics {
        /// The topics.
        topics: Vec<CreatableTopic<'a>>;
        /// How long to wait until they are there, in milliseconds.
        timeout_ms: i32 = 60_000;
        /// Whether to check only.
        validate_only: bool;
    }

    /// A topic to create.
    structure CreatableTopic<'a> {
        /// The topic's name.
        name: &'a str;
        /// How many partitions; -1 for the broker's default, or with `assignments`.
        num_partitions: i32;
        /// How many replicas of each; -1 for the broker's default, or with `assignments`.
        replication_factor: i16;
        /// Where the replicas go, if not where the controller puts them.
        assignments: Vec<CreatableReplicaAssignment>;
        /// Settings that differ from the defaults.
        configs: Vec<CreatableTopicConfig<'a>>;
    }

    /// Where a partition's replicas go.
    structure CreatableReplicaAssignment {
        /// Partition index.
        partition_index: i32;
        /// Broker ids, the preferred leader first.
        broker_ids: Vec<i32>;
    }

    /// A setting.
    structure CreatableTopicConfig<'a> {
        /// Its name.
        name: &'a str;
        /// Its value.
        value: Option<&'a str> = Some("");
    }

    /// What became of the topics.
    message CreateTopicsResponse<'a> for CreateTopics {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, else ignored;
        /// The outcomes.
        topics: Vec<CreatableTopicResult<'a>>;
    }

    /// A topic's outcome.
    structure CreatableTopicResult<'a> {
        /// The topic's name.
        name: &'a str;
        /// The topic's id.
        topic_id: Uuid, since 7, else ignored;
        /// Whether it was created.
        error_code: ErrorCode;
        /// What was wrong, in words.
        error_message: Option<&'a str> = Some(""), else ignored;
        /// Why `configs` is null.
        topic_config_error_code: ErrorCode, since 5, tag 0, else ignored;
        /// How many partitions, -1 if not told.
        num_partitions: i32 = -1, since 5, else ignored;
        /// How many replicas of each, -1 if not told.
        replication_factor: i16 = -1, since 5, else ignored;
        /// All its settings.
        configs: Option<Vec<CreatableTopicConfigs<'a>>> = Some(Vec::new()), since 5, else ignored;
    }

    /// A setting of a created topic.
    structure CreatableTopicConfigs<'a> {
        /// Its name.
        name: &'a str;
        /// Its value; null where it is secret.
        value: Option<&'a str> = Some("");
        /// Whether it can't be changed.
        read_only: bool;
        /// Where the value comes from, -1 if unknown.
        config_source: i8 = -1, else ignored;
        /// Whether the value is secret.
        is_sensitive: bool;
    }
}

impl Request for CreateTopicsRequest<'_> {
    type Response<'r> = CreateTopicsResponse<'r>;
}
