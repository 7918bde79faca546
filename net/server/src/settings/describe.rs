//! Settings as they are told to clients: each with its value, where that comes from, and what would count otherwise.

use std::collections::BTreeMap;

use super::{BROKER_SETTINGS, BrokerSettings, TOPIC_SETTINGS, TopicSettings, catalogue};

/// Where a setting's value comes from. The numbers are the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingSource {
    /// The topic's own.
    Topic,
    /// The broker's configuration file.
    Broker,
    /// The default.
    Default,
}

impl SettingSource {
    /// The protocol's number.
    #[must_use]
    pub const fn code(self) -> i8 {
        match self {
            Self::Topic => 1,
            Self::Broker => 4,
            Self::Default => 5,
        }
    }
}

/// What kind of value a setting has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// `true` or `false`.
    Boolean,
    /// A word.
    Text,
    /// A number of 32 bits.
    Int,
    /// A number of 64 bits.
    Long,
    /// Words with commas between them.
    List,
}

impl SettingKind {
    /// The protocol's number.
    #[must_use]
    pub const fn code(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::Text => 2,
            Self::Int => 3,
            Self::Long => 5,
            Self::List => 7,
        }
    }
}

/// A setting as it is told to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedSetting {
    /// Kafka's name.
    pub name: &'static str,
    /// Its value; `None` where another name of the same setting has it.
    pub value: Option<String>,
    /// Where that comes from.
    pub source: SettingSource,
    /// What kind of value it is.
    pub kind: SettingKind,
    /// What it means.
    pub documentation: &'static str,
    /// Every value there is for it, what counts first at the front.
    pub synonyms: Vec<Synonym>,
}

/// A value that a setting has, or would have without those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synonym {
    /// The name it stands under.
    pub name: &'static str,
    /// As it stands there.
    pub value: String,
    /// Where that is.
    pub source: SettingSource,
}

