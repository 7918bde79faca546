//! Broker and topic settings in Kafka's spelling.
//!
//! A setting is listed here once it is carried out; any other name is refused, so that nobody relies on a setting that
//! does nothing. A topic's own settings start from the broker's defaults (`log.segment.bytes` gives the default of
//! `segment.bytes`, and so on).

mod catalogue;
mod describe;
#[cfg(test)]
mod tests;

pub use describe::{
    DescribedSetting, LISTENERS_DEFAULT, SettingKind, SettingSource, Synonym, is_broker_setting, is_list,
    is_topic_setting,
};

use core::time::Duration;
use std::collections::BTreeMap;

use engine_record::{ClientBatchRules, Timestamp, TimestampType};
use engine_store::LogConfig;
use replication::leader::{CommitRules, FlushMode};

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
        expected: &'static str,
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
pub const TOPIC_SETTINGS: [&str; 13] = [
    "cleanup.policy",
    "compression.type",
    "flush.mode",
    "index.interval.bytes",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
];

/// The names the broker knows besides.
pub const BROKER_SETTINGS: [&str; 29] = [
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
    "socket.request.max.bytes",
];

impl TopicSettings {
    /// Sets one setting by its topic name.
    ///
    /// # Errors
    /// [`SettingError`]; nothing has changed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let given = Given { name, value };
        match name {
            "segment.bytes" => self.segment_bytes = given.number(1 << 20, 1 << 30, SEGMENT_BYTES)?,
            "segment.ms" => self.segment_age = given.milliseconds()?,
            "retention.ms" => self.retention_age = given.unless_unlimited()?.map(Duration::from_millis),
            "retention.bytes" => self.retention_bytes = given.unless_unlimited()?,
            "index.interval.bytes" => self.index_interval_bytes = given.number(1, 1 << 30, BYTES)?,
            "max.message.bytes" => self.max_message_bytes = given.number(61, 64 << 20, MESSAGE_BYTES)?,
            "message.timestamp.type" => self.timestamp_type = given.timestamp_type()?,
            "message.timestamp.before.max.ms" => self.timestamp_before_max_ms = given.span()?,
            "message.timestamp.after.max.ms" => self.timestamp_after_max_ms = given.span()?,
            "min.insync.replicas" => {
                self.min_insync_replicas = given.number(1, 32, "a count from 1 to 32")?
            }
            "flush.mode" => self.flush_mode = given.flush_mode()?,
            "cleanup.policy" => given.only("delete")?,
            "compression.type" => given.only("producer")?,
            unknown => return Err(unknown_setting(unknown, &TOPIC_SETTINGS)),
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
        let mut settings = Self::default();
        // Of the names for one span the finest unit wins, wherever they stand.
        let mut by_unit: Vec<_> = kafka.iter().collect();
        by_unit.sort_by_key(|(name, _)| match name.as_str() {
            "log.roll.hours" | "log.retention.hours" => 0,
            "log.retention.minutes" => 1,
            _ => 2,
        });
        for (name, value) in by_unit {
            settings.set(name, value)?;
        }
        settings.written = kafka.iter().cloned().collect();
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let given = Given { name, value };
        match name {
            "num.partitions" => {
                self.num_partitions = given.number(1, PARTITIONS_MAX, "a count from 1 to 10000")?
            }
            "auto.create.topics.enable" => self.auto_create_topics = given.flag()?,
            "delete.topic.enable" => self.delete_topics = given.flag()?,
            "default.replication.factor" => given.only("1")?,
            "listeners" => self.listeners.listeners = Some(given.text()?),
            "advertised.listeners" => self.listeners.advertised = Some(given.text()?),
            "listener.security.protocol.map" => self.listeners.protocols = Some(given.text()?),
            "fetch.max.bytes" => self.fetch_bytes_max = given.number(1024, FETCH_BYTES_MAX, FETCH_BYTES)?,
            "socket.request.max.bytes" => {
                self.request_bytes_max = given.number(1024, 1 << 30, REQUEST_BYTES)?
            }
            "max.connections" => self.connections_max = given.number(1, u32::MAX, COUNT)?,
            "max.connections.per.ip" => {
                self.connections_per_address_max = given.number(1, u32::MAX, COUNT)?
            }
            "max.incremental.fetch.session.cache.slots" => {
                self.fetch_sessions_max = given.number(0, u32::MAX, "a count from 0")?
            }
            "log.roll.hours" => self.topic.segment_age = given.hours()?,
            "log.retention.hours" => self.topic.retention_age = given.span_of(3600)?,
            "log.retention.minutes" => self.topic.retention_age = given.span_of(60)?,
            "log.retention.check.interval.ms" => self.retention_check_interval = given.milliseconds()?,
            other => match topic_name(other) {
                Some(topic_name) => {
                    self.topic.set(topic_name, value).map_err(|error| error.renamed(other))?;
                }
                None => return Err(unknown_setting(other, &BROKER_SETTINGS)),
            },
        }
        Ok(())
    }
}

