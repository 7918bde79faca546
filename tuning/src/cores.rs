//! Which CPUs this process may use, how they are wired, and whether a quota cuts into them.

use std::path::Path;

use crate::TuningError;
use crate::cgroups;
use crate::host::{self, unexpected};

/// Largest CPU number accepted, inclusive. No kernel is built for more than 8,192 CPUs; the bound
/// keeps a mistyped list such as `0-4000000000` from filling the memory.
pub const CPU_ID_MAX: u32 = 8_191;

/// A CPU (a hardware thread) that this process may run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The kernel's number of the CPU.
    pub id: u32,
    /// The NUMA node it belongs to; `None` when the kernel names none.
    pub node: Option<u32>,
    /// The other CPUs on the same physical core, ascending, whether or not we may use them.
    pub siblings: Vec<u32>,
}

/// A limit on CPU time set by a cgroup: `quota_us` in every `period_us`.
///
/// A quota that is smaller than the CPUs in use stops every shard for the rest of the period,
/// which shows as pauses of up to `period_us` in the latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuQuota {
    /// CPU time allowed in a period, microseconds.
    pub quota_us: u64,
    /// Length of a period, microseconds; never 0.
    pub period_us: u64,
}

impl CpuQuota {
    /// Whether `cpu_count` busy CPUs would run into the quota.
    #[must_use]
    pub fn throttles(self, cpu_count: usize) -> bool {
        u128::from(self.quota_us) < self.period_us as u128 * cpu_count as u128
    }

    /// Compares the share of time allowed without dividing.
    fn is_tighter_than(self, other: Self) -> bool {
        u128::from(self.quota_us) * u128::from(other.period_us)
            < u128::from(other.quota_us) * u128::from(self.period_us)
    }
}

/// The CPUs of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Usable CPUs, ascending by id, never empty.
    pub cpus: Vec<Cpu>,
    /// The tightest quota of this process's cgroup (version 2) and the ones above it.
    pub quota: Option<CpuQuota>,
}

impl Cores {
    /// One usable CPU of each physical core, ascending: the lowest-numbered. Two shards on
    /// one physical core would share its caches and execution units.
    #[must_use]
    pub fn one_per_physical_core(&self) -> Vec<u32> {
        let is_usable = |id: &u32| self.cpus.iter().any(|cpu| cpu.id == *id);
        let lowest_of_core = |cpu: &&Cpu| {
            let mut below = cpu.siblings.iter().filter(|sibling| **sibling < cpu.id);
            !below.any(is_usable)
        };
        self.cpus.iter().filter(lowest_of_core).map(|cpu| cpu.id).collect()
    }

    /// The quota, if the usable CPUs running busy would hit it: a warning worth a line at start.
    #[must_use]
    pub fn throttling_quota(&self) -> Option<CpuQuota> {
        self.quota.filter(|quota| quota.throttles(self.cpus.len()))
    }
}

/// Reads the CPUs this process may use.
///
/// The affinity mask already has the cpuset of the cgroup applied to it by the kernel.
///
/// # Errors
///
/// [`TuningError::Missing`] without `/proc`; [`TuningError::Read`], [`TuningError::Unexpected`] and
/// [`TuningError::CpuList`] name the file that could not be understood.
pub fn usable_cores(root: &Path) -> Result<Cores, TuningError> {
    let nodes = nodes(root)?;
    let cpus =
        allowed_cpus(root)?.into_iter().map(|id| cpu(root, id, &nodes)).collect::<Result<Vec<_>, _>>()?;
    assert!(!cpus.is_empty(), "the affinity mask of a running process names a CPU");
    Ok(Cores { cpus, quota: quota(root)? })
}

fn allowed_cpus(root: &Path) -> Result<Vec<u32>, TuningError> {
    let path = root.join("proc/self/status");
    let status = host::read_required(&path)?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .ok_or_else(|| unexpected(&path, "Cpus_allowed_list"))?;
    parse_list_of(&path, list)
}

