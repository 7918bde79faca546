//! Why shards could not be started.

use std::io;
use std::path::{Path, PathBuf};

use glommio::{BuilderErrorKind, GlommioError};
use rustix::io::Errno;

use crate::{direct, error};

/// Why no shard runs. Each message says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No shard was asked for.
    #[error("no shard was asked for")]
    NoShards,
    /// The kernel has no `io_uring`.
    #[error("this kernel has no io_uring: run Linux 5.11 or newer")]
    RingMissing,
    /// The kernel's `io_uring` lacks what the runtime needs.
    #[error("this kernel's io_uring is too old: run Linux 5.11 or newer")]
    RingTooOld,
    /// `io_uring` is there and forbidden.
    #[error(
        "io_uring is forbidden here: set the sysctl kernel.io_uring_disabled to 0; \
         in a container also allow io_uring_setup, io_uring_enter and io_uring_register in its seccomp profile"
    )]
    RingForbidden,
    /// Less memory may be locked than the runtime needs to begin at all.
    #[error(
        "only {limit_bytes} bytes of memory may be locked, {needed_bytes} are needed: \
         raise it (ulimit -l, LimitMEMLOCK= in systemd, --ulimit memlock=-1 in Docker)"
    )]
    LockedMemory {
        /// The limit as it is.
        limit_bytes: u64,
        /// What it must be at least.
        needed_bytes: u64,
    },
    /// The rings themselves found no memory.
    #[error(
        "no memory for the rings of a shard: raise the limit of locked memory (ulimit -l) or start fewer shards"
    )]
    RingMemory,
    /// Too few descriptors.
    #[error(
        "too few descriptors are left to start the shards: raise the limit (ulimit -n, LimitNOFILE= in systemd)"
    )]
    Descriptors,
    /// The processor does not exist or is not given to this process.
    #[error(
        "processor {cpu} does not exist or this process may not use it: see taskset -p and the cgroup's cpuset"
    )]
    NoSuchProcessor {
        /// The processor asked for.
        cpu: usize,
    },
    /// The data folder's drive can't be used for direct I/O.
    #[error("direct I/O in {} does not work: {source}; use ext4 or xfs on a local drive", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What failed.
        source: io::Error,
    },
    /// The data folder's drive is full, and has no file yet that direct I/O could be tried on.
    #[error(
        "the drive of {} is full: free {} KiB on it at least, and start again",
        folder.display(),
        direct::PROBE_BYTES >> 10
    )]
    DriveFull {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Too few threads may run.
    #[error(
        "{started} of the {needed} threads that the shards need could be started: {source}; allow more \
         (ulimit -u, TasksMax= in systemd, --pids-limit in Docker), or more memory where it is limited (ulimit -v)"
    )]
    Threads {
        /// How many could be.
        started: usize,
        /// How many are needed.
        needed: usize,
        /// Why not another one.
        source: io::Error,
    },
    /// Too little memory may be had.
    #[error(
        "{needed_bytes} bytes of memory for direct I/O can't be had: allow the process more (ulimit -v), or start fewer shards"
    )]
    Memory {
        /// What all shards need.
        needed_bytes: usize,
    },
    /// A thread could not be started.
    #[error("a shard's thread could not be started: {0}")]
    Thread(#[source] io::Error),
    /// The system gave no random seed.
    #[error("the system gave no random numbers: {0}")]
    Random(#[source] getrandom::Error),
    /// Any other failure of the rings.
    #[error("a shard's rings could not be set up: {0}")]
    Ring(#[source] io::Error),
}

impl StartError {
    pub(crate) fn of_ring(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::NOSYS) => Self::RingMissing,
            Some(Errno::PERM | Errno::ACCESS) => Self::RingForbidden,
            Some(Errno::NOMEM) => Self::RingMemory,
            Some(Errno::MFILE | Errno::NFILE) => Self::Descriptors,
            Some(_) | None => Self::Ring(error),
        }
    }

    pub(crate) fn of_folder(folder: &Path, source: io::Error) -> Self {
        let folder = folder.to_owned();
        if engine_io::is_storage_full(source.kind()) {
            return Self::DriveFull { folder, source };
        }
        Self::Folder { folder, source }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the runtime's errors are many and open-ended")]
    pub(crate) fn of_executor(error: GlommioError<()>) -> Self {
        match error {
            GlommioError::BuilderError(BuilderErrorKind::NonExistentCpus { cpu }) => {
                Self::NoSuchProcessor { cpu }
            }
            error => Self::of_ring(error::system(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_errno(errno: Errno) -> StartError {
        StartError::of_ring(errno.into())
    }

    #[test]
    fn a_refused_ring_is_told_by_its_cause() {
        assert!(matches!(of_errno(Errno::NOSYS), StartError::RingMissing));
        assert!(matches!(of_errno(Errno::PERM), StartError::RingForbidden));
        assert!(matches!(of_errno(Errno::NOMEM), StartError::RingMemory));
        assert!(matches!(of_errno(Errno::MFILE), StartError::Descriptors));
        assert!(matches!(of_errno(Errno::INVAL), StartError::Ring(_)));
    }

    #[test]
    fn a_full_drive_is_no_drive_without_direct_io() {
        let said = |errno: Errno| StartError::of_folder(Path::new("data"), errno.into()).to_string();
        assert_eq!(
            said(Errno::NOSPC),
            "the drive of data is full: free 64 KiB on it at least, and start again"
        );
        assert!(said(Errno::INVAL).contains("use ext4 or xfs"));
    }
}
