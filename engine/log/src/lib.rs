//! One partition's log as a state machine: what is where, what is written, durable and visible, and what may happen
//! next.
//!
//! This crate is pure. It holds no bytes of batches and opens no file; it has no clock, no randomness, no thread and
//! no `async`. It is told of events and answers with plans; the store carries them out.
//!
//! ```text
//!                     plan_append ----------> AppendPlan      store: make room, copy, patch
//!   batch header ---> commit_append                           log end moves
//!                     complete_write <------  device wrote    written moves, over gapless whole batches
//!                     complete_flush <------  device flushed  flushed moves
//!                     advance_high_watermark  replicas have it, clients may see it
//!   fetch offset ---> plan_read ------------> ReadPlan        store: read or send, with `scan` over headers
//!
//!   segments   | 0 ............ | 4711 .......... | 9000 ....         >   the last one is active
//!   offsets      log_start          high_watermark   flushed   written   log_end
//! ```
//!
//! # What is always true
//!
//! Asserted in release builds after each event; a broken rule stops the process, because a stopped broker is a
//! failover and a wrong log is lost data.
//!
//! - `log_start <= high_watermark <= log_end` and `flushed <= written <= log_end` ([`LogOffsets`]).
//! - Segments have no gap: each ends where the next begins. Sealed segments have batches; the last one is active.
//! - Batches have no gap in a segment, neither in offsets nor in bytes, and no batch is ever cut.
//! - Leader epochs rise, with their start offsets ([`LeaderEpochs`]).
//! - `written` and `flushed` lie on batch boundaries, and cover only what the device has.
//! - A sent-again batch of a remembered producer has one place in the log ([`producers`]).
//! - Memory is bounded: an index entry every 32 KiB at most, evictable but for the active segment; five batches for
//!   each of a limited number of producers; one entry for each batch not written yet.
//!
//! # Rules for whoever carries the plans out
//!
//! - A failed plan leaves no trace; a plan is committed before the next append is planned.
//! - What completes tells positions of batches, never of padding.
//! - A truncation finds nothing in flight, neither write nor flush ([`truncation`]).
//! - Planned-for errors are values. A panic means that a rule above was broken by the caller or by this crate.
#![forbid(unsafe_code)]

mod append;
mod config;
mod decoder;
mod encoded_bytes;
mod error;
mod leader_epochs;
mod log;
pub mod offset_index;
mod offsets;
pub mod producers;
pub mod read;
pub mod recovery;
mod retention;
mod segment;
mod segments;
pub mod sidecar;
pub mod truncation;
mod unwritten;
mod walk;

#[cfg(test)]
mod testing;

pub use append::{AppendDecision, AppendOrigin, AppendPlan};
pub use config::LogConfig;
pub use encoded_bytes::APPEND_ENCODED_BYTES_MAX;
pub use error::{AppendError, BrokenChain, InstallError, ReadError, TruncateError};
pub use leader_epochs::{EpochStart, LeaderEpochs, LeaderEpochsError};
pub use log::Log;
pub use offset_index::{INDEX_ENTRY_BYTES, SegmentIndex};
pub use offsets::LogOffsets;
pub use producers::{AppendedBatch, Producers, ProducersError};
pub use read::{
    BatchPosition, BatchRange, ReadBound, ReadPlan, ScanRequest, ScanStep, TimestampCandidate, scan,
};
pub use recovery::{
    Checkpoint, Recovered, RecoveredError, RecoveredSegment, RecoveryScan, ScanEnd, ScanOutcome, ScanProgress,
};
pub use retention::DeletePlan;
pub use segment::{IndexState, NO_RECORD_TIME, Segment, SegmentId, SegmentSummary};
pub use sidecar::{
    SIDECAR_HEADER_BYTES, SidecarError, decode_sidecar, decode_sidecar_summary, encode_sidecar,
};
pub use truncation::{Boundary, BoundarySearch, BoundaryStep, TruncatePlan};
pub use walk::{BatchWalk, WalkStop};