fn parse_list_of(path: &Path, list: &str) -> Result<Vec<u32>, TuningError> {
    parse_cpu_list(list.trim()).map_err(|source| TuningError::CpuList { path: path.to_path_buf(), source })
}

/// Every NUMA node with its CPUs. A kernel without NUMA has no such folder.
fn nodes(root: &Path) -> Result<Vec<(u32, Vec<u32>)>, TuningError> {
    let folder = root.join("sys/devices/system/node");
    let mut nodes = Vec::new();
    for node in read_list(&folder.join("online"))?.unwrap_or_default() {
        let cpus = read_list(&folder.join(format!("node{node}/cpulist")))?.unwrap_or_default();
        nodes.push((node, cpus));
    }
    Ok(nodes)
}

/// A list of CPUs in a file; `None` when the file doesn't exist. A node of memory alone has an
/// empty list, which is no error here.
fn read_list(path: &Path) -> Result<Option<Vec<u32>>, TuningError> {
    match host::read(path)? {
        None => Ok(None),
        Some(text) if text.is_empty() => Ok(Some(Vec::new())),
        Some(text) => parse_list_of(path, &text).map(Some),
    }
}

fn cpu(root: &Path, id: u32, nodes: &[(u32, Vec<u32>)]) -> Result<Cpu, TuningError> {
    let topology = root.join(format!("sys/devices/system/cpu/cpu{id}/topology"));
    let mut siblings = read_list(&topology.join("thread_siblings_list"))?.unwrap_or_default();
    siblings.retain(|sibling| *sibling != id);
    let node = nodes.iter().find(|(_, cpus)| cpus.binary_search(&id).is_ok());
    Ok(Cpu { id, node: node.map(|(node, _)| *node), siblings })
}

/// The tightest `cpu.max` from this process's cgroup up to the top of the tree.
fn quota(root: &Path) -> Result<Option<CpuQuota>, TuningError> {
    let mut tightest: Option<CpuQuota> = None;
    for folder in cgroups::unified(root)? {
        let Some(found) = quota_in(&folder)? else { continue };
        if tightest.is_none_or(|tightest| found.is_tighter_than(tightest)) {
            tightest = Some(found);
        }
    }
    Ok(tightest)
}

/// `cpu.max` holds `<quota> <period>` in microseconds, or `max <period>` for no limit.
fn quota_in(folder: &Path) -> Result<Option<CpuQuota>, TuningError> {
    let path = folder.join("cpu.max");
    let Some(text) = host::read(&path)? else { return Ok(None) };
    let wanted = || unexpected(&path, "a quota and a period in microseconds");
    let (quota, period) = text.split_once(' ').ok_or_else(wanted)?;
    if quota == "max" {
        return Ok(None);
    }
    let quota_us = quota.parse().map_err(|_| wanted())?;
    let period_us = period.trim().parse().map_err(|_| wanted())?;
    if period_us == 0 {
        return Err(wanted());
    }
    Ok(Some(CpuQuota { quota_us, period_us }))
}

/// Why a list of CPUs doesn't parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// The list, or one of the places between its commas, is empty.
    #[error("a number is missing (write for example 0,2-5)")]
    Empty,
    /// Something that should be a CPU number isn't one.
    #[error("part {part} is not a number or a range of numbers (write for example 0,2-5)")]
    NotANumber {
        /// Which part between commas, counted from 1.
        part: usize,
    },
    /// A CPU number is above [`CPU_ID_MAX`].
    #[error("CPU {id} is above the largest number, {CPU_ID_MAX}")]
    TooLarge {
        /// The number as given.
        id: u32,
    },
    /// A range ends before it starts.
    #[error("the range {first}-{last} runs backwards")]
    Backwards {
        /// Where the range starts.
        first: u32,
        /// Where the range ends.
        last: u32,
    },
}

