//! Why the host could not be read.

use std::io;
use std::path::PathBuf;

use crate::CpuListError;

/// Why the host could not be read or probed. Each variant names the file or folder.
#[derive(Debug, thiserror::Error)]
pub enum TuningError {
    /// A file of `/proc` or `/sys` is there but could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file, with the root it was read under.
        path: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
    /// A file that every supported kernel has is missing: `/proc` or `/sys` isn't mounted.
    #[error("{} is missing: mount /proc and /sys in this container or chroot", path.display())]
    Missing {
        /// The file, with the root it was looked for under.
        path: PathBuf,
    },
    /// A file of `/proc` or `/sys` says something this crate doesn't understand.
    #[error("{} says something unexpected (looked for {wanted})", path.display())]
    Unexpected {
        /// The file, with the root it was read under.
        path: PathBuf,
        /// What was looked for in it.
        wanted: &'static str,
    },
    /// A file of `/proc` or `/sys` holds a list of CPUs that doesn't parse.
    #[error("{} holds no list of CPUs: {source}", path.display())]
    CpuList {
        /// The file, with the root it was read under.
        path: PathBuf,
        /// What is wrong with the list.
        source: CpuListError,
    },
    /// The folder isn't an absolute path, so no mount can be found for it.
    #[error("{} is not an absolute path: resolve it first", folder.display())]
    RelativeFolder {
        /// The folder as given.
        folder: PathBuf,
    },
    /// No line of `mountinfo` holds the folder.
    #[error("no mounted file system holds {}", folder.display())]
    NoMount {
        /// The folder as given.
        folder: PathBuf,
    },
    /// The space of a file system could not be read.
    #[error("cannot read the space of the file system under {}: {source}", folder.display())]
    Space {
        /// The folder as given.
        folder: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The kernel refused to raise a soft limit of this process to the hard one.
    #[error("cannot raise the limit of {name} to {}: {source}", named(*wanted))]
    RaiseLimit {
        /// What is limited.
        name: &'static str,
        /// The soft limit asked for, which is the hard one; `None` is unlimited.
        wanted: Option<u64>,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The file system under the folder refuses direct I/O, which appends are made of.
    #[error(
        "the file system under {} refuses direct I/O (O_DIRECT): put the data folder on ext4 or xfs",
        folder.display()
    )]
    DirectIoRefused {
        /// The folder as given.
        folder: PathBuf,
    },
    /// The folder lies in memory, where a flush means nothing.
    #[error(
        "{} lies in memory (tmpfs or ramfs) and keeps nothing: put the data folder on a drive",
        folder.display()
    )]
    MemoryFilesystem {
        /// The folder as given.
        folder: PathBuf,
    },
    /// A scratch file could not be created, written, flushed or unlinked in the folder.
    #[error("cannot {step} a scratch file in {}: {source}", folder.display())]
    Scratch {
        /// The folder as given.
        folder: PathBuf,
        /// What was being done with the file: a verb.
        step: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
}

fn named(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
}
