//! A Ringlog node: shards that serve the Kafka protocol, and the control executor beside them.
//!
//! A shard is a core with everything it needs: a listening port, the connections on it, the partitions it owns and
//! their storage. With a port for each shard nothing crosses cores to serve a produce or a fetch; what does cross goes through
//! the mailboxes of [`node`], a handful of messages for a topic created or a block of producer ids. With one port for all,
//! what belongs to another shard is forwarded to it (`forward`).
//!
//! ```text
//! socket ─ frame_reader ─ connection ─ dispatch ─ handlers/* ─ partition ─ engine-store
//!                              │                                  │
//!                        reply_queue (replies in order)     high watermark (replication::leader)
//!
//! control/run ── metadata quorum (replication::metadata) ── deltas ──▶ shard::apply, opening
//! ```
//!
//! What holds:
//! - A request's first stage runs in the order requests came; replies leave in that order ([`run_shard`]).
//! - A partition is served by exactly one shard, found from its lane; any other answers with who does, or forwards to it.
//! - Everything that grows has a limit in [`config::Limits`].
#![forbid(unsafe_code)]

mod budget;
pub mod config;
mod connection;
mod connections;
mod control;
mod deltas;
mod disk_space;
mod dispatch;
mod driven;
mod endpoint;
mod error_code;
#[cfg(test)]
mod examples;
mod fetch_sessions;
pub mod format;
mod forward;
mod frame_reader;
mod handlers;
mod hooks;
mod hurrying;
mod listener;
pub mod log_directories;
mod lookups;
mod metrics;
pub mod node;
mod notices;
mod opening;
mod operations;
mod partition;
mod reopening;
mod reply_memory;
mod reply_queue;
mod request_limits;
mod request_memory;
mod response;
mod retention;
mod run_shard;
mod sending;
pub mod settings;
mod shard;
mod throttle;
mod turns;
mod validation;

pub use control::run::run_control;
pub use disk_space::{Watermark, Watermarks};
pub use endpoint::Endpoint;
pub use metrics::{ShardSnapshot, Stage};
pub use run_shard::run_shard;