/// Parses a list in the kernel's spelling, such as `0,2-5` (ranges include both ends), into
/// ascending CPU numbers without repeats. The list is never empty.
///
/// # Errors
///
/// A variant of [`CpuListError`] for each way a list can be wrong.
pub fn parse_cpu_list(text: &str) -> Result<Vec<u32>, CpuListError> {
    let mut ids = Vec::new();
    for (index, part) in text.split(',').enumerate() {
        let (first, last) = parse_range(part.trim(), index + 1)?;
        ids.extend(first..=last);
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// Both ends of one part, inclusive.
fn parse_range(text: &str, part: usize) -> Result<(u32, u32), CpuListError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (parse_id(first, part)?, parse_id(last, part)?);
    if first > last {
        return Err(CpuListError::Backwards { first, last });
    }
    Ok((first, last))
}

fn parse_id(text: &str, part: usize) -> Result<u32, CpuListError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(CpuListError::Empty);
    }
    let id: u32 = text.parse().map_err(|_| CpuListError::NotANumber { part })?;
    if id > CPU_ID_MAX {
        return Err(CpuListError::TooLarge { id });
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_host::TestHost;

    /// Two sockets of two cores with two threads each, of which CPU 5 isn't ours.
    fn two_sockets() -> TestHost {
        let mut host = TestHost::new()
            .file("proc/self/status", "Name:\tringlog\nCpus_allowed:\tdf\nCpus_allowed_list:\t0-4,6-7\n")
            .file("sys/devices/system/node/online", "0-2\n")
            .file("sys/devices/system/node/node0/cpulist", "0-1,4-5\n")
            .file("sys/devices/system/node/node1/cpulist", "2-3,6-7\n")
            .file("sys/devices/system/node/node2/cpulist", "\n");
        for id in 0..8 {
            let core = id % 4;
            let path = format!("sys/devices/system/cpu/cpu{id}/topology/thread_siblings_list");
            host = host.file(&path, &format!("{core},{}\n", core + 4));
        }
        host
    }

    #[test]
    fn a_list_is_read_in_the_kernels_spelling() {
        assert_eq!(parse_cpu_list("0,2-5"), Ok(vec![0, 2, 3, 4, 5]));
        assert_eq!(parse_cpu_list(" 7 , 3 - 4 "), Ok(vec![3, 4, 7]));
        assert_eq!(parse_cpu_list("1,0-2,1"), Ok(vec![0, 1, 2]));
        assert_eq!(parse_cpu_list("8191"), Ok(vec![CPU_ID_MAX]));
    }

    #[test]
    fn a_wrong_list_says_what_is_wrong_with_it() {
        assert_eq!(parse_cpu_list(""), Err(CpuListError::Empty));
        assert_eq!(parse_cpu_list("0,,1"), Err(CpuListError::Empty));
        assert_eq!(parse_cpu_list("-3"), Err(CpuListError::Empty));
        assert_eq!(parse_cpu_list("0,x"), Err(CpuListError::NotANumber { part: 2 }));
        assert_eq!(parse_cpu_list("1-2-3"), Err(CpuListError::NotANumber { part: 1 }));
        assert_eq!(parse_cpu_list("99999999999"), Err(CpuListError::NotANumber { part: 1 }));
        assert_eq!(parse_cpu_list("0-4000000000"), Err(CpuListError::TooLarge { id: 4_000_000_000 }));
        assert_eq!(parse_cpu_list("8192"), Err(CpuListError::TooLarge { id: 8_192 }));
        assert_eq!(parse_cpu_list("5-2"), Err(CpuListError::Backwards { first: 5, last: 2 }));
    }

    #[test]
    fn cpus_know_their_node_and_their_siblings() {
        let cores = usable_cores(two_sockets().root()).unwrap();
        let ids: Vec<u32> = cores.cpus.iter().map(|cpu| cpu.id).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4, 6, 7]);
        assert_eq!(cores.cpus[1], Cpu { id: 1, node: Some(0), siblings: vec![5] });
        assert_eq!(cores.cpus[5], Cpu { id: 6, node: Some(1), siblings: vec![2] });
        assert_eq!(cores.quota, None);
    }

    #[test]
    fn one_usable_cpu_stands_for_each_physical_core() {
        let cores = usable_cores(two_sockets().root()).unwrap();
        assert_eq!(cores.one_per_physical_core(), [0, 1, 2, 3]);
        let upper = TestHost::new()
            .file("proc/self/status", "Cpus_allowed_list:\t4\n")
            .file("sys/devices/system/cpu/cpu4/topology/thread_siblings_list", "0,4\n");
        // CPU 0 isn't ours, so its sibling stands for the core.
        assert_eq!(usable_cores(upper.root()).unwrap().one_per_physical_core(), [4]);
    }

    #[test]
    fn a_host_without_numa_or_topology_still_lists_its_cpus() {
        let host = TestHost::new().file("proc/self/status", "Cpus_allowed_list:\t0-1\n");
        let cores = usable_cores(host.root()).unwrap();
        assert_eq!(cores.cpus[1], Cpu { id: 1, node: None, siblings: vec![] });
        assert_eq!(cores.one_per_physical_core(), [0, 1]);
    }

    #[test]
    fn the_tightest_quota_above_us_wins() {
        let host = two_sockets()
            .file("proc/self/cgroup", "1:cpu:/old\n0::/system.slice/ringlog.service\n")
            .file("sys/fs/cgroup/system.slice/ringlog.service/cpu.max", "max 100000\n")
            .file("sys/fs/cgroup/system.slice/cpu.max", "250000 100000\n")
            .file("sys/fs/cgroup/cpu.max", "400000 50000\n");
        let cores = usable_cores(host.root()).unwrap();
        let quota = CpuQuota { quota_us: 250_000, period_us: 100_000 };
        assert_eq!(cores.quota, Some(quota));
        assert_eq!(cores.throttling_quota(), Some(quota));
        assert!(!quota.throttles(2));
        assert!(quota.throttles(3));
    }

    #[test]
    fn the_unified_tree_beside_the_old_one_is_found() {
        let host = two_sockets()
            .file("proc/self/cgroup", "0::/\n")
            .file("sys/fs/cgroup/unified/cpu.max", "50000 100000\n");
        let quota = usable_cores(host.root()).unwrap().quota;
        assert_eq!(quota, Some(CpuQuota { quota_us: 50_000, period_us: 100_000 }));
    }

    #[test]
    fn a_cgroup_outside_our_namespace_has_no_quota_we_can_see() {
        let host = two_sockets()
            .file("proc/self/cgroup", "0::/../../other\n")
            .file("sys/fs/cgroup/cpu.max", "max 100000\n");
        assert_eq!(usable_cores(host.root()).unwrap().quota, None);
    }

    #[test]
    fn a_file_that_says_something_else_is_named() {
        let no_proc = usable_cores(TestHost::new().root()).unwrap_err();
        assert!(matches!(no_proc, TuningError::Missing { .. }), "{no_proc}");
        let host = TestHost::new().file("proc/self/status", "Name:\tringlog\n");
        let no_line = usable_cores(host.root()).unwrap_err();
        assert!(matches!(no_line, TuningError::Unexpected { .. }), "{no_line}");
        let host = TestHost::new().file("proc/self/status", "Cpus_allowed_list:\t3-1\n");
        let backwards = usable_cores(host.root()).unwrap_err();
        assert!(matches!(backwards, TuningError::CpuList { .. }), "{backwards}");
        for quota in ["", "1000", "x 100000", "100000 0"] {
            let host = two_sockets().file("proc/self/cgroup", "0::/\n").file("sys/fs/cgroup/cpu.max", quota);
            let error = usable_cores(host.root()).unwrap_err();
            assert!(matches!(error, TuningError::Unexpected { .. }), "{quota:?}: {error}");
        }
    }

    #[test]
    fn this_host_can_be_read() {
        let cores = usable_cores(Path::new("/")).unwrap();
        assert!(!cores.one_per_physical_core().is_empty());
    }
}
