//! Why there is no comparison.

use std::io;
use std::path::PathBuf;

use net_wire::{DecodeError, EncodeError, ErrorCode};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompareError {
    /// A file or folder.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A write or flush.
    #[error("a durable write failed: {0}")]
    Write(#[source] io::Error),
    /// Another program couldn't be run.
    #[error("{program} can't be run: {source}")]
    Program {
        /// Which one.
        program: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Another program ended with an error.
    #[error("{program} failed: {words}")]
    Failed {
        /// Which one.
        program: &'static str,
        /// What it said.
        words: String,
    },
    /// Another program said something that can't be understood.
    #[error("{program} doesn't say {what}")]
    Unexpected {
        /// Which one.
        program: &'static str,
        /// What was looked for.
        what: &'static str,
    },
    /// The connection to the broker.
    #[error("the connection to the broker: {0}")]
    Connection(#[from] io::Error),
    /// An answer of the broker's can't be read.
    #[error("the broker's answer: {0}")]
    Decode(#[from] DecodeError),
    /// A request can't be written.
    #[error("a request: {0}")]
    Encode(#[from] EncodeError),
    /// An answer that is none to what was asked.
    #[error("the broker answers something else than was asked")]
    Mismatch,
    /// The broker refused.
    #[error("the broker answers {0}")]
    Refused(ErrorCode),
    /// A fetch gave nothing.
    #[error("the broker has no records where there must be some")]
    NoRecords,
    /// The bytes were to come by another path than they came.
    #[error("the broker served bytes by another path than the one that is measured")]
    WrongPath,
    /// A shard couldn't be started.
    #[error(transparent)]
    Start(#[from] engine_io_glommio::StartError),
    /// The store refused to open.
    #[error(transparent)]
    Store(#[from] engine_store::StoreError),
    /// The store refused an append.
    #[error(transparent)]
    Append(#[from] engine_store::AppendError),
    /// The store failed while an append waited.
    #[error(transparent)]
    Wait(#[from] engine_store::WaitError),
    /// The shard's thread panicked.
    #[error("the shard panicked")]
    Panicked,
    /// The host can't be described.
    #[error(transparent)]
    Machine(#[from] tuning::TuningError),
}

/// Names the file in an error.
pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(io::Error) -> CompareError + '_ {
    move |source| CompareError::File { path: path.to_owned(), source }
}
