//! The control plane: one executor of the node beside the shards.
//!
//! It drives the metadata quorum and is the only one that talks to it. Shards ask it for changes through one bounded
//! mailbox and get what was decided, in order, through one bounded mailbox each:
//!
//! ```text
//!   shard 0 --.                                   .--> deltas --> shard 0
//!   shard 1 ---+--> requests --> [ control ] ----+---> deltas --> shard 1
//!              '--- reply slots <-'    |
//!                                  WAL, snapshots
//! ```
//!
//! A request carries the slot for its answer, and a shard reports how far it has applied through a counter, never
//! through a queue. So no full mailbox can wait for another full one.

mod answers;
pub(crate) mod channel;
mod create;
pub(crate) mod files;
mod grow;
pub(crate) mod run;
