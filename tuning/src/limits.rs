//! What the kernel lets this process do, and what is in the way, with the fix in words.

use std::fmt;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::TuningError;
use crate::host::{self, unexpected};

/// A resource limit; `None` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    /// The limit in force.
    pub soft: Option<u64>,
    /// What the soft limit may be raised to without privilege.
    pub hard: Option<u64>,
}

/// `kernel.io_uring_disabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoUringPolicy {
    /// 0: any process may use io_uring.
    Allowed,
    /// 1: only processes with `CAP_SYS_ADMIN` or in the group `kernel.io_uring_group`.
    GroupOnly,
    /// 2: none may.
    Disabled,
    /// The kernel is older than the setting (6.6) and lets any process use io_uring.
    Unstated,
}

/// The version of the running kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// 6 of 6.18.
    pub major: u32,
    /// 18 of 6.18.
    pub minor: u32,
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The limits of the kernel and of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLimits {
    /// Version of the kernel.
    pub kernel: KernelVersion,
    /// Who may use io_uring. A seccomp profile may forbid it all the same, which only an attempt
    /// to set up a ring can tell.
    pub io_uring: IoUringPolicy,
    /// Memory that may be pinned, bytes.
    pub locked_memory_bytes: ResourceLimit,
    /// Open files.
    pub open_files: ResourceLimit,
}

/// Reads the limits.
///
/// # Errors
///
/// [`TuningError::Missing`] without `/proc`; [`TuningError::Read`] and [`TuningError::Unexpected`]
/// name the file that could not be understood.
pub fn kernel_limits(root: &Path) -> Result<KernelLimits, TuningError> {
    let path = root.join("proc/self/limits");
    let limits = host::read_required(&path)?;
    Ok(KernelLimits {
        kernel: kernel_version(&root.join("proc/sys/kernel/osrelease"))?,
        io_uring: io_uring_policy(&root.join("proc/sys/kernel/io_uring_disabled"))?,
        locked_memory_bytes: limit_in(&limits, "Max locked memory")
            .ok_or_else(|| unexpected(&path, "Max locked memory"))?,
        open_files: limit_in(&limits, "Max open files").ok_or_else(|| unexpected(&path, "Max open files"))?,
    })
}

/// A release such as `6.18.44-fc` or `5.15.0-91-generic`.
fn kernel_version(path: &Path) -> Result<KernelVersion, TuningError> {
    let release = host::read_required(path)?;
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    let mut number = || numbers.next()?.parse().ok();
    let version = number().zip(number());
    let (major, minor) = version.ok_or_else(|| unexpected(path, "a kernel release"))?;
    Ok(KernelVersion { major, minor })
}

fn io_uring_policy(path: &Path) -> Result<IoUringPolicy, TuningError> {
    match host::read(path)?.as_deref() {
        None => Ok(IoUringPolicy::Unstated),
        Some("0") => Ok(IoUringPolicy::Allowed),
        Some("1") => Ok(IoUringPolicy::GroupOnly),
        Some("2") => Ok(IoUringPolicy::Disabled),
        Some(_) => Err(unexpected(path, "0, 1 or 2")),
    }
}

/// A line such as `Max open files            1024                 524288               files`.
fn limit_in(limits: &str, name: &str) -> Option<ResourceLimit> {
    let mut words = limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
    Some(ResourceLimit { soft: bound(words.next()?)?, hard: bound(words.next()?)? })
}

/// `Some(None)` is unlimited, `None` no bound at all.
fn bound(word: &str) -> Option<Option<u64>> {
    if word == "unlimited" { Some(None) } else { word.parse().ok().map(Some) }
}

/// Raises the soft limit of open files of this process to the hard one, and answers the limit
/// that holds now.
///
/// # Errors
///
/// [`TuningError::RaiseLimit`] with the kernel's answer.
pub fn raise_open_files() -> Result<ResourceLimit, TuningError> {
    raise(Resource::Nofile, "open files")
}

/// Raises the soft limit of locked memory of this process to the hard one, and answers the limit
/// that holds now, in bytes.
///
/// # Errors
///
/// [`TuningError::RaiseLimit`] with the kernel's answer.
pub fn raise_locked_memory() -> Result<ResourceLimit, TuningError> {
    raise(Resource::Memlock, "locked memory")
}

fn raise(resource: Resource, name: &'static str) -> Result<ResourceLimit, TuningError> {
    let Rlimit { current, maximum } = getrlimit(resource);
    if current != maximum {
        setrlimit(resource, Rlimit { current: maximum, maximum })
            .map_err(|errno| TuningError::RaiseLimit { name, wanted: maximum, source: errno.into() })?;
    }
    let Rlimit { current: soft, maximum: hard } = getrlimit(resource);
    Ok(ResourceLimit { soft, hard })
}

/// What a broker needs of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The oldest kernel the runtime starts on.
    pub kernel_min: KernelVersion,
    /// Pinned memory below which the runtime refuses to start, bytes.
    pub locked_memory_bytes_min: u64,
    /// Pinned memory for all shards at full size, bytes. With less they run with less.
    pub locked_memory_bytes: u64,
    /// Files open at once when every connection and segment in sight is.
    pub open_files: u64,
}

