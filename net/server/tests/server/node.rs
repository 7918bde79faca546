//! A node in the simulator.

use core::cell::RefCell;
use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use engine_io::{Io, deadline};
use engine_record::NodeId;
use engine_store::FlushScope;
use net_server::config::{Config, Limits, ListenerConfig, Routing};
use net_server::format::{Unformatted, prepare};
use net_server::log_directories::{self, LogDirectory, Named, Prepared};
use net_server::node::{Ended, NodeError, NodeHandle, Opened, Started, assemble};
use net_server::settings::BrokerSettings;
use net_server::{ShardSnapshot, Watermarks, run_control, run_shard};
use sim::{CrashMode, Sim, SimIo, SimNode, SimTask};

use crate::client::Client;

/// The broker id of the node's first shard.
pub(crate) const FIRST_BROKER: i32 = 1000;

const FOLDER: &str = "/data";
const PORT: u16 = 9092;

/// Nothing a node does on its own takes longer than this.
const PATIENCE: Duration = Duration::from_secs(120);

/// A machine for the node, and one for its clients.
pub(crate) struct Setting {
    pub(crate) sim: Sim,
    pub(crate) machine: SimNode,
    /// What clients run on.
    pub(crate) io: SimIo,
    /// The log directories; the data folder alone where there are none.
    directories: RefCell<Vec<PathBuf>>,
}

impl Setting {
    /// Has the next start use these log directories.
    pub(crate) fn set_directories(&self, directories: &[&str]) {
        self.directories.replace(directories.iter().map(PathBuf::from).collect());
    }
}

/// A node that serves. Dropping it ends it without order.
pub(crate) struct Node {
    setting: Rc<Setting>,
    config: Config,
    handle: NodeHandle,
    started: Started,
    /// Its executors; dropping them ends them.
    tasks: Vec<SimTask>,
}

/// A configuration for a node of so many shards, otherwise as a user gets it.
pub(crate) fn config(shards: u16) -> Config {
    Config {
        node: NodeId(1),
        data_folder: FOLDER.into(),
        listeners: vec![ListenerConfig::plaintext(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT)],
        routing: Routing::Shard,
        shards,
        broker: BrokerSettings::default(),
        limits: Limits::default(),
        watermarks: Watermarks::NONE,
    }
}

/// A configuration with broker settings in Kafka's spelling.
pub(crate) fn config_with(shards: u16, settings: &[(&str, &str)]) -> Config {
    let settings: Vec<_> =
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Config { broker: BrokerSettings::from_file(&settings).unwrap(), ..config(shards) }
}

/// Runs `test` on a node that was just formatted and started.
pub(crate) fn on_node(seed: u64, config: Config, test: impl AsyncFnOnce(Node)) {
    on_node_with_directories(seed, config, &[FOLDER], test);
}

/// The same with other log directories than the data folder.
pub(crate) fn on_node_with_directories(
    seed: u64,
    config: Config,
    named: &[&str],
    test: impl AsyncFnOnce(Node),
) {
    let sim = Sim::new(seed);
    let (machine, clients) = (sim.node(), sim.node());
    let directories = RefCell::new(Vec::new());
    let setting = Rc::new(Setting { sim, machine, io: clients.io(), directories });
    setting.set_directories(named);
    let run = async {
        let node = start(Rc::clone(&setting), config).await.expect("a new node starts");
        test(node).await;
    };
    setting.sim.block_on(run);
}

/// Starts a node on the setting's machine; formats its folder where that is new.
///
/// # Errors
/// Why it does not start.
pub(crate) async fn start(setting: Rc<Setting>, config: Config) -> Result<Node, NodeError> {
    let control_io = setting.machine.io();
    let folder = Path::new(FOLDER);
    let (identity, is_new) = prepare(&control_io, folder, config.node, Unformatted::Create)
        .await
        .expect("the folder is the node's");
    let named: Vec<_> = setting.directories.borrow().iter().map(Named::new).collect();
    if is_new {
        let formatted = log_directories::format(&control_io, &identity, folder, &named).await;
        formatted.expect("the folders are new");
    }
    let prepared = log_directories::prepare(&control_io, &identity, folder, &named).await;
    let directories: Vec<_> =
        prepared.expect("the directories are the node's").into_iter().map(directory).collect();
    let (seats, control, mut handle) = assemble(&config, &identity, &directories);
    let mut tasks = Vec::new();
    let io = control_io.clone();
    // How each part ended is told through the handle.
    tasks.push(control_io.spawn(async move { drop(run_control(io, control).await) }));
    for seat in seats {
        let io = setting.machine.io();
        let on = io.clone();
        tasks.push(on.spawn(async move { drop(run_shard(io, seat).await) }));
    }
    let started = within(&setting, "the node's start", handle.started()).await?;
    Ok(Node { setting, config, handle, started, tasks })
}

