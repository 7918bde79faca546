//! The one table of settings: which values each takes, what it means, and under which names a value of it may stand in the
//! configuration file. What is told to clients, `ringlog config explain` and the hints for names that nobody knows come
//! from here.

use super::SettingKind::{self, Boolean, Int, List, Long, Text};
use super::Unit::{Bytes, Count, Hours, Milliseconds, Minutes};
use super::Values::{self, Flag, Limit, Number, OneOf, Only, Written};
use super::{FETCH_BYTES_MAX, PARTITIONS_MAX};

/// A setting of topics.
pub(super) struct TopicEntry {
    pub(super) name: &'static str,
    pub(super) kind: SettingKind,
    pub(super) values: Values,
    pub(super) documentation: &'static str,
    /// The broker's names for the default, what counts first at the front. The broker's own default stands under the last.
    pub(super) broker_names: &'static [&'static str],
}

/// A setting of the broker that isn't a topic's default, or is one in another unit.
pub(super) struct BrokerEntry {
    pub(super) name: &'static str,
    pub(super) kind: SettingKind,
    pub(super) values: Values,
    pub(super) documentation: &'static str,
}

const fn topic(
    name: &'static str,
    (kind, values): (SettingKind, Values),
    broker_names: &'static [&'static str],
    documentation: &'static str,
) -> TopicEntry {
    TopicEntry { name, kind, values, documentation, broker_names }
}

const fn broker(
    name: &'static str,
    (kind, values): (SettingKind, Values),
    documentation: &'static str,
) -> BrokerEntry {
    BrokerEntry { name, kind, values, documentation }
}

/// A count with a highest value.
const fn count(min: i64, max: i64) -> (SettingKind, Values) {
    (Int, Number { unit: Count, min, max })
}

/// Bytes with a highest value.
const fn bytes(min: i64, max: i64) -> (SettingKind, Values) {
    (Int, Number { unit: Bytes, min, max })
}

/// Milliseconds, as many as anyone likes.
const fn milliseconds(min: i64) -> (SettingKind, Values) {
    (Long, Number { unit: Milliseconds, min, max: i64::MAX })
}

/// What `log.dirs` takes.
const FOLDERS: &str = "folders with commas between, none of them empty";

/// The most that a count of 32 bits can be.
const COUNT_MAX: i64 = u32::MAX as i64;

/// By name.
#[rustfmt::skip]
pub(super) static TOPIC: [TopicEntry; 14] = [
    topic("cleanup.policy", (List, Only("delete")), &["log.cleanup.policy"],
        "What becomes of old records: `delete` removes whole segments by retention.ms and retention.bytes."),
    topic("compression.type", (Text, Only("producer")), &["compression.type"],
        "How batches are kept: `producer` keeps them as they were sent."),
    topic("flush.mode", (Text, OneOf(&["quorum", "isr", "leader", "async"])), &["flush.mode"],
        "Which replicas must have flushed a record before acks=all is answered and consumers see it: `quorum`, `isr`, `leader` or `async` (none)."),
    topic("index.interval.bytes", bytes(1, 1 << 30), &["log.index.interval.bytes"],
        "About how many bytes of records lie between two entries of a segment's index."),
    topic("max.message.bytes", bytes(61, 64 << 20), &["message.max.bytes"],
        "The largest record batch that is taken, in bytes as it is sent, with its header."),
    topic("message.timestamp.after.max.ms", milliseconds(0), &["log.message.timestamp.after.max.ms"],
        "How far a producer's timestamp may be ahead of the broker's clock, in milliseconds."),
    topic("message.timestamp.before.max.ms", milliseconds(0), &["log.message.timestamp.before.max.ms"],
        "How far a producer's timestamp may be behind the broker's clock, in milliseconds."),
    topic("message.timestamp.type", (Text, OneOf(&["CreateTime", "LogAppendTime"])), &["log.message.timestamp.type"],
        "Whose timestamps records keep: the producer's (`CreateTime`) or the broker's (`LogAppendTime`)."),
    topic("min.insync.replicas", count(1, 32), &["min.insync.replicas"],
        "How many replicas must be in sync for acks=all to be taken and for records to be committed."),
    topic("records.validation", (Text, OneOf(&["uncompressed", "all"])), &["records.validation"],
        "Whose records are looked at one by one before they are taken: those of `uncompressed` batches, or of `all`, which costs their decompression."),
    topic("retention.bytes", (Long, Limit(Bytes)), &["log.retention.bytes"],
        "How many bytes of a partition are kept; older segments beyond that are deleted. -1 for no limit."),
    topic("retention.ms", (Long, Limit(Milliseconds)), &["log.retention.ms", "log.retention.minutes", "log.retention.hours"],
        "How long records are kept, in milliseconds; segments with nothing younger are deleted. -1 for no limit."),
    topic("segment.bytes", bytes(1 << 20, 1 << 30), &["log.segment.bytes"],
        "The largest size of a segment, in bytes. Records are deleted by whole segments."),
    topic("segment.ms", milliseconds(1), &["log.roll.ms", "log.roll.hours"],
        "The age from which a new segment is begun, in milliseconds."),
];

