//! What a broker says of itself when it is ready.

use std::path::Path;
use std::time::Duration;

use net_server::Endpoint;
use net_server::config::{Advertised, ListenerConfig, Routing};
use net_server::format::Identity;
use net_server::node::{ListenerTold, Opened, Started};
use net_server::settings::BrokerSettings;
use serde_json::json;
use tuning::{FlushMeasurement, FlushScope, WriteCache};

use super::folder::FileIo;
use super::log_directories::{Drive, Measured};
use super::options::Options;
use crate::output::{self, Counted};

/// Everything worth saying.
pub(super) struct Banner<'a> {
    pub(super) options: &'a Options,
    pub(super) identity: &'a Identity,
    pub(super) new: bool,
    pub(super) directories: &'a [Measured],
    pub(super) started: &'a Started,
}

impl Banner<'_> {
    /// For people.
    pub(super) fn print(&self) {
        print(&self.lines().join("\n"));
    }

    fn lines(&self) -> Vec<String> {
        let state = if self.new { "NEW" } else { "EXISTING" };
        let mut lines =
            vec![format!("{state} cluster {}, node {}", self.identity.cluster, self.identity.node)];
        if self.is_buffered() {
            lines.push(
                "NOT DURABLE: --buffered-dev goes through the page cache; for development only".to_owned(),
            );
        }
        for told in &self.started.listeners {
            if self.options.config.routing == Routing::Node {
                lines.extend(told.endpoints.iter().map(|endpoint| self.one_address(told, endpoint)));
                continue;
            }
            lines.extend(told.endpoints.iter().zip(&self.options.cpus).map(|(endpoint, cpu)| {
                let through = self.through(told);
                format!(
                    "  broker {} at {}{through}, a shard on CPU {cpu}",
                    endpoint.broker,
                    address(endpoint)
                )
            }));
        }
        lines.extend([format!("data      {}", folder(&self.options.config.data_folder))]);
        lines.extend(self.logs());
        lines.extend([
            format!("memory    {}", self.options.memory),
            format!("flush     {}", self.durability()),
            format!("retention {}", retention(&self.options.config.broker)),
            format!("recovery  {}", self.recovery()),
        ]);
        lines.extend(self.clients());
        if let Some(first) = self.started.listeners.iter().flat_map(|told| &told.endpoints).next() {
            let bootstrap = address(first);
            lines.extend([
                format!("produce   echo hello | ringlog produce greetings --bootstrap {bootstrap}"),
                format!("consume   ringlog consume greetings --from earliest --bootstrap {bootstrap}"),
            ]);
        }
        lines
    }

    /// For programs.
    pub(super) fn print_json(&self) {
        let sum = |of: fn(&Opened) -> u64| self.started.shards.iter().map(of).sum::<u64>();
        let took = self.started.shards.iter().map(|shard| shard.took).max().unwrap_or_default();
        let listeners = self.started.listeners.iter().enumerate();
        let listeners: Vec<_> = listeners.map(|(place, told)| self.listener_json(place, told)).collect();
        let endpoints = listeners.first().map(|first| first["endpoints"].clone());
        print(
            &json!({
                "cluster_id": self.identity.cluster.to_string(),
                "new": self.new,
                "durable": !self.is_buffered(),
                "node_id": self.identity.node.0,
                "routing": self.options.config.routing.name(),
                "endpoints": endpoints,
                "listeners": listeners,
                "log_directories": self.directories_json(),
                "memory": self.options.memory.as_json(),
                "recovery": {
                    "clean": are_clean(&self.started.shards),
                    "partitions": sum(|shard| shard.partitions as u64),
                    "offline": sum(|shard| shard.offline as u64),
                    "scanned_bytes": sum(|shard| shard.scanned_bytes),
                    "ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                },
            })
            .to_string(),
        );
    }

    /// The log directories, a line for each, unless the data folder is the only one.
    fn logs(&self) -> Vec<String> {
        if self.is_single() {
            return Vec::new();
        }
        let line = |measured: &Measured| match &measured.drive {
            Drive::Flushes(flush, scope) if self.is_online(&measured.path) => {
                format!("logs      {}, {}", folder(&measured.path), flushes(flush.as_ref(), scope))
            }
            Drive::Offline(why) => format!("logs      {} OFFLINE: {why}", measured.path.display()),
            Drive::Flushes(..) => format!("logs      {} OFFLINE (see the log)", measured.path.display()),
        };
        self.directories.iter().map(line).collect()
    }

    fn is_single(&self) -> bool {
        matches!(self.directories, [only] if only.path == self.options.config.data_folder)
    }

    /// Whether every shard uses the directory.
    fn is_online(&self, path: &Path) -> bool {
        let mut views = self.started.shards.iter().flat_map(|shard| &shard.log_directories);
        !views.any(|view| view.path == path && !view.is_online)
    }

    fn directories_json(&self) -> Vec<serde_json::Value> {
        let directory = |measured: &Measured| {
            let views = self.started.shards.iter().flat_map(|shard| &shard.log_directories);
            let here = views.filter(|view| view.path == measured.path);
            json!({
                "path": measured.path,
                "online": self.is_online(&measured.path),
                "partitions": here.map(|view| view.partitions).sum::<usize>(),
            })
        };
        self.directories.iter().map(directory).collect()
    }

    fn is_buffered(&self) -> bool {
        self.options.file_io == FileIo::BufferedDev
    }

    fn durability(&self) -> String {
        if self.is_buffered() {
            return "into the page cache and no further than the file system takes it: nothing is promised"
                .to_owned();
        }
        let answered = if self.options.config.broker.topic.awaits_flush() {
            "acks=all is answered after a flush, acks=1 after the write"
        } else {
            "acks=all and acks=1 are answered after the write (flush.mode=async)"
        };
        match self.directories {
            [Measured { drive: Drive::Flushes(flush, scope), .. }] if self.is_single() => {
                format!("{}; {answered}", flushes(flush.as_ref(), scope))
            }
            _ => answered.to_owned(),
        }
    }

    fn recovery(&self) -> String {
        if self.new {
            return "nothing to recover".to_owned();
        }
        recovery(&self.started.shards)
    }

    /// Who may come by each listener.
    fn clients(&self) -> Vec<String> {
        let listeners = &self.options.config.listeners;
        let of_listener = |listener: &ListenerConfig| {
            let name = if listeners.len() == 1 { "" } else { &listener.name };
            let colon = if name.is_empty() { "" } else { ": " };
            format!("clients   {name}{colon}PLAINTEXT, no authentication, {}", reach(listener))
        };
        listeners.iter().map(of_listener).collect()
    }

    /// Where all shards have one address.
    fn one_address(&self, told: &ListenerTold, endpoint: &Endpoint) -> String {
        let cpus: Vec<_> = self.options.cpus.iter().map(ToString::to_string).collect();
        let (through, count) = (self.through(told), Counted(cpus.len(), "shard"));
        format!(
            "  broker {} at {}{through}, {count} on CPUs {} (routing = \"node\")",
            endpoint.broker,
            address(endpoint),
            cpus.join(",")
        )
    }

    /// By which listener an endpoint is reached, where there are several.
    fn through(&self, told: &ListenerTold) -> String {
        let is_only = self.started.listeners.len() == 1;
        if is_only { String::new() } else { format!(" ({})", told.name) }
    }

    fn listener_json(&self, place: usize, told: &ListenerTold) -> serde_json::Value {
        let endpoints = told.endpoints.iter().zip(&self.options.cpus).enumerate();
        let endpoints: Vec<_> =
            endpoints.map(|(shard, (endpoint, cpu))| endpoint_json(shard, endpoint, *cpu)).collect();
        let bound: Vec<_> =
            self.started.shards.iter().filter_map(|shard| shard.addresses.get(place)).collect();
        json!({
            "name": told.name,
            "protocol": "PLAINTEXT",
            "bound": bound,
            "endpoints": endpoints,
        })
    }
}

