//! Broker and topic settings in Kafka's spelling.
//!
//! A setting is listed here once it is carried out; any other name is refused, so that nobody relies on a setting that
//! does nothing. A topic's own settings start from the broker's defaults (`log.segment.bytes` gives the default of
//! `segment.bytes`, and so on).

mod catalogue;
mod describe;
mod explain;
#[cfg(test)]
mod tests;
mod values;

pub use describe::{
    DescribedSetting, LISTENERS_DEFAULT, SettingKind, SettingSource, Synonym, is_broker_setting, is_list,
    is_topic_setting,
};
pub use explain::{ExplainedSetting, nearest_setting};
pub use values::{Unit, Values};

use core::time::Duration;
use std::collections::BTreeMap;
use std::path::PathBuf;

use engine_record::{ClientBatchRules, Timestamp, TimestampType};
use engine_store::LogConfig;
use replication::leader::{CommitRules, FlushMode};

use self::values::Given;
use crate::config::nearest;

/// Settings of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSettings {
    /// `segment.bytes`: a segment is rolled before it grows beyond this.
    pub segment_bytes: u32,
    /// `segment.ms`: a segment older than this is rolled.
    pub segment_age: Duration,
    /// `retention.ms`: records older than this may be deleted; `None` keeps them for good.
    pub retention_age: Option<Duration>,
    /// `retention.bytes`: how much of a partition is kept at least; `None` keeps everything.
    pub retention_bytes: Option<u64>,
    /// `index.interval.bytes`: at most one index entry in so many bytes.
    pub index_interval_bytes: u32,
    /// `max.message.bytes`: the largest batch, header included.
    pub max_message_bytes: u32,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far behind the broker's clock a producer's timestamp may be.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far ahead of the broker's clock a producer's timestamp may be.
    pub timestamp_after_max_ms: i64,
    /// `min.insync.replicas`.
    pub min_insync_replicas: u16,
    /// `flush.mode`.
    pub flush_mode: FlushMode,
    /// `records.validation`: whether the records of compressed batches are looked at too.
    pub validates_compressed: bool,
}

/// Settings of the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerSettings {
    /// `num.partitions`: of a topic created without saying how many.
    pub num_partitions: u32,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// `delete.topic.enable`.
    pub delete_topics: bool,
    /// `fetch.max.bytes`: the most one fetch answers, whatever it asks for, but for a single larger batch. At most
    /// 16 MiB: an answer stays in memory until its client has taken it.
    pub fetch_bytes_max: u32,
    /// `log.retention.check.interval.ms`: how long between two looks for what retention doesn't keep.
    pub retention_check_interval: Duration,
    /// `socket.request.max.bytes`.
    pub request_bytes_max: u32,
    /// `max.connections`, of each shard.
    pub connections_max: u32,
    /// `max.connections.per.ip`, of each shard.
    pub connections_per_address_max: u32,
    /// `max.incremental.fetch.session.cache.slots`, of each shard; 0 for no fetch sessions.
    pub fetch_sessions_max: u32,
    /// Where the broker listens.
    pub listeners: ListenerSettings,
    /// `log.dirs`, else `log.dir`: the folders that hold partitions; none where the data folder does.
    pub log_dirs: Vec<PathBuf>,
    /// What a topic has unless it says otherwise.
    pub topic: TopicSettings,
    /// What the configuration file says, by name and as written.
    pub written: BTreeMap<String, String>,
}

/// Where the broker listens and what it tells clients of that, as written; `None` where that isn't said. It is read where
/// the number of shards is known and names can be looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerSettings {
    /// `listeners`.
    pub listeners: Option<String>,
    /// `advertised.listeners`.
    pub advertised: Option<String>,
    /// `listener.security.protocol.map`.
    pub protocols: Option<String>,
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self {
            segment_bytes: 128 << 20,
            segment_age: Duration::from_secs(7 * 24 * 3600),
            retention_age: Some(Duration::from_secs(7 * 24 * 3600)),
            retention_bytes: None,
            index_interval_bytes: 32 << 10,
            max_message_bytes: 1_048_588,
            timestamp_type: TimestampType::Create,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            min_insync_replicas: 1,
            flush_mode: FlushMode::Quorum,
            validates_compressed: false,
        }
    }
}

