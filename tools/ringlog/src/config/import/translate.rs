//! What becomes of each property of a Kafka broker: decided here, without a file or a machine.

use std::collections::BTreeMap;

use net_server::settings::{BrokerSettings, SettingError, is_broker_setting, nearest_setting};

use super::listeners;
use super::properties::Property;
use super::reasons::{Needs, reason};

/// What became of one property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It stands in the result as it is.
    Carried,
    /// Something else of the same meaning does.
    Translated(String),
    /// It doesn't, and nobody misses it.
    LeftOut(String),
    /// It doesn't, or not all of it, and somebody has to decide what becomes of that.
    NeedsPerson(String),
}

/// A line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) line: usize,
    pub(super) name: String,
    /// As written, where it is worth repeating; what isn't carried over may be a secret.
    pub(super) value: Option<String>,
    pub(super) outcome: Outcome,
}

/// The result and the report.
#[derive(Clone, Debug, Default)]
pub(super) struct Translation {
    /// Ringlog's own settings.
    pub(super) own: BTreeMap<&'static str, String>,
    /// Kafka's, by name.
    pub(super) kafka: BTreeMap<String, String>,
    /// In the order of the lines.
    pub(super) told: Vec<Told>,
    /// What is to be said of the whole.
    pub(super) notes: Vec<String>,
}

/// The properties that count, by name.
pub(super) type Properties<'a> = BTreeMap<&'a str, &'a Property>;

pub(super) fn translate(properties: &[Property]) -> Translation {
    // As in Java the last of a name counts.
    let counting: Properties<'_> =
        properties.iter().map(|property| (property.key.as_str(), property)).collect();
    let mut translation = Translation::default();
    for property in properties {
        let counts = counting[property.key.as_str()];
        if counts.line != property.line {
            let why = format!("line {} says it again, and that counts", counts.line);
            translation.tell(property, Outcome::LeftOut(why));
        } else if property.value.trim().is_empty() {
            translation.tell(property, Outcome::LeftOut("it has no value".to_owned()));
        } else if !listeners::NAMES.contains(&property.key.as_str()) {
            let outcome = translation.one(property, &counting);
            translation.tell(property, outcome);
        }
    }
    listeners::translate(&counting, &mut translation);
    translation.told.sort_by_key(|told| told.line);
    translation
}

impl Translation {
    pub(super) fn tell(&mut self, property: &Property, outcome: Outcome) {
        let is_shown = match outcome {
            Outcome::Carried | Outcome::Translated(_) => true,
            Outcome::NeedsPerson(_) => is_broker_setting(&property.key),
            Outcome::LeftOut(_) => false,
        };
        let value = is_shown.then(|| property.value.trim().to_owned());
        self.told.push(Told { line: property.line, name: property.key.clone(), value, outcome });
    }

    pub(super) fn count(&self, is_wanted: impl Fn(&Outcome) -> bool) -> usize {
        self.told.iter().filter(|told| is_wanted(&told.outcome)).count()
    }

    fn one(&mut self, property: &Property, all: &Properties<'_>) -> Outcome {
        let (name, value) = (property.key.as_str(), property.value.trim());
        match name {
            "node.id" | "broker.id" => self.node_id(name, value, all),
            "log.dirs" | "log.dir" => self.data_dir(name, value, all),
            "log.message.timestamp.difference.max.ms" => self.timestamp_difference(value),
            "min.insync.replicas" if value != "1" => Outcome::NeedsPerson(
                "there is one replica of each partition, so nothing would be accepted with acks=all; it is left at 1"
                    .to_owned(),
            ),
            "security.inter.broker.protocol" if value.eq_ignore_ascii_case("PLAINTEXT") => {
                Outcome::LeftOut("there are no connections between brokers: one node has none".to_owned())
            }
            _ if is_broker_setting(name) => self.carry(name, value),
            _ => left_out(name),
        }
    }

