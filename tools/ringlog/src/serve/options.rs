//! From the command line and the configuration file to what the server uses.

use std::path::{Path, PathBuf};

use engine_record::NodeId;
use net_server::Watermarks;
use net_server::config::{Config, ConfigError, ConfigFile, Limits, SHARDS_MAX, check_node_id, parse_routing};
use net_server::settings::BrokerSettings;
use tuning::Cores;

use super::Arguments;
use super::config_file::{read_all, read_file};
use super::descriptors::share_out;
use super::folder::FileIo;
use super::listener::{Said, as_setting, listeners};
use super::log_folders;
use super::memory::{self, MemoryPlan};
use crate::failure::Failure;

/// Where data go unless told otherwise.
const DATA_DIR: &str = "ringlog-data";

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
    pub(super) file_io: FileIo,
    pub(super) memory: MemoryPlan,
}

/// What is wrong with a configuration, as far as it was found.
#[derive(Debug)]
struct Faults(Vec<Failure>);

impl Faults {
    /// The value, or its default where it is refused.
    fn take<T>(&mut self, outcome: Result<T, Failure>) -> Option<T> {
        outcome.map_err(|failure| self.0.push(failure)).ok()
    }
}

impl Options {
    /// Resolves `arguments` and the file they name.
    pub(super) fn resolve(arguments: &Arguments) -> Result<Self, Failure> {
        Self::resolve_all(arguments).map_err(|mut faults| faults.swap_remove(0))
    }

    /// The same, with all that is wrong, which is something.
    pub(super) fn resolve_all(arguments: &Arguments) -> Result<Self, Vec<Failure>> {
        let file = arguments.config.as_deref().map(read_all);
        let (file, wrong) = file.transpose().map_err(|failure| vec![failure])?.unwrap_or_default();
        Self::resolve_with(arguments, file, wrong)
    }

    /// The same where the file has been read: what it says, and what is wrong with it.
    pub(super) fn resolve_with(
        arguments: &Arguments,
        file: ConfigFile,
        wrong: Vec<Failure>,
    ) -> Result<Self, Vec<Failure>> {
        let mut faults = Faults(wrong);
        let refused = |error| arguments.refused(&error);
        let node = check_node_id(arguments.node_id.or(file.node_id).unwrap_or(1)).map_err(refused);
        let node = faults.take(node);
        let routing = arguments.routing.as_deref().or(file.routing.as_deref()).unwrap_or("shard");
        let routing = faults.take(parse_routing(routing).map_err(refused));
        let (mut broker, wrong) = BrokerSettings::read_file(&file.kafka);
        faults.0.extend(wrong.into_iter().map(|error| refused(error.into())));
        let usable = tuning::usable_cores(Path::new("/")).map_err(|error| vec![Failure::machine(error)])?;
        let cpus = cpus(&usable, arguments.cpus.as_deref().or(file.cpus.as_deref())).map_err(refused);
        let cpus = faults.take(cpus);
        // Where the CPUs are wrong, what is said of ports is checked for one shard.
        let shards = cpus.as_ref().map_or(1, Vec::len);
        let shards = u16::try_from(shards).expect("there are at most 1,000 shards");
        let said = Said {
            listen: arguments.listen.as_deref().or(file.listen.as_deref()),
            advertise: arguments.advertise.as_deref().or(file.advertise.as_deref()),
            kafka: &broker.listeners,
        };
        // Where the routing is wrong too, as many ports are needed as there may be.
        let ports = routing.map_or(shards, |routing| routing.ports(shards));
        let listeners = faults.take(listeners(&said, ports).map_err(refused));
        if let (Some(_), Some(listeners)) = (said.listen, &listeners) {
            // Who asks the broker is told of the listener in the form that Kafka has for it.
            let written = as_setting(listeners);
            broker.written.insert("listeners".to_owned(), written.clone());
            broker.listeners.listeners = Some(written);
        }
        let wanted = Limits { owners_beside: shards - ports, ..limits(&broker) };
        let limits = faults.take(within_open_files(wanted, shards, broker.log_dirs.len().max(1)));
        let limits = limits.and_then(|limits| faults.take(within_memory(&limits, shards, &broker)));
        let data_folder = arguments.data_dir.clone().or(file.data_dir).unwrap_or_else(|| DATA_DIR.into());
        faults.take(log_folders::paths(&data_folder, &broker.log_dirs));
        let default = Watermarks::default();
        let watermarks = Watermarks {
            soft: file.disk_soft_watermark.unwrap_or(default.soft),
            hard: file.disk_hard_watermark.unwrap_or(default.hard),
        };
        let (Some(node), Some(routing), Some(cpus), Some(listeners), Some((limits, memory)), true) =
            (node, routing, cpus, listeners, limits, faults.0.is_empty())
        else {
            return Err(faults.0);
        };
        let spare_cores = usable.cpus.iter().any(|usable| !cpus.contains(&usable.id));
        let config = Config { node, data_folder, listeners, routing, shards, broker, limits, watermarks };
        let file_io = FileIo::of(arguments.buffered_dev);
        Ok(Self { config, cpus, spare_cores, configured: arguments.config.is_some(), file_io, memory })
    }
}

