//! `ringlog topic`: creates, lists, describes, alters and deletes topics.

mod alter;
mod describe;

use clap::{Args, Subcommand};
use net_client::{Admin, CreateMode, NewTopic};
use net_server::settings::PARTITIONS_MAX;
use serde_json::{Value, json};

use crate::client::{self, Cluster, MissingTopics, failed_admin};
use crate::failure::Failure;
use crate::numbers::number;
use crate::output::print;

/// What `ringlog topic` can do.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TopicCommand {
    /// Create a topic.
    Create(CreateArguments),
    /// List all topics.
    List(ListArguments),
    /// Show a topic's own settings and its partitions: who leads each, its offsets, and what its log takes.
    ///
    /// BYTES are those of the log's segments; SEGMENTS counts them, the active one included, so an empty log has one. SHARD is
    /// the one that has the log. A broker that isn't Ringlog tells neither, and nothing is told of a log that is offline: `-`, with
    /// --json null.
    #[command(after_help = "Example:\n  ringlog topic describe orders")]
    Describe(NamedArguments),
    /// Change a topic while it is in use: its settings, all those named or none, or how many partitions it has.
    Alter(alter::Arguments),
    /// Delete a topic and all its records.
    #[command(after_help = "Example:\n  ringlog topic delete orders")]
    Delete(NamedArguments),
}

/// What `ringlog topic create` is told.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  ringlog topic create orders --partitions 8 --config segment.bytes=67108864"
)]
pub(crate) struct CreateArguments {
    /// The topic's name.
    name: String,
    /// How many partitions, 1 to 10000 [default: the broker's setting].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(1..=PARTITIONS_MAX))]
    partitions: Option<u32>,
    /// A setting that differs from the broker's, by Kafka's name; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_config)]
    config: Vec<(String, String)>,
    #[command(flatten)]
    common: Common,
}

/// What `ringlog topic list` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  ringlog topic list --bootstrap 127.0.0.1:9092")]
pub(crate) struct ListArguments {
    #[command(flatten)]
    common: Common,
}

/// What `ringlog topic describe` and `delete` are told.
#[derive(Args, Clone, Debug)]
pub(crate) struct NamedArguments {
    /// The topic's name.
    name: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Clone, Debug)]
struct Common {
    #[command(flatten)]
    cluster: Cluster,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn parse_config(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("a setting has the form KEY=VALUE"),
    }
}

/// Carries out one of them.
///
/// # Errors
/// No broker is there, or it refuses.
pub(crate) fn run(command: &TopicCommand) -> Result<(), Failure> {
    match command {
        TopicCommand::Create(arguments) => create(arguments),
        TopicCommand::List(arguments) => list(arguments),
        TopicCommand::Describe(arguments) => describe::run(&arguments.name, &arguments.common),
        TopicCommand::Alter(arguments) => alter::run(arguments),
        TopicCommand::Delete(arguments) => delete(arguments),
    }
}

fn create(arguments: &CreateArguments) -> Result<(), Failure> {
    let configs = arguments.config.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into()));
    let topic = NewTopic {
        name: arguments.name.as_str().into(),
        partitions: arguments.partitions,
        replication_factor: None,
        configs: configs.collect(),
    };
    let id = client::run(&arguments.common.cluster, MissingTopics::AreErrors, async move |client| {
        let created = Admin::new(client).create_topic(&topic, CreateMode::Create).await;
        created.map(|id| id.to_string()).map_err(|error| failed_admin(&error))
    })?;
    let name = &arguments.name;
    let line = if arguments.common.json {
        json!({ "name": name, "id": id }).to_string()
    } else {
        format!("created topic {name}, id {id}")
    };
    print(line)
}

fn delete(arguments: &NamedArguments) -> Result<(), Failure> {
    let name = arguments.name.clone();
    client::run(&arguments.common.cluster, MissingTopics::AreErrors, async move |client| {
        Admin::new(client).delete_topic(&name).await.map_err(|error| failed_admin(&error))
    })?;
    let name = &arguments.name;
    let line = if arguments.common.json {
        json!({ "name": name, "deleted": true }).to_string()
    } else {
        format!("deleted topic {name}")
    };
    print(line)
}

/// A line of the list.
struct Listed {
    name: String,
    id: String,
    partitions: usize,
    is_internal: bool,
}

fn list(arguments: &ListArguments) -> Result<(), Failure> {
    let topics = client::run(&arguments.common.cluster, MissingTopics::AreErrors, async |client| {
        let topics = Admin::new(client).list_topics().await.map_err(|error| failed_admin(&error))?;
        let listed = topics.into_iter().map(|(name, topic)| Listed {
            name: (*name).to_owned(),
            id: topic.id.to_string(),
            partitions: topic.partitions.len(),
            is_internal: topic.is_internal,
        });
        Ok(listed.collect::<Vec<_>>())
    })?;
    print(if arguments.common.json { list_json(&topics).to_string() } else { list_text(&topics) })
}

fn list_json(topics: &[Listed]) -> Value {
    let topic = |topic: &Listed| {
        let Listed { name, id, partitions, is_internal } = topic;
        json!({ "name": name, "id": id, "partitions": partitions, "internal": is_internal })
    };
    topics.iter().map(topic).collect()
}

fn list_text(topics: &[Listed]) -> String {
    if topics.is_empty() {
        return "no topics; create one with `ringlog topic create NAME --partitions N`".to_owned();
    }
    let rows = topics.iter().map(|topic| {
        let kind = if topic.is_internal { "internal" } else { "" };
        [topic.name.clone(), topic.partitions.to_string(), topic.id.clone(), kind.to_owned()]
    });
    table(["TOPIC", "PARTITIONS", "ID", ""], rows.collect())
}

/// Columns of text, each as wide as its widest cell.
fn table<const COLUMNS: usize>(head: [&str; COLUMNS], rows: Vec<[String; COLUMNS]>) -> String {
    let mut all = vec![head.map(str::to_owned)];
    all.extend(rows);
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(name: &str, partitions: usize, is_internal: bool) -> Listed {
        Listed { name: name.to_owned(), id: "AAAAAAAAAAAAAAAAAAAAAQ".to_owned(), partitions, is_internal }
    }

    #[test]
    fn a_list_is_aligned_and_an_empty_one_says_what_to_do() {
        let text = list_text(&[listed("orders", 8, false), listed("__offsets", 50, true)]);
        assert_eq!(
            text,
            "TOPIC      PARTITIONS  ID\n\
             orders     8           AAAAAAAAAAAAAAAAAAAAAQ\n\
             __offsets  50          AAAAAAAAAAAAAAAAAAAAAQ  internal"
        );
        assert!(list_text(&[]).contains("topic create"));
        assert_eq!(list_json(&[]), json!([]));
    }

    #[test]
    fn a_setting_is_a_key_and_a_value_which_may_hold_more_signs() {
        assert_eq!(parse_config("a.b=c=d"), Ok(("a.b".to_owned(), "c=d".to_owned())));
        assert_eq!(parse_config("a="), Ok(("a".to_owned(), String::new())));
        assert!(parse_config("=c").is_err());
        assert!(parse_config("a").is_err());
    }
}
