//! The load generator behind `ringlog bench`: it makes a load, measures it, and checks every promise the broker made.
//!
//! It speaks the protocol through `net-client`, so it measures any broker of the protocol. It isn't a program: the
//! command gives it shards and a plan, and shows what comes out.
//!
//! ```text
//!   plan      what load, in limits ┌─ schedule   when records are due, whatever the broker does
//!     │                            │
//!   run ─── producers ─────────────┼─ payload    values that say whose they are
//!     │     consumers ─────────────┤
//!     │                            ├─ recorder   latencies and counts, in all and by interval
//!     │                            └─ ledger     what was promised, what was found
//!   report    numbers, JSON, .hgrm, .hlog
//! ```
//!
//! What makes the numbers worth something:
//! - In open loop a record's latency counts from when it was due, not from when it could be sent. The time from the
//!   sending stands beside it; where the two part, something queued.
//! - A generator that falls behind by itself says so, and the run is marked invalid. What producers wait for the broker,
//!   and what that makes late, is told apart from it.
//! - The warm-up isn't measured, but verified like the rest.
//! - Every record is read back: lost, repeated, reordered and damaged ones are counted apart. A record whose outcome
//!   nobody knows may be there or not.
//! - Producers, consumers and clock are of one host, so that end-to-end times need no clocks to agree.
#![forbid(unsafe_code)]

pub mod ledger;
pub mod limits;
pub mod payload;
pub mod plan;
pub mod recorder;
pub mod report;
pub mod run;
pub mod schedule;

pub use ledger::{Ledger, Verdict};
pub use plan::{InvalidPlan, Keys, LoadPlan, Pace};
pub use recorder::{Interval, Outcome};
pub use report::{Bottleneck, Percentiles, Report, write_hgrm, write_hlog};
pub use run::{Prepared, RunError, ShardPart, prepare, run_shard};