/// A folder, what it lies on, and how much is free there.
fn folder(path: &Path) -> String {
    let place = match tuning::filesystem_of(Path::new("/"), path) {
        Ok(filesystem) => {
            let device = filesystem.device.as_ref().map_or_else(
                || "no block device".to_owned(),
                |device| format!("{}, {}", device.name, write_cache(device.write_cache)),
            );
            format!("{} on {device}", filesystem.kind)
        }
        Err(error) => error.to_string(),
    };
    let space = match tuning::space_of(path) {
        Ok(space) => {
            format!("{:.1} GiB free of {:.1}", gibibytes(space.free_bytes), gibibytes(space.total_bytes))
        }
        Err(error) => error.to_string(),
    };
    format!("{}, {place}, {space}", path.display())
}

/// How long a flush takes, and what it covers.
fn flushes(flush: Option<&FlushMeasurement>, scope: &FlushScope) -> String {
    let measured = flush.map_or_else(
        || "the drive's own flush was not measured, as the drive is full".to_owned(),
        |flush| format!("the drive's own flush takes {} us (p99)", flush.flush.p99().as_micros()),
    );
    match scope {
        FlushScope::Device => format!("{measured}, one flush covers all files of a shard"),
        FlushScope::PerFile(reason) => format!("{measured}, each file is flushed by itself ({reason})"),
    }
}

