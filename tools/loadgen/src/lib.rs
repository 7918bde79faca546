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
//!     │     the second pass ───────┼─ ledger     what was promised, what was found
//!     │                            └─ gap        what can't be read again
//!   report ──────────────────────── processors   whether the generator itself was the limit
//!     numbers, JSON, .hgrm, .hlog
//! ```
//!
//! What makes the numbers worth something:
//! - In open loop a record's latency counts from when it was due, not from when it could be sent. The time from the
//!   sending stands beside it; where the two part, something queued.
//! - A generator that falls behind by itself says so, and the run is marked invalid. What producers wait for the broker,
//!   and what that makes late, is told apart from it. In closed loop the processor time of its threads says whether it was
//!   the limit: waiting for answers says nothing, since the generator's own receiving is part of it.
//! - The warm-up isn't measured, but verified like the rest.
//! - Every record is read again once the load is over, so that what was read while it ran and has vanished since counts as
//!   lost: lost, repeated, reordered and damaged ones are counted apart. A record whose outcome nobody knows may be there
//!   or not. What is read while the load runs gives end-to-end latencies and no more.
//! - Producers, consumers and clock are of one host, so that end-to-end times need no clocks to agree.
#![forbid(unsafe_code)]

pub mod gap;
pub mod ledger;
pub mod limits;
pub mod payload;
pub mod plan;
pub mod processors;
pub mod recorder;
pub mod report;
pub mod run;
pub mod schedule;

pub use gap::Gap;
pub use ledger::{Ledger, Verdict};
pub use plan::{InvalidPlan, Keys, LoadPlan, Pace};
pub use processors::{ProcessorShare, ThreadTime};
pub use recorder::{Interval, Outcome};
pub use report::{Bottleneck, Percentiles, Report, write_hgrm, write_hlog};
pub use run::{Prepared, RunError, ShardPart, prepare, run_shard};
