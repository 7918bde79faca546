//! What the embedded broker has done, from the file it writes its counters to.

use std::ops::{Add, Sub};
use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// A broker's counters, added up over its shards. They only grow while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counters {
    /// Files flushed by group commit.
    pub(super) flushes: u64,
    /// Appended bytes made durable by these flushes.
    pub(super) bytes_flushed: u64,
    /// Bytes written to segments, with rewritten and padded blocks.
    pub(super) bytes_written: u64,
    /// Bytes served from memory.
    pub(super) bytes_read_tail: u64,
    /// Bytes served from the page cache.
    pub(super) bytes_read_warm: u64,
    /// Bytes that had to be fetched from the drive first.
    pub(super) bytes_read_cold: u64,
}

impl Counters {
    /// Reads the file. One that isn't there yet is a broker that has done nothing yet.
    ///
    /// # Errors
    /// It can't be read, or holds something else.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    fn parse(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct File {
            shards: Vec<Shard>,
        }
        #[derive(Deserialize)]
        struct Shard {
            store: Counters,
        }
        let file: File = serde_json::from_str(text)?;
        Ok(file.shards.iter().fold(Self::default(), |sum, shard| sum + shard.store))
    }

    fn each(self, other: Self, merge: fn(u64, u64) -> u64) -> Self {
        Self {
            flushes: merge(self.flushes, other.flushes),
            bytes_flushed: merge(self.bytes_flushed, other.bytes_flushed),
            bytes_written: merge(self.bytes_written, other.bytes_written),
            bytes_read_tail: merge(self.bytes_read_tail, other.bytes_read_tail),
            bytes_read_warm: merge(self.bytes_read_warm, other.bytes_read_warm),
            bytes_read_cold: merge(self.bytes_read_cold, other.bytes_read_cold),
        }
    }
}

impl Add for Counters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }
}

impl Sub for Counters {
    type Output = Self;

    /// What was done since `earlier`.
    fn sub(self, earlier: Self) -> Self {
        self.each(earlier, u64::saturating_sub)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_added_up_and_fields_for_others_are_left_alone() {
        let text = r#"{"shards":[
            {"shard":0,"store":{"flushes":2,"bytes_flushed":100,"bytes_written":4096,"appends":9,
             "bytes_read_tail":1,"bytes_read_warm":2,"bytes_read_cold":3}},
            {"shard":1,"store":{"flushes":5,"bytes_flushed":11,"bytes_written":8192,"appends":9,
             "bytes_read_tail":10,"bytes_read_warm":20,"bytes_read_cold":30}}]}"#;
        let expected = Counters {
            flushes: 7,
            bytes_flushed: 111,
            bytes_written: 12_288,
            bytes_read_tail: 11,
            bytes_read_warm: 22,
            bytes_read_cold: 33,
        };
        let counters = Counters::parse(text).unwrap();
        assert_eq!(counters, expected);
        assert_eq!(counters - counters, Counters::default());
        assert_eq!((counters + counters).flushes, 14);
    }

    #[test]
    fn a_file_that_says_something_else_is_an_error_and_an_absent_one_says_nothing_was_done() {
        assert!(Counters::parse("{}").is_err());
        assert!(Counters::parse(r#"{"shards":[{"store":{"flushes":1}}]}"#).is_err());
        assert_eq!(Counters::read(Path::new("/nonexistent/stats.json")).unwrap(), Counters::default());
    }

    #[test]
    fn the_brokers_own_counters_are_understood() {
        let store =
            serde_json::to_value(engine_store::StoreMetrics { flushes: 3, ..Default::default() }).unwrap();
        let text = serde_json::json!({ "shards": [{ "store": store }] }).to_string();
        assert_eq!(Counters::parse(&text).unwrap().flushes, 3);
    }
}
