//! `ringlog topic alter`.

use std::collections::BTreeSet;

use clap::{ArgGroup, Args};
use net_client::{Admin, CreateMode, SettingChange};
use net_server::settings::PARTITIONS_MAX;
use serde_json::{Map, Value, json};

use super::{Common, parse_config};
use crate::client::{self, MissingTopics, failed_admin};
use crate::failure::Failure;
use crate::numbers::number;
use crate::output::print;

/// What `ringlog topic alter` is told.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  ringlog topic alter orders --config retention.ms=86400000 --delete-config segment.bytes\n  ringlog topic alter orders --partitions 16",
    group(ArgGroup::new("changes").required(true).multiple(true).args(["config", "delete_config", "partitions"]))
)]
pub(crate) struct Arguments {
    /// The topic's name.
    name: String,
    /// A setting that is to differ from the broker's, by Kafka's name; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_config)]
    config: Vec<(String, String)>,
    /// A setting that is to be the broker's again; may be given several times.
    #[arg(long, value_name = "KEY")]
    delete_config: Vec<String>,
    /// How many partitions it is to have, 1 to 10000 and more than it has: none can be taken away again, and records with
    /// keys may go to other partitions than before. By itself, not with settings.
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = number(1..=PARTITIONS_MAX),
        conflicts_with_all = ["config", "delete_config"]
    )]
    partitions: Option<u32>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match arguments.partitions {
        Some(count) => create_partitions(arguments, count),
        None => change_settings(arguments),
    }
}

fn create_partitions(arguments: &Arguments, count: u32) -> Result<(), Failure> {
    let name = arguments.name.clone();
    client::run(&arguments.common.cluster, MissingTopics::AreErrors, async move |client| {
        let created = Admin::new(client).create_partitions(&name, count, CreateMode::Create).await;
        created.map_err(|error| failed_admin(&error))
    })?;
    let name = &arguments.name;
    print(if arguments.common.json {
        json!({ "name": name, "partitions": count }).to_string()
    } else {
        format!("altered topic {name}: {count} partitions")
    })
}

fn change_settings(arguments: &Arguments) -> Result<(), Failure> {
    let changes = changes(arguments)?;
    let (name, asked) = (arguments.name.clone(), changes.clone());
    client::run(&arguments.common.cluster, MissingTopics::AreErrors, async move |client| {
        Admin::new(client).alter_topic(&name, &asked).await.map_err(|error| failed_admin(&error))
    })?;
    let name = &arguments.name;
    print(if arguments.common.json { json(name, &changes).to_string() } else { text(name, &changes) })
}

/// The changes, each setting once.
fn changes(arguments: &Arguments) -> Result<Vec<SettingChange>, Failure> {
    let set = arguments.config.iter().map(|(key, value)| (key, Some(value)));
    let deleted = arguments.delete_config.iter().map(|key| (key, None));
    let mut named = BTreeSet::new();
    let mut changes = Vec::new();
    for (key, value) in set.chain(deleted) {
        if !named.insert(key) {
            return Err(Failure::usage(format!("setting `{key}` is named twice; name it once")));
        }
        let value = value.map(|value| value.as_str().into());
        changes.push(SettingChange { name: key.as_str().into(), value });
    }
    Ok(changes)
}

fn json(name: &str, changes: &[SettingChange]) -> Value {
    let change = |change: &SettingChange| (change.name.to_string(), change.value.as_deref().into());
    json!({ "name": name, "changed": changes.iter().map(change).collect::<Map<_, _>>() })
}

fn text(name: &str, changes: &[SettingChange]) -> String {
    let change = |change: &SettingChange| match &change.value {
        Some(value) => format!("{}={value}", change.name),
        None => format!("{} as the broker has it", change.name),
    };
    format!("altered topic {name}: {}", changes.iter().map(change).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(words: &[&str]) -> Result<Vec<SettingChange>, Failure> {
        let words = ["alter", "orders"].iter().chain(words);
        changes(&Command::try_parse_from(words).map_err(|error| Failure::usage(error.to_string()))?.arguments)
    }

    #[test]
    fn changes_are_said_as_they_were_asked_for() {
        let changes = parse(&["--config", "a=1", "--delete-config", "b", "--config", "c="]).unwrap();
        assert_eq!(text("t", &changes), "altered topic t: a=1, c=, b as the broker has it");
        assert_eq!(json("t", &changes), json!({ "name": "t", "changed": { "a": "1", "b": null, "c": "" } }));
    }

    #[test]
    fn nothing_to_change_and_a_setting_named_twice_are_wrong_usage() {
        let wrong = [
            &[][..],
            &["--config", "a=1", "--delete-config", "a"],
            &["--config", "a"],
            &["--partitions", "4", "--config", "a=1"],
            &["--partitions", "4", "--delete-config", "a"],
            &["--partitions", "0"],
            &["--partitions", "-1"],
            &["--partitions", "10001"],
        ];
        for words in wrong {
            assert_eq!(parse(words).unwrap_err().code(), Failure::USAGE, "{words:?}");
        }
        assert!(parse(&["--delete-config", "a"]).is_ok());
        assert!(parse(&["--partitions", "10000"]).is_ok());
    }
}
