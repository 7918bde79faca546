//! The node under test.

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::rc::Rc;

use engine_io::{Io, deadline, first};
use engine_record::NodeId;
use engine_store::FlushScope;
use net_server::config::{Config, Limits, ListenerConfig, Routing};
use net_server::format::{Identity, Unformatted, prepare};
use net_server::log_directories::{self, DirectoryError, LogDirectory, Named, Prepared};
use net_server::node::{NodeHandle, assemble};
use net_server::settings::BrokerSettings;
use net_server::{Watermarks, run_control, run_shard};
use sim::{CrashMode, SimIo, SimNode, SimTask};

use super::history::Event;
use super::scenario::Scenario;
use super::setting::{PORT, Setting};

const FOLDER: &str = "/data";

/// Nothing that a node does by itself takes longer.
const PATIENCE: Duration = Duration::from_secs(300);

/// A machine, and the node that runs on it or doesn't.
pub(super) struct Cluster {
    pub(super) machine: SimNode,
    setting: Rc<Setting>,
    flush_scope: FlushScope,
    directories: &'static [&'static str],
    broker: BrokerSettings,
    running: Option<Running>,
}

struct Running {
    handle: NodeHandle,
    /// Its executors; dropping them would end them.
    _tasks: Vec<SimTask>,
}

impl Cluster {
    pub(super) fn new(machine: SimNode, setting: &Rc<Setting>, scenario: &Scenario) -> Self {
        if scenario.flush_scope == FlushScope::Device {
            machine.disk().flush_covers_device();
        }
        let broker =
            BrokerSettings::from_file(&scenario.settings).expect("the scenario's settings are known");
        Self {
            machine,
            setting: Rc::clone(setting),
            flush_scope: scenario.flush_scope,
            directories: scenario.directories,
            broker,
            running: None,
        }
    }

    /// Starts the node, with a count of shards drawn anew. Everything on its disk must be usable.
    ///
    /// # Errors
    /// Why it doesn't start, in words.
    pub(super) async fn start(&mut self) -> Result<(), String> {
        let until = self.setting.io.now().after(PATIENCE);
        let io = self.setting.io.clone();
        deadline(&io, until, self.begin()).await.unwrap_or_else(|| Err(format!("no start in {PATIENCE:?}")))
    }

    /// Begins to start the node and crashes it on the way, unless it is faster.
    pub(super) async fn start_in_vain(&mut self, patience: Duration, mode: CrashMode) -> Result<(), String> {
        let io = self.setting.io.clone();
        if let Ok(started) = first(self.begin(), io.sleep(patience)).await {
            started?;
        }
        self.crash(mode);
        Ok(())
    }

    async fn begin(&mut self) -> Result<(), String> {
        let config = self.config();
        let io = self.machine.io();
        let folder = Path::new(FOLDER);
        let (identity, _) = prepare(&io, folder, config.node, Unformatted::Create)
            .await
            .map_err(|error| format!("the data folder is refused: {error}"))?;
        let directories = self.log_directories(&io, &identity).await;
        let directories = directories.map_err(|error| format!("the log directories are refused: {error}"))?;
        let (seats, control, handle) = assemble(&config, &identity, &directories);
        // How each part ends is told through the handle.
        let mut tasks = vec![io.spawn({
            let io = io.clone();
            async move { drop(run_control(io, control).await) }
        })];
        for seat in seats {
            let shard = self.machine.io();
            tasks.push(io.spawn(async move { drop(run_shard(shard, seat).await) }));
        }
        let Running { handle, .. } = self.running.insert(Running { handle, _tasks: tasks });
        let started = handle.started().await.map_err(|error| format!("the node does not start: {error}"))?;
        let offline: usize = started.shards.iter().map(|shard| shard.offline).sum();
        if offline > 0 { Err(format!("{offline} partitions are offline after a start")) } else { Ok(()) }
    }

    /// The log directories, formatted where a crash has left one that isn't.
    async fn log_directories(
        &self,
        io: &SimIo,
        identity: &Identity,
    ) -> Result<Vec<LogDirectory>, DirectoryError> {
        let named: Vec<_> = self.directories.iter().map(Named::new).collect();
        log_directories::format(io, identity, Path::new(FOLDER), &named).await?;
        let prepared = log_directories::prepare(io, identity, Path::new(FOLDER), &named).await?;
        let directory = |Prepared { path, offline }| LogDirectory {
            offline,
            ..LogDirectory::online(path, self.flush_scope)
        };
        Ok(prepared.into_iter().map(directory).collect())
    }

    fn config(&self) -> Config {
        Config {
            node: NodeId(1),
            data_folder: FOLDER.into(),
            listeners: vec![ListenerConfig::plaintext(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT)],
            routing: if self.setting.chance.one_in(3) { Routing::Node } else { Routing::Shard },
            shards: u16::try_from(self.setting.chance.pick(1..=3)).expect("shards are few"),
            broker: self.broker.clone(),
            limits: Limits::default(),
            watermarks: Watermarks::default(),
        }
    }

    /// Stops the node in order.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub(super) async fn stop(&mut self) -> Result<(), String> {
        let Some(running) = self.running.take() else { return Ok(()) };
        let Running { handle, _tasks } = running;
        let until = self.setting.io.now().after(PATIENCE);
        let stopped = deadline(&self.setting.io, until, handle.stop()).await;
        let stopped = stopped.ok_or_else(|| format!("no orderly stop in {PATIENCE:?}"))?;
        stopped.map_err(|error| format!("an orderly stop failed: {error}"))
    }

    /// Waits until a part of the node ends, as it must after its disk has failed, but not for ever: perhaps nothing was
    /// to be flushed.
    pub(super) async fn fail(&mut self, patience: Duration) {
        let Some(running) = &mut self.running else { return };
        let until = self.setting.io.now().after(patience);
        let _ended_or_not = deadline(&self.setting.io, until, running.handle.ended()).await;
    }

    /// Crashes the machine.
    pub(super) fn crash(&mut self, mode: CrashMode) {
        self.setting.history.note(Event::Fault(match mode {
            CrashMode::LoseAllUnflushed => "all that wasn't flushed is lost",
            CrashMode::KeepRandomSectors => "some of what wasn't flushed is lost",
            CrashMode::KeepAll => "the process dies",
        }));
        self.machine.crash(mode);
        self.running = None;
    }
}
