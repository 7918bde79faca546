//! The embedded broker: this program again, as a child process with a folder of its own.
//!
//! Whatever ends the bench ends the broker: leaving the scope kills it, a signal does ([`Emergency`]), and the kernel
//! does where the bench itself is killed (`serve --parent`).

mod emergency;
mod folder;
mod ports;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

pub(super) use self::emergency::Emergency;
pub(super) use self::folder::{BenchFolder, Keep};
use super::counters::Counters;
use super::cpu;
use crate::client::spawn_thread;
use crate::failure::Failure;
use crate::output::tell;

/// How long a broker may take until it is ready. After a kill that includes the recovery of its logs.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a broker may take to stop in order.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a stopping broker is looked at.
const STOP_POLL: Duration = Duration::from_millis(10);
/// Lines of its log that are shown of a broker that failed.
const LOG_LINES: usize = 12;

/// The broker's own line when it is ready.
#[derive(Debug, Deserialize)]
struct Ready {
    endpoints: Vec<ReadyEndpoint>,
}

#[derive(Debug, Deserialize)]
struct ReadyEndpoint {
    address: String,
}

/// A broker that runs.
#[derive(Debug)]
pub(super) struct Broker {
    folder: BenchFolder,
    cpus: Vec<u32>,
    routing: RoutingName,
    /// The first shard's port, where it must stay the same over a restart.
    port: u16,
    child: Option<Child>,
    /// Knows the child while there is one.
    emergency: Emergency,
    bootstrap: Vec<String>,
}

/// Whether the broker is to come back on the ports it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    /// Any that are free.
    Any,
    /// Some that are free and stay its own, also while it is away.
    Fixed,
}

/// `--routing` as it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RoutingName {
    /// Each shard has a port of its own.
    #[default]
    Shard,
    /// All have one.
    Node,
}

impl RoutingName {
    /// As `serve` reads it.
    const fn name(self) -> &'static str {
        match self {
            Self::Shard => "shard",
            Self::Node => "node",
        }
    }
}

impl Broker {
    /// Starts a broker with a shard on each of these CPUs, and waits until it is ready.
    pub(super) fn start(
        folder: BenchFolder,
        cpus: &[u32],
        (routing, ports): (RoutingName, Ports),
        emergency: Emergency,
    ) -> Result<Self, Failure> {
        let port = match ports {
            Ports::Any => 0,
            Ports::Fixed => ports::free_run(cpus.len()).ok_or_else(|| {
                Failure::machine(format!("no {} neighbouring ports of 127.0.0.1 are free", cpus.len()))
            })?,
        };
        let (cpus, bootstrap) = (cpus.to_vec(), Vec::new());
        let mut broker = Self { folder, cpus, routing, port, child: None, emergency, bootstrap };
        broker.launch()?;
        Ok(broker)
    }

    /// Where clients find it.
    pub(super) fn bootstrap(&self) -> &[String] {
        &self.bootstrap
    }

    /// What it has done since it was started.
    pub(super) fn counters(&self) -> io::Result<Counters> {
        Counters::read(&self.stats_file())
    }

    /// Processor time it has used since it was started.
    pub(super) fn cpu_time(&self) -> io::Result<Duration> {
        self.child.as_ref().map_or(Ok(Duration::ZERO), |child| cpu::used_by(child.id()))
    }

    /// Fails where it has ended by itself.
    pub(super) fn check_alive(&mut self) -> Result<(), Failure> {
        let ended = self.child.as_mut().map(Child::try_wait).transpose().map_err(Failure::failed)?;
        match ended.flatten() {
            Some(status) => Err(self.failed(&format!("the broker has ended by itself ({status})"))),
            None => Ok(()),
        }
    }

