//! The Kafka protocol as bytes: reads requests and responses from slices, writes them into vectors.
//!
//! This crate knows no sockets, no time and no meaning. It doesn't know what is inside a record batch (that is
//! `engine-record`'s), which topics there are, or what a broker answers to what: it turns bytes into structures and back.
//!
//! ```text
//! socket bytes ── frame::next_frame ──> frame ── RequestHeader::decode ──> api, version
//!                                                      │
//!                    ProduceView::decode  (Produce: walks in place, no allocation)
//!                    Message::decode      (all others: borrowed strings and bytes, Vecs for arrays)
//!
//! Message::encode, frame::encode_response ──> one vector, size first
//! FetchResponseWriter ──> one vector of everything but records, and where the records go between
//! ```
//!
//! Invariants:
//!
//! * A frame is accepted whole or refused whole, with the byte and the field at fault ([`DecodeError`]).
//! * No input makes it panic, and none makes it allocate more than a fixed multiple of the frame's length
//!   ([`message::EXPANSION_MAX`]): every count is checked against the bytes that remain before memory is reserved.
//! * Strings, bytes and records are borrowed from the frame, never copied.
//! * Each API is one row in [`api`] and one file under [`messages`].

#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

pub mod api;
pub mod config_resource;
pub mod error;
pub mod error_code;
pub mod fetch;
pub mod frame;
pub mod header;
pub mod message;
pub mod messages;
pub mod produce;
pub mod reader;
pub mod topic_ref;
pub mod uuid;
mod wire;
pub mod writer;

pub use api::{ApiKey, VersionRange};
pub use error::{DecodeError, EncodeError, Place};
pub use error_code::ErrorCode;
pub use fetch::{FetchFrame, FetchResponseStart, FetchResponseWriter, FetchedPartition};
pub use frame::{FrameError, FrameStep, encode_request, encode_response, next_frame};
pub use header::{RequestHeader, decode_response_header, encode_response_header};
pub use message::{Message, Request};
pub use produce::ProduceView;
pub use reader::Reader;
pub use topic_ref::TopicRef;
pub use uuid::Uuid;
pub use writer::Writer;

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "tests compute with numbers of their own")]
mod tests;
