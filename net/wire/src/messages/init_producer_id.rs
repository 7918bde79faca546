//! InitProducerId: an identity for an idempotent or transactional producer.

use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};

wire_structs! {
    /// Asks for a producer id and epoch.
    message InitProducerIdRequest<'a> for InitProducerId {
        /// The transactional id, or null for a producer that is idempotent only.
        transactional_id: Option<&'a str> = Some("");
        /// After how many milliseconds the broker may abort a transaction.
        transaction_timeout_ms: i32;
        /// The producer id held already, -1 for none.
        producer_id: i64 = -1, since 3;
        /// The producer epoch held already, -1 for none.
        producer_epoch: i16 = -1, since 3;
    }

    /// The producer id and epoch.
    message InitProducerIdResponse for InitProducerId {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, else ignored;
        /// Whether there is an identity.
        error_code: ErrorCode;
        /// The producer id, -1 for none.
        producer_id: i64 = -1;
        /// The producer epoch.
        producer_epoch: i16;
    }
}

impl Request for InitProducerIdRequest<'_> {
    type Response<'r> = InitProducerIdResponse;
}
