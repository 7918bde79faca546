//! A broker process from its first check to its last flush.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine_io::{Receiver, first, is_storage_full, mailbox};
use engine_io_glommio::{Running, ShardSpec, StartError};
use futures_lite::future::block_on;
use net_server::format::Unformatted;
use net_server::node::{ControlSeat, Ended, NodeError, NodeHandle, ShardSeat, assemble};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing::Level;
use tuning::{FlushMeasurement, Needs, ProbeBounds, Severity, TuningError};

use super::banner::Banner;
use super::folder::{DataFolder, FileIo, Found, not_started, prepare};
use super::listener::check_ports;
use super::log_directories::{Measured, measure};
use super::log_folders::LogFolders;
use super::options::Options;
use super::stats::StatsFile;
use super::{Arguments, stats};
use crate::failure::Failure;

/// How long ports may take to become free.
const PORTS_PATIENCE: Duration = Duration::from_secs(5);
/// Memory a shard registers for direct I/O, in bytes.
const IO_MEMORY: usize = 4 << 20;
/// How long the drive's own flush is measured at the start, at most.
const FLUSH_PROBE: ProbeBounds = ProbeBounds { rounds_max: 200, time_max: Duration::from_millis(300) };

/// The variable that says how much is logged.
const LOG_LEVEL: &str = "RINGLOG_LOG";
const LEVELS: [(&str, Level); 5] = [
    ("error", Level::ERROR),
    ("warn", Level::WARN),
    ("info", Level::INFO),
    ("debug", Level::DEBUG),
    ("trace", Level::TRACE),
];

/// What the process waits for besides its node.
enum Event {
    /// A signal to stop.
    Stop,
    /// It is time to write the counters.
    Tick,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    engine_io_glommio::abort_on_panic();
    if let Some(parent) = arguments.parent {
        end_with(parent)?;
    }
    log_to_standard_error(log_level(std::env::var_os(LOG_LEVEL).as_deref())?);
    let mut options = Options::resolve(arguments)?;
    check_machine(&options)?;
    let unformatted = if options.configured { Unformatted::Refuse } else { Unformatted::Create };
    let folder = DataFolder::take(&options.config.data_folder, unformatted)?;
    options.config.data_folder.clone_from(&folder.path);
    let logs = LogFolders::take(&folder, &options.config.broker.log_dirs)?;
    options.config.broker.log_dirs = logs.named.iter().map(|named| named.path.clone()).collect();
    // What can fail for the person's mistake comes before the folder is made a cluster's.
    let mut stats_file = arguments.stats_file.as_deref().map(StatsFile::check).transpose()?;
    check_ports(&options.config, PORTS_PATIENCE).map_err(Failure::machine)?;
    let Found { identity, is_new, log_directories } =
        prepare(&folder, &logs, options.config.node, unformatted, options.file_io)?;
    let measured = measure(log_directories, options.file_io)?;
    let directories: Vec<_> = measured.iter().map(Measured::directory).collect();
    let events = watch(arguments.stats_file.is_some())?;
    let (shards, control, mut node) = assemble(&options.config, &identity, &directories);
    let running = start(&options, shards, control).map_err(not_started)?;
    let started = match block_on(node.started()) {
        Ok(started) => started,
        Err(error) => return Err(end_early(node, running, error)),
    };
    let banner = Banner {
        options: &options,
        identity: &identity,
        new: is_new,
        directories: &measured,
        started: &started,
    };
    if arguments.json {
        banner.print_json()
    } else {
        banner.print()
    }
    let outcome = block_on(wait(&mut node, &events, stats_file.as_mut()));
    let stopped = block_on(node.stop());
    drop(running.join());
    outcome?;
    stopped.map_err(Failure::failed)
}