fn directory(Prepared { path, offline }: Prepared) -> LogDirectory {
    LogDirectory { offline, ..LogDirectory::online(path, FlushScope::PerFile) }
}

/// Waits for what must happen in bounded time.
async fn within<T>(setting: &Setting, what: &str, future: impl Future<Output = T>) -> T {
    let until = setting.io.now().after(PATIENCE);
    deadline(&setting.io, until, future)
        .await
        .unwrap_or_else(|| panic!("{what} takes more than {PATIENCE:?}"))
}

impl Node {
    pub(crate) fn setting(&self) -> &Rc<Setting> {
        &self.setting
    }

    pub(crate) fn machine(&self) -> &SimNode {
        &self.setting.machine
    }

    /// What each shard said when it began to serve.
    pub(crate) fn opened(&self) -> &[Opened] {
        &self.started.shards
    }

    /// Where a shard is reached from another machine.
    pub(crate) fn address(&self, shard: u16) -> SocketAddr {
        SocketAddr::new(self.setting.machine.address(), PORT + shard)
    }

    /// A connection to a shard.
    pub(crate) async fn connect(&self, shard: u16) -> Client {
        Client::connect(&self.setting.io, self.address(shard)).await.expect("a shard that serves listens")
    }

    /// A connection to the shard whose broker id clients are told.
    pub(crate) async fn connect_to(&self, broker: i32) -> Client {
        self.connect(u16::try_from(broker - FIRST_BROKER).expect("it is a broker of this node")).await
    }

    /// What a shard has counted.
    pub(crate) async fn snapshot(&self, shard: u16) -> ShardSnapshot {
        let snapshots = within(&self.setting, "a snapshot", self.handle.snapshots()).await;
        snapshots.into_iter().find(|snapshot| snapshot.shard.0 == shard).expect("the shard serves")
    }

    /// Waits until a shard has so many connections.
    pub(crate) async fn connections_become(&self, shard: u16, count: usize) {
        let watched = async {
            while self.snapshot(shard).await.connections != count {
                self.pause(Duration::from_millis(1)).await;
            }
        };
        within(&self.setting, "letting connections go", watched).await;
    }

    /// Lets virtual time pass.
    pub(crate) async fn pause(&self, duration: Duration) {
        self.setting.io.sleep(duration).await;
    }

    /// Tasks that always want a turn on the node's machine: giving way takes a time there. Dropping them ends them.
    pub(crate) fn others(&self, count: usize) -> Vec<SimTask> {
        let io = self.setting.machine.io();
        let other = |io: SimIo| async move {
            loop {
                io.yield_now().await;
            }
        };
        (0..count).map(|_| io.spawn(other(io.clone()))).collect()
    }

    /// Waits until a part of the node has ended.
    pub(crate) async fn ended(&mut self) -> Ended {
        let Self { setting, handle, .. } = self;
        within(setting, "the node's end", handle.ended()).await.expect("some part has not ended yet")
    }

    /// Stops the node in order; gives what is needed to start it again.
    pub(crate) async fn stop(self) -> (Rc<Setting>, Config) {
        let Self { setting, config, handle, tasks, .. } = self;
        within(&setting, "an orderly stop", handle.stop()).await.expect("the node stops in order");
        drop(tasks);
        (setting, config)
    }

    /// Crashes the node's machine; gives what is needed to start it again.
    pub(crate) fn crash(self, mode: CrashMode) -> (Rc<Setting>, Config) {
        self.setting.machine.crash(mode);
        (self.setting, self.config)
    }

    /// Stops the node in order and starts it again.
    pub(crate) async fn restart(self) -> Self {
        let (setting, config) = self.stop().await;
        start(setting, config).await.expect("a stopped node starts")
    }

    /// Crashes the node and starts it again.
    pub(crate) async fn restart_after(self, mode: CrashMode) -> Self {
        let (setting, config) = self.crash(mode);
        start(setting, config).await.expect("a crashed node starts")
    }
}
