//! The broker as a child process.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::binary;
use crate::clock::{Deadline, Stopwatch};
use crate::drive::Drive;
use crate::folder::TestFolder;
use crate::ports;
use crate::process::{Line, Process};
use crate::programs;
use crate::ready::Ready;
use crate::settings;
use crate::stats::Stats;

/// How long a start may take before the test gives up on it. What a start *should* take is for tests to say.
const START_SECONDS_MAX: u64 = 30;
/// How long a stop in order may take.
const STOP_SECONDS_MAX: u64 = 20;
/// Lines of the broker's log that a failing test shows.
const LOG_LINES_SHOWN: usize = 100;

/// Where a broker listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    /// On ports that the system picks, others after each restart.
    Any,
    /// On the same ports after each restart, so that clients find it again.
    Kept,
    /// Where the lines of the configuration say.
    Configured,
}

/// How clients reach partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Each shard is a broker with a port of its own.
    Shard,
    /// All shards are one broker with one port.
    Node,
}

impl Routing {
    /// The routing of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Shard, Self::Node].into_iter().find(|routing| routing.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Shard => "shard",
            Self::Node => "node",
        }
    }
}

/// How to start a broker.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names the folder.
    pub name: &'static str,
    /// The CPU of each shard, with commas; a CPU may be named twice.
    pub cpus: &'static str,
    /// Where to listen.
    pub ports: Ports,
    /// How clients reach partitions, where the test is about that; else as [`settings::routing`] says.
    pub routing: Option<Routing>,
    /// Lines of the configuration's table `[kafka]`; without any the broker is started without a configuration.
    pub kafka: &'static str,
    /// Lines at the top of the configuration, where there is one.
    pub own: &'static str,
    /// The size in bytes of a drive of its own for the data folder, unless it lies beside the test's other files.
    pub drive_bytes: Option<u64>,
}

impl Options {
    /// Two shards on two CPUs, any ports.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, cpus: "0,1", ports: Ports::Any, routing: None, kafka: "", own: "", drive_bytes: None }
    }

    /// The same, but on ports that it keeps.
    #[must_use]
    pub const fn with_kept_ports(mut self) -> Self {
        self.ports = Ports::Kept;
        self
    }

    /// The same, with one port for all shards.
    #[must_use]
    pub const fn with_one_port(mut self) -> Self {
        self.routing = Some(Routing::Node);
        self
    }

    /// The same, with a port for each shard.
    #[must_use]
    pub const fn with_port_per_shard(mut self) -> Self {
        self.routing = Some(Routing::Shard);
        self
    }

    /// The same, with these lines in the configuration's table `[kafka]`.
    #[must_use]
    pub const fn with_kafka(mut self, lines: &'static str) -> Self {
        self.kafka = lines;
        self
    }

    /// The same, with these lines at the top of the configuration.
    #[must_use]
    pub const fn with_own(mut self, lines: &'static str) -> Self {
        self.own = lines;
        self
    }

    /// The same, with the data folder on a drive of its own of so many bytes.
    #[must_use]
    pub const fn on_a_drive(mut self, bytes: u64) -> Self {
        self.drive_bytes = Some(bytes);
        self
    }

    /// The same, listening where these lines say.
    #[must_use]
    pub const fn with_listeners(mut self, lines: &'static str) -> Self {
        self.ports = Ports::Configured;
        self.with_kafka(lines)
    }

    /// What the command line says of where to listen.
    fn listen(&self) -> Option<String> {
        match self.ports {
            Ports::Any => Some("127.0.0.1:0".to_owned()),
            Ports::Configured => None,
            Ports::Kept => {
                let shards = self.cpus.split(',').count();
                let shards = u16::try_from(shards).expect("a machine has fewer CPUs than ports");
                Some(format!("127.0.0.1:{}", ports::free_range(shards)))
            }
        }
    }
}

