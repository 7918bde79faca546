//! A child process: its lines, its end, and what the system says of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::clock::Deadline;

/// Lines of output that wait to be read; more hold the child up.
const LINES_MAX: usize = 1024;

/// A running child. Killed when it goes out of scope.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Receiver<String>,
}

/// What came of waiting for a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// This one.
    Text(String),
    /// The process closed its output: it is ending.
    End,
    /// The deadline passed.
    Late,
}

impl Process {
    /// Starts the command, whose standard output will be read as lines.
    ///
    /// # Panics
    /// When it can't be started.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let output = child.stdout.take().expect("standard output was piped");
        let (sender, lines) = mpsc::sync_channel(LINES_MAX);
        let reader = thread::Builder::new().name("output".to_owned());
        reader.spawn(move || forward_lines(output, &sender)).expect("a thread for the output can be started");
        Self { child, lines }
    }

    /// The system's number for it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its next line of output.
    #[must_use]
    pub fn line(&self, deadline: Deadline) -> Line {
        match self.lines.recv_timeout(deadline.remaining()) {
            Ok(text) => Line::Text(text),
            Err(RecvTimeoutError::Disconnected) => Line::End,
            Err(RecvTimeoutError::Timeout) => Line::Late,
        }
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal)
            .unwrap_or_else(|error| panic!("cannot send {signal:?} to {pid:?}: {error}"));
    }

    /// Whether it is still running.
    ///
    /// # Panics
    /// When the system doesn't tell.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked after").is_none()
    }

    /// Waits for its end, which follows once its output is closed.
    ///
    /// # Panics
    /// When the system doesn't tell.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("a child can be waited for")
    }

    /// Memory it holds now, bytes.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        status_kib(self.id(), "VmRSS:") * 1024
    }

    /// The most memory it held at once since it started, bytes.
    #[must_use]
    pub fn resident_bytes_max(&self) -> u64 {
        status_kib(self.id(), "VmHWM:") * 1024
    }

    /// Sockets it has open.
    ///
    /// # Panics
    /// When the system doesn't tell.
    #[must_use]
    pub fn socket_count(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.id());
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("cannot read {folder}: {error}"));
        let targets = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn forward_lines(output: ChildStdout, lines: &SyncSender<String>) {
    for line in BufReader::new(output).lines() {
        let Ok(line) = line else { return };
        if lines.send(line).is_err() {
            return;
        }
    }
}

fn status_kib(pid: u32, field: &str) -> u64 {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {path}: {error}"));
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    let number = value.and_then(|value| value.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{path} has no {field}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command)
    }

    #[test]
    fn lines_come_in_order_and_then_the_end() {
        let mut process = shell("echo one; echo two; exit 3");
        let deadline = Deadline::after_seconds(10);
        assert_eq!(process.line(deadline), Line::Text("one".to_owned()));
        assert_eq!(process.line(deadline), Line::Text("two".to_owned()));
        assert_eq!(process.line(deadline), Line::End);
        assert_eq!(process.wait().code(), Some(3));
    }

    #[test]
    fn a_silent_process_is_late_and_can_be_looked_at_and_killed() {
        let mut process = shell("exec sleep 60");
        assert_eq!(process.line(Deadline::after_seconds(0)), Line::Late);
        assert!(process.is_running());
        // First what it has now: it may grow between the two looks.
        let resident = process.resident_bytes();
        assert!(resident > 0 && process.resident_bytes_max() >= resident);
        assert_eq!(process.socket_count(), 0);
        process.signal(Signal::KILL);
        assert_eq!(process.wait().code(), None);
    }
}
