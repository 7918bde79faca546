//! Why the gate itself could not do its work.

use std::io;
use std::path::PathBuf;

/// Why the gate could not look at the tree or start a command. A lane that fails is no error: it is
/// an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GateError {
    /// A program could not be started or listened to.
    #[error("cannot run {program}: {source}")]
    Run { program: String, source: io::Error },
    /// `cargo metadata` failed.
    #[error("cargo metadata failed; run `cargo check` to bring Cargo.lock up to date\n{output}")]
    Metadata { output: String },
    /// `cargo metadata` answered something else than a workspace.
    #[error("cannot read what cargo metadata says: {0}")]
    MetadataJson(#[from] serde_json::Error),
    /// A field that every workspace has is missing.
    #[error("cargo metadata names no {0}")]
    MetadataField(&'static str),
    /// A lane was asked for by a name that none has.
    #[error("there is no lane {name} here; the lanes are: {lanes}")]
    NoSuchLane { name: String, lanes: String },
    /// `git ls-files` failed.
    #[error("git cannot list the files: {output}")]
    ListFiles { output: String },
    /// A listed file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    ReadFile { path: PathBuf, source: io::Error },
}
