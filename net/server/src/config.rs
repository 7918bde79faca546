//! Configuration: what a person writes ([`ConfigFile`]) and what the code uses ([`Config`]).
//!
//! A `ringlog.toml` holds Ringlog's own settings at its top and the broker settings in Kafka's spelling in the table
//! `[kafka]`. Dotted keys and sub-tables mean the same: `log.segment.bytes = 1` is `"log.segment.bytes" = 1`.
//! The file is resolved once; after that only [`Config`] is passed around, by value.

mod memory;
mod own;

use core::time::Duration;
use std::net::IpAddr;
use std::path::PathBuf;

use engine_record::{NodeId, ShardId};
use engine_store::IDLE_DESCRIPTORS_MAX;

pub use self::memory::MemoryTable;
pub use self::own::{OWN_SETTINGS, OwnSetting};

use self::own::KAFKA_TABLE;
use crate::disk_space::{Watermark, Watermarks};
use crate::settings::{BrokerSettings, SettingError};

/// The default port of shard 0; shard *i* listens on the port *i* above.
pub const DEFAULT_PORT: u16 = 9092;

/// The largest node id: an endpoint's broker id is `node * 1000 + shard` and must fit 32 bits.
pub const NODE_ID_MAX: i32 = 2_147_482;

/// The most shards one node can have, for the same reason.
pub const SHARDS_MAX: u16 = 1000;

/// Whom a client's connection reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Every shard listens on a port of its own and appears to clients as a broker of its own.
    Shard,
    /// All shards accept from one port and appear to clients as one broker; what is another shard's is forwarded to it.
    Node,
}

impl Routing {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shard => "shard",
            Self::Node => "node",
        }
    }

    /// How many ports each listener of a node with so many shards takes.
    #[must_use]
    pub const fn ports(self, shards: u16) -> u16 {
        match self {
            Self::Shard => shards,
            Self::Node => 1,
        }
    }
}

/// The name of the listener that a node has unless it is told of others.
pub const DEFAULT_LISTENER: &str = "PLAINTEXT";

/// One place where the node listens for clients, and what those are told that come there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// The name by which the metadata know it, the same on every node, in capitals.
    pub name: String,
    /// The address to bind.
    pub address: IpAddr,
    /// Shard 0's port; shard *i* takes the port *i* above. 0 picks a free port for each shard.
    pub port: u16,
    /// What clients are told.
    pub advertised: Advertised,
}

/// What a listener's clients are told of where its shards are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advertised {
    /// The address they have reached, and the port of each shard.
    AsReached,
    /// This host.
    Host {
        /// A name or an address, never an unspecified one.
        host: String,
        /// Shard 0's port; shard *i* has the port *i* above. `None`: the ports that the shards listen on.
        port: Option<u16>,
    },
    /// The host and the port of each shard, in order.
    Each(Vec<(String, u16)>),
}

impl ListenerConfig {
    /// The listener of a node that is told of no other: plain text, and the address that clients have reached.
    #[must_use]
    pub fn plaintext(address: IpAddr, port: u16) -> Self {
        Self { name: DEFAULT_LISTENER.to_owned(), address, port, advertised: Advertised::AsReached }
    }

    /// The port that a shard binds; `None` past the last.
    #[must_use]
    pub fn port_of(&self, shard: ShardId, routing: Routing) -> Option<u16> {
        match routing {
            Routing::Shard if self.port != 0 => self.port.checked_add(shard.0),
            Routing::Shard | Routing::Node => Some(self.port),
        }
    }
}

/// Everything the server needs to know, resolved and checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node.
    pub node: NodeId,
    /// The data folder: an absolute path, since clients are told it.
    pub data_folder: PathBuf,
    /// The clients' listeners: at least one, each with a name of its own.
    pub listeners: Vec<ListenerConfig>,
    /// How clients reach partitions.
    pub routing: Routing,
    /// How many shards to run.
    pub shards: u16,
    /// Broker settings in Kafka's terms.
    pub broker: BrokerSettings,
    /// What bounds a shard's memory and connections.
    pub limits: Limits,
    /// When what needs space on the drive is refused.
    pub watermarks: Watermarks,
}

