//! How a command fails: what is printed, and the exit code.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

/// What is said about a failure. It may come from a shard.
type Cause = Box<dyn Error + Send + Sync>;

/// A command's failure.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was tried and failed: exit code 1.
    Failed(Cause),
    /// The command line or the configuration is wrong: exit code 2.
    Usage(Cause),
    /// The machine refuses (io_uring, limits, port, folder): exit code 3.
    Machine(Cause),
}

impl Failure {
    /// The exit code of wrong usage.
    pub(crate) const USAGE: u8 = 2;

    pub(crate) fn failed(error: impl Into<Cause>) -> Self {
        Self::Failed(error.into())
    }

    pub(crate) fn usage(error: impl Into<Cause>) -> Self {
        Self::Usage(error.into())
    }

    pub(crate) fn machine(error: impl Into<Cause>) -> Self {
        Self::Machine(error.into())
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => Self::USAGE,
            Self::Machine(_) => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) | Self::Usage(error) | Self::Machine(error) => error.fmt(f),
        }
    }
}

/// A kind of refusal, and what to do about it.
type NextStep = (ErrorKind, &'static str);

const TO_READ: [NextStep; 4] = [
    (ErrorKind::PermissionDenied, "; let this user read it, or run as one who may"),
    (ErrorKind::NotFound, "; name one that is there"),
    (ErrorKind::IsADirectory, "; name a file, not a folder"),
    (ErrorKind::NotADirectory, "; a part of the path is no folder: name another"),
];

const TO_MAKE: [NextStep; 6] = [
    (ErrorKind::PermissionDenied, "; let this user write there, run as one who may, or name another"),
    (ErrorKind::ReadOnlyFilesystem, "; mount its file system for writing, or name another"),
    (ErrorKind::StorageFull, "; free space there, or name another"),
    (ErrorKind::QuotaExceeded, "; free space there, or name another"),
    (ErrorKind::AlreadyExists, "; a part of the path is no folder: name another"),
    (ErrorKind::NotADirectory, "; a part of the path is no folder: name another"),
];

fn next_step(steps: &[NextStep], error: &io::Error) -> Option<&'static str> {
    steps.iter().find(|(kind, _)| *kind == error.kind()).map(|(_, step)| *step)
}

/// What to do about something that can't be read, to stand behind what the system says.
pub(crate) fn to_read(error: &io::Error) -> &'static str {
    next_step(&TO_READ, error).unwrap_or_default()
}

/// What to do about something that can't be made or written, to stand behind what the system says.
pub(crate) fn to_make(error: &io::Error) -> &'static str {
    next_step(&TO_MAKE, error).unwrap_or("; nothing can be made there: name another")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_comes_with_the_next_step() {
        let denied = io::Error::from(ErrorKind::PermissionDenied);
        assert!(to_read(&denied).contains("let this user read it"));
        assert!(to_make(&denied).contains("let this user write there"));
        let missing = io::Error::from(ErrorKind::NotFound);
        assert!(to_read(&missing).contains("name one that is there"));
        assert!(to_make(&missing).contains("name another"));
    }
}
