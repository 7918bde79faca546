//! What becomes of a line: which part is the key, what is said of all records, records in JSON.

use std::borrow::Cow;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use engine_record::{PartitionIndex, Timestamp};
use net_client::ProducerRecord;

use crate::escapes::unescape;
use crate::json_record::{self, JsonRecord, ReadHeader};
use crate::times;

/// What is told of the records.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Shape {
    /// Each line is a key and a value, divided by the first of these.
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    key_separator: Option<String>,
    /// The key of each record.
    #[arg(long, value_name = "TEXT", conflicts_with = "key_separator")]
    key: Option<String>,
    /// A header of each record; several may be named so.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_header)]
    header: Vec<(String, String)>,
    /// When the records were made: RFC 3339, or milliseconds since 1970 [default: now].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = times::milliseconds)]
    timestamp: Option<times::Milliseconds>,
    /// A value that is this text is null, which deletes the key where a topic is compacted.
    #[arg(long, value_name = "TEXT")]
    null_value: Option<String>,
    /// Each line is a record in JSON, with key, value, headers, timestamp and partition, as `consume --json` prints it. One
    /// that says its partition goes there: the topic must have as many.
    #[arg(long, conflicts_with_all = ["key_separator", "key", "header", "timestamp", "null_value", "delimiter"])]
    json_lines: bool,
    /// What divides records, with \n, \t, \r, \0 and \xHH; up to 16 bytes [default: \n].
    #[arg(long, value_name = "TEXT", value_parser = parse_delimiter)]
    delimiter: Option<Delimiter>,
}

/// What divides records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delimiter(Vec<u8>);

fn parse_delimiter(text: &str) -> Result<Delimiter, &'static str> {
    let bytes = unescape(text);
    if (1..=16).contains(&bytes.len()) { Ok(Delimiter(bytes)) } else { Err("it takes 1 to 16 bytes") }
}

fn parse_header(text: &str) -> Result<(String, String), &'static str> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    pair.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or("it takes NAME=VALUE")
}

/// Why a line is no record.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoRecord {
    #[error("it has no `{0}` in it, so it has no key (--key-separator)")]
    NoKey(String),
    #[error("it is no record in JSON: {0}")]
    Json(#[from] json_record::NoRecord),
}

/// A record as it is to be sent, as far as the line and the command say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shaped<'a> {
    key: Option<Cow<'a, [u8]>>,
    value: Option<Cow<'a, [u8]>>,
    headers: Vec<ReadHeader<'a>>,
    timestamp: Option<Timestamp>,
    partition: Option<PartitionIndex>,
}

impl Shape {
    pub(super) fn delimiter(&self) -> Vec<u8> {
        self.delimiter.as_ref().map_or_else(|| b"\n".to_vec(), |delimiter| delimiter.0.clone())
    }

    /// What a line, or a file, is as a record.
    pub(super) fn record<'a>(&'a self, line: &'a [u8]) -> Result<Shaped<'a>, NoRecord> {
        if self.json_lines {
            return from_json(line);
        }
        let (key, value) = match &self.key_separator {
            None => (self.key.as_deref().map(str::as_bytes), line),
            Some(separator) => {
                let (key, value) =
                    divide(line, separator).ok_or_else(|| NoRecord::NoKey(separator.clone()))?;
                (Some(key), value)
            }
        };
        let is_null = self.null_value.as_ref().is_some_and(|null| null.as_bytes() == value);
        let headers = self.header.iter();
        Ok(Shaped {
            key: key.map(Cow::Borrowed),
            value: (!is_null).then_some(Cow::Borrowed(value)),
            headers: headers
                .map(|(name, value)| (name.as_bytes().into(), Some(value.as_bytes().into())))
                .collect(),
            timestamp: self.timestamp.map(|time| Timestamp(time.0)),
            partition: None,
        })
    }
}

fn divide<'a>(line: &'a [u8], separator: &str) -> Option<(&'a [u8], &'a [u8])> {
    let separator = separator.as_bytes();
    let at = line.windows(separator.len()).position(|window| window == separator)?;
    Some((&line[..at], &line[at + separator.len()..]))
}

fn from_json(line: &[u8]) -> Result<Shaped<'_>, NoRecord> {
    let mut read = JsonRecord::parse(line)?;
    Ok(Shaped {
        key: read.key()?,
        value: read.value()?,
        headers: read.headers()?,
        // A record without a time says -1; it gets one.
        timestamp: read.timestamp.filter(|timestamp| *timestamp != Timestamp::NONE.0).map(Timestamp),
        partition: read.partition.map(PartitionIndex),
    })
}

