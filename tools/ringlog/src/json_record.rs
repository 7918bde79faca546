//! Records as lines of JSON: what `consume --json` prints is what `produce --json-lines` reads.
//!
//! ```text
//!   {"key":"user-7","value":{"base64":"AP8="},"timestamp":1764504000000,"partition":3,"offset":17,
//!    "headers":[{"key":"trace","value":"a1"},{"key":"empty","value":null}]}
//! ```
//!
//! Bytes are a string where they are text, else an object with the bytes in base64; null is null.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine_record::record::Header;
use net_client::ConsumedRecord;
use serde::Deserialize;
use serde_json::{Value, json};

/// A record as JSON.
pub(crate) fn as_json(partition: i32, record: &ConsumedRecord<'_>) -> Value {
    let header = |header: Header<'_>| json!({ "key": bytes(Some(header.key)), "value": bytes(header.value) });
    json!({
        "partition": partition,
        "offset": record.offset.value(),
        "timestamp": record.timestamp.0,
        "key": bytes(record.key),
        "value": bytes(record.value),
        "headers": record.headers.map(header).collect::<Vec<_>>(),
    })
}

/// Text where it is text; else an object with the bytes in base64, so that nothing is lost.
pub(crate) fn bytes(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Null, |bytes| match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    })
}

/// A record as it is read. What isn't said is null, or none.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonRecord<'a> {
    #[serde(default, borrow)]
    key: Option<Bytes<'a>>,
    #[serde(default, borrow)]
    value: Option<Bytes<'a>>,
    #[serde(default, borrow)]
    headers: Vec<JsonHeader<'a>>,
    #[serde(default)]
    pub(crate) timestamp: Option<i64>,
    #[serde(default)]
    pub(crate) partition: Option<i32>,
    /// Where it was read; it gets another.
    #[serde(default, rename = "offset")]
    _offset: Option<i64>,
    /// The same.
    #[serde(default, borrow, rename = "topic")]
    _topic: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonHeader<'a> {
    #[serde(borrow)]
    key: Bytes<'a>,
    #[serde(default, borrow)]
    value: Option<Bytes<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "bytes are a string, {\"base64\": \"..\"} or null")]
enum Bytes<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Binary(Base64<'a>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Base64<'a> {
    #[serde(borrow)]
    base64: Cow<'a, str>,
}

/// A line that is no record.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoRecord {
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("`{field}` is not base64: {cause}")]
    Base64 { field: &'static str, cause: base64::DecodeError },
}

/// A header: its key, and its value or null.
pub(crate) type ReadHeader<'a> = (Cow<'a, [u8]>, Option<Cow<'a, [u8]>>);

impl<'a> JsonRecord<'a> {
    pub(crate) fn parse(line: &'a [u8]) -> Result<Self, NoRecord> {
        Ok(serde_json::from_slice(line)?)
    }

    /// The key, or null.
    pub(crate) fn key(&mut self) -> Result<Option<Cow<'a, [u8]>>, NoRecord> {
        self.key.take().map(|bytes| bytes.read("key")).transpose()
    }

    /// The value, or null.
    pub(crate) fn value(&mut self) -> Result<Option<Cow<'a, [u8]>>, NoRecord> {
        self.value.take().map(|bytes| bytes.read("value")).transpose()
    }

    /// The headers, in order.
    pub(crate) fn headers(&mut self) -> Result<Vec<ReadHeader<'a>>, NoRecord> {
        let headers = std::mem::take(&mut self.headers).into_iter();
        let read = headers.map(|JsonHeader { key, value }| {
            Ok((key.read("headers.key")?, value.map(|bytes| bytes.read("headers.value")).transpose()?))
        });
        read.collect()
    }
}