/// How long the drive's own flush takes; `None` where it isn't measured: for development, and on a full drive, which must
/// not keep a broker from reading and deleting.
pub(super) fn measure_flush(folder: &Path, file_io: FileIo) -> Result<Option<FlushMeasurement>, Failure> {
    if file_io == FileIo::BufferedDev {
        tracing::warn!(
            folder = %folder.display(),
            "NOT DURABLE: --buffered-dev goes through the page cache, and what is acknowledged may be lost with the power, or \
             with the folder where it is in memory. For development only"
        );
        return Ok(None);
    }
    match tuning::measure_flush(folder, FLUSH_PROBE) {
        Err(TuningError::Scratch { source, .. }) if is_storage_full(source.kind()) => {
            tracing::warn!(
                folder = %folder.display(),
                "the drive is full: records are refused until there is space on it. Free some, or delete topics"
            );
            Ok(None)
        }
        measured => measured.map(Some).map_err(Failure::machine),
    }
}

/// Has the kernel end this process when its parent is gone.
fn end_with(parent: i32) -> Result<(), Failure> {
    let machine = |errno: rustix::io::Errno| Failure::machine(std::io::Error::from(errno));
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(machine)?;
    // It may have gone before the kernel was told.
    let is_parent = getppid().is_some_and(|own| own.as_raw_nonzero().get() == parent);
    if is_parent {
        Ok(())
    } else {
        Err(Failure::failed(format!("process {parent} is not this one's parent")))
    }
}

/// What the variable says, `info` where it isn't set. An empty one says nothing, as one that isn't set.
fn log_level(said: Option<&OsStr>) -> Result<Level, Failure> {
    let Some(said) = said.filter(|said| !said.is_empty()) else { return Ok(Level::INFO) };
    let level = LEVELS.into_iter().find(|(name, _)| said.eq_ignore_ascii_case(name));
    level.map(|(_, level)| level).ok_or_else(|| {
        let said = said.to_string_lossy();
        Failure::usage(format!("{LOG_LEVEL}: `{said}` is no level; use error, warn, info, debug or trace"))
    })
}

fn log_to_standard_error(level: Level) {
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(level)
        // Nobody reading the log is no reason for a broker to end, as complaining of it there would be.
        .log_internal_errors(false)
        .finish();
    // Only the first logger of a process counts, and this is it.
    let _already_set = tracing::subscriber::set_global_default(subscriber);
}

/// Raises the limits that may be raised, and refuses a machine on which nothing would run.
fn check_machine(options: &Options) -> Result<(), Failure> {
    tuning::raise_open_files().map_err(Failure::machine)?;
    tuning::raise_locked_memory().map_err(Failure::machine)?;
    let limits = tuning::kernel_limits(Path::new("/")).map_err(Failure::machine)?;
    if let Some(shortage) = options.memory.shortage() {
        tracing::warn!("{shortage}");
    }
    let executors = u64::from(options.config.shards) + 1;
    let needs = Needs::of_shards(executors, 3 * IO_MEMORY as u64);
    for finding in tuning::findings(&limits, &needs) {
        match finding.severity() {
            Severity::Refusal => return Err(Failure::machine(finding.to_string())),
            Severity::Warning => tracing::warn!("{finding}"),
        }
    }
    Ok(())
}

/// Starts an executor for each shard and one for the control plane.
fn start(
    options: &Options,
    shards: Vec<ShardSeat>,
    control: ControlSeat,
) -> Result<Running<Result<(), NodeError>>, StartError> {
    let shared = |cpu| options.cpus.iter().filter(|&&other| other == cpu).count() > 1;
    let mut specs: Vec<ShardSpec> = options
        .cpus
        .iter()
        .enumerate()
        .map(|(shard, &cpu)| ShardSpec {
            name: format!("shard-{shard}"),
            cpu: usize::try_from(cpu).ok(),
            // With every usable core taken, clients and the control plane run on the shards' cores too.
            dedicated: !shared(cpu) && options.spare_cores,
        })
        .collect();
    specs.push(ShardSpec { name: "control".to_owned(), cpu: None, dedicated: false });
    let seats: Vec<Mutex<Option<ShardSeat>>> =
        shards.into_iter().map(|seat| Mutex::new(Some(seat))).collect();
    let seats = Arc::new((seats, Mutex::new(Some(control))));
    let live = move |index: usize, io| {
        let seats = Arc::clone(&seats);
        async move {
            match seats.0.get(index) {
                Some(seat) => net_server::run_shard(io, take(seat)).await,
                None => net_server::run_control(io, take(&seats.1)).await,
            }
        }
    };
    match options.file_io {
        FileIo::Direct => engine_io_glommio::run(specs, IO_MEMORY, &options.config.data_folder, live),
        FileIo::BufferedDev => engine_io_glommio::run_buffered(specs, IO_MEMORY, live),
    }
}