/// The limits of one shard. Each has a named behaviour when it is reached; what they may come to in memory, all together,
/// is [`Limits::memory`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections; one more is closed at once and counted.
    pub connections: usize,
    /// Other shards that a connection's requests may be forwarded to, where all have one port: each keeps something of it.
    pub owners_beside: u16,
    /// Connections from one address; one more is closed at once and counted.
    pub connections_per_address: usize,
    /// Requests of one connection that have been read and not yet answered; no more are read meanwhile.
    pub requests_in_flight: usize,
    /// A request frame in bytes (`socket.request.max.bytes`); a larger one closes the connection.
    pub frame_bytes: u32,
    /// Request bytes held by all connections of the shard, at least twice `frame_bytes`. Where it is reached, frames above
    /// 16 KiB wait for 5 seconds, then their connection is closed, and so are those whose requests would take longer
    /// than that to come. Smaller frames pass all the same, 16 KiB at a time of each connection.
    pub request_bytes: u64,
    /// Bytes of large requests other than produces (lists of topics and partitions from 16 KiB on) that are worked on at a
    /// time, which takes up to 50 times as much memory. Others wait for 10 seconds, then their connection is closed; fetches
    /// in there that wait for records are answered early meanwhile.
    pub list_bytes: u64,
    /// Bytes of replies held by all connections of the shard until their clients have taken them, and whole buffers of
    /// which they hold a part; what came of produces, until their replies are made, is in it too. Where it is reached,
    /// fetches get fewer bytes, then what there is in files, then wait, then get none. Other large replies, and produces to
    /// hundreds of partitions,
    /// wait for 5 seconds, then their connection is closed; small ones pass all the same. What came of produces has a
    /// quarter of it at most, and lists half. Connections whose clients take nothing meanwhile are closed. A reply may
    /// exceed it by a buffer or two.
    pub reply_bytes: u64,
    /// Fetch sessions; a consumer that asks for one more is told that it has none, and names all it wants in each fetch,
    /// until one that was silent for two minutes can go.
    pub fetch_sessions: usize,
    /// Bytes of fetch sessions; the same comes of more.
    pub fetch_session_bytes: u64,
    /// Memory for chunks being written and the tails kept for readers, in bytes; appends wait meanwhile.
    pub pool_bytes: u64,
    /// Segment files kept open though nothing uses them, for direct I/O and for sending each; the one that was used longest ago
    /// is closed for the next.
    pub idle_files: usize,
    /// How long a shutdown waits for clients and for files being removed; what the disk takes to close the logs comes on
    /// top.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            owners_beside: 0,
            connections_per_address: 16_384,
            requests_in_flight: 64,
            frame_bytes: 100 << 20,
            request_bytes: 512 << 20,
            list_bytes: 16 << 20,
            reply_bytes: 128 << 20,
            fetch_sessions: 1_000,
            fetch_session_bytes: 16 << 20,
            pool_bytes: 256 << 20,
            idle_files: IDLE_DESCRIPTORS_MAX,
            drain: Duration::from_secs(5),
        }
    }
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file isn't TOML.
    #[error("the configuration is not valid TOML: {0}")]
    Syntax(#[from] Box<toml::de::Error>),
    /// A key nobody knows.
    #[error("unknown setting `{key}`{}", suggestion(.nearest.as_deref()))]
    UnknownKey {
        /// As written.
        key: String,
        /// The known key that is nearest in spelling.
        nearest: Option<String>,
    },
    /// A value of the wrong type or out of its range.
    #[error("setting `{key}`: {why}")]
    Value {
        /// The setting.
        key: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// A broker setting that is refused.
    #[error(transparent)]
    Broker(#[from] SettingError),
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |key| format!("; did you mean `{key}`?"))
}

/// What `ringlog.toml` says. Absent settings are `None`; the command line may fill or override them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigFile {
    /// `node_id`.
    pub node_id: Option<i32>,
    /// `data_dir`.
    pub data_dir: Option<PathBuf>,
    /// `listen`: `HOST:PORT`, `HOST` or `:PORT`.
    pub listen: Option<String>,
    /// `advertise`: `HOST:PORT` or `HOST`.
    pub advertise: Option<String>,
    /// `cpus`: a list such as `"0,2-5"`.
    pub cpus: Option<String>,
    /// `routing`.
    pub routing: Option<String>,
    /// `disk_soft_watermark`: a percentage or bytes.
    pub disk_soft_watermark: Option<Watermark>,
    /// `disk_hard_watermark`, the same.
    pub disk_hard_watermark: Option<Watermark>,
    /// The table `[kafka]`, flattened, in the order of the keys.
    pub kafka: Vec<(String, String)>,
}

