//! Settings as they are explained to a person: every name there is, with its range, its default and the value in force.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    BROKER_SETTINGS, BrokerSettings, DescribedSetting, SettingSource, TOPIC_SETTINGS, Values, catalogue,
    is_broker_setting, is_topic_setting,
};
use crate::config::nearest;

/// A setting as it is explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedSetting {
    /// Kafka's name.
    pub name: &'static str,
    /// Which values it may have.
    pub values: Values,
    /// What it means.
    pub documentation: &'static str,
    /// The value in force; `None` where another name of the same setting has it.
    pub value: Option<String>,
    /// The value without a configuration file; `None` where another name of the same setting has it.
    pub default: Option<String>,
    /// Where the value comes from.
    pub source: SettingSource,
    /// Whether the name may stand in the configuration file.
    pub is_of_broker: bool,
    /// The name under which a topic may have its own value, if it may.
    pub topic_name: Option<&'static str>,
    /// The broker's names of what a topic has unless it says otherwise, what counts first at the front.
    pub broker_names: &'static [&'static str],
}

impl BrokerSettings {
    /// Every setting, by name: the broker's and those that only topics have.
    #[must_use]
    pub fn explain(&self) -> Vec<ExplainedSetting> {
        let names: BTreeSet<_> = BROKER_SETTINGS.into_iter().chain(TOPIC_SETTINGS).collect();
        names.into_iter().map(|name| self.explained(name)).collect()
    }

    fn explained(&self, name: &'static str) -> ExplainedSetting {
        let is_of_broker = is_broker_setting(name);
        let described = self.one(name);
        let default = Self::default().one(name).value;
        let of_topics = catalogue::defaulted_by(name)
            .or_else(|| catalogue::TOPIC.iter().find(|entry| entry.name == name));
        let entry = catalogue::of_broker(name).or_else(|| catalogue::of_topic(name));
        ExplainedSetting {
            name,
            values: entry.expect("every name is in the catalogue").values,
            documentation: described.documentation,
            value: described.value,
            default,
            source: described.source,
            is_of_broker,
            topic_name: of_topics.map(|entry| entry.name),
            broker_names: of_topics.map_or(&[], |entry| entry.broker_names),
        }
    }

    fn one(&self, name: &'static str) -> DescribedSetting {
        let wanted = |other: &str| other == name;
        let mut told = if is_broker_setting(name) {
            self.describe(wanted)
        } else {
            self.describe_topic(&BTreeMap::new(), wanted)
        };
        told.pop().expect("every name is told")
    }
}

/// The name nearest to one that is neither the broker's nor a topic's, if one is near enough to be what was meant.
#[must_use]
pub fn nearest_setting(name: &str) -> Option<String> {
    let is_known = is_broker_setting(name) || is_topic_setting(name);
    (!is_known).then(|| nearest(name, BROKER_SETTINGS.into_iter().chain(TOPIC_SETTINGS))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(written: &[(&str, &str)], name: &str) -> ExplainedSetting {
        let written: Vec<_> =
            written.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let all = BrokerSettings::from_file(&written).unwrap().explain();
        all.into_iter().find(|setting| setting.name == name).unwrap()
    }

    #[test]
    fn every_name_is_explained_once() {
        let all = BrokerSettings::default().explain();
        assert!(all.is_sorted_by(|a, b| a.name < b.name));
        for name in BROKER_SETTINGS.into_iter().chain(TOPIC_SETTINGS) {
            assert!(all.iter().any(|setting| setting.name == name), "{name}");
        }
        for setting in &all {
            assert!(setting.documentation.len() < 250 && setting.documentation.ends_with('.'), "{setting:?}");
            assert_eq!(setting.value, setting.default, "nothing was written");
        }
    }

    #[test]
    fn a_value_is_told_under_the_name_that_counts() {
        let hours = explained(&[("log.retention.ms", "5")], "log.retention.hours");
        assert_eq!((hours.value.as_deref(), hours.default.as_deref()), (Some("168"), Some("168")));
        let ms = explained(&[("log.retention.ms", "5")], "log.retention.ms");
        assert_eq!((ms.value.as_deref(), ms.default.as_deref()), (Some("5"), None));
        assert_eq!((ms.topic_name, ms.source), (Some("retention.ms"), SettingSource::Broker));
        let topic = explained(&[("log.retention.ms", "5")], "retention.ms");
        assert!(!topic.is_of_broker);
        assert_eq!((topic.value.as_deref(), topic.default.as_deref()), (Some("5"), Some("604800000")));
        assert_eq!(topic.broker_names[0], "log.retention.ms");
        assert_eq!(explained(&[], "num.partitions").topic_name, None);
    }

    #[test]
    fn the_nearest_name_may_be_the_brokers_or_a_topics() {
        assert_eq!(nearest_setting("num.partition").as_deref(), Some("num.partitions"));
        assert_eq!(nearest_setting("retention.m").as_deref(), Some("retention.ms"));
        assert_eq!(nearest_setting("LISTENERS").as_deref(), Some("listeners"), "whatever the case");
        assert_eq!(nearest_setting("zookeeper.connect"), None);
    }
}