impl Default for BrokerSettings {
    fn default() -> Self {
        Self {
            num_partitions: 1,
            auto_create_topics: true,
            delete_topics: true,
            fetch_bytes_max: FETCH_BYTES_MAX,
            retention_check_interval: Duration::from_secs(5 * 60),
            request_bytes_max: 100 << 20,
            connections_max: 16_384,
            connections_per_address_max: 16_384,
            fetch_sessions_max: 1_000,
            listeners: ListenerSettings::default(),
            log_dirs: Vec::new(),
            topic: TopicSettings::default(),
            written: BTreeMap::new(),
        }
    }
}

/// A setting as it is told to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSetting {
    /// Kafka's name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Where that comes from.
    pub source: SettingSource,
}

/// Why a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The name is none of ours.
    #[error("unknown setting `{name}`{}", hint(nearest.as_deref()))]
    Unknown {
        /// As written.
        name: String,
        /// The known name nearest in spelling.
        nearest: Option<String>,
    },
    /// The value doesn't fit.
    #[error("setting `{name}`: `{value}` is not {expected}")]
    Value {
        /// The setting.
        name: String,
        /// As written.
        value: String,
        /// What would be right.
        expected: Values,
    },
    /// Kafka knows the value, this broker can't carry it out.
    #[error("setting `{name}`: `{value}` is not supported; {supported} is")]
    Unsupported {
        /// The setting.
        name: String,
        /// As written.
        value: String,
        /// What is supported.
        supported: &'static str,
    },
}

/// The names a topic knows.
pub const TOPIC_SETTINGS: [&str; 14] = [
    "cleanup.policy",
    "compression.type",
    "flush.mode",
    "index.interval.bytes",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.insync.replicas",
    "records.validation",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
];

/// The names the broker knows besides.
pub const BROKER_SETTINGS: [&str; 32] = [
    "advertised.listeners",
    "auto.create.topics.enable",
    "compression.type",
    "default.replication.factor",
    "delete.topic.enable",
    "fetch.max.bytes",
    "flush.mode",
    "listener.security.protocol.map",
    "listeners",
    "log.cleanup.policy",
    "log.dir",
    "log.dirs",
    "log.index.interval.bytes",
    "log.message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.type",
    "log.retention.bytes",
    "log.retention.check.interval.ms",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.hours",
    "log.roll.ms",
    "log.segment.bytes",
    "max.connections",
    "max.connections.per.ip",
    "max.incremental.fetch.session.cache.slots",
    "message.max.bytes",
    "min.insync.replicas",
    "num.partitions",
    "records.validation",
    "socket.request.max.bytes",
];

