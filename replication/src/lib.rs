//! How the nodes of a cluster agree, as pure state machines: no file, socket, clock, thread or randomness in here.
//!
//! Two kinds of agreement, and one crate because both speak of terms, epochs and durability:
//!
//! ```text
//!            commands                       committed commands
//!   shell ─────────────▶ metadata::Driver ─────────────────────▶ metadata::Image   (topics, nodes, leaders, lanes)
//!     ▲                    │ Raft (crate `raft`)
//!     │   messages, WAL    │
//!     └────────────────────┘
//!
//!   replica progress ──▶ leader::LeaderState ──▶ high watermark                    (one per partition this node leads)
//! ```
//!
//! - [`metadata`] is the cluster's memory: an embedded Raft quorum of 1, 3 or 5 voters whose log holds [`metadata::Command`]s.
//!   A node alone is a quorum of one and runs the same code.
//! - [`leader`] decides how far a partition is committed: the in-sync replica rule, with what must be flushed for it.
//!
//! What it is not: it carries nothing out. A shell writes the WAL batches it is handed, tells what became durable, sends
//! the messages it is handed, and feeds in what arrives. Time is a count of ticks; chance is a seed.
//!
//! Invariants, each asserted in release builds where the state that could break it changes:
//!
//! - No message leaves in a (term, vote) that isn't durable (`metadata::driver`).
//! - A WAL frame is durable whole or not at all, and any prefix of frames is a legal state (`metadata::wal`).
//! - Applying the same commands in the same order gives the same image, byte for byte (`metadata::image`).
//! - The leader is in the in-sync replicas, and those are among the replicas; epochs never go back (`metadata::image`).
//! - A high watermark never goes back and never passes what the flush mode demands (`leader`).
#![forbid(unsafe_code)]

mod codec;
pub mod leader;
pub mod metadata;

pub use codec::DecodeError;
