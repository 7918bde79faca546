//! `ringlog config import`: makes a configuration out of a Kafka broker's.

mod listeners;
mod properties;
mod reasons;
#[cfg(test)]
mod tests;
mod translate;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use self::translate::{Outcome, Told, Translation, translate};
use crate::failure::{Failure, to_make, to_read};
use crate::output::{Counted, print, tell};
use crate::serve::plan_text;

/// What `ringlog config import` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  ringlog config import /etc/kafka/server.properties -o ringlog.toml")]
pub(crate) struct Arguments {
    /// The configuration of a Kafka broker, server.properties.
    file: PathBuf,
    /// Write the result to this file, which must not be there; the report is printed then [default: print the result, and
    /// the report to standard error].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one object of JSON: the result and the report.
    #[arg(long)]
    json: bool,
}

/// Makes it, and tells what becomes of each line.
///
/// # Errors
/// The file can't be read, or something in it needs a person; the result is there all the same then.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let shown = arguments.file.display();
    let bytes = fs::read(&arguments.file)
        .map_err(|error| Failure::usage(format!("{shown}: {error}{}", to_read(&error))))?;
    let properties =
        properties::parse(&bytes).map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    let translation = translate(&properties);
    let toml = to_toml(&translation, &name_of(&arguments.file));
    let path = arguments.output.as_deref().unwrap_or_else(|| Path::new("ringlog.toml"));
    let faults: Vec<String> = match plan_text(path, &toml) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    };
    if let Some(output) = &arguments.output {
        write_new(output, &toml)?;
    }
    print_all(arguments, &translation, &toml, &faults)?;
    let persons = translation.count(|outcome| matches!(outcome, Outcome::NeedsPerson(_)));
    match persons + faults.len() {
        0 => Ok(()),
        all => Err(Failure::failed(format!(
            "{} a person: see the report",
            if all == 1 { "1 thing needs".to_owned() } else { format!("{all} things need") }
        ))),
    }
}

fn print_all(
    arguments: &Arguments,
    translation: &Translation,
    toml: &str,
    faults: &[String],
) -> Result<(), Failure> {
    if arguments.json {
        return print(as_json(translation, toml, faults));
    }
    let report = report(translation, &name_of(&arguments.file), faults);
    if arguments.output.is_some() {
        return print(report);
    }
    tell(report);
    print(toml.trim_end())
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let written = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        let output = format!("--output {}", path.display());
        if error.kind() == io::ErrorKind::AlreadyExists {
            return Failure::usage(format!("{output}: it is there already; name another, or remove it"));
        }
        Failure::usage(format!("{output}: {error}{}", to_make(&error)))
    })
}

/// The result. Every key is quoted: some of Kafka's names go on where another ends.
fn to_toml(translation: &Translation, source: &str) -> String {
    let source: String = source.chars().filter(|letter| !letter.is_control()).collect();
    let mut text = format!("# Made by `ringlog config import` from {source}.\n");
    let line = |text: &mut String, key: &str, value: toml::Value| {
        writeln!(text, "{key} = {value}").expect("text can be written to");
    };
    for (key, value) in &translation.own {
        // Everything but the number is text, also where it looks like a number.
        let value = if *key == "node_id" { scalar(value) } else { toml::Value::String(value.clone()) };
        line(&mut text, key, value);
    }
    if !translation.kafka.is_empty() {
        text.push_str("\n[kafka]\n");
    }
    for (key, value) in &translation.kafka {
        line(&mut text, &format!("\"{key}\""), scalar(value));
    }
    text
}

fn scalar(text: &str) -> toml::Value {
    let number = text.parse().map(toml::Value::Integer);
    number
        .or_else(|_| text.parse().map(toml::Value::Boolean))
        .unwrap_or_else(|_| toml::Value::String(text.to_owned()))
}

fn report(translation: &Translation, source: &str, faults: &[String]) -> String {
    let mut lines: Vec<_> = translation.told.iter().map(|told| told_text(told, source)).collect();
    lines.extend(translation.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(faults.iter().map(|fault| format!("NEEDS A PERSON: the result is refused here: {fault}")));
    let count = |is_wanted: fn(&Outcome) -> bool| translation.count(is_wanted);
    lines.push(format!(
        "{}: {} carried over, {} translated, {} left out, {} for a person",
        Counted(translation.told.len() as u64, "setting"),
        count(|outcome| matches!(outcome, Outcome::Carried)),
        count(|outcome| matches!(outcome, Outcome::Translated(_))),
        count(|outcome| matches!(outcome, Outcome::LeftOut(_))),
        count(|outcome| matches!(outcome, Outcome::NeedsPerson(_))) + faults.len(),
    ));
    lines.join("\n")
}

fn told_text(Told { line, name, value, outcome }: &Told, source: &str) -> String {
    let value = value.as_ref().map_or_else(String::new, |value| format!("={value}"));
    let outcome = match outcome {
        Outcome::Carried => "carried over".to_owned(),
        Outcome::Translated(into) => format!("translated: {into}"),
        Outcome::LeftOut(why) => format!("left out: {why}"),
        Outcome::NeedsPerson(why) => format!("NEEDS A PERSON: {why}"),
    };
    format!("{source}:{line}: {name}{value}: {outcome}")
}

fn as_json(translation: &Translation, toml: &str, faults: &[String]) -> Value {
    let told = |Told { line, name, value, outcome }: &Told| {
        let (outcome, why) = match outcome {
            Outcome::Carried => ("carried", None),
            Outcome::Translated(into) => ("translated", Some(into)),
            Outcome::LeftOut(why) => ("left_out", Some(why)),
            Outcome::NeedsPerson(why) => ("needs_person", Some(why)),
        };
        json!({ "line": line, "name": name, "value": value, "outcome": outcome, "why": why })
    };
    json!({
        "toml": toml,
        "settings": translation.told.iter().map(told).collect::<Vec<_>>(),
        "notes": translation.notes,
        "faults": faults,
    })
}