impl Arguments {
    /// Why a setting is refused, and where it was said: on the command line or in the file.
    fn refused(&self, error: &ConfigError) -> Failure {
        refused(error, |key| self.says(key), self.config.as_deref())
    }

    /// Whether the command line says this. A node's number is read there only where it is one.
    fn says(&self, key: &str) -> bool {
        match key {
            "listen" => self.listen.is_some(),
            "advertise" => self.advertise.is_some(),
            "cpus" => self.cpus.is_some(),
            "routing" => self.routing.is_some(),
            _ => false,
        }
    }
}

fn refused(error: &ConfigError, is_said: impl Fn(&str) -> bool, file: Option<&Path>) -> Failure {
    match (error, file) {
        (ConfigError::Value { key, why }, _) if is_said(key) => {
            Failure::usage(format!("--{}: {why}", key.replace('_', "-")))
        }
        (_, Some(file)) => Failure::usage(format!("configuration {}: {error}", file.display())),
        (_, None) => Failure::usage(error.to_string()),
    }
}

/// The CPUs of the shards: those named, or one of each core.
fn cpus(usable: &Cores, named: Option<&str>) -> Result<Vec<u32>, ConfigError> {
    let refused = |why| ConfigError::Value { key: "cpus".to_owned(), why };
    let Some(named) = named else {
        let mut cores = usable.one_per_physical_core();
        cores.truncate(usize::from(SHARDS_MAX));
        return Ok(cores);
    };
    let cpus = named
        .split(',')
        .map(|part| tuning::parse_cpu_list(part).map_err(|error| refused(error.to_string())))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    if let Some(missing) = cpus.iter().find(|&&cpu| usable.cpus.iter().all(|usable| usable.id != cpu)) {
        let known: Vec<String> = usable.cpus.iter().map(|cpu| cpu.id.to_string()).collect();
        let known = known.join(",");
        return Err(refused(format!("this process may not use CPU {missing}; it may use {known}")));
    }
    if cpus.len() > usize::from(SHARDS_MAX) {
        return Err(refused(format!("{} shards, more than {SHARDS_MAX}", cpus.len())));
    }
    Ok(cpus)
}

/// The limits of a shard that has all the memory it can use.
fn limits(broker: &BrokerSettings) -> Limits {
    Limits {
        connections: usize::try_from(broker.connections_max).unwrap_or(usize::MAX),
        connections_per_address: usize::try_from(broker.connections_per_address_max).unwrap_or(usize::MAX),
        fetch_sessions: usize::try_from(broker.fetch_sessions_max).unwrap_or(usize::MAX),
        frame_bytes: broker.request_bytes_max,
        ..Limits::default()
    }
}

/// The limits with no more memory than the shards may have of what this process may use.
fn within_memory(
    wanted: &Limits,
    shards: u16,
    broker: &BrokerSettings,
) -> Result<(Limits, MemoryPlan), Failure> {
    let usable = tuning::usable_memory(Path::new("/")).map_err(Failure::machine)?;
    let batch_bytes = broker.topic.max_message_bytes;
    let (limits, plan) = memory::divide(usable, shards, wanted, batch_bytes).map_err(Failure::machine)?;
    if limits.connections < wanted.connections {
        tracing::warn!(
            "each shard takes {} connections instead of {}, as its share of the memory holds no more: allow the process more \
             memory, or name fewer CPUs",
            limits.connections,
            wanted.connections
        );
    }
    Ok((limits, plan))
}