impl Needs {
    /// The needs of `shard_count` shards of which each pins `pinned_bytes_per_shard` in the
    /// rings and buffers it registers.
    #[must_use]
    pub fn of_shards(shard_count: u64, pinned_bytes_per_shard: u64) -> Self {
        Self {
            kernel_min: KernelVersion { major: 5, minor: 11 },
            locked_memory_bytes_min: 512 * 1024,
            locked_memory_bytes: shard_count.saturating_mul(pinned_bytes_per_shard),
            open_files: 1 << 20,
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works, with less.
    Warning,
    /// It cannot work: refuse to start.
    Refusal,
}

/// Something in the way. Its text says what is wrong and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// The kernel is too old.
    #[error("kernel {found} is too old for io_uring as used here: run on {wanted} or newer")]
    KernelTooOld {
        /// The running kernel.
        found: KernelVersion,
        /// The oldest that works.
        wanted: KernelVersion,
    },
    /// io_uring is forbidden to every process.
    #[error(
        "io_uring is disabled on this host (kernel.io_uring_disabled = 2): \
         run `sysctl -w kernel.io_uring_disabled=0` on the host, and keep it in /etc/sysctl.d"
    )]
    IoUringDisabled,
    /// io_uring is kept for privileged processes and one group.
    #[error(
        "io_uring is kept for one group (kernel.io_uring_disabled = 1): \
         set kernel.io_uring_group to the broker's group, or kernel.io_uring_disabled to 0"
    )]
    IoUringGroupOnly,
    /// Less pinned memory than the runtime starts with.
    #[error(
        "only {found} bytes of memory may be locked, {wanted} are needed: \
         set LimitMEMLOCK=infinity in the service unit, or start the container with --ulimit memlock=-1"
    )]
    LockedMemoryRefused {
        /// The limit that can be reached, bytes.
        found: u64,
        /// What the runtime starts with, bytes.
        wanted: u64,
    },
    /// Less pinned memory than all shards would like.
    #[error(
        "{found} bytes of memory may be locked and {wanted} would be used; running with less: \
         set LimitMEMLOCK=infinity in the service unit, or start the container with --ulimit memlock=-1"
    )]
    LockedMemoryLow {
        /// The limit that can be reached, bytes.
        found: u64,
        /// What all shards would use, bytes.
        wanted: u64,
    },
    /// Few files can be open at once.
    #[error(
        "only {found} files may be open at once, {wanted} are advised: \
         set LimitNOFILE={wanted} in the service unit, or start the container with --ulimit nofile={wanted}"
    )]
    OpenFilesLow {
        /// The limit that can be reached.
        found: u64,
        /// What is advised.
        wanted: u64,
    },
}

impl Finding {
    /// How bad it is.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::KernelTooOld { .. } | Self::IoUringDisabled | Self::LockedMemoryRefused { .. } => {
                Severity::Refusal
            }
            // A capability or the group may still let us through: the ring itself decides.
            Self::IoUringGroupOnly | Self::LockedMemoryLow { .. } | Self::OpenFilesLow { .. } => {
                Severity::Warning
            }
        }
    }
}