/// By name.
#[rustfmt::skip]
pub(super) static BROKER: [BrokerEntry; 18] = [
    broker("advertised.listeners", (List, Written("addresses as NAME://HOST:PORT")),
        "Where clients of each listener are told to come, as NAME://HOST:PORT: shard i is at the port i above, or there is one for each shard. Without: where they have come to."),
    broker("auto.create.topics.enable", (Boolean, Flag),
        "Whether a topic that a producer or consumer asks for is created where it doesn't exist."),
    broker("default.replication.factor", (Int, Only("1")),
        "How many replicas the partitions of a topic have that was created without saying."),
    broker("delete.topic.enable", (Boolean, Flag),
        "Whether topics may be deleted."),
    broker("fetch.max.bytes", bytes(1024, FETCH_BYTES_MAX as i64),
        "The most bytes of records that one fetch is answered with, but for a single larger batch."),
    broker("listener.security.protocol.map", (Text, Written("protocols as NAME:PROTOCOL")),
        "The protocol of each listener, as NAME:PROTOCOL with commas between; PLAINTEXT is served."),
    broker("listeners", (List, Written("addresses as NAME://HOST:PORT")),
        "Where the broker listens, as NAME://HOST:PORT with commas between; shard i listens on the port i above."),
    broker("log.dir", (List, Written(FOLDERS)),
        "The folder that holds partitions, where log.dirs doesn't say."),
    broker("log.dirs", (List, Written(FOLDERS)),
        "The folders that hold partitions, with commas between; each partition lies in one. Unless they are named, the data folder holds them."),
    broker("log.retention.check.interval.ms", milliseconds(1),
        "How long between two looks for records to be deleted, in milliseconds."),
    broker("log.retention.hours", (Int, Limit(Hours)),
        "How long records are kept, in hours, where neither log.retention.ms nor log.retention.minutes says."),
    broker("log.retention.minutes", (Int, Limit(Minutes)),
        "How long records are kept, in minutes, where log.retention.ms doesn't say."),
    broker("log.roll.hours", (Int, Number { unit: Hours, min: 1, max: COUNT_MAX }),
        "The age from which a new segment is begun, in hours, where log.roll.ms doesn't say."),
    broker("max.connections", count(1, COUNT_MAX),
        "The most connections of each shard."),
    broker("max.connections.per.ip", count(1, COUNT_MAX),
        "The most connections of each shard from one address."),
    broker("max.incremental.fetch.session.cache.slots", count(0, COUNT_MAX),
        "The most fetch sessions of each shard, which take 16 MiB at most; 0 for none."),
    broker("num.partitions", count(1, PARTITIONS_MAX as i64),
        "How many partitions a topic has that was created without saying."),
    broker("socket.request.max.bytes", bytes(1024, 1 << 30),
        "The largest request that is taken, in bytes."),
];

/// The topics' setting that a name of the broker gives the default of, perhaps in a unit of its own.
pub(super) fn defaulted_by(broker_name: &str) -> Option<&'static TopicEntry> {
    TOPIC.iter().find(|entry| entry.broker_names.contains(&broker_name))
}

/// A setting as it stands in the table.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) kind: SettingKind,
    pub(super) values: Values,
    pub(super) documentation: &'static str,
}

/// A setting of topics, by its name.
pub(super) fn of_topic(name: &str) -> Option<Entry> {
    TOPIC.iter().find(|entry| entry.name == name).map(TopicEntry::entry)
}

/// A setting of the broker, by its name.
pub(super) fn of_broker(name: &str) -> Option<Entry> {
    let own = BROKER.iter().find(|entry| entry.name == name);
    let own =
        own.map(|&BrokerEntry { kind, values, documentation, .. }| Entry { kind, values, documentation });
    own.or_else(|| defaulted_by(name).map(TopicEntry::entry))
}

impl TopicEntry {
    const fn entry(&self) -> Entry {
        Entry { kind: self.kind, values: self.values, documentation: self.documentation }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BROKER_SETTINGS, TOPIC_SETTINGS};
    use super::*;

    #[test]
    fn every_setting_that_is_known_stands_here_once() {
        assert!(TOPIC.iter().map(|entry| entry.name).eq(TOPIC_SETTINGS));
        assert!(BROKER.is_sorted_by(|a, b| a.name < b.name));
        for name in BROKER_SETTINGS {
            assert!(of_broker(name).is_some(), "{name}");
        }
        let names =
            TOPIC.iter().flat_map(|entry| entry.broker_names).chain(BROKER.iter().map(|entry| &entry.name));
        assert!(names.clone().all(|name| BROKER_SETTINGS.contains(name)));
        let in_other_units = 3;
        assert_eq!(names.count(), BROKER_SETTINGS.len() + in_other_units);
    }
}
