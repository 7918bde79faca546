//! How much memory this process may use: the machine's, or less where a control group or a limit of its own says so.

use std::path::{Path, PathBuf};

use crate::TuningError;
use crate::cgroups;
use crate::host::{self, unexpected};

/// The files of a group in the unified hierarchy. Above `memory.high` the kernel slows the process down and takes its pages
/// away, above `memory.max` it ends it: a broker is to stay below both.
const UNIFIED: [&str; 2] = ["memory.max", "memory.high"];
/// That of the old hierarchy.
const OLD: [&str; 1] = ["memory.limit_in_bytes"];

/// The memory this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// So many bytes.
    pub bytes: u64,
    /// The file that says so, of a control group or of the process's limits; `None` where it is all the machine has.
    pub limited_by: Option<PathBuf>,
}

/// Reads how much memory this process may use: the smallest of what the machine has, of what its control groups allow, up to
/// the top of the tree, in both versions of them, and of its addresses (`ulimit -v`).
///
/// # Errors
///
/// [`TuningError::Missing`] without `/proc`; [`TuningError::Read`] and [`TuningError::Unexpected`] name the file that could
/// not be understood.
pub fn usable_memory(root: &Path) -> Result<Memory, TuningError> {
    let mut least = Memory { bytes: of_machine(root)?, limited_by: None };
    for file in limit_files(root)? {
        least.no_more_than(limit_in(&file)?, file);
    }
    let file = root.join("proc/self/limits");
    least.no_more_than(of_addresses(&file)?, file);
    Ok(least)
}

impl Memory {
    fn no_more_than(&mut self, limit: Option<u64>, file: PathBuf) {
        if let Some(bytes) = limit.filter(|bytes| *bytes < self.bytes) {
            *self = Self { bytes, limited_by: Some(file) };
        }
    }
}

/// The soft limit of the process's addresses (RLIMIT_AS), in bytes: all memory has some.
fn of_addresses(file: &Path) -> Result<Option<u64>, TuningError> {
    let Some(text) = host::read(file)? else { return Ok(None) };
    let soft = text
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"))
        .and_then(|rest| rest.split_whitespace().next());
    match soft {
        None | Some("unlimited") => Ok(None),
        Some(bytes) => {
            let expected = "a number of bytes as the first limit of the address space, or unlimited";
            bytes.parse().map(Some).map_err(|_| unexpected(file, expected))
        }
    }
}

fn of_machine(root: &Path) -> Result<u64, TuningError> {
    let path = root.join("proc/meminfo");
    let text = host::read_required(&path)?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    let bytes = kibibytes.and_then(|kibibytes| kibibytes.checked_mul(1 << 10));
    bytes.ok_or_else(|| unexpected(&path, "MemTotal in kB"))
}

fn limit_files(root: &Path) -> Result<Vec<PathBuf>, TuningError> {
    let unified = cgroups::unified(root)?;
    let old = cgroups::of_controller(root, "memory")?;
    let of = |folders: Vec<PathBuf>, names: &'static [&'static str]| {
        folders.into_iter().flat_map(move |folder| names.iter().map(move |name| folder.join(name)))
    };
    Ok(of(unified, &UNIFIED).chain(of(old, &OLD)).collect())
}

