//! What an answer means for a batch: whether it is in the log, and what to do next.
//!
//! The question that everything else hangs on is whether the batch may be in the log although the answer was an error.
//! Where that can't be excluded the batch keeps its sequence until the broker says which: a new sequence would make a
//! repetition look like something new.

use net_wire::ErrorCode;

/// Whether a batch can be in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// It is not.
    Absent,
    /// It may be: an answer was lost, or came from a broker that didn't know.
    Unknown,
}

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is in the log.
    Appended,
    /// Send it again, in order. This attempt left it so.
    Retry(Fate),
    /// The broker misses something before it: it is not in the log, whatever earlier attempts may have done, since the
    /// broker looks for a repetition first.
    OutOfSequence,
    /// The broker knows a newer epoch of this producer.
    Fenced,
    /// No attempt can succeed.
    Refused(Fate),
}

/// Judges an error code.
pub(crate) fn verdict(code: ErrorCode) -> Verdict {
    match code {
        // A repetition older than the broker remembers in full is in the log all the same.
        ErrorCode::NONE | ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Verdict::Appended,
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER | ErrorCode::UNKNOWN_PRODUCER_ID => Verdict::OutOfSequence,
        ErrorCode::INVALID_PRODUCER_EPOCH => Verdict::Fenced,
        // Found before the append.
        ErrorCode::NOT_ENOUGH_REPLICAS
        | ErrorCode::CORRUPT_MESSAGE
        | ErrorCode::THROTTLING_QUOTA_EXCEEDED => Verdict::Retry(Fate::Absent),
        // A leader that steps down while it waits for its followers answers "not leader" for what it has appended.
        code if code.is_retriable() => Verdict::Retry(Fate::Unknown),
        code => Verdict::Refused(if is_found_before_append(code) { Fate::Absent } else { Fate::Unknown }),
    }
}

fn is_found_before_append(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::MESSAGE_TOO_LARGE
            | ErrorCode::INVALID_TOPIC_EXCEPTION
            | ErrorCode::RECORD_LIST_TOO_LARGE
            | ErrorCode::INVALID_REQUIRED_ACKS
            | ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            | ErrorCode::INVALID_TIMESTAMP
            | ErrorCode::UNSUPPORTED_VERSION
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
            | ErrorCode::POLICY_VIOLATION
            | ErrorCode::INVALID_TXN_STATE
            | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            | ErrorCode::UNSUPPORTED_COMPRESSION_TYPE
            | ErrorCode::INVALID_RECORD
            | ErrorCode::PRODUCER_FENCED
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_that_may_follow_an_append_counts_as_absent() {
        for code in [
            ErrorCode::UNKNOWN_SERVER_ERROR,
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            ErrorCode::REQUEST_TIMED_OUT,
            ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ErrorCode::KAFKA_STORAGE_ERROR,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode(9_999),
        ] {
            let is_unknown =
                matches!(verdict(code), Verdict::Retry(Fate::Unknown) | Verdict::Refused(Fate::Unknown));
            assert!(is_unknown, "{code}");
        }
    }

    #[test]
    fn every_passing_error_is_retried_and_no_lasting_one() {
        for &code in ErrorCode::ALL {
            let is_retried = matches!(verdict(code), Verdict::Retry(_));
            let has_own_rule =
                matches!(verdict(code), Verdict::OutOfSequence | Verdict::Fenced | Verdict::Appended);
            assert!(has_own_rule || is_retried == code.is_retriable(), "{code}");
        }
    }
}
