//! A broker as a child process: its start, its processor time, its counters, its end.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::fs::Advice;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::clock;
use crate::error::{CompareError, file};

/// What the shards' threads are named by.
const SHARD_THREAD: &str = "shard-";
/// Longer than the broker takes to replace the file of its counters.
const COUNTERS_AGE: Duration = Duration::from_millis(600);
const UNEXPECTED_START: CompareError =
    CompareError::Unexpected { program: "ringlog", what: "where it listens" };

/// A running broker. Dropping it stops it in order.
pub(crate) struct Broker {
    child: Child,
    /// Held open: a broker whose output nobody takes would end when it says something.
    _said: BufReader<ChildStdout>,
    /// Where its one shard listens.
    pub(crate) address: SocketAddr,
    data: PathBuf,
    counters: PathBuf,
}

/// Processor time used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuTime {
    /// By the shards' threads.
    pub(crate) shards: Duration,
    /// By all threads of the process, the kernel's workers for its rings with them.
    pub(crate) process: Duration,
}

/// Bytes that fetches took by each path so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BytesRead {
    pub(crate) tail: u64,
    pub(crate) warm: u64,
    pub(crate) cold: u64,
}

impl Broker {
    /// Starts a broker with one shard on processor `cpu` in an empty folder, and waits until it is ready.
    pub(crate) fn start(program: &Path, folder: &Path, cpu: usize) -> Result<Self, CompareError> {
        fs::create_dir_all(folder).map_err(file(folder))?;
        let (data, counters) = (folder.join("data"), folder.join("counters.json"));
        let log = folder.join("broker.log");
        let mut child = Command::new(program)
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--cpus", &cpu.to_string()])
            .arg("--data-dir")
            .arg(&data)
            .arg("--stats-file")
            .arg(&counters)
            .stdout(Stdio::piped())
            .stderr(File::create(&log).map_err(file(&log))?)
            .spawn()
            .map_err(|source| CompareError::Program { program: "ringlog", source })?;
        let mut said = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut line = String::new();
        said.read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        let address = ready["endpoints"][0]["address"].as_str().and_then(|address| address.parse().ok());
        let Some(address) = address else {
            stop(&mut child);
            let words = fs::read_to_string(&log).unwrap_or_default();
            let failed = CompareError::Failed { program: "ringlog", words };
            return Err(if line.is_empty() { failed } else { UNEXPECTED_START });
        };
        Ok(Self { child, _said: said, address, data, counters })
    }

    /// The processor time of its threads.
    pub(crate) fn cpu_time(&self) -> Result<CpuTime, CompareError> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.child.id()));
        let mut time = CpuTime::default();
        for entry in fs::read_dir(&tasks).map_err(file(&tasks))? {
            let stat = entry?.path().join("stat");
            // A thread may have ended since it was listed.
            let Ok(stat) = fs::read_to_string(&stat) else { continue };
            let (name, used) = parse_stat(&stat).ok_or(UNEXPECTED_STAT)?;
            time.process += used;
            if name.starts_with(SHARD_THREAD) {
                time.shards += used;
            }
        }
        Ok(time)
    }

    /// Its counters, as they were after everything that was answered before the call.
    pub(crate) fn bytes_read(&self) -> Result<BytesRead, CompareError> {
        clock::pause(COUNTERS_AGE);
        let text = fs::read_to_string(&self.counters).map_err(file(&self.counters))?;
        let counters: Value = serde_json::from_str(&text).unwrap_or_default();
        let store = &counters["shards"][0]["store"];
        let count = |name: &str| store[name].as_u64().ok_or(UNEXPECTED_COUNTERS);
        Ok(BytesRead {
            tail: count("bytes_read_tail")?,
            warm: count("bytes_read_warm")?,
            cold: count("bytes_read_cold")?,
        })
    }

    /// Drops its segments from the page cache.
    pub(crate) fn make_cold(&self) -> Result<(), CompareError> {
        segments(&self.data)?.iter().try_for_each(|path| {
            let forget = |segment: File| Ok(rustix::fs::fadvise(&segment, 0, None, Advice::DontNeed)?);
            File::open(path).and_then(forget).map_err(file(path))
        })
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

const UNEXPECTED_STAT: CompareError =
    CompareError::Unexpected { program: "the kernel", what: "a thread's processor time" };
const UNEXPECTED_COUNTERS: CompareError =
    CompareError::Unexpected { program: "ringlog", what: "how many bytes it served by each path" };

fn stop(child: &mut Child) {
    // One that has ended already needs no signal.
    let _ended = kill_process(Pid::from_child(child), Signal::TERM);
    let _reaped = child.wait();
}

/// All segment files below `folder`.
fn segments(folder: &Path) -> Result<Vec<PathBuf>, CompareError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(file(folder))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(segments(&entry.path())?);
        } else if entry.path().extension().is_some_and(|extension| extension == "log") {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Name and processor time of a line of `/proc/<pid>/task/<tid>/stat`: the name stands in brackets and may hold any
/// byte; user and system time are the 12th and 13th field behind it, in ticks.
fn parse_stat(line: &str) -> Option<(&str, Duration)> {
    let (before, after) = line.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut times = after.split_ascii_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    Some((name, Duration::from_millis((user + system) * 1_000 / ticks_per_second)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_time_is_found_behind_any_name() {
        let line = "4711 (shard-0 ) x) S 1 4711 4711 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 3 0 100 0 0";
        let (name, used) = parse_stat(line).unwrap();
        assert_eq!(name, "shard-0 ) x");
        assert_eq!(used.as_millis(), u128::from(200 * 1_000 / rustix::param::clock_ticks_per_second()));
        assert_eq!(parse_stat("4711 (shard-0"), None);
    }
}