const COUNT: &str = "a count from 1";
const BYTES: &str = "a number of bytes from 1 to 1073741824";
const SEGMENT_BYTES: &str = "a number of bytes from 1048576 to 1073741824";
const MESSAGE_BYTES: &str = "a number of bytes from 61 to 67108864";
const FETCH_BYTES: &str = "a number of bytes from 1024 to 16777216";
const REQUEST_BYTES: &str = "a number of bytes from 1024 to 1073741824";

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

/// A setting as given: its name and its text.
#[derive(Clone, Copy)]
struct Given<'a> {
    name: &'a str,
    value: &'a str,
}

impl Given<'_> {
    fn wrong(self, expected: &'static str) -> SettingError {
        SettingError::Value { name: self.name.to_owned(), value: self.value.to_owned(), expected }
    }

    /// A whole number from `min` to `max`, both inclusive.
    fn number<N: TryFrom<u64>>(self, min: u32, max: u32, expected: &'static str) -> Result<N, SettingError> {
        let number: u64 = self.value.trim().parse().map_err(|_| self.wrong(expected))?;
        if !(u64::from(min)..=u64::from(max)).contains(&number) {
            return Err(self.wrong(expected));
        }
        N::try_from(number).map_err(|_| self.wrong(expected))
    }

    fn text(self) -> Result<String, SettingError> {
        let is_text = !self.value.trim().is_empty() && !self.value.contains(char::is_control);
        if is_text { Ok(self.value.to_owned()) } else { Err(self.wrong("text without control characters")) }
    }

    fn flag(self) -> Result<bool, SettingError> {
        self.value.trim().to_ascii_lowercase().parse().map_err(|_| self.wrong("`true` or `false`"))
    }

    fn milliseconds(self) -> Result<Duration, SettingError> {
        let number: u64 = self.value.trim().parse().map_err(|_| self.wrong("milliseconds from 1"))?;
        if number == 0 { Err(self.wrong("milliseconds from 1")) } else { Ok(Duration::from_millis(number)) }
    }

    /// A span of time in milliseconds, from 0.
    fn span(self) -> Result<i64, SettingError> {
        let number = self.value.trim().parse().ok().filter(|&span: &i64| span >= 0);
        number.ok_or_else(|| self.wrong("milliseconds from 0"))
    }

    fn hours(self) -> Result<Duration, SettingError> {
        let hours: u32 = self.number(1, u32::MAX, "hours from 1")?;
        Ok(Duration::from_secs(u64::from(hours) * 3600))
    }

    /// A limit from 0; `None` for -1, which is no limit.
    fn unless_unlimited(self) -> Result<Option<u64>, SettingError> {
        match self.value.trim() {
            "-1" => Ok(None),
            limit => {
                let expected = "a number from 0 to 9223372036854775807, or -1 for no limit";
                let limit = limit.parse().ok().filter(|limit| i64::try_from(*limit).is_ok());
                limit.map(Some).ok_or_else(|| self.wrong(expected))
            }
        }
    }

    /// A span of time in a unit of so many seconds; `None` for -1, which is no limit.
    fn span_of(self, unit_seconds: u64) -> Result<Option<Duration>, SettingError> {
        let span = self.unless_unlimited()?;
        Ok(span.map(|units| Duration::from_secs(units.saturating_mul(unit_seconds))))
    }

    fn timestamp_type(self) -> Result<TimestampType, SettingError> {
        match self.value {
            "CreateTime" => Ok(TimestampType::Create),
            "LogAppendTime" => Ok(TimestampType::LogAppend),
            _ => Err(self.wrong("`CreateTime` or `LogAppendTime`")),
        }
    }

    fn flush_mode(self) -> Result<FlushMode, SettingError> {
        match self.value {
            "quorum" => Ok(FlushMode::Quorum),
            "isr" => Ok(FlushMode::Isr),
            "leader" => Ok(FlushMode::Leader),
            "async" => Ok(FlushMode::Async),
            _ => Err(self.wrong("`quorum`, `isr`, `leader` or `async`")),
        }
    }

    /// Accepts the one value that is carried out.
    fn only(self, supported: &'static str) -> Result<(), SettingError> {
        if self.value == supported {
            Ok(())
        } else {
            let (name, value) = (self.name.to_owned(), self.value.to_owned());
            Err(SettingError::Unsupported { name, value, supported })
        }
    }
}
