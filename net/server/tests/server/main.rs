//! The server as its clients see it: whole nodes in the simulator, and clients that speak to them in frames.
//!
//! The tests are written from the protocol's rules, a file an API, and each API is asked in every version it serves.
//!
//! ```text
//! node.rs      a node that starts, stops, crashes and starts again on the same disk
//! client.rs    a connection: sends requests, receives answers, sees the end
//! calls.rs     the calls that most tests need, by their outcome
//! configs.rs   the calls about settings
//! batches.rs   record batches, sound and damaged
//! errors.rs    what is logged as an error
//! ```
//!
//! All of it runs in virtual time, and every wait has an end there.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod batches;
mod calls;
mod client;
mod configs;
mod errors;
mod node;

mod alter_configs;
mod api_versions;
mod changed_settings;
mod connections;
mod create_partitions;
mod create_topics;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_log_dirs;
mod describe_topic_partitions;
mod disk_watermarks;
mod failures;
mod fetch;
mod fetch_refusals;
mod fetch_sessions;
mod fetch_waits;
mod hurried;
mod idempotence;
mod large_requests;
mod list_config_resources;
mod list_offsets;
mod listeners;
mod log_directories;
mod long_answers;
mod metadata;
mod node_routing;
mod offset_for_leader_epoch;
mod produce;
mod produce_refusals;
mod producer_ids;
mod recreated_topics;
mod request_memory;
mod restarts;
mod retention;
mod slow_readers;
mod stops;
mod unread_replies;

use net_wire::ApiKey;

/// Every version of `api` that is served.
fn versions(api: ApiKey) -> core::ops::RangeInclusive<i16> {
    api.versions().min..=api.versions().max
}
