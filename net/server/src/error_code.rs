//! From every error of ours to the protocol's code. No wildcard: a new error fails to compile until it has one.

use engine_record::{ClientBatchError, CorruptBatch};
use engine_store::{AppendError, DeleteRecordsError, LogAppendError, ReadError, StoreError, WaitError};
use net_wire::ErrorCode;
use replication::metadata::image::check_topic_name;
use replication::metadata::reply::AssignmentError;

use crate::control::channel::ControlError;
use crate::partition::NotReached;

/// A name that no topic has, where the answer says whether one could have it: only Metadata tells, as in Kafka.
pub(crate) fn of_unknown_topic_name(name: &str) -> ErrorCode {
    match check_topic_name(name) {
        Ok(()) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        Err(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
    }
}

pub(crate) fn of_control(error: &ControlError) -> ErrorCode {
    match error {
        ControlError::TopicAlreadyExists(_) => ErrorCode::TOPIC_ALREADY_EXISTS,
        ControlError::TopicNameCollides { .. } | ControlError::InvalidTopicName(_) => {
            ErrorCode::INVALID_TOPIC_EXCEPTION
        }
        ControlError::InvalidAssignment(error) => of_assignment(error),
        ControlError::NotMorePartitions { .. } | ControlError::TooManyPartitions(_) => {
            ErrorCode::INVALID_PARTITIONS
        }
        ControlError::UnknownBroker(_) | ControlError::AssignmentCount { .. } => {
            ErrorCode::INVALID_REPLICA_ASSIGNMENT
        }
        ControlError::TooLarge => ErrorCode::INVALID_REQUEST,
        ControlError::UnknownTopic => ErrorCode::UNKNOWN_TOPIC_ID,
        ControlError::NotController | ControlError::StaleIncarnation => ErrorCode::NOT_CONTROLLER,
        ControlError::SettingNamedTwice => ErrorCode::INVALID_CONFIG,
        ControlError::ProducerIdsExhausted
        | ControlError::TopicIdTaken
        | ControlError::PartitionsChanged(_) => ErrorCode::UNKNOWN_SERVER_ERROR,
        ControlError::NoSpace | ControlError::LowSpace(_) => ErrorCode::KAFKA_STORAGE_ERROR,
        ControlError::Busy => ErrorCode::THROTTLING_QUOTA_EXCEEDED,
        ControlError::Stopped => ErrorCode::NOT_CONTROLLER,
    }
}

fn of_assignment(error: &AssignmentError) -> ErrorCode {
    match error {
        AssignmentError::NoPartitions => ErrorCode::INVALID_PARTITIONS,
        AssignmentError::ReplicationFactor { .. } => ErrorCode::INVALID_REPLICATION_FACTOR,
        AssignmentError::NoReplicas { .. }
        | AssignmentError::UnknownNode { .. }
        | AssignmentError::DuplicateNode { .. }
        | AssignmentError::UnknownShard { .. }
        | AssignmentError::NoCommonLane { .. }
        | AssignmentError::UnevenReplicas { .. } => ErrorCode::INVALID_REPLICA_ASSIGNMENT,
    }
}

pub(crate) fn of_client_batch(error: &ClientBatchError) -> ErrorCode {
    match error {
        // What isn't whole comes no more whole the next time, so the client isn't asked to try again.
        ClientBatchError::Corrupt(CorruptBatch::HeaderIncomplete { .. } | CorruptBatch::Truncated { .. }) => {
            ErrorCode::INVALID_RECORD
        }
        ClientBatchError::Corrupt(_) => ErrorCode::CORRUPT_MESSAGE,
        ClientBatchError::TooLarge { .. } | ClientBatchError::TooLargeDecompressed(_) => {
            ErrorCode::MESSAGE_TOO_LARGE
        }
        ClientBatchError::InvalidTimestamp(_) => ErrorCode::INVALID_TIMESTAMP,
        ClientBatchError::UnsupportedCompression => ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
        ClientBatchError::InvalidRecord(_) => ErrorCode::INVALID_RECORD,
    }
}

pub(crate) fn of_deletion(error: &DeleteRecordsError) -> ErrorCode {
    match error {
        DeleteRecordsError::OutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
        DeleteRecordsError::Store(StoreError::Closed | StoreError::NotOpen(_)) => {
            ErrorCode::NOT_LEADER_OR_FOLLOWER
        }
        DeleteRecordsError::Store(
            StoreError::Config(_)
            | StoreError::Format(_)
            | StoreError::Disk(_)
            | StoreError::Corrupt { .. }
            | StoreError::AlreadyOpen(_)
            | StoreError::Held
            | StoreError::Truncate(_)
            | StoreError::LeaderEpoch { .. }
            | StoreError::Failed(_),
        ) => ErrorCode::KAFKA_STORAGE_ERROR,
    }
}

pub(crate) fn of_append(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::Refused(refused) => of_refused_append(refused),
        AppendError::Corrupt(_) => ErrorCode::CORRUPT_MESSAGE,
        AppendError::Closed => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        AppendError::StorageFull | AppendError::Unavailable(_) | AppendError::Failed(_) => {
            ErrorCode::KAFKA_STORAGE_ERROR
        }
    }
}

fn of_refused_append(error: &LogAppendError) -> ErrorCode {
    match error {
        LogAppendError::FencedLeaderEpoch { .. }
        | LogAppendError::LeaderEpochAhead { .. }
        | LogAppendError::NotContiguous { .. } => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        LogAppendError::InvalidProducerEpoch { .. } => ErrorCode::INVALID_PRODUCER_EPOCH,
        LogAppendError::OutOfOrderSequence { .. } => ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        LogAppendError::TooManyProducers { .. } => ErrorCode::THROTTLING_QUOTA_EXCEEDED,
        LogAppendError::ProducersIncomplete => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        LogAppendError::OffsetOverflow => ErrorCode::KAFKA_STORAGE_ERROR,
        LogAppendError::BatchTooLarge { .. } => ErrorCode::MESSAGE_TOO_LARGE,
    }
}

pub(crate) fn of_read(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
        ReadError::Disk(_) | ReadError::Corrupt { .. } | ReadError::Failed(_) => {
            ErrorCode::KAFKA_STORAGE_ERROR
        }
        ReadError::Closed => ErrorCode::NOT_LEADER_OR_FOLLOWER,
    }
}

pub(crate) fn of_wait(error: &WaitError) -> ErrorCode {
    match error {
        WaitError::Closed => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        WaitError::Failed(_) => ErrorCode::KAFKA_STORAGE_ERROR,
    }
}

/// A request's wait on a partition has ended: what became of its records isn't known here.
pub(crate) fn of_not_reached(error: &NotReached) -> ErrorCode {
    match error {
        NotReached::Closed => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        NotReached::Failed => ErrorCode::KAFKA_STORAGE_ERROR,
        NotReached::TooFewInSync => ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
}
