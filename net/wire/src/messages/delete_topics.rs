//! DeleteTopics.

use crate::error_code::ErrorCode;
use crate::message::{Request, wire_structs};
use crate::uuid::Uuid;

wire_structs! {
    /// Asks for topics to be deleted.
    message DeleteTopicsRequest<'a> for DeleteTopics {
        /// The topics, by name or id.
        topics: Vec<DeleteTopicState<'a>>, since 6;
        /// The topics' names.
        topic_names: Vec<&'a str>, until 5, else ignored;
        /// How long to wait until they are gone, in milliseconds.
        timeout_ms: i32;
    }

    /// A topic to delete.
    structure DeleteTopicState<'a> {
        /// The topic's name, null if it is given by id.
        name: Option<&'a str>;
        /// The topic's id, zero if it is given by name.
        topic_id: Uuid;
    }

    /// What became of the topics.
    message DeleteTopicsResponse<'a> for DeleteTopics {
        /// Throttle time in milliseconds.
        throttle_time_ms: i32, else ignored;
        /// The outcomes.
        responses: Vec<DeletableTopicResult<'a>>;
    }

    /// A topic's outcome.
    structure DeletableTopicResult<'a> {
        /// The topic's name; null for an id that the client may not or can't resolve.
        name: Option<&'a str> = Some(""), null 6;
        /// The topic's id.
        topic_id: Uuid, since 6, else ignored;
        /// Whether it was deleted.
        error_code: ErrorCode;
        /// What was wrong, in words.
        error_message: Option<&'a str>, since 5, else ignored;
    }
}

impl Request for DeleteTopicsRequest<'_> {
    type Response<'r> = DeleteTopicsResponse<'r>;
}
