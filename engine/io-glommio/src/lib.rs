//! The seam on glommio: one executor a shard, on `io_uring`.
//!
//! This crate carries out [`engine_io::Io`] and starts the shards. It decides nothing: what to write where, when to
//! flush, whom to answer lies above. It is the only crate that names the runtime, but for a bench that lays the seam
//! beside it, and the only one with unsafe code; every site in the product is listed in engine/DESIGN.md, with the traps
//! of the runtime that are worked round here.
//!
//! ```text
//!   run(specs, .., make)                                                        executor, machine
//!     thread per shard: rings, pinning, drive probe, then make(index, GlommioIo)
//!
//!   GlommioIo                                                                   io
//!     files     direct      open on the pool, check, hand over                  direct, file, shrink
//!               buffered    plain calls on the pool; for development only       buffered
//!               page cache  look (cachestat, RWF_NOWAIT), sendfile              send_file
//!     folders   plain calls on the pool                                         folder
//!     sockets   calls that never wait; the runtime only waits                   socket, stream, cursor, listener
//!     tasks     glommio's, scheduled and never run inside spawn                 task
//!     turns     giving way; finding what the runtime forgot to run              turn
//!     pool      four plain threads a shard; panics come home                    blocking
//! ```
//!
//! What holds:
//! - No call on a shard's thread waits for a drive, a peer or a lock that is held for long.
//! - Work given to the kernel or the pool owns its memory and its descriptor until it ends, also when the future that
//!   asked for it is dropped.
//! - Errors keep the system's number, so [`std::io::ErrorKind`] means what it says.
//! - A panic in a task or in a job of the pool ends its shard; with [`abort_on_panic`] it ends the process.
//!
//! It needs `/proc` and `/sys`, as every Linux host and container has them.

mod blocking;
mod buffered;
mod clock;
mod cursor;
mod direct;
mod error;
mod executor;
mod file;
mod folder;
mod io;
mod listener;
mod machine;
mod panic;
mod send_file;
mod shrink;
mod socket;
mod start_error;
mod stream;
mod task;
#[cfg(test)]
mod testing;
mod turn;

pub use executor::{Running, ShardSpec, run, run_buffered, run_without_folder};
pub use file::{GlommioBuffer, GlommioBytes, GlommioFile};
pub use io::GlommioIo;
pub use listener::GlommioListener;
pub use panic::abort_on_panic;
pub use send_file::{CarriedFile, GlommioSendFile};
pub use start_error::StartError;
pub use stream::{GlommioCloser, GlommioStream, GlommioStreamReader, GlommioStreamWriter};
pub use task::GlommioTask;