/// Who reaches a broker by this listener, and where clients are told that it is.
fn reach(listener: &ListenerConfig) -> String {
    let address = listener.address;
    let from = if address.is_loopback() { "this machine only" } else { "ANY machine that reaches it" };
    let told = match listener.advertised {
        Advertised::AsReached if address.is_unspecified() => {
            "; each client is told the address it has reached"
        }
        Advertised::AsReached | Advertised::Host { .. } | Advertised::Each(_) => "",
    };
    format!("from {from} ({address}){told}")
}

/// Whether every log was closed at its end. That isn't how the last process ended: what isn't appended to stays closed,
/// so an idle broker that is killed leaves nothing to recover either.
fn are_clean(shards: &[Opened]) -> bool {
    shards.iter().all(|shard| shard.is_clean)
}

/// What a start on an existing folder had to do.
fn recovery(shards: &[Opened]) -> String {
    let partitions: usize = shards.iter().map(|shard| shard.partitions).sum();
    let offline: usize = shards.iter().map(|shard| shard.offline).sum();
    let scanned: u64 = shards.iter().map(|shard| shard.scanned_bytes).sum();
    let found = if are_clean(shards) { "every log was closed" } else { "not every log was closed" };
    let done = match scanned {
        0 => "nothing was scanned".to_owned(),
        bytes => format!("{:.1} MiB were scanned", bytes as f64 / f64::from(1 << 20)),
    };
    let offline = if offline > 0 { format!(", {offline} OFFLINE (see the log)") } else { String::new() };
    format!("{}, {found}, {done}{offline}", Counted(partitions, "partition"))
}

/// Says it on standard output. That this takes nothing is no reason for a broker to end.
fn print(text: &str) {
    if let Err(failure) = output::print(text) {
        tracing::warn!("{failure}");
    }
}

fn endpoint_json(shard: usize, endpoint: &Endpoint, cpu: u32) -> serde_json::Value {
    json!({
        "broker_id": endpoint.broker,
        "shard": shard,
        "cpu": cpu,
        "address": address(endpoint),
    })
}