/// A broker in a folder of its own. It goes with this value, and so does the folder, unless the test is failing: then
/// the folder stays and the end of the broker's log is shown.
#[derive(Debug)]
pub struct Broker {
    running: Option<Running>,
    cpus: &'static str,
    routing: Routing,
    listen: Option<String>,
    /// Goes before the folder that it is mounted in.
    drive: Option<Drive>,
    folder: TestFolder,
    configured: bool,
    _turn: MutexGuard<'static, ()>,
}

#[derive(Debug)]
struct Running {
    process: Process,
    ready: Ready,
    start_took: Duration,
}

impl Broker {
    /// Starts a broker with two shards in an empty folder and waits until it serves.
    ///
    /// # Panics
    /// When it doesn't.
    #[must_use]
    pub fn start(name: &'static str) -> Self {
        Self::start_with(&Options::new(name))
    }

    /// Starts a broker in an empty folder and waits until it serves.
    ///
    /// # Panics
    /// When it doesn't.
    #[must_use]
    pub fn start_with(options: &Options) -> Self {
        let turn = wait_for_turn();
        let folder = TestFolder::new(options.name);
        let listen = options.listen();
        let configured = !options.kafka.is_empty();
        let (cpus, routing) = (options.cpus, options.routing.unwrap_or_else(settings::routing));
        let drive = options
            .drive_bytes
            .map(|bytes| Drive::mount(&folder.path().join("drive"), &folder.path().join("data"), bytes));
        let mut broker =
            Self { running: None, cpus, routing, listen, drive, folder, configured, _turn: turn };
        if configured {
            broker.configure(options);
        }
        broker.start_again();
        broker
    }

    /// Writes a configuration and formats the data folder, which a broker with a configuration doesn't do by itself.
    fn configure(&self, Options { own, kafka, .. }: &Options) {
        let text = format!("{own}\n[kafka]\n{kafka}\n");
        fs::write(self.configuration(), text).expect("a file can be written in the test's folder");
        let mut format = Command::new(binary::path());
        format.arg("format").arg("--config").arg(self.configuration());
        format.arg("--data-dir").arg(self.data_folder()).current_dir(self.folder.path());
        let _ = programs::run(format, b"", Duration::from_secs(START_SECONDS_MAX));
    }

    /// Starts it again in its folder, on its CPUs, after [`Broker::kill`] or [`Broker::stop`].
    ///
    /// # Panics
    /// When it is running, or doesn't come up.
    pub fn start_again(&mut self) {
        assert!(self.running.is_none(), "a broker is started again once it has ended");
        let stopwatch = Stopwatch::start();
        let process = Process::start(self.command());
        let ready = self.read_ready(&process);
        self.running = Some(Running { process, ready, start_took: stopwatch.elapsed() });
    }

    /// Starts it again in its folder with other shards.
    ///
    /// # Panics
    /// When it is running, or doesn't come up.
    pub fn start_again_on(&mut self, cpus: &'static str) {
        self.cpus = cpus;
        self.start_again();
    }

    /// Ends it as `kill -9` does.
    ///
    /// # Panics
    /// When it isn't running any more.
    pub fn kill(&mut self) {
        let mut running = self.running.take().expect("only what runs can be killed");
        assert!(running.process.is_running(), "the broker ended by itself");
        running.process.signal(Signal::KILL);
        running.process.wait();
    }

    /// Ends it in order, as service managers do.
    ///
    /// # Panics
    /// When it takes too long, prints anything, or ends with another code than 0.
    pub fn stop(&mut self) {
        let mut running = self.running.take().expect("only what runs can be stopped");
        running.process.signal(Signal::TERM);
        match running.process.line(Deadline::after_seconds(STOP_SECONDS_MAX)) {
            Line::End => {}
            Line::Text(text) => panic!("the broker printed more than its ready line: {text}"),
            Line::Late => panic!("the broker still ran {STOP_SECONDS_MAX} s after it was asked to stop"),
        }
        let status = running.process.wait();
        assert!(status.success(), "the broker was asked to stop and ended with {status}");
    }

    /// What it said when it was ready.
    #[must_use]
    pub fn ready(&self) -> &Ready {
        &self.running().ready
    }

