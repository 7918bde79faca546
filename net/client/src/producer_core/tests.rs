//! Scripts: one producer, and a test that plays brokers and network by hand.

use core::time::Duration;

use engine_record::{Compression, Offset, ProducerEpoch, ProducerId, RecordBatch};
use net_wire::Uuid;
use net_wire::messages::MetadataResponse;
use net_wire::messages::metadata::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};

use super::*;
use crate::accumulator::BatchLimits;
use crate::random::Backoff;

pub(super) fn settings() -> ProducerSettings {
    ProducerSettings {
        batches: BatchLimits {
            batch_bytes: 200,
            linger: Duration::ZERO,
            request_bytes_max: 10_000,
            compression: Compression::None,
        },
        buffer_bytes_max: 100_000,
        delivery_timeout: Duration::from_secs(60),
        retry: Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(10) },
        ..ProducerSettings::default()
    }
}

/// Metadata of topic "t" whose partitions have these leaders.
pub(super) fn metadata(topic_id: u8, leader_epoch: i32, leaders: &[i32]) -> Metadata {
    let partitions = leaders.iter().zip(0..).map(|(&leader_id, partition_index)| MetadataResponsePartition {
        partition_index,
        leader_id,
        leader_epoch,
        ..Default::default()
    });
    let broker = |node_id| MetadataResponseBroker { node_id, host: "h", port: 1, rack: None };
    let mut metadata = Metadata::default();
    metadata.apply(&MetadataResponse {
        brokers: vec![broker(1), broker(2)],
        topics: vec![MetadataResponseTopic {
            name: Some("t"),
            topic_id: Uuid([topic_id; 16]),
            partitions: partitions.collect(),
            ..Default::default()
        }],
        ..Default::default()
    });
    metadata
}

pub(super) const IDENTITY: Identity = Identity { id: ProducerId(7), epoch: ProducerEpoch(0) };

struct Script {
    core: ProducerCore,
    now: Instant,
    sent: Vec<ProducePlan>,
    outcomes: Vec<(u64, Result<Option<i64>, DeliveryError>)>,
    asked_for_metadata: u32,
    asked_for_identity: u32,
}

impl Script {
    /// A producer that knows topic "t", has an identity and is connected to brokers 1 and 2.
    fn new(settings: ProducerSettings, leaders: &[i32]) -> Self {
        let mut core = ProducerCore::new(settings).unwrap();
        core.topic_number("t");
        core.on_metadata(&metadata(1, 0, leaders), Instant::ZERO);
        core.on_identity(Ok(IDENTITY), Instant::ZERO);
        core.on_connected(BrokerId(1));
        core.on_connected(BrokerId(2));
        let now = Instant::from_nanos(1);
        Self {
            core,
            now,
            sent: Vec::new(),
            outcomes: Vec::new(),
            asked_for_metadata: 0,
            asked_for_identity: 0,
        }
    }

    /// Accepts a record for partition 0 and sends what there is to send: a batch of its own.
    fn send(&mut self, value: &[u8]) {
        let record = ProducerRecord::new("t", value).with_partition(PartitionIndex(0));
        self.core.accept(&record, Timestamp(5), self.now).unwrap();
        self.advance();
    }

    fn advance(&mut self) -> Option<Instant> {
        let plan = self.core.advance(self.now);
        let connects = plan.actions.iter().any(|action| matches!(action, Action::Connect(_)));
        for action in plan.actions {
            match action {
                Action::Send(plan) => self.sent.push(plan),
                Action::Complete(Completion { batch, result }) => {
                    self.outcomes
                        .push((batch.0, result.map(|appended| appended.base_offset.map(Offset::value))));
                }
                Action::RefreshMetadata => self.asked_for_metadata += 1,
                Action::InitProducerId => self.asked_for_identity += 1,
                Action::Connect(broker) => self.core.on_connected(broker),
            }
        }
        if connects { self.advance() } else { plan.wake_at }
    }

    fn wait(&mut self, duration: Duration) {
        self.now = self.now.after(duration);
        self.advance();
    }