    /// Kills it without warning.
    pub(super) fn kill(&mut self) -> Result<(), Failure> {
        self.end().map_err(Failure::failed)?;
        // The counters in the file are those of the dead.
        match fs::remove_file(self.stats_file()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::failed(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Starts it again after [`Broker::kill`], and waits until it is ready.
    pub(super) fn restart(&mut self) -> Result<(), Failure> {
        self.launch()
    }

    /// Stops it in order, so that a folder that is kept is whole.
    pub(super) fn stop(mut self) -> Result<(), Failure> {
        let Some(child) = &mut self.child else { return Ok(()) };
        signal(child.id(), Signal::TERM).map_err(Failure::failed)?;
        let mut waited = Duration::ZERO;
        while waited < STOP_TIMEOUT {
            if child.try_wait().map_err(Failure::failed)?.is_some() {
                return Ok(());
            }
            sleep(STOP_POLL);
            waited += STOP_POLL;
        }
        Err(self.failed("the broker doesn't stop and is killed"))
    }

    /// Kills it and waits until it is gone.
    fn end(&mut self) -> io::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        // Its number may be another's as soon as it has been waited for.
        self.emergency.forget_process();
        child.kill()?;
        child.wait().map(drop)
    }

    fn stats_file(&self) -> PathBuf {
        self.folder.path().join("stats.json")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("broker.log")
    }

    fn launch(&mut self) -> Result<(), Failure> {
        let log =
            File::options().create(true).append(true).open(self.log_file()).map_err(Failure::machine)?;
        let program = std::env::current_exe().map_err(Failure::machine)?;
        let cpus: Vec<_> = self.cpus.iter().map(u32::to_string).collect();
        let mut command = Command::new(program);
        command.args(["serve", "--json", "--listen", &format!("127.0.0.1:{}", self.port)]);
        command.args([
            "--routing",
            self.routing.name(),
            "--cpus",
            &cpus.join(","),
            "--parent",
            &std::process::id().to_string(),
        ]);
        command.arg("--data-dir").arg(self.folder.path().join("data"));
        command.arg("--stats-file").arg(self.stats_file());
        // A key that interrupts goes to the bench alone, which then ends its broker.
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let child = self.child.insert(self.emergency.spawn(&mut command).map_err(Failure::machine)?);
        let stdout = child.stdout.take().expect("its standard output is a pipe");
        match ready(stdout)? {
            Some(ready) => {
                self.bootstrap = ready.endpoints.into_iter().map(|endpoint| endpoint.address).collect();
                Ok(())
            }
            None => Err(self.failed("the broker did not become ready")),
        }
    }

    /// A failure of the broker, with the end of its log.
    fn failed(&self, what: &str) -> Failure {
        let log = fs::read_to_string(self.log_file()).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
        Failure::failed(format!("{what}; the end of its log:\n{}", last.join("\n")))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tell(format_args!("ringlog: the embedded broker can't be ended: {error}"));
        }
        if let Err(error) = self.folder.clean_up() {
            tell(format_args!("ringlog: {} can't be removed: {error}", self.folder.path().display()));
        }
    }
}

/// Signals a process.
fn signal(process: u32, signal: Signal) -> io::Result<()> {
    match i32::try_from(process).ok().and_then(Pid::from_raw) {
        Some(process) => Ok(kill_process(process, signal)?),
        None => Ok(()),
    }
}

/// The line that says the broker is ready; `None` where it ended or took too long instead.
fn ready(stdout: ChildStdout) -> Result<Option<Ready>, Failure> {
    let (sender, receiver) = channel();
    spawn_thread("ready", move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line).map(|_| line);
        // Nobody waits any more where it took too long.
        let _late = sender.send(read);
    })?;
    match receiver.recv_timeout(READY_TIMEOUT) {
        Ok(Ok(line)) if line.is_empty() => Ok(None),
        Ok(Ok(line)) => serde_json::from_str(&line).map(Some).map_err(Failure::failed),
        Ok(Err(error)) => Err(Failure::failed(error)),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(None),
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread waits for a process; no shard is on it")]
fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}