impl Shaped<'_> {
    /// The headers, to stand beside the record that borrows them.
    pub(super) fn headers(&self) -> Vec<(&[u8], Option<&[u8]>)> {
        self.headers.iter().map(|(key, value)| (&**key, value.as_deref())).collect()
    }

    pub(super) fn record<'a>(
        &'a self,
        topic: &'a str,
        headers: &'a [(&'a [u8], Option<&'a [u8]>)],
    ) -> ProducerRecord<'a> {
        let (key, value) = (self.key.as_deref(), self.value.as_deref());
        let (timestamp, partition) = (self.timestamp, self.partition);
        ProducerRecord { topic, partition, timestamp, key, value, headers }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        shape: Shape,
    }

    fn shape(words: &[&str]) -> Shape {
        Command::try_parse_from([&["produce"], words].concat()).unwrap().shape
    }

    fn key_and_value(words: &[&str], line: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let shape = shape(words);
        let Shaped { key, value, .. } = shape.record(line).unwrap();
        (key.map(Cow::into_owned), value.map(Cow::into_owned))
    }

    fn owned(text: &str) -> Option<Vec<u8>> {
        Some(text.as_bytes().to_vec())
    }

    #[test]
    fn a_line_is_a_value_or_a_key_and_a_value() {
        assert_eq!(key_and_value(&[], b"a:b"), (None, owned("a:b")));
        let keyed = ["--key-separator", "::"];
        assert_eq!(key_and_value(&keyed, b"a::b::c"), (owned("a"), owned("b::c")));
        assert_eq!(key_and_value(&keyed, b"::"), (owned(""), owned("")));
        for line in [&b"a:b"[..], b""] {
            assert!(matches!(shape(&keyed).record(line), Err(NoRecord::NoKey(_))));
        }
        assert_eq!(key_and_value(&["--key", "k"], b"v"), (owned("k"), owned("v")));
    }

    #[test]
    fn a_value_that_stands_for_null_is_a_tombstone() {
        assert_eq!(key_and_value(&["--null-value", "-"], b"-"), (None, None));
        assert_eq!(key_and_value(&["--null-value", "-"], b"--"), (None, owned("--")));
        assert_eq!(key_and_value(&["--null-value=", "--key", "k"], b""), (owned("k"), None));
        assert_eq!(key_and_value(&["--null-value=x", "--key-separator=:"], b"k:x"), (owned("k"), None));
    }

    #[test]
    fn headers_and_time_are_those_of_each_record() {
        let shape = shape(&["--header", "a=1", "--header", "b==", "--timestamp", "1970-01-01T00:00:05Z"]);
        let shaped = shape.record(b"v").unwrap();
        let headers = shaped.headers();
        assert_eq!(headers, [(&b"a"[..], Some(&b"1"[..])), (b"b", Some(b"="))]);
        let expected = ProducerRecord::new("t", b"v").with_timestamp(Timestamp(5_000)).with_headers(&headers);
        assert_eq!(shaped.record("t", &headers), expected);
        assert!(Command::try_parse_from(["produce", "--header", "=1"]).is_err());
    }

    #[test]
    fn a_line_of_json_is_a_whole_record() {
        let shape = shape(&["--json-lines"]);
        let line = br#"{"key":"k","value":{"base64":"AP8="},"timestamp":7,"partition":3,"headers":[{"key":"h","value":null}]}"#;
        let shaped = shape.record(line).unwrap();
        let headers = shaped.headers();
        let expected = ProducerRecord::new("t", b"\x00\xff").with_key(b"k").with_timestamp(Timestamp(7));
        let expected = expected.with_partition(PartitionIndex(3)).with_headers(&headers);
        assert_eq!((shaped.record("t", &headers), &*headers), (expected, &[(&b"h"[..], None)][..]));
        let nothing = shape.record(br#"{"timestamp":-1}"#).unwrap();
        assert_eq!((nothing.value, nothing.timestamp), (None, None));
        assert!(matches!(shape.record(b"plain"), Err(NoRecord::Json(_))));
        for other in [
            "--key=k",
            "--key-separator=:",
            "--header=a=b",
            "--timestamp=1",
            "--null-value=",
            "--delimiter=;",
        ] {
            assert!(Command::try_parse_from(["produce", "--json-lines", other]).is_err(), "{other}");
        }
    }

    #[test]
    fn records_are_divided_by_lines_or_by_what_is_said() {
        assert_eq!(shape(&[]).delimiter(), b"\n");
        assert_eq!(shape(&["--delimiter", "\\0"]).delimiter(), b"\0");
        assert_eq!(shape(&["--delimiter", ";;"]).delimiter(), b";;");
        for wrong in ["", "12345678901234567"] {
            assert!(Command::try_parse_from(["produce", "--delimiter", wrong]).is_err());
        }
    }
}