/// As a client is told it: an IPv6 address stands in brackets.
fn address(endpoint: &Endpoint) -> String {
    let Endpoint { host, port, .. } = endpoint;
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// What is kept of a topic that doesn't say itself.
fn retention(broker: &BrokerSettings) -> String {
    let topic = &broker.topic;
    let age = topic
        .retention_age
        .map_or_else(|| "records of any age".to_owned(), |age| format!("records for {}", span(age)));
    let size = topic
        .retention_bytes
        .map_or_else(|| "any size".to_owned(), |bytes| format!("{bytes} bytes a partition"));
    format!(
        "{age}, {size}, unless a topic says otherwise; looked at each {}",
        span(broker.retention_check_interval)
    )
}

/// In the largest unit in which it is a whole number.
fn span(span: Duration) -> String {
    let ms = span.as_millis();
    let units = [(3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    let unit = units.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "ms"));
    format!("{} {name}", ms / unit)
}

fn write_cache(cache: WriteCache) -> &'static str {
    match cache {
        WriteCache::WriteBack => "volatile write cache",
        WriteCache::WriteThrough => "no volatile write cache",
        WriteCache::Unknown => "write cache unknown",
    }
}

fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(is_clean: bool, offline: usize, scanned_bytes: u64) -> Opened {
        let addresses = vec!["127.0.0.1:9092".parse().unwrap()];
        let (shard, took) = (engine_record::ShardId(0), Duration::ZERO);
        Opened {
            shard,
            addresses,
            partitions: 2,
            offline,
            is_clean,
            scanned_bytes,
            log_directories: Vec::new(),
            took,
        }
    }

    #[test]
    fn of_the_last_run_only_what_it_left_is_told() {
        let closed = opened(true, 0, 0);
        assert_eq!(
            recovery(std::slice::from_ref(&closed)),
            "2 partitions, every log was closed, nothing was scanned"
        );
        assert_eq!(
            recovery(&[closed, opened(false, 1, 3 << 19)]),
            "4 partitions, not every log was closed, 1.5 MiB were scanned, 1 OFFLINE (see the log)"
        );
    }

    #[test]
    fn it_is_told_who_reaches_the_broker_and_where() {
        let of = |address: &str, advertised: Option<&str>| {
            let plaintext = ListenerConfig::plaintext(address.parse().unwrap(), 9092);
            let host = |host: &str| Advertised::Host { host: host.to_owned(), port: None };
            reach(&ListenerConfig { advertised: advertised.map_or(Advertised::AsReached, host), ..plaintext })
        };
        assert_eq!(of("127.0.0.1", None), "from this machine only (127.0.0.1)");
        assert_eq!(of("192.0.2.1", None), "from ANY machine that reaches it (192.0.2.1)");
        let any = "from ANY machine that reaches it (0.0.0.0)";
        assert_eq!(of("0.0.0.0", Some("broker1.example")), any);
        assert_eq!(of("0.0.0.0", None), format!("{any}; each client is told the address it has reached"));
    }

    #[test]
    fn retention_is_told_in_units_for_people() {
        let mut broker = BrokerSettings::default();
        let told = "records for 168 h, any size, unless a topic says otherwise; looked at each 5 min";
        assert_eq!(retention(&broker), told);
        broker.topic.retention_age = None;
        broker.topic.retention_bytes = Some(1 << 30);
        broker.retention_check_interval = Duration::from_millis(1_500);
        let told = "records of any age, 1073741824 bytes a partition, unless a topic says otherwise; looked at each 1500 ms";
        assert_eq!(retention(&broker), told);
    }

    #[test]
    fn an_address_can_be_given_to_a_client_as_it_is() {
        for (host, expected) in [
            ("::1", "[::1]:9092"),
            ("127.0.0.1", "127.0.0.1:9092"),
            ("broker.example", "broker.example:9092"),
        ] {
            let text = address(&Endpoint { broker: 1_000, host: host.to_owned(), port: 9_092 });
            assert_eq!(text, expected);
            let parsed = net_client::Endpoint::parse(&text).unwrap();
            assert_eq!((&*parsed.host, parsed.port), (host, 9_092));
        }
    }
}
