//! The configuration file as it is written.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::path::Path;

use net_server::config::{ConfigError, ConfigFile};

use crate::failure::{Failure, to_read};

/// What the file says; the first of what is wrong with it.
pub(crate) fn read_file(path: &Path) -> Result<ConfigFile, Failure> {
    let (file, wrong) = read_all(path)?;
    wrong.into_iter().next().map_or(Ok(file), Err)
}

/// What the file says, and all that is wrong with it as it is written. Fails where nothing can be read out of it.
pub(super) fn read_all(path: &Path) -> Result<(ConfigFile, Vec<Failure>), Failure> {
    let text = fs::read_to_string(path).map_err(|error| wrong(path, &error, &to_read(&error)))?;
    read_text(path, &text)
}

/// The same of a text that stands in this file, or is to.
pub(super) fn read_text(path: &Path, text: &str) -> Result<(ConfigFile, Vec<Failure>), Failure> {
    let (file, refused) = ConfigFile::read(text).map_err(|error| wrong(path, &error, &hint(text, &error)))?;
    let mut faults: Vec<_> = refused.iter().map(|error| wrong(path, error, &hint(text, error))).collect();
    faults.extend(given_twice(&file.kafka).into_iter().map(|name| {
        wrong(
            path,
            &format_args!("setting `{name}` is given twice, as a quoted and as a dotted key"),
            &"; leave one of them out",
        )
    }));
    Ok((file, faults))
}

fn wrong(path: &Path, error: &dyn Display, hint: &dyn Display) -> Failure {
    Failure::usage(format!("configuration {}: {error}{hint}", path.display()))
}

/// The settings that are written in two ways: a quoted key and a dotted one are two keys to the file, but one setting.
fn given_twice(kafka: &[(String, String)]) -> BTreeSet<&str> {
    let mut names: Vec<_> = kafka.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect()
}

/// What to do where that isn't plain from the error: some of Kafka's names go on where another ends, and of those a file
/// can't hold both as dotted keys.
fn hint(text: &str, error: &ConfigError) -> String {
    let at = match error {
        ConfigError::Syntax(error) => error.span().map(|span| span.start),
        ConfigError::UnknownKey { .. } | ConfigError::Value { .. } | ConfigError::Broker(_) => None,
    };
    let key = at.and_then(|at| cut_short(text, at));
    key.map_or_else(String::new, |key| {
        format!("another key goes on where `{key}` ends; quote the key: \"{key}\" = ..")
    })
}

/// The dotted key on the line of this byte, or another that it goes on from: the shorter of two of which one begins with
/// the other.
fn cut_short(text: &str, at: usize) -> Option<&str> {
    let line = text.get(..at)?.matches('\n').count();
    let refused = text.lines().nth(line).and_then(dotted_key)?;
    let goes_on =
        |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'));
    text.lines().filter_map(dotted_key).find_map(|other| {
        let shorter = goes_on(refused, other).then_some(other);
        shorter.or_else(|| goes_on(other, refused).then_some(refused))
    })
}

/// The key of a line, where it is written without quotes.
fn dotted_key(line: &str) -> Option<&str> {
    let (key, _) = line.split_once('=')?;
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
    Some(key.trim()).filter(|key| !key.is_empty() && key.chars().all(is_bare))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made of a file with these settings of Kafka's.
    fn read(kafka: &str) -> Result<ConfigFile, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ringlog.toml");
        fs::write(&path, format!("node_id = 1\n[kafka]\n{kafka}")).unwrap();
        read_file(&path)
    }

    #[test]
    fn a_setting_that_is_given_twice_is_refused_however_it_is_written() {
        let twice = read("\"log.segment.bytes\" = 2097152\nlog.segment.bytes = 1048576\n").unwrap_err();
        assert_eq!(twice.code(), Failure::USAGE);
        assert!(twice.to_string().contains("`log.segment.bytes` is given twice"), "{twice}");
        let half = read("\"log.segment\".bytes = 2097152\nlog.\"segment.bytes\" = 1048576\n");
        assert!(half.unwrap_err().to_string().contains("given twice"));
        assert_eq!(read("log.segment.bytes = 1048576\nlog.roll.ms = 5\n").unwrap().kafka.len(), 2);
    }

    #[test]
    fn a_name_that_goes_on_where_another_ends_is_to_be_quoted_and_then_both_are_read() {
        let (outer, inner) = ("max.connections = 5\n", "max.connections.per.ip = 3\n");
        let hint =
            "another key goes on where `max.connections` ends; quote the key: \"max.connections\" = ..";
        for both in [format!("{outer}{inner}"), format!("{inner}{outer}")] {
            let refused = read(&both).unwrap_err();
            assert_eq!(refused.code(), Failure::USAGE);
            assert!(refused.to_string().ends_with(hint), "{refused}");
        }
        let mut quoted = read(&format!("\"max.connections\" = 5\n{inner}")).unwrap();
        quoted.kafka.sort_unstable();
        let expected = [("max.connections", "5"), ("max.connections.per.ip", "3")];
        assert_eq!(quoted.kafka, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn other_mistakes_are_no_matter_of_quotes() {
        for kafka in ["max.connections = \n", "max.connections = 5\nmax.connections = 5\n", "= 5\n", "ä"] {
            let refused = read(kafka).unwrap_err().to_string();
            assert!(!refused.contains("quote the key"), "{refused}");
        }
    }
}