/// The limits with no more connections than there are descriptors for, besides those of files.
fn within_open_files(limits: Limits, shards: u16, directories: usize) -> Result<Limits, Failure> {
    let open_files = tuning::raise_open_files().map_err(Failure::machine)?.soft.unwrap_or(u64::MAX);
    let shares = share_out(open_files, shards, directories as u64).map_err(Failure::machine)?;
    let connections = limits.connections.min(usize::try_from(shares.connections).unwrap_or(usize::MAX));
    let idle_files = limits.idle_files.min(usize::try_from(shares.idle_files).unwrap_or(usize::MAX));
    if connections < limits.connections {
        tracing::warn!(
            open_files,
            setting = limits.connections,
            "each shard takes {connections} connections instead of max.connections, so that descriptors are left for \
             files: raise nofile"
        );
    }
    Ok(Limits { connections, idle_files, ..limits })
}

/// The settings of `ringlog format`.
#[derive(Debug)]
pub(crate) struct FormatOptions {
    pub(crate) node: NodeId,
    pub(crate) data_folder: PathBuf,
    /// The folders that `log.dirs` names, as written.
    pub(crate) log_dirs: Vec<PathBuf>,
}

/// Resolves the settings of `ringlog format`.
pub(crate) fn format_options(
    config: Option<&Path>,
    data_dir: Option<PathBuf>,
    node_id: Option<i32>,
) -> Result<FormatOptions, Failure> {
    let file = config.map(read_file).transpose()?.unwrap_or_default();
    let refused = |error| refused(&error, |_| false, config);
    let node = check_node_id(node_id.or(file.node_id).unwrap_or(1)).map_err(refused)?;
    let broker = BrokerSettings::from_file(&file.kafka).map_err(|error| refused(error.into()))?;
    let data_folder = data_dir.or(file.data_dir).unwrap_or_else(|| DATA_DIR.into());
    Ok(FormatOptions { node, data_folder, log_dirs: broker.log_dirs })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// How these are refused, the file's content and the command line.
    fn refusal(file: &str, line: &[&str]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ringlog.toml");
        fs::write(&path, file).unwrap();
        let words = ["serve", "--config", path.to_str().unwrap()];
        let words = words.iter().chain(line);
        let failure = Options::resolve(&Command::try_parse_from(words).unwrap().arguments).unwrap_err();
        assert_eq!(failure.code(), Failure::USAGE, "{failure}");
        failure.to_string().replace(path.to_str().unwrap(), "FILE")
    }

    #[test]
    fn a_refused_value_is_told_with_the_place_it_comes_from() {
        for (key, flag, wrong) in [
            ("cpus", "--cpus", "\"9999\""),
            ("cpus", "--cpus", "\"x\""),
            ("listen", "--listen", "\"h:x\""),
            ("advertise", "--advertise", "\"h:x\""),
        ] {
            let in_file = refusal(&format!("{key} = {wrong}\n"), &[]);
            assert!(in_file.starts_with(&format!("configuration FILE: setting `{key}`: ")), "{in_file}");
            let said = refusal("", &[flag, wrong.trim_matches('"')]);
            assert!(said.starts_with(&format!("{flag}: ")), "{said}");
        }
        let routing = refusal("routing = \"nodes\"\n", &[]);
        assert!(routing.starts_with("configuration FILE: setting `routing`: "), "{routing}");
        let said = Command::try_parse_from(["serve", "--routing", "nodes"]).err().unwrap().to_string();
        assert!(said.contains("'--routing <ROUTING>'") && said.contains("shard, node"), "{said}");
        let node = refusal("node_id = 99999999\n", &[]);
        assert!(node.starts_with("configuration FILE: setting `node_id`: "), "{node}");
        let kafka = refusal("[kafka]\nnum.partitions = 0\n", &[]);
        assert!(kafka.starts_with("configuration FILE: setting `num.partitions`: "), "{kafka}");
    }

    #[test]
    fn the_node_id_of_a_format_is_told_with_its_place_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ringlog.toml");
        fs::write(&path, "node_id = -1\n").unwrap();
        let read = |node_id| format_options(Some(&path), None, node_id);
        assert!(read(None).unwrap_err().to_string().starts_with("configuration "));
        assert_eq!(read(Some(2)).unwrap().node, NodeId(2), "the command line wins");
    }
}
