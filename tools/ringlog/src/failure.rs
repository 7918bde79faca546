//! How a command fails: what is printed, and the exit code.

use std::error::Error;
use std::fmt;

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
