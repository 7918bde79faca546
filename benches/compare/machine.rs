//! What was measured on, and how busy it was with other things.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tuning::{Filesystem, WriteCache};

use crate::clock::Stopwatch;
use crate::error::{CompareError, file};

/// A folder of this run's own. Dropping it removes it with all that is in it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a folder below `parent`.
    pub(crate) fn make(parent: &Path) -> Result<Self, CompareError> {
        let path = parent.join(format!("run-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(file(&path))?;
        // Mounts are found by the words of the path, so it has no links and begins at the root.
        let path = fs::canonicalize(&path).map_err(file(&path))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that can't be removed is seen by whoever looks; the results are none the worse.
        let _left = fs::remove_dir_all(&self.0);
    }
}

/// How much the processors had done at some moment, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    since: Stopwatch,
    all: u64,
    own: u64,
}

impl Busy {
    pub(crate) fn now() -> Result<Self, CompareError> {
        let read = |path: &str| fs::read_to_string(path).map_err(file(Path::new(path)));
        let all = busy_ticks(&read("/proc/stat")?).ok_or(UNEXPECTED)?;
        let own = own_ticks(&read("/proc/self/stat")?).ok_or(UNEXPECTED)?;
        Ok(Self { since: Stopwatch::start(), all, own })
    }

    /// How many processors were busy since `self` with something else than this process and what it waited for.
    fn others(&self) -> Result<f64, CompareError> {
        let now = Self::now()?;
        let ticks = (now.all - self.all).saturating_sub(now.own - self.own);
        let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
        Ok(ticks as f64 / ticks_per_second / self.since.elapsed().as_secs_f64())
    }
}

const UNEXPECTED: CompareError = CompareError::Unexpected { program: "the kernel", what: "how busy it is" };

/// User, nice, system, interrupts and stolen time of all processors: all but idle and waiting.
fn busy_ticks(stat: &str) -> Option<u64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _waiting, rest @ ..] = &ticks[..] else { return None };
    // What guests took is in user and nice already.
    Some(user + nice + system + rest.iter().take(3).sum::<u64>())
}

/// Own time and that of children waited for: four fields behind the name.
fn own_ticks(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(')')?;
    let times: Vec<u64> =
        after.split_ascii_whitespace().skip(11).take(4).map_while(|field| field.parse().ok()).collect();
    if times.len() == 4 { Some(times.iter().sum()) } else { None }
}

/// The machine in a few lines, for the head of the results.
pub(crate) fn describe(folder: &Path, before: &Busy) -> Result<Vec<String>, CompareError> {
    let filesystem = tuning::filesystem_of(Path::new("/"), folder)?;
    Ok(vec![
        said_by("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        format!("commit {}", said_by("git", &["describe", "--always", "--dirty"])),
        format!("{} x {}", std::thread::available_parallelism()?, line_of("/proc/cpuinfo", "model name")),
        format!("memory {}", line_of("/proc/meminfo", "MemTotal")),
        format!("Linux {}", first_line("/proc/sys/kernel/osrelease")),
        storage(&filesystem),
        format!("{}, {}", said_by("fio", &["--version"]), first_words(&said_by("iperf3", &["--version"]), 2)),
        format!("busy with other things: {:.2} processors", before.others()?),
    ])
}

fn storage(filesystem: &Filesystem) -> String {
    let kind = &filesystem.kind;
    let Some(device) = &filesystem.device else { return format!("{kind} without a device of its own") };
    let cache = match device.write_cache {
        WriteCache::WriteBack => "volatile write cache",
        WriteCache::WriteThrough => "no volatile write cache",
        WriteCache::Unknown => "write cache unknown",
    };
    let scheduler = device.scheduler.as_deref().unwrap_or("none");
    format!("{kind} on {}, {cache}, fua {}, scheduler {scheduler}", device.name, device.fua)
}

/// The first line a program prints; "unknown" where it can't be run.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    known(said.lines().next())
}

fn first_line(path: &str) -> String {
    known(fs::read_to_string(path).unwrap_or_default().lines().next())
}

/// What stands behind the colon in the line of that name.
fn line_of(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    known(text.lines().find(|line| line.starts_with(name)).and_then(|line| Some(line.split_once(':')?.1)))
}

fn known(text: Option<&str>) -> String {
    text.map(str::trim).filter(|text| !text.is_empty()).unwrap_or("unknown").to_owned()
}

fn first_words(text: &str, count: usize) -> String {
    text.split_ascii_whitespace().take(count).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_processors_are_not_busy() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 9"), Some(63));
        assert_eq!(busy_ticks("cpu  1 2 4"), None);
    }

    #[test]
    fn own_time_has_that_of_children() {
        assert_eq!(own_ticks("1 (a b) S 0 0 0 0 0 0 0 0 0 0 1 2 4 8 20 0"), Some(15));
        assert_eq!(own_ticks("1 (a b) S 0 0"), None);
    }
}
