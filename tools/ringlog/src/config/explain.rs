//! `ringlog config explain`: tells of settings.

use std::path::PathBuf;

use clap::Args;
use net_server::config::{ConfigFile, OWN_SETTINGS, OwnSetting, nearest};
use net_server::settings::{BrokerSettings, ExplainedSetting, SettingSource, nearest_setting};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::print;
use crate::serve::read_file;

/// What `ringlog config explain` is told.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  ringlog config explain log.retention.hours --config ringlog.toml\n  ringlog config explain --json"
)]
pub(crate) struct Arguments {
    /// The setting [default: all].
    name: Option<String>,
    /// Tell the values that are in force with this configuration (TOML) [default: with none].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON: an object for one setting, an array for all.
    #[arg(long)]
    json: bool,
}

/// A setting with all that is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    name: &'static str,
    place: Place,
    value: Option<String>,
    is_written: bool,
    default: Option<String>,
    unit: Option<&'static str>,
    values: String,
    /// The name under which a topic may have its own.
    topic_name: Option<&'static str>,
    /// The broker's names of a topic's default.
    broker_names: &'static [&'static str],
    documentation: &'static str,
}

/// Where a setting may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the top of the configuration, and on the command line where it has a flag.
    Own { has_flag: bool },
    /// In its table `[kafka]`.
    Kafka,
    /// At a topic.
    Topic,
}

/// Tells of one setting or of all.
///
/// # Errors
/// There is no such setting, or the configuration can't be read.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let all = all(arguments.config.as_deref().map(read_file).transpose()?.unwrap_or_default())?;
    match &arguments.name {
        None if arguments.json => print(all.iter().map(as_json).collect::<Value>()),
        None => print(all.iter().map(as_text).collect::<Vec<_>>().join("\n\n")),
        Some(name) => {
            let found = all.iter().find(|told| told.name == name).ok_or_else(|| unknown(name))?;
            print(if arguments.json { as_json(found).to_string() } else { as_text(found) })
        }
    }
}

fn unknown(name: &str) -> Failure {
    let nearest = nearest_setting(name).or_else(|| nearest(name, OWN_SETTINGS.iter().map(|own| own.name)));
    let hint = nearest.map_or_else(
        || "; `ringlog config explain` tells of all there are".to_owned(),
        |nearest| format!("; did you mean `{nearest}`?"),
    );
    Failure::usage(format!("unknown setting `{name}`{hint}"))
}

fn all(file: ConfigFile) -> Result<Vec<Told>, Failure> {
    let broker = BrokerSettings::from_file(&file.kafka).map_err(Failure::usage)?;
    let own = OWN_SETTINGS.iter().map(|own| told_own(own, file.own(own.name)));
    Ok(own.chain(broker.explain().into_iter().map(told_kafka)).collect())
}

fn told_own(own: &OwnSetting, written: Option<String>) -> Told {
    Told {
        name: own.name,
        place: Place::Own { has_flag: own.has_flag },
        is_written: written.is_some(),
        value: Some(written.unwrap_or_else(|| own.default.to_owned())),
        default: Some(own.default.to_owned()),
        unit: None,
        values: own.values.to_owned(),
        topic_name: None,
        broker_names: &[],
        documentation: own.documentation,
    }
}

fn told_kafka(setting: ExplainedSetting) -> Told {
    Told {
        name: setting.name,
        place: if setting.is_of_broker { Place::Kafka } else { Place::Topic },
        is_written: setting.source == SettingSource::Broker && setting.value.is_some(),
        value: setting.value,
        default: setting.default,
        unit: setting.values.unit(),
        values: setting.values.to_string(),
        topic_name: setting.topic_name,
        broker_names: setting.broker_names,
        documentation: setting.documentation,
    }
}

fn as_text(told: &Told) -> String {
    let mut lines = vec![told.name.to_owned(), format!("  {}", told.documentation)];
    let unit = told.unit.map_or_else(String::new, |unit| format!(" {unit}"));
    lines.push(match (&told.value, told.is_written) {
        (Some(value), true) => format!("  value    {value}{unit}, from the configuration"),
        (Some(value), false) => format!("  value    {value}{unit}, the default"),
        (None, _) if told.broker_names.is_empty() => "  value    not set".to_owned(),
        (None, _) => format!("  value    not set; {}", names(told.broker_names)),
    });
    if told.is_written {
        let default = told.default.as_ref().map(|default| format!("{default}{unit}"));
        lines.push(format!("  default  {}", default.unwrap_or_else(|| names(told.broker_names))));
    }
    lines.push(format!("  values   {}", told.values));
    lines.push(format!("  set      {}", place(told)));
    lines.join("\n")
}