    /// The addresses of all shards, with commas.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.ready().bootstrap()
    }

    /// How clients reach its partitions.
    #[must_use]
    pub const fn routing(&self) -> Routing {
        self.routing
    }

    /// The address that leads to a shard.
    #[must_use]
    pub fn address(&self, shard: usize) -> SocketAddr {
        let endpoints = &self.ready().endpoints;
        match self.routing {
            Routing::Shard => endpoints[shard].address,
            Routing::Node => endpoints[0].address,
        }
    }

    /// Time from the last start to the ready line.
    #[must_use]
    pub fn start_took(&self) -> Duration {
        self.running().start_took
    }

    /// The process, to look at.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.running().process
    }

    /// Whether the process is still there.
    pub fn is_running(&mut self) -> bool {
        self.running.as_mut().is_some_and(|running| running.process.is_running())
    }

    /// The counters it writes, once it has written them anew.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::next_from(&self.stats_path())
    }

    /// The folder that it runs in: what a configuration names without a leading `/` is in it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder that holds its partitions, unless it is configured otherwise.
    #[must_use]
    pub fn data_folder(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The drive that its data folder is on.
    ///
    /// # Panics
    /// When it has none of its own.
    #[must_use]
    pub fn drive(&self) -> &Drive {
        self.drive.as_ref().expect("the test asked for a drive")
    }

    /// All that it logged, over all starts.
    ///
    /// # Panics
    /// When the log can't be read.
    #[must_use]
    pub fn log(&self) -> String {
        let bytes = fs::read(self.log_path()).expect("the log was opened at the start");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the broker runs")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(binary::path());
        command.args(["serve", "--json", "--cpus", self.cpus, "--routing", self.routing.name()]);
        command.args(self.listen.iter().flat_map(|listen| ["--listen", listen]));
        command.arg("--data-dir").arg(self.data_folder());
        command.arg("--stats-file").arg(self.stats_path());
        if self.configured {
            command.arg("--config").arg(self.configuration());
        }
        command.current_dir(self.folder.path()).stderr(Stdio::from(self.open_log()));
        command
    }

    fn read_ready(&self, process: &Process) -> Ready {
        match process.line(Deadline::after_seconds(START_SECONDS_MAX)) {
            Line::Text(text) => serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("the ready line isn't as documented ({error}): {text}")),
            Line::End => panic!("the broker ended before it was ready; all it logged:\n{}", self.log()),
            Line::Late => panic!("the broker wasn't ready after {START_SECONDS_MAX} s"),
        }
    }

    fn open_log(&self) -> File {
        let opened = OpenOptions::new().create(true).append(true).open(self.log_path());
        opened.unwrap_or_else(|error| panic!("cannot open {}: {error}", self.log_path().display()))
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("stderr.log")
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("ringlog.toml")
    }

    fn stats_path(&self) -> PathBuf {
        self.folder.path().join("stats.json")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.running = None;
        if thread::panicking() {
            show_end_of_log(&self.log_path());
        }
    }
}

#[expect(clippy::print_stdout, reason = "cargo shows it with the failure it belongs to")]
fn show_end_of_log(path: &Path) {
    println!("the end of the broker's log, {}:", path.display());
    match fs::read(path) {
        Ok(bytes) => println!("{}", last_lines(&String::from_utf8_lossy(&bytes), LOG_LINES_SHOWN)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => println!("(there is none)"),
        Err(error) => println!("(cannot be read: {error})"),
    }
}

fn last_lines(text: &str, count: usize) -> &str {
    let mut starts = text.rmatch_indices('\n').map(|(at, _)| at + 1).filter(|start| *start < text.len());
    starts.nth(count - 1).map_or(text, |start| &text[start..])
}

/// Brokers of one process run one after the other, whatever cargo does with its threads.
fn wait_for_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed with its broker is no reason for the next one to fail.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_whole_lines() {
        assert_eq!(last_lines("one\ntwo\nthree\n", 2), "two\nthree\n");
        assert_eq!(last_lines("one\ntwo", 1), "two");
        assert_eq!(last_lines("one\n", 5), "one\n");
        assert_eq!(last_lines("", 5), "");
    }
}
