//! From the command line and the configuration file to what the server uses.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use engine_record::NodeId;
use net_server::config::{Config, ConfigFile, Limits, SHARDS_MAX, check_node_id, parse_routing};
use net_server::settings::BrokerSettings;
use tuning::Cores;

use super::Arguments;
use super::listener::listener;
use crate::failure::Failure;

/// Where data go unless told otherwise.
const DATA_DIR: &str = "ringlog-data";
/// Where to listen unless told otherwise.
const LISTEN: &str = "127.0.0.1";
/// A shard's share of the memory: what is left after this part for the system and the page cache is divided.
const MEMORY_SHARE: u64 = 4;

/// What a broker runs with.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) config: Config,
    /// The CPU of each shard, in order.
    pub(super) cpus: Vec<u32>,
    /// Whether there are cores that no shard takes.
    pub(super) spare_cores: bool,
    /// Whether the configuration file was given: then an unformatted folder is refused.
    pub(super) configured: bool,
}

impl Options {
    /// Resolves `arguments` and the file they name.
    pub(super) fn resolve(arguments: &Arguments) -> Result<Self, Failure> {
        let file = match &arguments.config {
            Some(path) => read_file(path)?,
            None => ConfigFile::default(),
        };
        let node = check_node_id(arguments.node_id.or(file.node_id).unwrap_or(1)).map_err(Failure::usage)?;
        let routing = arguments.routing.as_deref().or(file.routing.as_deref()).unwrap_or("shard");
        let routing = parse_routing(routing).map_err(Failure::usage)?;
        let usable = tuning::usable_cores(Path::new("/")).map_err(Failure::machine)?;
        let cpus = cpus(&usable, arguments.cpus.as_deref().or(file.cpus.as_deref()))?;
        let spare_cores = usable.cpus.iter().any(|usable| !cpus.contains(&usable.id));
        let shards = u16::try_from(cpus.len()).expect("there are at most 1,000 shards");
        let listener = listener(
            arguments.listen.as_deref().or(file.listen.as_deref()).unwrap_or(LISTEN),
            arguments.advertise.as_deref().or(file.advertise.as_deref()),
            shards,
        )?;
        let broker = BrokerSettings::from_file(&file.kafka).map_err(|error| in_file(arguments, &error))?;
        let data_folder = arguments.data_dir.clone().or(file.data_dir).unwrap_or_else(|| DATA_DIR.into());
        let limits = limits(&broker, shards);
        let config = Config { node, data_folder, listener, routing, shards, broker, limits };
        Ok(Self { config, cpus, spare_cores, configured: arguments.config.is_some() })
    }
}

fn read_file(path: &Path) -> Result<ConfigFile, Failure> {
    let wrong = |error: &dyn Display| Failure::usage(format!("configuration {}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let file = ConfigFile::parse(&text).map_err(|error| wrong(&error))?;
    match given_twice(&file.kafka) {
        None => Ok(file),
        Some(name) => Err(wrong(&format_args!(
            "setting `{name}` is given twice, as a quoted and as a dotted key; leave one of them out"
        ))),
    }
}

/// A setting that is written in two ways: a quoted key and a dotted one are two keys to the file, but one setting.
fn given_twice(kafka: &[(String, String)]) -> Option<&str> {
    let mut names: Vec<_> = kafka.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

fn in_file(arguments: &Arguments, error: &dyn std::error::Error) -> Failure {
    let path = arguments.config.as_deref().unwrap_or_else(|| Path::new(""));
    Failure::usage(format!("configuration {}: {error}", path.display()))
}

/// The CPUs of the shards: those named, or one of each core.
fn cpus(usable: &Cores, named: Option<&str>) -> Result<Vec<u32>, Failure> {
    let Some(named) = named else {
        let mut cores = usable.one_per_physical_core();
        cores.truncate(usize::from(SHARDS_MAX));
        return Ok(cores);
    };
    let cpus = named
        .split(',')
        .map(|part| tuning::parse_cpu_list(part).map_err(|error| Failure::usage(format!("--cpus: {error}"))))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    if let Some(missing) = cpus.iter().find(|&&cpu| usable.cpus.iter().all(|usable| usable.id != cpu)) {
        let known: Vec<String> = usable.cpus.iter().map(|cpu| cpu.id.to_string()).collect();
        return Err(Failure::usage(format!(
            "--cpus: this process may not use CPU {missing}; it may use {}",
            known.join(",")
        )));
    }
    if cpus.len() > usize::from(SHARDS_MAX) {
        return Err(Failure::usage(format!("--cpus: {} shards, more than {SHARDS_MAX}", cpus.len())));
    }
    Ok(cpus)
}

/// The shards' limits: a part of the machine's memory, in equal shares.
fn limits(broker: &BrokerSettings, shards: u16) -> Limits {
    let share = memory_bytes() / MEMORY_SHARE / u64::from(shards);
    let frame_bytes = broker.request_bytes_max;
    let default = Limits::default();
    Limits {
        connections: usize::try_from(broker.connections_max).unwrap_or(usize::MAX),
        connections_per_address: usize::try_from(broker.connections_per_address_max).unwrap_or(usize::MAX),
        frame_bytes,
        request_bytes: default.request_bytes.min(share / 2).max(2 * u64::from(frame_bytes)),
        pool_bytes: default.pool_bytes.min(share / 2).max(16 << 20),
        ..default
    }
}

/// The machine's memory, or what a modest machine has where that can't be read.
fn memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kibibytes.map_or(4 << 30, |kibibytes| kibibytes << 10)
}

/// The settings of `ringlog format`.
pub(crate) fn node_and_folder(
    config: Option<&Path>,
    data_dir: Option<PathBuf>,
    node_id: Option<i32>,
) -> Result<(NodeId, PathBuf), Failure> {
    let file = config.map(read_file).transpose()?.unwrap_or_default();
    let node = check_node_id(node_id.or(file.node_id).unwrap_or(1)).map_err(Failure::usage)?;
    Ok((node, data_dir.or(file.data_dir).unwrap_or_else(|| DATA_DIR.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_given_twice_is_refused_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ringlog.toml");
        let read = |kafka: &str| {
            fs::write(&path, format!("[kafka]\n{kafka}")).unwrap();
            read_file(&path)
        };
        let twice = read("\"log.segment.bytes\" = 2097152\nlog.segment.bytes = 1048576\n").unwrap_err();
        assert_eq!(twice.code(), Failure::USAGE);
        assert!(twice.to_string().contains("`log.segment.bytes` is given twice"), "{twice}");
        let half = read("\"log.segment\".bytes = 2097152\nlog.\"segment.bytes\" = 1048576\n");
        assert!(half.unwrap_err().to_string().contains("given twice"));
        assert_eq!(read("log.segment.bytes = 1048576\nlog.roll.ms = 5\n").unwrap().kafka.len(), 2);
    }
}
