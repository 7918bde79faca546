//! The counters that `serve --stats-file` writes.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::clock::wait_until;

/// The file is replaced about every 200 ms.
const NEXT_SECONDS_MAX: u64 = 10;

/// All counters at one moment.
#[derive(Clone, Debug)]
pub struct Stats {
    document: Value,
}

impl Stats {
    /// Waits until the file has been replaced twice, so that the counters are younger than the call, and reads it.
    ///
    /// # Panics
    /// When it isn't replaced, or isn't JSON.
    #[must_use]
    pub fn next_from(path: &Path) -> Self {
        for _ in 0..2 {
            let before = replaced_at(path);
            let wait = Duration::from_secs(NEXT_SECONDS_MAX);
            wait_until("the file of counters is replaced", wait, || replaced_at(path) > before);
        }
        let text = fs::read_to_string(path).expect("a replaced file can be read");
        let document = serde_json::from_str(&text);
        Self { document: document.unwrap_or_else(|error| panic!("counters aren't JSON ({error}): {text}")) }
    }

    /// The counter of this name, over all shards.
    ///
    /// # Panics
    /// When no shard has it: a test of a counter that isn't there would prove nothing.
    #[must_use]
    pub fn total(&self, counter: &str) -> u64 {
        let mut values = Vec::new();
        collect(&self.document, counter, &mut values);
        assert!(!values.is_empty(), "no counter {counter} in {}", self.document);
        values.iter().sum()
    }
}

fn replaced_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// Gathers the numbers under `counter`, however deep.
fn collect(value: &Value, counter: &str, found: &mut Vec<u64>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_u64() {
                    Some(number) if name == counter => found.push(number),
                    Some(_) | None => collect(field, counter, found),
                }
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect(element, counter, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(text: &str) -> Stats {
        Stats { document: serde_json::from_str(text).unwrap() }
    }

    #[test]
    fn a_counter_is_added_up_over_the_shards() {
        let stats =
            stats(r#"{"shards":[{"flushes":2,"store":{"appends":5}},{"flushes":3,"store":{"appends":7}}]}"#);
        assert_eq!(stats.total("flushes"), 5);
        assert_eq!(stats.total("appends"), 12);
    }

    #[test]
    #[should_panic(expected = "no counter flushes")]
    fn a_counter_that_is_not_there_is_no_zero() {
        let _ = stats(r#"{"shards":[{"flushes":"many"}]}"#).total("flushes");
    }
}
