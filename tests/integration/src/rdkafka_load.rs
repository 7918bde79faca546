//! librdkafka in this process: loads a topic, and reads one back.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{
    BorrowedMessage, DeliveryResult, Header as NewHeader, Headers, Message, OwnedHeaders,
};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{Offset, TopicPartitionList};

use crate::clock::Deadline;
use crate::content::{Content, Header, Record};

/// How long librdkafka is left to itself before the next look.
const POLL: Duration = Duration::from_millis(100);
/// Names the consumers. They never join a group, but the client insists on a name.
const GROUP: &str = "integration";

/// A record that the broker acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acknowledged {
    /// Its partition.
    pub partition: i32,
    /// Its number in the partition, as the load counts.
    pub sequence: u64,
    /// Its offset, as the broker says.
    pub offset: i64,
}

/// What became of the records so far.
#[derive(Debug, Default)]
pub struct Deliveries {
    acknowledged: Mutex<Vec<Acknowledged>>,
    failures: Mutex<Vec<String>>,
}

impl Deliveries {
    fn fail(&self, failure: String) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
    }

    fn check(&self) {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(failures.is_empty(), "{} records failed, the first with {}", failures.len(), failures[0]);
    }
}

impl ClientContext for Deliveries {
    fn error(&self, error: KafkaError, reason: &str) {
        // Lost connections are what some tests are about; the client only gives up on fatal errors.
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
            self.fail(format!("{error}: {reason}"));
        }
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, sequence: usize) {
        match result {
            Ok(message) => {
                let sequence = u64::try_from(sequence).expect("usize has at most 64 bits");
                let (partition, offset) = (message.partition(), message.offset());
                let mut acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
                acknowledged.push(Acknowledged { partition, sequence, offset });
            }
            Err((error, message)) => {
                self.fail(format!("{error} (partition {}, sequence {sequence})", message.partition()));
            }
        }
    }
}

/// A producer for one topic, with `acks=all` unless set otherwise.
pub struct Load {
    producer: BaseProducer<Deliveries>,
    topic: String,
    content: Content,
}

impl Load {
    /// Makes the producer. `settings` are librdkafka's, by name and value.
    ///
    /// # Panics
    /// When librdkafka refuses the settings.
    #[must_use]
    pub fn new(bootstrap: &str, topic: &str, content: Content, settings: &[(&str, &str)]) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap).set("acks", "all").set("linger.ms", "5");
        for (name, value) in settings {
            config.set(*name, *value);
        }
        let producer = config.create_with_context(Deliveries::default());
        Self { producer: or_panic("a producer", producer), topic: topic.to_owned(), content }
    }

    /// Sends a record, waiting while the client's queue is full.
    ///
    /// # Panics
    /// When the client refuses it, or an earlier record failed.
    pub fn send(&self, partition: i32, sequence: u64) {
        let record = self.content.record(partition, sequence);
        let opaque = usize::try_from(sequence).expect("sequences are small");
        let mut unsent = BaseRecord::<[u8], [u8], usize>::with_opaque_to(&self.topic, opaque)
            .partition(partition)
            .timestamp(record.timestamp_ms)
            .headers(owned_headers(&record.headers));
        unsent.key = record.key.as_deref();
        unsent.payload = record.value.as_deref();
        self.producer.poll(Duration::ZERO);
        while let Err((error, back)) = self.producer.send(unsent) {
            let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
            assert!(full, "librdkafka refuses a record: {error}");
            self.producer.poll(POLL);
            unsent = back;
        }
        self.producer.context().check();
    }

    /// How many records have been acknowledged so far.
    #[must_use]
    pub fn acknowledged_count(&self) -> usize {
        self.producer.poll(Duration::ZERO);
        self.producer.context().acknowledged.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits until every record is acknowledged and answers which, by partition and sequence.
    ///
    /// # Panics
    /// When one fails, or isn't acknowledged within `wait`.
    #[must_use]
    pub fn finish(self, wait: Duration) -> Vec<Acknowledged> {
        or_panic("every record is acknowledged", self.producer.flush(wait));
        let deliveries = self.producer.context();
        deliveries.check();
        let mut acknowledged = deliveries.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone();
        acknowledged.sort_unstable();
        acknowledged
    }
}

fn owned_headers(headers: &[Header]) -> OwnedHeaders {
    headers.iter().fold(OwnedHeaders::new_with_capacity(headers.len()), |owned, (key, value)| {
        owned.insert(NewHeader { key, value: value.as_ref() })
    })
}

/// A record and its offset.
pub type Placed = (i64, Record);