impl<'a> Bytes<'a> {
    fn read(self, field: &'static str) -> Result<Cow<'a, [u8]>, NoRecord> {
        match self {
            Self::Text(Cow::Borrowed(text)) => Ok(Cow::Borrowed(text.as_bytes())),
            Self::Text(Cow::Owned(text)) => Ok(Cow::Owned(text.into_bytes())),
            Self::Binary(Base64 { base64 }) => {
                let decoded = STANDARD.decode(base64.as_bytes());
                decoded.map(Cow::Owned).map_err(|cause| NoRecord::Base64 { field, cause })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use engine_record::{BatchBuilder, NewRecord, Offset, RecordBatch, Timestamp};
    use proptest::prelude::*;

    use super::*;

    type OwnedHeader = (Vec<u8>, Option<Vec<u8>>);
    type OwnedRecord = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<OwnedHeader>);

    fn read(line: &str) -> Result<OwnedRecord, NoRecord> {
        let mut record = JsonRecord::parse(line.as_bytes())?;
        let owned = |bytes: Option<Cow<'_, [u8]>>| bytes.map(Cow::into_owned);
        let headers = record.headers()?.into_iter().map(|(key, value)| (key.into_owned(), owned(value)));
        let headers = headers.collect();
        Ok((owned(record.key()?), owned(record.value()?), headers))
    }

    #[test]
    fn what_is_not_said_is_null() {
        assert_eq!(read("{}").unwrap(), (None, None, Vec::new()));
        assert_eq!(read(r#"{"key":"","value":null}"#).unwrap(), (Some(Vec::new()), None, Vec::new()));
        let told =
            read(r#"{"value":{"base64":"AP8="},"headers":[{"key":"h"}],"offset":7,"topic":"t"}"#).unwrap();
        assert_eq!(told, (None, Some(vec![0, 255]), vec![(b"h".to_vec(), None)]));
    }

    #[test]
    fn a_line_that_is_no_record_is_refused_with_what_is_wrong() {
        for (line, part) in [
            ("", "EOF"),
            ("x", "expected value"),
            (r#"{"valeu":"x"}"#, "unknown field `valeu`"),
            (r#"{"value":5}"#, "bytes are a string"),
            (r#"{"value":{"hex":"00"}}"#, "bytes are a string"),
            (r#"{"value":{"base64":"?"}}"#, "`value` is not base64"),
            (r#"{"headers":{"a":"b"}}"#, "expected a sequence"),
            (r#"{"headers":[{"value":"b"}]}"#, "missing field `key`"),
            (r#"{"timestamp":"now"}"#, "expected i64"),
        ] {
            let refused = read(line).unwrap_err().to_string();
            assert!(refused.contains(part), "{line}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(
            key in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..12)),
            value in proptest::option::of(".{0,12}"),
            headers in proptest::collection::vec((".{0,4}", proptest::option::of(proptest::collection::vec(any::<u8>(), 0..4))), 0..3),
            timestamp in 0..i64::MAX,
        ) {
            let pairs: Vec<_> = headers.iter().map(|(key, value)| (key.as_bytes(), value.as_deref())).collect();
            let mut builder = BatchBuilder::new();
            builder.push(&NewRecord {
                timestamp: Timestamp(timestamp),
                key: key.as_deref(),
                value: value.as_ref().map(String::as_bytes),
                headers: &pairs,
            }).unwrap();
            let bytes = builder.build().unwrap();
            let (batch, _) = RecordBatch::parse(&bytes).unwrap();
            let record = batch.records().unwrap().next().unwrap().unwrap();
            let consumed = ConsumedRecord {
                offset: Offset::ZERO, timestamp: record.timestamp, key: record.key, value: record.value, headers: record.headers,
            };
            let line = as_json(3, &consumed).to_string();
            let parsed = JsonRecord::parse(line.as_bytes()).unwrap();
            prop_assert_eq!((parsed.timestamp, parsed.partition), (Some(timestamp), Some(3)));
            let expected: Vec<_> = headers.iter().map(|(key, value)| (key.clone().into_bytes(), value.clone())).collect();
            prop_assert_eq!(read(&line).unwrap(), (key, value.map(String::into_bytes), expected));
        }
    }
}
