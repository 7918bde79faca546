//! The write-ahead log of the metadata quorum: what must be durable before a node says it.
//!
//! A file is a row of frames. One frame carries all that one turn of the driver makes durable, so it is there whole or not
//! at all, and every prefix of a file is a state the node was legally in.
//!
//! ```text
//!  0  length    u32   bytes of the payload, at least 1          all numbers little endian
//!  4  crc       u32   CRC-32C of every other byte of the frame
//!  8  sequence  u64   the frame's number, one more than the frame's before, also across files
//! 16  flushed   u64   the last frame known durable when this one was made
//! 24  previous  u32   the crc of the frame before, also across files
//! 28  payload         version (1), then records: checkpoint, entries, hard state
//! ```
//!
//! **Files.** The first frame of a file restates everything: which snapshot it builds on, the entries kept, term and vote.
//! A new file begins with each snapshot; once its first frame is durable (file synced, named, folder synced) the files and
//! snapshots before it may go. Recovery reads the newest file only.
//!
//! **The end.** Whole blocks are written and the last one is padded with zeros, so zeros end the log. A frame that doesn't
//! check out ends it as well, provided it was never durable. That can be told: `flushed` of a frame further on names every
//! frame that had been. Where such a frame follows a bad one, durable state is damaged and the file is refused; where it
//! doesn't, what follows is the residue of writes that were under way in a crash, and was never acknowledged. Before the
//! next append the shell cuts the file there, or writes zeros over the residue, and flushes.

mod frame;
mod recovery;

pub use frame::WalFrame;
pub(crate) use frame::{Checkpoint, FrameWriter, Record};
pub use recovery::{Recovered, WalError, recover};