impl TopicSettings {
    /// Sets one setting by its topic name.
    ///
    /// # Errors
    /// [`SettingError`]; nothing has changed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let entry = catalogue::of_topic(name).ok_or_else(|| unknown_setting(name, &TOPIC_SETTINGS))?;
        let given = Given { name, value, values: entry.values };
        match name {
            "segment.bytes" => self.segment_bytes = given.number()?,
            "segment.ms" => self.segment_age = given.span()?,
            "retention.ms" => self.retention_age = given.span_unless_unlimited()?,
            "retention.bytes" => self.retention_bytes = given.unless_unlimited()?,
            "index.interval.bytes" => self.index_interval_bytes = given.number()?,
            "max.message.bytes" => self.max_message_bytes = given.number()?,
            "message.timestamp.type" => self.timestamp_type = given.timestamp_type()?,
            "message.timestamp.before.max.ms" => self.timestamp_before_max_ms = given.number()?,
            "message.timestamp.after.max.ms" => self.timestamp_after_max_ms = given.number()?,
            "min.insync.replicas" => self.min_insync_replicas = given.number()?,
            "flush.mode" => self.flush_mode = given.flush_mode()?,
            "records.validation" => self.validates_compressed = given.records_validation()?,
            // There is nothing to choose.
            _ => given.only()?,
        }
        Ok(())
    }

    /// Whether there is such a setting.
    ///
    /// # Errors
    /// [`SettingError::Unknown`].
    pub fn check_name(name: &str) -> Result<(), SettingError> {
        if is_topic_setting(name) { Ok(()) } else { Err(unknown_setting(name, &TOPIC_SETTINGS)) }
    }

    /// What the log is told.
    #[must_use]
    pub fn log_config(&self) -> LogConfig {
        LogConfig {
            segment_bytes: self.segment_bytes,
            segment_age: self.segment_age,
            retention_age: self.retention_age,
            retention_bytes: self.retention_bytes,
            index_interval_bytes: self.index_interval_bytes,
            max_batch_bytes: self.max_message_bytes,
            timestamp_type: self.timestamp_type,
            ..LogConfig::default()
        }
    }

    /// Whether acks=all, and what readers see, wait for a flush.
    #[must_use]
    pub fn awaits_flush(&self) -> bool {
        self.flush_mode != FlushMode::Async
    }

    /// What decides when a record is committed.
    #[must_use]
    pub fn commit_rules(&self) -> CommitRules {
        CommitRules { flush_mode: self.flush_mode, min_insync: usize::from(self.min_insync_replicas) }
    }

    /// What is checked of a client's batch that arrives at `now`.
    #[must_use]
    pub fn batch_rules(&self, now: Timestamp) -> ClientBatchRules {
        ClientBatchRules {
            batch_bytes_max: self.max_message_bytes,
            zstd_allowed: true,
            timestamp_type: self.timestamp_type,
            earliest_timestamp: Timestamp(now.0.saturating_sub(self.timestamp_before_max_ms)),
            latest_timestamp: Timestamp(now.0.saturating_add(self.timestamp_after_max_ms)),
            keys_required: false,
        }
    }

    /// All settings by name; `source` tells where each comes from.
    #[must_use]
    pub fn list(&self, source: impl Fn(&str) -> SettingSource) -> Vec<ListedSetting> {
        TOPIC_SETTINGS
            .iter()
            .map(|&name| ListedSetting { name, value: self.value(name), source: source(name) })
            .collect()
    }

    /// The value of a setting in [`TOPIC_SETTINGS`], as it would be written.
    ///
    /// # Panics
    /// The name isn't in there.
    #[must_use]
    pub fn value(&self, name: &str) -> String {
        match name {
            "segment.bytes" => self.segment_bytes.to_string(),
            "segment.ms" => self.segment_age.as_millis().to_string(),
            "retention.ms" => or_unlimited(self.retention_age.map(|age| age.as_millis())),
            "retention.bytes" => or_unlimited(self.retention_bytes),
            "index.interval.bytes" => self.index_interval_bytes.to_string(),
            "max.message.bytes" => self.max_message_bytes.to_string(),
            "min.insync.replicas" => self.min_insync_replicas.to_string(),
            "message.timestamp.before.max.ms" => self.timestamp_before_max_ms.to_string(),
            "message.timestamp.after.max.ms" => self.timestamp_after_max_ms.to_string(),
            "message.timestamp.type" => match self.timestamp_type {
                TimestampType::Create => "CreateTime".to_owned(),
                TimestampType::LogAppend => "LogAppendTime".to_owned(),
            },
            "records.validation" => {
                if self.validates_compressed {
                    "all".to_owned()
                } else {
                    "uncompressed".to_owned()
                }
            }
            "flush.mode" => match self.flush_mode {
                FlushMode::Quorum => "quorum".to_owned(),
                FlushMode::Isr => "isr".to_owned(),
                FlushMode::Leader => "leader".to_owned(),
                FlushMode::Async => "async".to_owned(),
            },
            "cleanup.policy" => "delete".to_owned(),
            "compression.type" => "producer".to_owned(),
            other => unreachable!("`{other}` is not in the table of topic settings"),
        }
    }

    /// These settings with a topic's own set over them, in order.
    ///
    /// # Errors
    /// [`SettingError`] of the first that is refused.
    pub fn with<'a>(&self, own: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self, SettingError> {
        let mut settings = self.clone();
        for (name, value) in own {
            settings.set(name, value)?;
        }
        Ok(settings)
    }
}