/// Takes what is handed to exactly one executor.
fn take<T>(seat: &Mutex<Option<T>>) -> T {
    let mut seat = seat.lock().expect("nobody panics while holding a seat");
    seat.take().expect("each executor takes its own seat, once")
}

/// Signals, and the times at which to write counters.
fn watch(ticks: bool) -> Result<Receiver<Event>, Failure> {
    let (sender, events) = mailbox(4);
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(Failure::machine)?;
    let stop = sender.clone();
    spawn("signals", move || {
        for _signal in signals.forever() {
            // A second signal finds the first still waiting to be seen, or the process already stopping.
            let _stopping_already = stop.try_send(Event::Stop);
        }
    })?;
    if ticks {
        spawn("stats", move || {
            loop {
                sleep(stats::INTERVAL);
                // A tick that finds the last one waiting is one too many.
                if let Err(engine_io::SendError::Closed(_)) = sender.try_send(Event::Tick) {
                    return;
                }
            }
        })?;
    }
    Ok(events)
}

#[expect(clippy::disallowed_methods, reason = "a thread of the process beside the shards, which only waits")]
fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop).map_err(Failure::machine)
}

/// Waits for a signal to stop, or for a part of the node to fail.
async fn wait(
    node: &mut NodeHandle,
    events: &Receiver<Event>,
    mut stats_file: Option<&mut StatsFile>,
) -> Result<(), Failure> {
    loop {
        match first(events.receive(), node.ended()).await {
            Ok(Ok(Event::Tick)) => {
                if let Some(file) = &mut stats_file {
                    file.replace(&node.snapshots().await);
                }
            }
            Ok(Ok(Event::Stop) | Err(_)) => {
                tracing::info!("stopping");
                return Ok(());
            }
            Err(ended) => return failed(ended),
        }
    }
}

/// A part has ended unasked: half a broker is none.
fn failed(ended: Option<Ended>) -> Result<(), Failure> {
    match ended {
        Some(Ended { result: Err(error), .. }) => Err(Failure::failed(error)),
        Some(Ended { result: Ok(()), .. }) | None => Err(Failure::failed("a part of the broker has ended")),
    }
}

/// The node didn't start: ends what runs of it, and says why by the first cause.
fn end_early(node: NodeHandle, running: Running<Result<(), NodeError>>, error: NodeError) -> Failure {
    let stopped = block_on(node.stop());
    drop(running.join());
    match (error, stopped) {
        // A part that only found another gone isn't the cause.
        (NodeError::PeerStopped, Err(cause)) => machine_or_failed(cause),
        (cause, _) => machine_or_failed(cause),
    }
}

fn machine_or_failed(error: NodeError) -> Failure {
    match error {
        // At a start that is the folder: its metadata can't be read.
        NodeError::Listen { .. } | NodeError::PortsOverflow { .. } | NodeError::Metadata(_) => {
            Failure::machine(error)
        }
        NodeError::Store { .. } | NodeError::Registration(_) | NodeError::PeerStopped => {
            Failure::failed(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_known_by_its_name_and_what_is_not_set_is_info() {
        let level = |said: &str| log_level(Some(OsStr::new(said)));
        for (name, expected) in LEVELS {
            assert_eq!(level(name).unwrap(), expected);
            assert_eq!(level(&name.to_uppercase()).unwrap(), expected);
        }
        assert_eq!(log_level(None).unwrap(), Level::INFO);
        assert_eq!(level("").unwrap(), Level::INFO);
        assert_eq!(level("loud").unwrap_err().code(), Failure::USAGE);
    }
}