    fn answer(&mut self, index: usize, error: ErrorCode, base_offset: i64) {
        let part = PartAnswer { error, base_offset: Offset::new(base_offset), append_time: None };
        let parts = vec![Some(part); self.sent[index].parts.len()];
        let answer = ProduceAnswer { parts, throttle: Duration::ZERO };
        self.core.on_answer(self.sent[index].request, Ok(&answer), self.now);
        self.advance();
    }

    fn lose(&mut self, index: usize, failure: RequestFailure) {
        self.core.on_answer(self.sent[index].request, Err(failure), self.now);
        self.advance();
    }

    /// (broker, epoch, base sequence, first value) of a sent request with one batch.
    fn sent(&self, index: usize) -> (i32, i16, i32, Vec<u8>) {
        let plan = &self.sent[index];
        let (batch, _) = RecordBatch::parse(&plan.parts[0].bytes).unwrap();
        let header = batch.header();
        let value = batch.records().unwrap().next().unwrap().unwrap().value.unwrap().to_vec();
        (plan.broker.0, header.producer_epoch.0, header.base_sequence, value)
    }
}

#[test]
fn a_record_goes_to_the_leader_and_comes_back_with_its_offset() {
    let mut script = Script::new(settings(), &[2]);
    script.send(b"a");
    assert_eq!(script.sent(0), (2, 0, 0, b"a".to_vec()));
    script.answer(0, ErrorCode::NONE, 41);
    assert_eq!(script.outcomes, [(0, Ok(Some(41)))]);
    assert_eq!(script.core.buffered_bytes(), 0);
}

#[test]
fn nothing_is_sent_before_the_topic_and_the_identity_are_known() {
    let mut core = ProducerCore::new(settings()).unwrap();
    let record = ProducerRecord::new("t", b"v");
    let now = Instant::from_nanos(1);
    assert_eq!(core.accept(&record, Timestamp(0), now), Err(NotTaken::TopicUnknown));
    assert!(matches!(core.advance(now).actions[..], [Action::RefreshMetadata]));
    core.on_metadata(&metadata(1, 0, &[1]), now);
    core.accept(&record, Timestamp(0), now).unwrap();
    assert!(matches!(core.advance(now).actions[..], [Action::InitProducerId, Action::Connect(BrokerId(1))]));
    core.on_connected(BrokerId(1));
    assert!(core.advance(now).actions.is_empty());
    core.on_identity(Ok(IDENTITY), now);
    assert!(matches!(core.advance(now).actions[..], [Action::Send(_)]));
}

#[test]
fn at_most_five_requests_of_a_partition_are_under_way() {
    let mut script = Script::new(settings(), &[1]);
    for _ in 0..8 {
        script.send(&[1; 150]);
    }
    assert_eq!(script.sent.len(), 5);
    script.answer(0, ErrorCode::NONE, 0);
    assert_eq!(script.sent.len(), 6);
}

#[test]
fn what_failed_is_sent_again_before_what_came_after_it_and_with_the_same_sequence() {
    let mut script = Script::new(settings(), &[1]);
    for value in [b"a", b"b", b"c"] {
        script.send(value);
    }
    script.answer(0, ErrorCode::NOT_ENOUGH_REPLICAS, -1);
    script.send(b"d");
    assert_eq!(script.sent.len(), 3, "two are still under way");
    script.answer(1, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1);
    script.answer(2, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1);
    script.wait(Duration::from_millis(20));
    let again: Vec<_> = (3..7).map(|index| script.sent(index)).collect();
    let expected = [(b"a", 0), (b"b", 1), (b"c", 2), (b"d", 3)];
    assert_eq!(again, expected.map(|(value, sequence)| (1, 0, sequence, value.to_vec())));
}

#[test]
fn a_new_leader_gets_nothing_before_the_old_one_has_answered() {
    let mut script = Script::new(settings(), &[1]);
    script.send(b"a");
    script.core.on_metadata(&metadata(1, 1, &[2]), script.now);
    script.send(b"b");
    assert_eq!(script.sent.len(), 1);
    script.lose(0, RequestFailure::NoAnswer);
    script.wait(Duration::from_millis(20));
    assert_eq!(script.sent(1), (2, 0, 0, b"a".to_vec()));
    assert_eq!(script.sent(2), (2, 0, 1, b"b".to_vec()));
}