impl BrokerSettings {
    /// The defaults with what the configuration file says set over them.
    ///
    /// # Errors
    /// [`SettingError`] of the first that is refused.
    pub fn from_file(kafka: &[(String, String)]) -> Result<Self, SettingError> {
        let (settings, refused) = Self::read_file(kafka);
        refused.into_iter().next().map_or(Ok(settings), Err)
    }

    /// The same, with every setting that is refused; those have their defaults then.
    #[must_use]
    pub fn read_file(kafka: &[(String, String)]) -> (Self, Vec<SettingError>) {
        let mut settings = Self::default();
        // Of the names for one span the finest unit wins, wherever they stand.
        let mut by_unit: Vec<_> = kafka.iter().collect();
        by_unit.sort_by_key(|(name, _)| match name.as_str() {
            // And the list of log directories over the one.
            "log.roll.hours" | "log.retention.hours" | "log.dir" => 0,
            "log.retention.minutes" => 1,
            _ => 2,
        });
        let set = by_unit.into_iter().map(|(name, value)| settings.set(name, value).err());
        let refused = set.flatten().collect();
        settings.written = kafka.iter().cloned().collect();
        (settings, refused)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let entry = catalogue::of_broker(name).ok_or_else(|| unknown_setting(name, &BROKER_SETTINGS))?;
        let given = Given { name, value, values: entry.values };
        match name {
            "num.partitions" => self.num_partitions = given.number()?,
            "auto.create.topics.enable" => self.auto_create_topics = given.flag()?,
            "delete.topic.enable" => self.delete_topics = given.flag()?,
            "listeners" => self.listeners.listeners = Some(given.text()?),
            "advertised.listeners" => self.listeners.advertised = Some(given.text()?),
            "listener.security.protocol.map" => self.listeners.protocols = Some(given.text()?),
            "log.dir" | "log.dirs" => self.log_dirs = given.folders()?,
            "fetch.max.bytes" => self.fetch_bytes_max = given.number()?,
            "socket.request.max.bytes" => self.request_bytes_max = given.number()?,
            "max.connections" => self.connections_max = given.number()?,
            "max.connections.per.ip" => self.connections_per_address_max = given.number()?,
            "max.incremental.fetch.session.cache.slots" => self.fetch_sessions_max = given.number()?,
            "log.roll.hours" => self.topic.segment_age = given.span()?,
            "log.retention.hours" | "log.retention.minutes" => {
                self.topic.retention_age = given.span_unless_unlimited()?;
            }
            "log.retention.check.interval.ms" => self.retention_check_interval = given.span()?,
            other => match topic_name(other) {
                Some(topic_name) => {
                    self.topic.set(topic_name, value).map_err(|error| error.renamed(other))?;
                }
                // There is nothing to choose.
                None => given.only()?,
            },
        }
        Ok(())
    }
}

/// The most that `fetch.max.bytes` may be, and what it is unless set: no answer has more bytes of records, but for a single
/// larger batch, since they stay in memory until the client takes them.
pub const FETCH_BYTES_MAX: u32 = 16 << 20;

/// The most partitions a topic may have.
pub const PARTITIONS_MAX: u32 = 10_000;

/// The topic's name of a setting that the broker gives the default of in the same unit.
fn topic_name(broker_name: &str) -> Option<&'static str> {
    let entry = catalogue::TOPIC.iter().find(|entry| entry.broker_names.first() == Some(&broker_name));
    entry.map(|entry| entry.name)
}

/// What is said besides of a name that is none of ours.
fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"))
}

fn or_unlimited(limit: Option<impl ToString>) -> String {
    limit.map_or_else(|| "-1".to_owned(), |limit| limit.to_string())
}

fn unknown_setting(name: &str, known: &[&str]) -> SettingError {
    SettingError::Unknown { name: name.to_owned(), nearest: nearest(name, known.iter().copied()) }
}

impl SettingError {
    /// The same error under the name the person wrote.
    fn renamed(self, to: &str) -> Self {
        match self {
            Self::Unknown { nearest, .. } => Self::Unknown { name: to.to_owned(), nearest },
            Self::Value { value, expected, .. } => Self::Value { name: to.to_owned(), value, expected },
            Self::Unsupported { value, supported, .. } => {
                Self::Unsupported { name: to.to_owned(), value, supported }
            }
        }
    }
}