/// Reads whole partitions by assignment, from their start to their end at the time of reading, checksums of batches
/// checked. Gives `take` each record of a partition in order, with its partition and offset.
///
/// # Panics
/// When reading fails, or isn't done within `wait`.
pub fn read_each(
    bootstrap: &str,
    topic: &str,
    partitions: i32,
    wait: Duration,
    mut take: impl FnMut(i32, i64, Record),
) {
    let consumer = consumer(bootstrap);
    let mut assignment = TopicPartitionList::new();
    for partition in 0..partitions {
        or_panic("an assignment", assignment.add_partition_offset(topic, partition, Offset::Beginning));
    }
    or_panic("an assignment", consumer.assign(&assignment));
    let deadline = Deadline::after(wait);
    let (mut unfinished, mut count) = (partitions, 0_u64);
    while unfinished > 0 {
        assert!(
            !deadline.has_passed(),
            "{unfinished} partitions not read to their end; {count} records came"
        );
        match consumer.poll(POLL) {
            None => {}
            Some(Ok(message)) => {
                count += 1;
                take(message.partition(), message.offset(), record(&message));
            }
            Some(Err(KafkaError::PartitionEOF(_))) => unfinished -= 1,
            Some(Err(error)) => panic_unless_passing(&error),
        }
    }
}

/// Checks that a topic holds exactly the records that `content` makes, in order, at offsets from 0; `counts` says how
/// many in each partition.
///
/// # Panics
/// At the first difference, and when reading fails or isn't done within `wait`.
pub fn assert_holds(bootstrap: &str, topic: &str, content: Content, counts: &[u64], wait: Duration) {
    let partitions = i32::try_from(counts.len()).expect("partitions are counted in 31 bits");
    let mut check = Check::new(content, counts);
    read_each(bootstrap, topic, partitions, wait, |partition, offset, record| {
        check.take(partition, offset, &record);
    });
    check.finish();
}

/// Compares what comes with what is due.
#[derive(Debug)]
struct Check<'c> {
    content: Content,
    due: &'c [u64],
    read: Vec<u64>,
}

impl<'c> Check<'c> {
    fn new(content: Content, due: &'c [u64]) -> Self {
        Self { content, due, read: vec![0; due.len()] }
    }

    fn take(&mut self, partition: i32, offset: i64, record: &Record) {
        let read = &mut self.read[usize::try_from(partition).expect("partitions are numbered from 0")];
        assert_eq!(u64::try_from(offset), Ok(*read), "partition {partition} has a gap or a repetition");
        assert_eq!(*record, self.content.record(partition, *read), "partition {partition}, offset {offset}");
        *read += 1;
    }

    fn finish(&self) {
        assert_eq!(self.read, self.due, "records by partition");
    }
}

fn consumer(bootstrap: &str) -> BaseConsumer {
    let consumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", GROUP)
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "error")
        .set("check.crcs", "true")
        .set("fetch.wait.max.ms", "100")
        .create();
    or_panic("a consumer", consumer)
}

fn record(message: &BorrowedMessage<'_>) -> Record {
    let headers = message.headers().map(|headers| {
        headers.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect()
    });
    Record {
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers.unwrap_or_default(),
        timestamp_ms: message.timestamp().to_millis().expect("every record of today has a timestamp"),
    }
}

/// The client mends lost connections itself, and says so as an error.
fn panic_unless_passing(error: &KafkaError) {
    use RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure, OperationTimedOut};
    let passing = [AllBrokersDown, BrokerTransportFailure, OperationTimedOut];
    let code = error.rdkafka_error_code();
    assert!(code.is_some_and(|code| passing.contains(&code)), "reading failed: {error}");
}

fn or_panic<T, E: Debug>(what: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Shape;

    const CONTENT: Content = Content { shape: Shape::Binary, first_timestamp_ms: 1_000 };

    fn check(due: u64, offsets: impl IntoIterator<Item = u64>, made: impl Fn(u64) -> Record) {
        let due = [0, due];
        let mut check = Check::new(CONTENT, &due);
        for offset in offsets {
            check.take(1, i64::try_from(offset).unwrap(), &made(offset));
        }
        check.finish();
    }

    fn right(sequence: u64) -> Record {
        CONTENT.record(1, sequence)
    }

    #[test]
    fn the_right_records_pass() {
        check(120, 0..120, right);
    }

    #[test]
    #[should_panic(expected = "gap or a repetition")]
    fn a_repeated_record_is_found() {
        check(11, (0..6).chain(5..10), right);
    }

    #[test]
    #[should_panic(expected = "partition 1, offset 7")]
    fn a_changed_record_is_found() {
        check(10, 0..10, |sequence| {
            let late = Content { first_timestamp_ms: CONTENT.first_timestamp_ms + 1, ..CONTENT };
            if sequence == 7 { late.record(1, sequence) } else { right(sequence) }
        });
    }

    #[test]
    #[should_panic(expected = "records by partition")]
    fn a_missing_end_is_found() {
        check(10, 0..9, right);
    }

    #[test]
    fn the_client_has_every_codec() {
        for codec in crate::content::Codec::ALL {
            let _ = Load::new("127.0.0.1:1", "topic", CONTENT, &[("compression.codec", codec.name())]);
        }
    }
}