#[test]
fn a_refused_batch_makes_the_others_begin_anew_in_a_higher_epoch() {
    let mut script = Script::new(settings(), &[1]);
    for value in [b"a", b"b"] {
        script.send(value);
    }
    script.answer(0, ErrorCode::MESSAGE_TOO_LARGE, -1);
    let refused = DeliveryError::Refused { code: ErrorCode::MESSAGE_TOO_LARGE, may_be_appended: false };
    assert_eq!(script.outcomes, [(0, Err(refused))]);
    script.answer(1, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1);
    script.wait(Duration::from_millis(20));
    assert_eq!(script.sent(2), (1, 1, 0, b"b".to_vec()));
}

#[test]
fn a_batch_that_may_be_in_the_log_keeps_its_sequence_although_one_before_it_was_given_up() {
    let mut settings = settings();
    settings.delivery_timeout = Duration::from_millis(100);
    let mut script = Script::new(settings, &[1]);
    script.send(b"a");
    script.now = script.now.after(Duration::from_millis(50));
    script.send(b"b");
    script.lose(0, RequestFailure::NoAnswer);
    script.lose(1, RequestFailure::NoAnswer);
    script.now = script.now.after(Duration::from_millis(60));
    script.advance();
    assert_eq!(script.outcomes, [(0, Err(DeliveryError::TimedOut { may_be_appended: true }))]);
    assert_eq!(script.sent(2), (1, 0, 1, b"b".to_vec()), "the old sequence: the broker may have it");
    script.send(b"c");
    assert_eq!(script.sent.len(), 3, "what comes next depends on the answer");
    script.answer(2, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1);
    script.wait(Duration::from_millis(20));
    assert_eq!(script.sent(3), (1, 1, 0, b"b".to_vec()), "now it is known to be absent");
    assert_eq!(script.sent(4), (1, 1, 1, b"c".to_vec()));
}

#[test]
fn an_answer_after_the_delivery_timeout_changes_no_outcome() {
    let mut settings = settings();
    settings.delivery_timeout = Duration::from_millis(100);
    let mut script = Script::new(settings, &[1]);
    script.send(b"a");
    script.wait(Duration::from_millis(100));
    assert_eq!(script.outcomes, [(0, Err(DeliveryError::TimedOut { may_be_appended: true }))]);
    script.answer(0, ErrorCode::NONE, 3);
    script.answer(0, ErrorCode::NONE, 3);
    assert_eq!(script.outcomes.len(), 1);
    assert_eq!(script.core.buffered_bytes(), 0);
}

#[test]
fn a_repetition_the_broker_recognizes_counts_as_delivered() {
    let mut script = Script::new(settings(), &[1]);
    script.send(b"a");
    script.answer(0, ErrorCode::DUPLICATE_SEQUENCE_NUMBER, -1);
    assert_eq!(script.outcomes, [(0, Ok(None))]);
}

#[test]
fn a_fenced_producer_takes_another_identity() {
    let mut script = Script::new(settings(), &[1]);
    script.send(b"a");
    script.answer(0, ErrorCode::INVALID_PRODUCER_EPOCH, -1);
    script.wait(Duration::from_millis(20));
    assert_eq!((script.asked_for_identity, script.sent.len()), (1, 1));
    let another = Identity { id: ProducerId(8), epoch: ProducerEpoch(0) };
    script.core.on_identity(Ok(another), script.now);
    script.advance();
    let (batch, _) = RecordBatch::parse(&script.sent[1].parts[0].bytes).unwrap();
    assert_eq!((batch.header().producer_id, batch.header().base_sequence), (ProducerId(8), 0));
}