impl ConfigFile {
    /// Reads the text of a `ringlog.toml`.
    ///
    /// # Errors
    /// [`ConfigError::Syntax`], [`ConfigError::UnknownKey`], [`ConfigError::Value`].
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let (file, refused) = Self::read(text)?;
        refused.into_iter().next().map_or(Ok(file), Err)
    }

    /// The same, with every key that is refused; those are absent then.
    ///
    /// # Errors
    /// [`ConfigError::Syntax`].
    pub fn read(text: &str) -> Result<(Self, Vec<ConfigError>), ConfigError> {
        let table: toml::Table = text.parse().map_err(Box::new)?;
        let mut file = Self::default();
        let refused = table.into_iter().filter_map(|(key, value)| file.set(&key, value).err()).collect();
        Ok((file, refused))
    }

    fn set(&mut self, key: &str, value: toml::Value) -> Result<(), ConfigError> {
        match key {
            "node_id" => self.node_id = Some(small_integer(key, &value)?),
            "data_dir" => self.data_dir = Some(text(key, value)?.into()),
            "listen" => self.listen = Some(text(key, value)?),
            "advertise" => self.advertise = Some(text(key, value)?),
            "cpus" => self.cpus = Some(text(key, value)?),
            "routing" => self.routing = Some(text(key, value)?),
            "disk_soft_watermark" => self.disk_soft_watermark = Some(watermark(key, &value)?),
            "disk_hard_watermark" => self.disk_hard_watermark = Some(watermark(key, &value)?),
            KAFKA_TABLE => flatten(String::new(), value, &mut self.kafka)?,
            unknown => {
                let known = OWN_SETTINGS.iter().map(|own| own.name).chain([KAFKA_TABLE]);
                let nearest = nearest(unknown, known);
                return Err(ConfigError::UnknownKey { key: unknown.to_owned(), nearest });
            }
        }
        Ok(())
    }

    /// What the file says of one of Ringlog's own settings.
    #[must_use]
    pub fn own(&self, name: &str) -> Option<String> {
        match name {
            "node_id" => self.node_id.map(|id| id.to_string()),
            "data_dir" => self.data_dir.as_ref().map(|folder| folder.display().to_string()),
            "listen" => self.listen.clone(),
            "advertise" => self.advertise.clone(),
            "cpus" => self.cpus.clone(),
            "routing" => self.routing.clone(),
            "disk_soft_watermark" => self.disk_soft_watermark.map(|watermark| watermark.to_string()),
            "disk_hard_watermark" => self.disk_hard_watermark.map(|watermark| watermark.to_string()),
            _ => None,
        }
    }
}

fn text(key: &str, value: toml::Value) -> Result<String, ConfigError> {
    if let toml::Value::String(text) = value {
        return Ok(text);
    }
    Err(wrong(key, format!("expected a string, found {}", value.type_str())))
}

fn small_integer(key: &str, value: &toml::Value) -> Result<i32, ConfigError> {
    value
        .as_integer()
        .and_then(|number| i32::try_from(number).ok())
        .ok_or_else(|| wrong(key, format!("expected a whole number, found {value}")))
}

/// A whole number counts bytes.
fn watermark(key: &str, value: &toml::Value) -> Result<Watermark, ConfigError> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Watermark::parse(&text).map_err(|expected| wrong(key, format!("{value}: {expected}")))
}

fn wrong(key: &str, why: String) -> ConfigError {
    ConfigError::Value { key: key.to_owned(), why }
}

/// Flattens nested tables into dotted keys: `log.segment.bytes = 1` arrives as three tables.
fn flatten(prefix: String, value: toml::Value, into: &mut Vec<(String, String)>) -> Result<(), ConfigError> {
    let scalar = match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let key = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
                flatten(key, value, into)?;
            }
            return Ok(());
        }
        toml::Value::String(text) => text,
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Boolean(flag) => flag.to_string(),
        toml::Value::Float(number) => number.to_string(),
        other @ (toml::Value::Datetime(_) | toml::Value::Array(_)) => {
            return Err(wrong(&prefix, format!("expected a string or a number, found {}", other.type_str())));
        }
    };
    if prefix.is_empty() {
        return Err(wrong("kafka", "expected a table `[kafka]`".to_owned()));
    }
    into.push((prefix, scalar));
    Ok(())
}

/// The known key nearest to `key` in spelling, if one is near enough to be what was meant.
#[must_use]
pub fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    // Names are told apart by case, but who errs there means the same one.
    let key = key.to_ascii_lowercase();
    let distance = |name: &str| edit_distance(&key, &name.to_ascii_lowercase());
    let (distance, name) = known.map(|name| (distance(name), name)).min()?;
    (distance <= key.len() / 3 + 1).then(|| name.to_owned())
}

/// Levenshtein's distance in bytes, by rows.
fn edit_distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.bytes().enumerate() {
            let substitute = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[right.len()]
}

