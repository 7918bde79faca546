//! What an application asks to be appended.

use engine_record::{NewRecord, PartitionIndex, Timestamp};

/// A record's headers: key, and value or null.
pub type HeaderList<'a> = &'a [(&'a [u8], Option<&'a [u8]>)];

/// A record on its way to a topic. All bytes are borrowed: they are copied once, into the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerRecord<'a> {
    /// The topic's name.
    pub topic: &'a str,
    /// The partition; the partitioner chooses where none is named.
    pub partition: Option<PartitionIndex>,
    /// When the record was made; now, where nothing is said.
    pub timestamp: Option<Timestamp>,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value; null is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers, in order.
    pub headers: HeaderList<'a>,
}

/// A record that no broker could take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRecord {
    /// The topic has no name.
    #[error("the record names no topic")]
    TopicUnnamed,
    /// The timestamp lies before the Unix epoch.
    #[error("the record's timestamp {0} is negative")]
    NegativeTimestamp(Timestamp),
    /// The partition's number is negative.
    #[error("the record's partition {0} is negative")]
    NegativePartition(PartitionIndex),
}

impl<'a> ProducerRecord<'a> {
    /// A record with a value only.
    #[must_use]
    pub const fn new(topic: &'a str, value: &'a [u8]) -> Self {
        Self { topic, partition: None, timestamp: None, key: None, value: Some(value), headers: &[] }
    }

    /// With a key.
    #[must_use]
    pub const fn with_key(self, key: &'a [u8]) -> Self {
        Self { key: Some(key), ..self }
    }

    /// To this partition.
    #[must_use]
    pub const fn with_partition(self, partition: PartitionIndex) -> Self {
        Self { partition: Some(partition), ..self }
    }

    /// Made at this time.
    #[must_use]
    pub const fn with_timestamp(self, timestamp: Timestamp) -> Self {
        Self { timestamp: Some(timestamp), ..self }
    }

    /// With headers.
    #[must_use]
    pub const fn with_headers(self, headers: HeaderList<'a>) -> Self {
        Self { headers, ..self }
    }

    /// Whether a broker could take the record.
    ///
    /// # Errors
    /// See [`InvalidRecord`].
    pub fn check(&self) -> Result<(), InvalidRecord> {
        if self.topic.is_empty() {
            return Err(InvalidRecord::TopicUnnamed);
        }
        if let Some(timestamp) = self.timestamp.filter(|timestamp| timestamp.0 < 0) {
            return Err(InvalidRecord::NegativeTimestamp(timestamp));
        }
        match self.partition.filter(|partition| partition.0 < 0) {
            Some(partition) => Err(InvalidRecord::NegativePartition(partition)),
            None => Ok(()),
        }
    }

    /// The record as it goes into a batch; `now` is its time where it has none.
    pub(crate) fn to_new_record(self, now: Timestamp) -> NewRecord<'a> {
        NewRecord {
            timestamp: self.timestamp.unwrap_or(now),
            key: self.key,
            value: self.value,
            headers: self.headers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_error() {
        let good = ProducerRecord::new("orders", b"v")
            .with_timestamp(Timestamp(0))
            .with_partition(PartitionIndex(0));
        assert_eq!(good.check(), Ok(()));
        assert_eq!(ProducerRecord::new("", b"v").check(), Err(InvalidRecord::TopicUnnamed));
        let early = good.with_timestamp(Timestamp(-1));
        assert_eq!(early.check(), Err(InvalidRecord::NegativeTimestamp(Timestamp(-1))));
        let nowhere = good.with_partition(PartitionIndex(-3));
        assert_eq!(nowhere.check(), Err(InvalidRecord::NegativePartition(PartitionIndex(-3))));
    }

    #[test]
    fn a_record_without_a_time_gets_the_senders() {
        let record = ProducerRecord::new("orders", b"v");
        assert_eq!(record.to_new_record(Timestamp(70)).timestamp, Timestamp(70));
        assert_eq!(record.with_timestamp(Timestamp(4)).to_new_record(Timestamp(70)).timestamp, Timestamp(4));
    }
}
