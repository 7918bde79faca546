//! What this host is, read before the first shard starts.
//!
//! The crate answers six questions, each in a file of its own:
//!
//! ```text
//! cores        which CPUs may we use, how are they wired, is there a quota?     /proc /sys
//! memory       how much may we use, also where a control group says so?      /proc /sys
//! filesystem   what lies under the data folder, down to the drive's cache?      /proc /sys statvfs
//! limits       does the kernel let us work (io_uring, memlock, nofile)?         /proc setrlimit
//! flush_probe  how long does a durable write take on this drive?                a scratch file
//! flush_scope  does one flush cover every file of the file system?              rules + a scratch file
//! ```
//!
//! It isn't a tuner: besides raising soft limits of this process it changes nothing. It
//! starts no thread and knows no runtime; every call blocks, so it belongs before the shards run,
//! or in a command of its own.
//!
//! Every reader of `/proc` and `/sys` takes the `root` of the tree to read (`/` in production).
//! Tests give it a folder that holds a captured tree.
//!
//! What always holds:
//!
//! * A file that an older kernel or a container doesn't have is `None`, `Unknown` or a named
//!   variant; a file that is there but says something unexpected is a [`TuningError`].
//! * Doubt about flushing ends in [`FlushScope::PerFile`], the answer that costs time but loses
//!   nothing.
//! * A probe leaves no file behind, not even when the process is killed: its scratch files never have
//!   a name.

#![forbid(unsafe_code)]

mod cgroups;
mod cores;
mod error;
mod filesystem;
mod flush_probe;
mod flush_scope;
mod host;
mod limits;
mod memory;
mod mounts;
mod scratch;
#[cfg(test)]
mod test_host;

pub use cores::{CPU_ID_MAX, Cores, Cpu, CpuListError, CpuQuota, parse_cpu_list, usable_cores};
pub use error::TuningError;
pub use filesystem::{
    BlockDevice, DeviceNumber, Filesystem, FilesystemKind, Space, WriteCache, filesystem_of, space_of,
};
pub use flush_probe::{FlushMeasurement, Latencies, ProbeBounds, measure_flush};
pub use flush_scope::{FlushScope, PerFileReason, flush_covers_other_files};
pub use limits::{
    Finding, IoUringPolicy, KernelLimits, KernelVersion, Needs, ResourceLimit, Severity, findings,
    kernel_limits, raise_locked_memory, raise_open_files,
};
pub use memory::{Memory, usable_memory};