/// Lays the limits beside the needs; empty when nothing is in the way. Each limit counts as
/// raised to its hard value, since the process raises it itself ([`raise_open_files`],
/// [`raise_locked_memory`]).
#[must_use]
pub fn findings(limits: &KernelLimits, needs: &Needs) -> Vec<Finding> {
    [
        kernel_finding(limits.kernel, needs.kernel_min),
        io_uring_finding(limits.io_uring),
        locked_memory_finding(limits.locked_memory_bytes.hard, needs),
        open_files_finding(limits.open_files.hard, needs.open_files),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn kernel_finding(found: KernelVersion, wanted: KernelVersion) -> Option<Finding> {
    (found < wanted).then_some(Finding::KernelTooOld { found, wanted })
}

fn io_uring_finding(policy: IoUringPolicy) -> Option<Finding> {
    match policy {
        IoUringPolicy::Disabled => Some(Finding::IoUringDisabled),
        IoUringPolicy::GroupOnly => Some(Finding::IoUringGroupOnly),
        IoUringPolicy::Allowed | IoUringPolicy::Unstated => None,
    }
}

fn locked_memory_finding(found: Option<u64>, needs: &Needs) -> Option<Finding> {
    let found = found?;
    if found < needs.locked_memory_bytes_min {
        let wanted = needs.locked_memory_bytes_min;
        return Some(Finding::LockedMemoryRefused { found, wanted });
    }
    let wanted = needs.locked_memory_bytes;
    (found < wanted).then_some(Finding::LockedMemoryLow { found, wanted })
}

fn open_files_finding(found: Option<u64>, wanted: u64) -> Option<Finding> {
    let found = found?;
    (found < wanted).then_some(Finding::OpenFilesLow { found, wanted })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_host::TestHost;

    const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max open files            1024                 524288               files
Max locked memory         8388608              unlimited            bytes
";

    fn host(release: &str) -> TestHost {
        TestHost::new().file("proc/self/limits", LIMITS).file("proc/sys/kernel/osrelease", release)
    }

    fn roomy() -> KernelLimits {
        let unlimited = ResourceLimit { soft: None, hard: None };
        KernelLimits {
            kernel: KernelVersion { major: 6, minor: 1 },
            io_uring: IoUringPolicy::Allowed,
            locked_memory_bytes: unlimited,
            open_files: unlimited,
        }
    }

    #[test]
    fn limits_are_read_as_the_kernel_writes_them() {
        let host = host("5.15.0-91-generic\n").file("proc/sys/kernel/io_uring_disabled", "1\n");
        let limits = kernel_limits(host.root()).unwrap();
        assert_eq!(limits.kernel, KernelVersion { major: 5, minor: 15 });
        assert_eq!(limits.io_uring, IoUringPolicy::GroupOnly);
        assert_eq!(limits.open_files, ResourceLimit { soft: Some(1_024), hard: Some(524_288) });
        let locked = ResourceLimit { soft: Some(8_388_608), hard: None };
        assert_eq!(limits.locked_memory_bytes, locked);
    }

    #[test]
    fn an_old_kernel_does_not_state_its_policy() {
        let limits = kernel_limits(host("5.10.0\n").root()).unwrap();
        assert_eq!(limits.io_uring, IoUringPolicy::Unstated);
    }

    #[test]
    fn a_file_that_says_something_else_is_named() {
        for release in ["", "linux", "6", "-6.1"] {
            let error = kernel_limits(host(release).root()).unwrap_err();
            assert!(matches!(error, TuningError::Unexpected { .. }), "{release:?}: {error}");
        }
        let policy = host("6.8.0").file("proc/sys/kernel/io_uring_disabled", "3");
        assert!(matches!(kernel_limits(policy.root()), Err(TuningError::Unexpected { .. })));
        let limits = host("6.8.0").file("proc/self/limits", "Max open files few many files\n");
        assert!(matches!(kernel_limits(limits.root()), Err(TuningError::Unexpected { .. })));
        assert!(matches!(kernel_limits(TestHost::new().root()), Err(TuningError::Missing { .. })));
    }

    #[test]
    fn a_roomy_host_has_no_findings() {
        assert_eq!(findings(&roomy(), &Needs::of_shards(64, 30 << 20)), []);
    }

    #[test]
    fn each_obstacle_is_a_finding_that_says_what_to_do() {
        let limits = KernelLimits {
            kernel: KernelVersion { major: 5, minor: 10 },
            io_uring: IoUringPolicy::Disabled,
            locked_memory_bytes: ResourceLimit { soft: Some(65_536), hard: Some(65_536) },
            open_files: ResourceLimit { soft: Some(1_024), hard: Some(4_096) },
        };
        let found = findings(&limits, &Needs::of_shards(4, 30 << 20));
        let severities: Vec<_> = found.iter().map(|finding| finding.severity()).collect();
        use Severity::{Refusal, Warning};
        assert_eq!(severities, [Refusal, Refusal, Refusal, Warning]);
        let texts: Vec<_> = found.iter().map(ToString::to_string).collect();
        for (text, fix) in texts.iter().zip(["5.11", "sysctl -w", "LimitMEMLOCK", "LimitNOFILE"]) {
            assert!(text.contains(fix), "{text}");
        }
    }

    #[test]
    fn little_locked_memory_is_a_warning_until_the_runtime_refuses() {
        let needs = Needs::of_shards(4, 30 << 20);
        let with = |bytes| {
            let locked_memory_bytes = ResourceLimit { soft: Some(0), hard: Some(bytes) };
            KernelLimits { locked_memory_bytes, ..roomy() }
        };
        let wanted = needs.locked_memory_bytes;
        assert_eq!(findings(&with(wanted), &needs), []);
        let low = Finding::LockedMemoryLow { found: wanted - 1, wanted };
        assert_eq!(findings(&with(wanted - 1), &needs), [low]);
        let least = needs.locked_memory_bytes_min;
        let refused = Finding::LockedMemoryRefused { found: least - 1, wanted: least };
        assert_eq!(findings(&with(least - 1), &needs), [refused]);
    }

    #[test]
    fn group_only_is_a_warning_because_we_may_be_in_the_group() {
        let limits = KernelLimits { io_uring: IoUringPolicy::GroupOnly, ..roomy() };
        let found = findings(&limits, &Needs::of_shards(1, 0));
        assert_eq!(found, [Finding::IoUringGroupOnly]);
        assert_eq!(found[0].severity(), Severity::Warning);
    }

    #[test]
    fn soft_limits_are_raised_to_the_hard_ones() {
        let open_files = raise_open_files().unwrap();
        let locked_memory_bytes = raise_locked_memory().unwrap();
        assert_eq!(open_files.soft, open_files.hard);
        assert_eq!(locked_memory_bytes.soft, locked_memory_bytes.hard);
        let limits = kernel_limits(Path::new("/")).unwrap();
        assert_eq!(limits.open_files, open_files);
        assert_eq!(limits.locked_memory_bytes, locked_memory_bytes);
    }
}