impl BrokerSettings {
    /// The settings of a topic that has `own` and is to be told of those that are `wanted`, by name. Where its own can't
    /// be carried out it has none.
    #[must_use]
    pub fn describe_topic(
        &self,
        own: &BTreeMap<String, String>,
        wanted: impl Fn(&str) -> bool,
    ) -> Vec<DescribedSetting> {
        let settings = self.topic.with(own.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let (settings, is_carried_out) = match settings {
            Ok(settings) => (settings, true),
            Err(_) => (self.topic.clone(), false),
        };
        let wanted = catalogue::TOPIC.iter().filter(|entry| wanted(entry.name));
        let described = wanted.map(|entry| {
            let mut synonyms = self.synonyms(entry);
            if is_carried_out && own.contains_key(entry.name) {
                let own = Synonym {
                    name: entry.name,
                    value: settings.value(entry.name),
                    source: SettingSource::Topic,
                };
                synonyms.insert(0, own);
            }
            DescribedSetting {
                name: entry.name,
                value: Some(settings.value(entry.name)),
                source: source(&synonyms),
                kind: entry.kind,
                documentation: entry.documentation,
                synonyms,
            }
        });
        described.collect()
    }

    /// Where the value comes from that a topic has unless it has its own.
    #[must_use]
    pub fn source_for_topics(&self, name: &str) -> SettingSource {
        let entry = catalogue::TOPIC.iter().find(|entry| entry.name == name);
        entry.map_or(SettingSource::Default, |entry| source(&self.synonyms(entry)))
    }

    /// The broker's settings that are `wanted`, by name.
    #[must_use]
    pub fn describe(&self, wanted: impl Fn(&str) -> bool) -> Vec<DescribedSetting> {
        let wanted = BROKER_SETTINGS.into_iter().filter(|name| wanted(name));
        let described = wanted.map(|name| {
            let catalogue::Entry { kind, documentation, .. } =
                catalogue::of_broker(name).expect("the catalogue has every setting of the broker");
            // Names of the same setting that stand before this one don't say what this one is.
            let synonyms: Vec<_> = match catalogue::defaulted_by(name) {
                Some(entry) => {
                    self.synonyms(entry).into_iter().skip_while(|synonym| synonym.name != name).collect()
                }
                None if ["log.dir", "log.dirs"].contains(&name) => self.log_dirs_synonyms(name),
                None => self.own_synonyms(name),
            };
            let is_here = synonyms.first().is_some_and(|first| first.name == name);
            // The data folder has the place of log directories that nobody names, and no setting's name.
            let is_told = if name == "log.dirs" { !self.log_dirs.is_empty() } else { is_here };
            let value = is_told.then(|| self.value(name));
            DescribedSetting { name, value, source: source(&synonyms), kind, documentation, synonyms }
        });
        described.collect()
    }

    /// What the configuration file says under the broker's names of a topics' setting, and the default.
    fn synonyms(&self, entry: &catalogue::TopicEntry) -> Vec<Synonym> {
        let mut synonyms: Vec<_> =
            entry.broker_names.iter().filter_map(|&name| self.written_synonym(name)).collect();
        if let Some(&name) = entry.broker_names.last() {
            let value = match name {
                "log.retention.hours" | "log.roll.hours" => HOURS_DEFAULT.to_owned(),
                _ => TopicSettings::default().value(entry.name),
            };
            synonyms.push(Synonym { name, value, source: SettingSource::Default });
        }
        synonyms
    }

    /// The two names of the log directories, and what stands for them where neither is written.
    fn log_dirs_synonyms(&self, name: &'static str) -> Vec<Synonym> {
        let names = if name == "log.dir" { &["log.dir"][..] } else { &["log.dirs", "log.dir"] };
        let written: Vec<_> = names.iter().filter_map(|name| self.written_synonym(name)).collect();
        if !written.is_empty() || name == "log.dir" || self.log_dirs.is_empty() {
            return written;
        }
        vec![Synonym { name, value: self.log_dirs_written(), source: SettingSource::Default }]
    }

    fn log_dirs_written(&self) -> String {
        let folders: Vec<_> = self.log_dirs.iter().map(|folder| folder.display().to_string()).collect();
        folders.join(",")
    }

    fn own_synonyms(&self, name: &'static str) -> Vec<Synonym> {
        let default = Synonym { name, value: Self::default().value(name), source: SettingSource::Default };
        // What is nothing unless it is written has no value.
        let default = Some(default).filter(|default| !default.value.is_empty());
        self.written_synonym(name).into_iter().chain(default).collect()
    }

    fn written_synonym(&self, name: &'static str) -> Option<Synonym> {
        let value = self.written.get(name)?.clone();
        Some(Synonym { name, value, source: SettingSource::Broker })
    }

    /// The value of a setting in [`BROKER_SETTINGS`] that has one under this name.
    fn value(&self, name: &str) -> String {
        match name {
            "num.partitions" => self.num_partitions.to_string(),
            "auto.create.topics.enable" => self.auto_create_topics.to_string(),
            "delete.topic.enable" => self.delete_topics.to_string(),
            "default.replication.factor" => "1".to_owned(),
            "listeners" => or(&self.listeners.listeners, LISTENERS_DEFAULT),
            "advertised.listeners" => or(&self.listeners.advertised, ""),
            "listener.security.protocol.map" => or(&self.listeners.protocols, PROTOCOLS_DEFAULT),
            "log.dir" | "log.dirs" => self.log_dirs_written(),
            "fetch.max.bytes" => self.fetch_bytes_max.to_string(),
            "socket.request.max.bytes" => self.request_bytes_max.to_string(),
            "max.connections" => self.connections_max.to_string(),
            "max.connections.per.ip" => self.connections_per_address_max.to_string(),
            "max.incremental.fetch.session.cache.slots" => self.fetch_sessions_max.to_string(),
            "log.retention.check.interval.ms" => self.retention_check_interval.as_millis().to_string(),
            "log.retention.hours" | "log.retention.minutes" | "log.roll.hours" => {
                self.written.get(name).map_or(HOURS_DEFAULT, |written| written.trim()).to_owned()
            }
            other => {
                let entry = catalogue::defaulted_by(other);
                self.topic.value(entry.expect("a setting of the broker's own stands above").name)
            }
        }
    }
}

/// `listeners` unless it is written.
pub const LISTENERS_DEFAULT: &str = "PLAINTEXT://127.0.0.1:9092";
/// `listener.security.protocol.map` unless it is written.
const PROTOCOLS_DEFAULT: &str = "PLAINTEXT:PLAINTEXT";

fn or(written: &Option<String>, default: &str) -> String {
    written.as_deref().unwrap_or(default).to_owned()
}

/// `log.retention.hours` and `log.roll.hours` unless they are written.
const HOURS_DEFAULT: &str = "168";

fn source(synonyms: &[Synonym]) -> SettingSource {
    synonyms.first().map_or(SettingSource::Default, |first| first.source)
}

/// Whether a topic's setting is a list.
#[must_use]
pub fn is_list(name: &str) -> bool {
    catalogue::TOPIC.iter().any(|entry| entry.name == name && entry.kind == SettingKind::List)
}

/// Whether topics know the setting.
#[must_use]
pub fn is_topic_setting(name: &str) -> bool {
    TOPIC_SETTINGS.binary_search(&name).is_ok()
}

/// Whether the broker knows the setting.
#[must_use]
pub fn is_broker_setting(name: &str) -> bool {
    BROKER_SETTINGS.binary_search(&name).is_ok()
}
