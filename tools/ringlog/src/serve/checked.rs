//! What a broker would run with, found out without running one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use engine_record::ShardId;
use net_server::Watermarks;
use net_server::config::{Config, ListenerConfig, Routing};

use super::Arguments;
use super::config_file::read_text;
use super::memory::MemoryPlan;
use super::options::Options;
use crate::failure::Failure;

/// What `ringlog serve --config` would run with.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) node: i32,
    pub(crate) data_folder: PathBuf,
    /// The CPU of each shard, in order.
    pub(crate) cpus: Vec<u32>,
    /// Where each shard would listen, in order, by listener; port 0 is any.
    pub(crate) addresses: Vec<Vec<String>>,
    pub(crate) routing: Routing,
    pub(crate) watermarks: Watermarks,
    pub(crate) memory: MemoryPlan,
    /// Settings that the file gives another value than the default, with that value.
    pub(crate) changed: Vec<(String, String)>,
}

/// Reads a configuration as `serve` would, on this machine.
///
/// # Errors
/// All that is wrong, which is something.
pub(crate) fn plan(config: &Path) -> Result<Planned, Vec<Failure>> {
    Options::resolve_all(&of(config)).map(planned)
}

/// The same of a text that is to stand in this file.
///
/// # Errors
/// As [`plan`].
pub(crate) fn plan_text(config: &Path, text: &str) -> Result<Planned, Vec<Failure>> {
    let (file, wrong) = read_text(config, text).map_err(|failure| vec![failure])?;
    Options::resolve_with(&of(config), file, wrong).map(planned)
}

fn of(config: &Path) -> Arguments {
    Arguments { config: Some(config.to_owned()), ..Arguments::default() }
}

fn planned(Options { config, cpus, memory, .. }: Options) -> Planned {
    let changed = config.broker.explain().into_iter().filter(|setting| setting.is_of_broker);
    // Where it listens is told shard by shard.
    let changed = changed.filter(|setting| setting.value != setting.default && setting.name != "listeners");
    let shards = (0..config.shards).map(ShardId);
    Planned {
        node: config.node.0,
        addresses: shards.map(|shard| addresses(&config, shard)).collect(),
        changed: changed.filter_map(|setting| Some((setting.name.to_owned(), setting.value?))).collect(),
        routing: config.routing,
        watermarks: config.watermarks,
        memory,
        data_folder: config.data_folder,
        cpus,
    }
}

fn addresses(config: &Config, shard: ShardId) -> Vec<String> {
    let address = |listener: &ListenerConfig| {
        let port = listener.port_of(shard, config.routing)?;
        Some(format!("{}://{}", listener.name, SocketAddr::new(listener.address, port)))
    };
    let address =
        |listener| address(listener).expect("a configuration whose ports don't overflow was resolved");
    config.listeners.iter().map(address).collect()
}