/// Which of several names counts.
fn names(broker_names: &[&str]) -> String {
    format!("the first that is set counts of {}", broker_names.join(", "))
}

fn place(told: &Told) -> String {
    match (told.place, told.topic_name) {
        (Place::Own { has_flag: true }, _) => {
            format!("at the top of the configuration, or with --{}", told.name.replace('_', "-"))
        }
        (Place::Own { has_flag: false }, _) => "at the top of the configuration".to_owned(),
        (Place::Kafka, None) => "in [kafka] of the configuration; no topic has its own".to_owned(),
        (Place::Kafka, Some(topic)) => {
            format!("in [kafka] of the configuration; a topic may have its own {topic}")
        }
        (Place::Topic, _) => {
            format!(
                "at a topic; unless it says otherwise it has the broker's {}",
                told.broker_names.join(", ")
            )
        }
    }
}

fn as_json(told: &Told) -> Value {
    json!({
        "name": told.name,
        "place": match told.place {
            Place::Own { .. } => "ringlog",
            Place::Kafka => "kafka",
            Place::Topic => "topic",
        },
        "value": told.value,
        "source": if told.is_written { "configuration" } else { "default" },
        "default": told.default,
        "unit": told.unit,
        "values": told.values,
        "topic_name": told.topic_name,
        "broker_names": told.broker_names,
        "documentation": told.documentation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(file: &str, name: &str) -> Told {
        let all = all(ConfigFile::parse(file).unwrap()).unwrap();
        all.into_iter().find(|told| told.name == name).unwrap()
    }

    #[test]
    fn a_setting_is_told_with_its_value_default_range_and_place() {
        let text = as_text(&explained("[kafka]\nlog.segment.bytes = 1048576\n", "log.segment.bytes"));
        assert_eq!(
            text,
            "log.segment.bytes\n  The largest size of a segment, in bytes. Records are deleted by whole segments.\n  \
             value    1048576 bytes, from the configuration\n  default  134217728 bytes\n  \
             values   a number of bytes from 1048576 to 1073741824\n  \
             set      in [kafka] of the configuration; a topic may have its own segment.bytes"
        );
        let text = as_text(&explained("", "log.retention.minutes"));
        let expected = "not set; the first that is set counts of log.retention.ms, log.retention.minutes, log.retention.hours";
        assert!(text.contains(expected), "{text}");
        assert!(as_text(&explained("", "retention.ms")).contains("set      at a topic; "));
        assert!(as_text(&explained("", "advertised.listeners")).contains("  value    not set\n"));
    }

    #[test]
    fn ringlogs_own_settings_are_told_as_well() {
        let told = explained("listen = \"h:1\"\n", "listen");
        assert_eq!((told.value.as_deref(), told.is_written), (Some("h:1"), true));
        assert!(as_text(&told).ends_with("or with --listen"));
        for own in OWN_SETTINGS {
            let flags = crate::serve::Arguments::augment_args(clap::Command::new("serve"));
            let flag = own.name.replace('_', "-");
            let has_flag = flags.get_arguments().any(|argument| argument.get_long() == Some(&flag));
            assert_eq!(own.has_flag, has_flag, "{}", own.name);
        }
        let json = as_json(&explained("", "node_id"));
        assert_eq!(
            (&json["place"], &json["value"], &json["source"]),
            (&json!("ringlog"), &json!("1"), &json!("default"))
        );
    }

    #[test]
    fn an_unknown_name_is_told_the_nearest_of_all() {
        assert!(unknown("data_dri").to_string().ends_with("did you mean `data_dir`?"));
        assert!(unknown("retention.m").to_string().ends_with("did you mean `retention.ms`?"));
        let failure = unknown("zookeeper.connect");
        assert_eq!(failure.code(), Failure::USAGE);
        assert!(failure.to_string().ends_with("tells of all there are"));
    }
}