#[test]
fn a_topic_created_again_begins_with_sequence_zero() {
    let mut script = Script::new(settings(), &[1]);
    script.send(b"a");
    script.answer(0, ErrorCode::NONE, 0);
    script.send(b"b");
    script.answer(1, ErrorCode::UNKNOWN_TOPIC_ID, -1);
    assert_eq!(script.asked_for_metadata, 1);
    script.core.on_metadata(&metadata(9, 0, &[1]), script.now);
    script.advance();
    assert_eq!(script.sent(2), (1, 1, 0, b"b".to_vec()));
    assert_eq!(script.sent[2].parts[0].topic_id, TopicId([9; 16]));
}

#[test]
fn a_throttled_broker_is_left_alone_for_as_long_as_it_asked() {
    let mut script = Script::new(settings(), &[1]);
    script.send(b"a");
    let answer = ProduceAnswer { parts: vec![None], throttle: Duration::from_millis(70) };
    script.core.on_answer(script.sent[0].request, Ok(&answer), script.now);
    script.wait(Duration::from_millis(69));
    assert_eq!(script.sent.len(), 1);
    script.wait(Duration::from_millis(1));
    assert_eq!(script.sent.len(), 2);
}

#[test]
fn partitions_of_one_leader_share_a_request() {
    let mut script = Script::new(settings(), &[1, 2, 1]);
    for partition in 0..3 {
        let record = ProducerRecord::new("t", b"v").with_partition(PartitionIndex(partition));
        script.core.accept(&record, Timestamp(5), script.now).unwrap();
    }
    script.advance();
    let shape: Vec<_> = script.sent.iter().map(|plan| (plan.broker.0, plan.parts.len())).collect();
    assert_eq!(shape, [(1, 2), (2, 1)]);
}

#[test]
fn the_core_wakes_for_the_linger_and_then_for_the_delivery_timeout() {
    let mut settings = settings();
    settings.batches.linger = Duration::from_millis(30);
    let mut script = Script::new(settings, &[1]);
    script.send(b"a");
    assert!(script.sent.is_empty());
    let start = script.now;
    assert_eq!(script.advance(), Some(start.after(Duration::from_millis(30))));
    script.wait(Duration::from_millis(30));
    assert_eq!(script.sent.len(), 1);
    assert_eq!(script.advance(), Some(start.after(Duration::from_secs(60))));
}

#[test]
fn a_flush_does_not_wait_for_the_linger() {
    let mut settings = settings();
    settings.batches.linger = Duration::from_millis(30);
    let mut script = Script::new(settings, &[1]);
    script.send(b"a");
    script.core.flush();
    script.advance();
    assert_eq!(script.sent.len(), 1);
}

#[test]
fn an_abandoned_producer_completes_everything_and_takes_nothing() {
    let mut script = Script::new(settings(), &[1]);
    script.send(b"a");
    script.core.abandon();
    script.advance();
    assert_eq!(script.outcomes, [(0, Err(DeliveryError::Closed { may_be_appended: true }))]);
    let record = ProducerRecord::new("t", b"v");
    assert_eq!(script.core.accept(&record, Timestamp(0), script.now), Err(NotTaken::Closed));
}

#[test]
fn a_record_for_a_partition_that_is_not_there_is_refused() {
    let mut script = Script::new(settings(), &[1, 1]);
    let record = ProducerRecord::new("t", b"v").with_partition(PartitionIndex(2));
    let refused = script.core.accept(&record, Timestamp(0), script.now);
    assert!(matches!(refused, Err(NotTaken::Partition(_))));
}

#[test]
fn without_idempotence_a_retry_goes_alone() {
    let mut settings = settings();
    settings.is_idempotent = false;
    settings.acks = Acks::Leader;
    let mut script = Script::new(settings, &[1]);
    script.send(b"a");
    script.answer(0, ErrorCode::NOT_LEADER_OR_FOLLOWER, -1);
    script.send(b"b");
    script.wait(Duration::from_millis(20));
    assert_eq!(script.sent.len(), 2);
    assert_eq!(script.sent(1), (1, -1, -1, b"a".to_vec()));
    script.answer(1, ErrorCode::NONE, 0);
    assert_eq!(script.sent(2).3, b"b");
}