    fn node_id(&mut self, name: &str, value: &str, all: &Properties<'_>) -> Outcome {
        if name == "broker.id" && all.contains_key("node.id") {
            return Outcome::LeftOut("the older name of node.id, which counts".to_owned());
        }
        if value == "-1" {
            return Outcome::LeftOut(
                "ZooKeeper gave out the numbers; without node_id this node is 1".to_owned(),
            );
        }
        self.own.insert("node_id", value.to_owned());
        let older = if name == "broker.id" { " (broker.id is the older name of node.id)" } else { "" };
        let brokers = value.parse::<i64>().map_or_else(
            |_| String::new(),
            |id| format!("; clients see its shards as brokers from {} on", id.saturating_mul(1_000)),
        );
        Outcome::Translated(format!("node_id = {value}{older}{brokers}"))
    }

    fn data_dir(&mut self, name: &str, value: &str, all: &Properties<'_>) -> Outcome {
        if name == "log.dir" && all.contains_key("log.dirs") {
            return Outcome::LeftOut("log.dirs counts".to_owned());
        }
        let folders = value.split(',').map(str::trim).filter(|folder| !folder.is_empty());
        let folders: Vec<_> = folders.collect();
        let [first, more @ ..] = folders.as_slice() else {
            return Outcome::LeftOut("it names no folder".to_owned());
        };
        self.own.insert("data_dir", (*first).to_owned());
        let empty = "which must be empty: Kafka's records stay where they are";
        if more.is_empty() {
            return Outcome::Translated(format!("data_dir = {first}, {empty}"));
        }
        let all = folders.join(",");
        if let Some(refused) = refusal("log.dirs", &all) {
            return Outcome::NeedsPerson(refused);
        }
        self.kafka.insert("log.dirs".to_owned(), all.clone());
        Outcome::Translated(format!("log.dirs = {all}, and data_dir = {first} for the metadata, {empty}"))
    }

    /// One bound for both directions, which later versions divide.
    fn timestamp_difference(&mut self, value: &str) -> Outcome {
        let names = ["log.message.timestamp.before.max.ms", "log.message.timestamp.after.max.ms"];
        for name in names {
            if let Some(refused) = refusal(name, value) {
                return Outcome::NeedsPerson(refused);
            }
        }
        for name in names {
            // What says it by the newer name counts, wherever it stands.
            self.kafka.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
        Outcome::Translated(format!("{} (this name is deprecated since Kafka 3.6)", names.join(" and ")))
    }

    fn carry(&mut self, name: &str, value: &str) -> Outcome {
        if let Some(refused) = refusal(name, value) {
            return match name {
                "compression.type" => Outcome::LeftOut("batches are kept as they were sent".to_owned()),
                _ => Outcome::NeedsPerson(refused),
            };
        }
        self.kafka.insert(name.to_owned(), value.to_owned());
        Outcome::Carried
    }
}

/// Why Ringlog can't carry out what Kafka could, and what is in force instead.
fn refusal(name: &str, value: &str) -> Option<String> {
    let refused = BrokerSettings::from_file(&[(name.to_owned(), value.to_owned())]).err()?;
    let instead = BrokerSettings::default().explain().into_iter().find(|setting| setting.name == name);
    let instead = instead.and_then(|setting| setting.default);
    let instead =
        instead.map_or_else(String::new, |default| format!("; it is left at the default, {default}"));
    let why = match refused {
        SettingError::Value { expected, .. } => format!("Ringlog takes {expected}"),
        SettingError::Unsupported { supported, .. } => format!("only {supported} is carried out"),
        SettingError::Unknown { .. } => refused.to_string(),
    };
    Some(format!("{why}{instead}"))
}

fn left_out(name: &str) -> Outcome {
    match reason(name) {
        Some(reason) => match reason.needs {
            Needs::Nobody => Outcome::LeftOut(reason.why.to_owned()),
            Needs::Person => Outcome::NeedsPerson(reason.why.to_owned()),
        },
        None => match nearest_setting(name) {
            Some(nearest) => {
                Outcome::NeedsPerson(format!("no setting of Kafka's brokers; is {nearest} meant?"))
            }
            None => Outcome::LeftOut("no setting that Ringlog knows".to_owned()),
        },
    }
}