/// A number of bytes, or `max` for no limit. The old hierarchy has a number beyond any machine's for that.
fn limit_in(file: &Path) -> Result<Option<u64>, TuningError> {
    match host::read(file)?.as_deref() {
        None | Some("max") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| unexpected(file, "a number of bytes, or max")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_host::TestHost;

    const GIB: u64 = 1 << 30;

    fn host_of_4_gib() -> TestHost {
        TestHost::new().file("proc/meminfo", "MemTotal:        4194304 kB\nMemFree:          123456 kB\n")
    }

    /// What is found, and the file that says so, below the root.
    fn found(host: &TestHost) -> (u64, Option<String>) {
        let Memory { bytes, limited_by } = usable_memory(host.root()).unwrap();
        let below = |path: PathBuf| path.strip_prefix(host.root()).unwrap().display().to_string();
        (bytes, limited_by.map(below))
    }

    #[test]
    fn without_a_limit_it_is_the_machines() {
        assert_eq!(found(&host_of_4_gib()), (4 * GIB, None));
        let unlimited = host_of_4_gib()
            .file("proc/self/cgroup", "0::/system.slice/ringlog.service\n")
            .file("sys/fs/cgroup/system.slice/ringlog.service/memory.max", "max\n")
            .file("sys/fs/cgroup/system.slice/memory.max", "9999999999999\n");
        assert_eq!(found(&unlimited), (4 * GIB, None));
    }

    #[test]
    fn the_least_of_the_groups_up_the_tree_holds() {
        let host = host_of_4_gib()
            .file("proc/self/cgroup", "0::/pods/broker\n")
            .file("sys/fs/cgroup/pods/broker/memory.max", "3221225472\n")
            .file("sys/fs/cgroup/pods/broker/memory.high", "max\n")
            .file("sys/fs/cgroup/pods/memory.max", "1073741824\n");
        assert_eq!(found(&host), (GIB, Some("sys/fs/cgroup/pods/memory.max".to_owned())));
        let slowed = host.file("sys/fs/cgroup/pods/broker/memory.high", "536870912\n");
        assert_eq!(found(&slowed), (GIB / 2, Some("sys/fs/cgroup/pods/broker/memory.high".to_owned())));
    }

    #[test]
    fn what_the_process_may_address_limits_it_too() {
        let line = |soft: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units\n\
                 Max address space         {soft}           unlimited            bytes\n"
            )
        };
        let host = host_of_4_gib().file("proc/self/limits", &line("1073741824"));
        assert_eq!(found(&host), (GIB, Some("proc/self/limits".to_owned())));
        assert_eq!(found(&host.file("proc/self/limits", &line("unlimited"))), (4 * GIB, None));
        let odd = host_of_4_gib().file("proc/self/limits", &line("much"));
        assert!(usable_memory(odd.root()).unwrap_err().to_string().contains("address space"));
    }

    #[test]
    fn a_container_sees_its_limit_at_the_top_of_its_own_tree() {
        let host = host_of_4_gib()
            .file("proc/self/cgroup", "0::/\n")
            .file("sys/fs/cgroup/memory.max", "2147483648\n");
        assert_eq!(found(&host), (2 * GIB, Some("sys/fs/cgroup/memory.max".to_owned())));
    }

    #[test]
    fn the_old_hierarchy_limits_too_also_where_the_path_is_the_hosts() {
        let lines = "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n";
        let host = host_of_4_gib()
            .file("proc/self/cgroup", lines)
            .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
        let top = "sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(found(&host), (GIB, Some(top.to_owned())));
        let own = "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes";
        let nested = host.file(own, "536870912\n").file(top, "9223372036854771712\n");
        assert_eq!(found(&nested), (GIB / 2, Some(own.to_owned())));
    }

    #[test]
    fn a_group_outside_our_namespace_has_no_limit_we_can_see() {
        let host = host_of_4_gib()
            .file("proc/self/cgroup", "0::/../../other\n")
            .file("sys/fs/cgroup/memory.max", "max\n");
        assert_eq!(found(&host), (4 * GIB, None));
    }

    #[test]
    fn a_file_that_says_something_else_is_named() {
        let missing = usable_memory(TestHost::new().root()).unwrap_err();
        assert!(matches!(missing, TuningError::Missing { .. }), "{missing}");
        for text in ["", "MemTotal: many kB\n", "MemTotal: 99999999999999999999 kB\n"] {
            let host = TestHost::new().file("proc/meminfo", text);
            let error = usable_memory(host.root()).unwrap_err();
            assert!(matches!(error, TuningError::Unexpected { .. }), "{text:?}: {error}");
        }
        let host =
            host_of_4_gib().file("proc/self/cgroup", "0::/\n").file("sys/fs/cgroup/memory.max", "much\n");
        let error = usable_memory(host.root()).unwrap_err();
        assert!(error.to_string().contains("memory.max"), "{error}");
    }

    #[test]
    fn this_host_can_be_read() {
        assert!(usable_memory(Path::new("/")).unwrap().bytes > 64 << 20);
    }
}