/// Parses a routing's name.
///
/// # Errors
/// [`ConfigError::Value`] for any other name.
pub fn parse_routing(name: &str) -> Result<Routing, ConfigError> {
    match name {
        "shard" => Ok(Routing::Shard),
        "node" => Ok(Routing::Node),
        other => Err(wrong("routing", format!("`{other}` is not a routing; `shard` and `node` are"))),
    }
}

/// Checks a node id.
///
/// # Errors
/// [`ConfigError::Value`] outside 0 to [`NODE_ID_MAX`].
pub fn check_node_id(id: i32) -> Result<NodeId, ConfigError> {
    if (0..=NODE_ID_MAX).contains(&id) {
        Ok(NodeId(id))
    } else {
        Err(wrong("node_id", format!("{id} is outside 0 to {NODE_ID_MAX}")))
    }
}

/// Splits `HOST:PORT`, `[V6]:PORT`, `HOST` or `:PORT` into a host (empty where absent) and a port.
///
/// # Errors
/// [`ConfigError::Value`] naming `key`.
pub fn split_host_port(key: &str, text: &str, default_port: u16) -> Result<(String, u16), ConfigError> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, Some(port)),
            Some(_) => return Err(wrong(key, format!("`{text}`: write an IPv6 address as [address]:port"))),
            None => (text, None),
        },
    };
    let port = match port {
        None => default_port,
        Some(port) => {
            port.parse().map_err(|_| wrong(key, format!("`{text}`: `{port}` is not a port (0 to 65535)")))?
        }
    };
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotted_keys_and_tables_mean_the_same() {
        let dotted = ConfigFile::parse("[kafka]\nlog.segment.bytes = 1048576\n").unwrap();
        let quoted = ConfigFile::parse("[kafka]\n\"log.segment.bytes\" = \"1048576\"\n").unwrap();
        assert_eq!(dotted, quoted);
        assert_eq!(dotted.kafka, [("log.segment.bytes".to_owned(), "1048576".to_owned())]);
    }

    #[test]
    fn an_unknown_key_names_the_nearest_known_one() {
        let error = ConfigFile::parse("data_dri = \"x\"").unwrap_err();
        assert_eq!(error.to_string(), "unknown setting `data_dri`; did you mean `data_dir`?");
        let error = ConfigFile::parse("zebra = 1").unwrap_err();
        assert_eq!(error.to_string(), "unknown setting `zebra`");
    }

    #[test]
    fn a_value_of_the_wrong_type_is_refused() {
        assert!(ConfigFile::parse("listen = 9092").unwrap_err().to_string().contains("expected a string"));
        assert!(ConfigFile::parse("kafka = 3").unwrap_err().to_string().contains("table"));
        assert!(ConfigFile::parse("node_id = 99999999999").is_err());
    }

    #[test]
    fn watermarks_are_read_as_text_or_as_bytes() {
        let file = ConfigFile::parse("disk_soft_watermark = \"2GiB\"\ndisk_hard_watermark = 0\n").unwrap();
        assert_eq!(file.disk_soft_watermark, Some(Watermark::bytes(2 << 30)));
        assert_eq!(file.disk_hard_watermark, Some(Watermark::bytes(0)));
        for wrong in ["\"much\"", "-5", "true", "1.5"] {
            let refused = ConfigFile::parse(&format!("disk_soft_watermark = {wrong}\n")).unwrap_err();
            assert!(refused.to_string().starts_with("setting `disk_soft_watermark`: "), "{refused}");
        }
    }

    #[test]
    fn hosts_and_ports_are_split_and_checked() {
        let split = |text| split_host_port("listen", text, DEFAULT_PORT);
        assert_eq!(split("127.0.0.1:1234").unwrap(), ("127.0.0.1".to_owned(), 1234));
        assert_eq!(split("localhost").unwrap(), ("localhost".to_owned(), 9092));
        assert_eq!(split(":9").unwrap(), (String::new(), 9));
        assert_eq!(split("[::1]:7").unwrap(), ("::1".to_owned(), 7));
        assert!(split("::1:7").is_err());
        assert!(split("host:70000").is_err());
    }

    #[test]
    fn node_ids_keep_endpoint_ids_within_32_bits() {
        assert!(check_node_id(NODE_ID_MAX).is_ok());
        assert!(check_node_id(NODE_ID_MAX + 1).is_err());
        assert!(check_node_id(-1).is_err());
        let last = i64::from(NODE_ID_MAX) * 1000 + i64::from(SHARDS_MAX) - 1;
        assert!(last <= i64::from(i32::MAX));
    }
}
