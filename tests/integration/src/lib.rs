//! Real clients against the real broker: the harness that the tests beside this crate share.
//!
//! Each test starts `ringlog serve` as a child process in a folder of its own, as a user would, and talks to it over
//! sockets. Nothing here looks inside the broker, and nothing stands in for a part of it; where a client isn't
//! installed, the test that needs it fails and says what to install. One count, of wake-ups as the kernel sees them, is left
//! out in words on a machine that forbids tracing.
//!
//! ```text
//! tests/*.rs ── Broker ── child process, its folder, its ready line, its stderr, its figures
//!     │
//!     ├── Connection       one socket that speaks net-wire: requests of any version, or any bytes
//!     ├── topics           create, delete, look up leaders
//!     ├── rdkafka_load     librdkafka in this process: load and read back
//!     ├── programs         kcat, and the Python, JavaScript and Java clients in tests/clients
//!     └── content          what a record holds, so that any reader can tell whether it is right
//! ```
//!
//! Invariants:
//!
//! * One broker at a time in a process: [`Broker`] holds the turn, since the machine may have two cores.
//! * A broker never outlives its test. Its folder is removed when the test passed, and kept and named when it failed.
//! * Random choices come from a seed that a failure prints; `SEED=..` repeats them.
//!
//! Environment variables: `RINGLOG_BIN` (the broker to test; built with cargo if unset), `SEED`, `ROUNDS` (restarts of
//! the kill test), `FRAMES` (of the hostile test), `RECORDS` (of each client's round trip), `START_MS_MAX`,
//! `RINGLOG_ROUTING` (`shard` or `node`: how clients reach partitions, in tests that aren't about one way to do so).
//!
//! A harness that can't do its work has no better answer than to fail the test: its functions panic, in words.

#![forbid(unsafe_code)]

pub mod binary;
pub mod broker;
pub mod clock;
pub mod connection;
pub mod content;
pub mod drive;
pub mod folder;
pub mod ports;
pub mod process;
pub mod programs;
pub mod random;
pub mod rdkafka_load;
pub mod ready;
pub mod settings;
pub mod stats;
pub mod topics;

pub use broker::{Broker, Options, Routing};
pub use clock::{Deadline, Stopwatch};
pub use connection::{Answer, Connection};
pub use content::{Codec, Content, Shape};
pub use random::Random;
pub use ready::Ready;
