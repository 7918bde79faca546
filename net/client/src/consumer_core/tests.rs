use engine_record::{BatchBuilder, Compression, LeaderEpoch, NewRecord, Timestamp, assign};
use net_wire::Uuid;
use net_wire::messages::MetadataResponse;
use net_wire::messages::metadata::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const P0: PartitionIndex = PartitionIndex(0);

fn offset(value: i64) -> Offset {
    Offset::new(value).unwrap()
}

fn settings() -> ConsumerSettings {
    ConsumerSettings {
        retry: Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(10) },
        ..ConsumerSettings::default()
    }
}

fn metadata(leader_epoch: i32, leaders: &[i32]) -> Metadata {
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
            topic_id: Uuid([1; 16]),
            partitions: partitions.collect(),
            ..Default::default()
        }],
        ..Default::default()
    });
    metadata
}

/// A batch of `count` records from `base` on whose values are their offsets.
fn batch(base: i64, count: i64, compression: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new().with_compression(compression);
    for value in base..base + count {
        builder.push(&NewRecord { value: Some(&value.to_be_bytes()), ..NewRecord::default() }).unwrap();
    }
    let mut bytes = builder.build().unwrap();
    assign(&mut bytes, offset(base), LeaderEpoch(0));
    bytes
}

fn control_batch(base: i64) -> Vec<u8> {
    let id = engine_record::ProducerId(1);
    let epoch = engine_record::ProducerEpoch(0);
    let marker = engine_record::Marker::Commit;
    let mut bytes = engine_record::transaction_marker(id, epoch, marker, 0, Timestamp(0)).unwrap();
    assign(&mut bytes, offset(base), LeaderEpoch(0));
    bytes
}

fn answer(error: ErrorCode, records: Vec<u8>) -> FetchAnswer {
    let range = 0..records.len();
    let part = FetchPartAnswer { error, high_watermark: Some(offset(100)), records: range };
    FetchAnswer { frame: Rc::new(records), parts: vec![Some(part)], ..FetchAnswer::default() }
}

fn values(records: &FetchedRecords) -> Vec<i64> {
    records
        .records()
        .map(|record| {
            let record = record.unwrap();
            let value = i64::from_be_bytes(record.value.unwrap().try_into().unwrap());
            assert_eq!(record.offset.value(), value);
            value
        })
        .collect()
}

struct Script {
    core: ConsumerCore,
    now: Instant,
}

impl Script {
    fn new(settings: ConsumerSettings, start: Start) -> Self {
        let mut core = ConsumerCore::new(settings);
        core.assign("t", P0, start);
        core.on_metadata(&metadata(0, &[1]), Instant::ZERO);
        core.on_connected(BrokerId(1));
        core.on_connected(BrokerId(2));
        Self { core, now: Instant::from_nanos(1) }
    }

    /// The one fetch there is to send.
    fn fetch(&mut self) -> FetchPlan {
        match self.core.advance(self.now).actions.pop() {
            Some(ConsumerAction::Fetch(plan)) => plan,
            other => panic!("no fetch but {other:?}"),
        }
    }

    fn list(&mut self) -> ListOffsetsPlan {
        match self.core.advance(self.now).actions.pop() {
            Some(ConsumerAction::ListOffsets(plan)) => plan,
            other => panic!("no search but {other:?}"),
        }
    }

    fn bring(&mut self, records: Vec<u8>) {
        let plan = self.fetch();
        self.core.on_fetch(plan.request, Ok(&answer(ErrorCode::NONE, records)), self.now);
    }

    fn take(&mut self) -> Vec<i64> {
        values(&self.core.take_ready().unwrap().unwrap())
    }

    fn position(&self) -> Option<i64> {
        self.core.position("t", P0).unwrap().map(Offset::value)
    }
}

#[test]
fn records_before_the_position_and_control_batches_are_left_out_and_passed_over() {
    let mut script = Script::new(settings(), Start::At(offset(3)));
    script.bring([batch(0, 5, Compression::None), control_batch(5), batch(6, 2, Compression::Lz4)].concat());
    assert_eq!(script.position(), Some(3));
    assert_eq!(script.take(), [3, 4, 6, 7]);
    assert_eq!(script.position(), Some(8));
    script.bring(control_batch(8));
    assert_eq!(script.take(), [0_i64; 0]);
    assert_eq!(script.fetch().parts[0].wanted, 9);
}

#[test]
fn reading_goes_on_behind_what_waits_to_be_taken_but_only_so_far() {
    let mut script = Script::new(settings(), Start::At(Offset::ZERO));
    script.bring(batch(0, 5, Compression::None));
    let ahead = script.fetch();
    assert_eq!((ahead.parts[0].wanted, ahead.wait_max), (5, Duration::ZERO));
    script.core.on_fetch(
        ahead.request,
        Ok(&answer(ErrorCode::NONE, batch(5, 2, Compression::None))),
        script.now,
    );
    assert!(script.core.advance(script.now).actions.is_empty(), "two answers wait");
    assert_eq!((script.take(), script.take()), (vec![0, 1, 2, 3, 4], vec![5, 6]));
    assert_eq!(script.fetch().parts[0].wanted, 7);
}

#[test]
fn a_broker_that_had_nothing_is_not_asked_again_before_something_is_taken() {
    let mut script = Script::new(settings(), Start::At(Offset::ZERO));
    script.bring(batch(0, 5, Compression::None));
    script.bring(Vec::new());
    assert!(script.core.advance(script.now).actions.is_empty());
    script.take();
    assert_eq!(script.fetch().wait_max, settings().wait_max);
}

#[test]
fn an_answer_from_before_a_seek_is_dropped() {
    let mut script = Script::new(settings(), Start::At(Offset::ZERO));
    let before = script.fetch();
    script.core.seek("t", P0, Start::At(offset(50))).unwrap();
    script.core.on_fetch(
        before.request,
        Ok(&answer(ErrorCode::NONE, batch(0, 5, Compression::None))),
        script.now,
    );
    assert!(script.core.take_ready().is_none());
    assert_eq!(script.fetch().parts[0].wanted, 50);
}

#[test]
fn a_position_out_of_range_is_handled_as_asked() {
    for (reset, wanted) in [(OffsetReset::Earliest, -2), (OffsetReset::Latest, -1)] {
        let mut script = Script::new(ConsumerSettings { reset, ..settings() }, Start::At(offset(7)));
        let plan = script.fetch();
        script.core.on_fetch(
            plan.request,
            Ok(&answer(ErrorCode::OFFSET_OUT_OF_RANGE, Vec::new())),
            script.now,
        );
        let list = script.list();
        assert_eq!(list.parts[0].wanted, wanted);
        let found = OffsetAnswer { error: ErrorCode::NONE, offset: Some(offset(20)) };
        let found = OffsetsAnswer { parts: vec![Some(found)], throttle: Duration::ZERO };
        script.core.on_offsets(list.request, Ok(&found), script.now);
        assert_eq!(script.fetch().parts[0].wanted, 20);
    }
    let settings = ConsumerSettings { reset: OffsetReset::Error, ..settings() };
    let mut script = Script::new(settings, Start::At(offset(7)));
    let plan = script.fetch();
    script.core.on_fetch(plan.request, Ok(&answer(ErrorCode::OFFSET_OUT_OF_RANGE, Vec::new())), script.now);
    let error = script.core.take_ready().unwrap().unwrap_err();
    assert!(matches!(error, ConsumeError::OutOfRange { position, .. } if position == offset(7)));
    assert!(script.core.advance(script.now).actions.is_empty(), "it rests until it is sought");
    script.core.seek("t", P0, Start::Earliest).unwrap();
    script.list();
}

#[test]
fn a_search_that_finds_the_log_moved_is_made_again() {
    let settings = ConsumerSettings { reset: OffsetReset::Latest, ..settings() };
    let mut script = Script::new(settings, Start::Time(1_000));
    let list = script.list();
    let moved = Some(OffsetAnswer { error: ErrorCode::OFFSET_OUT_OF_RANGE, offset: None });
    let moved = OffsetsAnswer { parts: vec![moved], throttle: Duration::ZERO };
    script.core.on_offsets(list.request, Ok(&moved), script.now);
    script.now = script.now.after(Duration::from_secs(1));
    script.core.on_metadata(&metadata(0, &[1]), script.now);
    assert_eq!(script.list().parts[0].wanted, 1_000);
}

#[test]
fn a_time_later_than_every_record_is_the_end() {
    let mut script = Script::new(settings(), Start::Time(1_000));
    let list = script.list();
    assert_eq!(list.parts[0].wanted, 1_000);
    let none = OffsetsAnswer {
        parts: vec![Some(OffsetAnswer { error: ErrorCode::NONE, offset: None })],
        throttle: Duration::ZERO,
    };
    script.core.on_offsets(list.request, Ok(&none), script.now);
    assert_eq!(script.list().parts[0].wanted, -1);
}

#[test]
fn a_leader_that_moved_is_followed_without_waiting_for_the_pause_to_end() {
    let mut script = Script::new(settings(), Start::At(offset(7)));
    let plan = script.fetch();
    script.core.on_fetch(
        plan.request,
        Ok(&answer(ErrorCode::NOT_LEADER_OR_FOLLOWER, Vec::new())),
        script.now,
    );
    let actions = script.core.advance(script.now).actions;
    assert!(matches!(actions[..], [ConsumerAction::RefreshMetadata]));
    script.core.on_metadata(&metadata(1, &[2]), script.now);
    let plan = script.fetch();
    assert_eq!((plan.broker, plan.parts[0].leader_epoch, plan.parts[0].wanted), (BrokerId(2), 1, 7));
}

#[test]
fn damaged_bytes_are_told_once_and_the_position_stays() {
    let mut script = Script::new(settings(), Start::At(Offset::ZERO));
    let mut bytes = batch(0, 5, Compression::None);
    *bytes.last_mut().unwrap() ^= 1;
    script.bring(bytes);
    let error = script.core.take_ready().unwrap().unwrap_err();
    assert!(matches!(error, ConsumeError::Unreadable { cause: UnreadableBatch::Corrupt { .. }, .. }));
    assert!(script.core.take_ready().is_none());
    assert!(script.core.advance(script.now).actions.is_empty());
}

#[test]
fn a_piece_of_a_batch_at_the_end_of_an_answer_is_fetched_again() {
    let mut script = Script::new(settings(), Start::At(Offset::ZERO));
    let next = batch(5, 5, Compression::None);
    script.bring([&batch(0, 5, Compression::None), &next[..next.len() - 3]].concat());
    assert_eq!(script.take(), [0, 1, 2, 3, 4]);
    assert_eq!(script.fetch().parts[0].wanted, 5);
}

#[test]
fn a_topic_that_may_not_be_read_is_told() {
    let mut script = Script::new(settings(), Start::At(Offset::ZERO));
    let plan = script.fetch();
    let refused = answer(ErrorCode::TOPIC_AUTHORIZATION_FAILED, Vec::new());
    script.core.on_fetch(plan.request, Ok(&refused), script.now);
    let error = script.core.take_ready().unwrap().unwrap_err();
    assert!(matches!(error, ConsumeError::Refused { code: ErrorCode::TOPIC_AUTHORIZATION_FAILED, .. }));
}

#[test]
fn a_partition_that_only_fails_is_called_stalled_until_something_is_answered() {
    let mut script = Script::new(settings(), Start::At(offset(7)));
    let began = script.now;
    for code in [ErrorCode::KAFKA_STORAGE_ERROR, ErrorCode::NOT_LEADER_OR_FOLLOWER] {
        let plan = script.fetch();
        script.core.on_fetch(plan.request, Ok(&answer(code, Vec::new())), script.now);
        script.now = script.now.after(Duration::from_secs(1));
        script.core.on_metadata(&metadata(0, &[1]), script.now);
    }
    assert_eq!(script.core.stalled(script.now, Duration::from_secs(3)), []);
    let stalled = Stalled {
        topic: "t".into(),
        partition: P0,
        position: Some(offset(7)),
        code: ErrorCode::NOT_LEADER_OR_FOLLOWER,
        since: began,
    };
    assert_eq!(script.core.stalled(script.now, Duration::from_secs(2)), [stalled]);
    script.core.on_metadata(&metadata(1, &[-1]), script.now);
    assert_eq!(script.core.stalled(script.now, Duration::ZERO)[0].code, ErrorCode::LEADER_NOT_AVAILABLE);
    script.core.on_metadata(&metadata(2, &[2]), script.now);
    script.bring(Vec::new());
    assert_eq!(script.core.stalled(script.now, Duration::ZERO), []);
    script.core.on_connect_failed(BrokerId(2), script.now);
    assert_eq!(script.core.stalled(script.now, Duration::ZERO)[0].code, ErrorCode::NETWORK_EXCEPTION);
}

#[test]
fn what_is_not_assigned_is_not_sought() {
    let mut core = ConsumerCore::new(settings());
    assert_eq!(core.seek("t", P0, Start::Latest), Err(NotAssigned));
    assert_eq!(core.position("t", P0), Err(NotAssigned));
    assert_eq!(core.unassign("t", P0), Err(NotAssigned));
    core.assign("t", P0, Start::Latest);
    assert_eq!(core.unassign("t", P0), Ok(()));
    assert!(core.topics().is_empty());
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A batch is appended; a control batch where `count` is 0.
    Append {
        count: i64,
    },
    /// The broker answers the oldest fetch, with at most so many batches.
    Answer {
        batches: usize,
    },
    Fail {
        code: ErrorCode,
    },
    Lose,
    Move,
    Take,
    /// The application goes back by so many records.
    Back {
        by: i64,
    },
    Wait,
}

fn event() -> impl Strategy<Value = Event> {
    let code = prop::sample::select(vec![
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        ErrorCode::UNKNOWN_LEADER_EPOCH,
        ErrorCode::UNKNOWN_SERVER_ERROR,
    ]);
    prop_oneof![
        4 => (0_i64..4).prop_map(|count| Event::Append { count }),
        6 => (0_usize..4).prop_map(|batches| Event::Answer { batches }),
        1 => code.prop_map(|code| Event::Fail { code }),
        1 => Just(Event::Lose),
        1 => Just(Event::Move),
        4 => Just(Event::Take),
        1 => (0_i64..6).prop_map(|by| Event::Back { by }),
        2 => Just(Event::Wait),
    ]
}

#[derive(Default)]
struct Log {
    batches: Vec<(i64, Vec<u8>)>,
    end: i64,
    /// Offsets that hold a record, not a control batch.
    offsets: Vec<i64>,
}

impl Log {
    fn append(&mut self, count: i64) {
        let bytes = match count {
            0 => control_batch(self.end),
            1 => batch(self.end, 1, Compression::Zstd),
            count => batch(self.end, count, Compression::None),
        };
        self.offsets.extend(self.end..self.end + count);
        self.batches.push((self.end, bytes));
        self.end += count.max(1);
    }

    /// What a broker answers from `from` on.
    fn read(&self, from: i64, batches: usize) -> Vec<u8> {
        let first = self.batches.partition_point(|(base, _)| *base <= from).saturating_sub(1);
        let found = self.batches.iter().skip(first).take(batches).map(|(_, bytes)| bytes.clone());
        if from >= self.end { Vec::new() } else { found.collect::<Vec<_>>().concat() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn records_come_in_order_from_the_position_on_and_each_once(events in vec(event(), 1..150)) {
        let mut script = Script::new(settings(), Start::At(Offset::ZERO));
        let (mut log, mut leader, mut next) = (Log::default(), 1, 0_i64);
        let mut open: VecDeque<FetchPlan> = VecDeque::new();
        let drain = (0..200).flat_map(|_| [Event::Wait, Event::Answer { batches: 3 }, Event::Take]);
        for event in events.into_iter().chain(drain) {
            match event {
                Event::Append { count } => log.append(count),
                Event::Answer { batches } => {
                    if let Some(plan) = open.pop_front() {
                        let records = log.read(plan.parts[0].wanted, batches);
                        script.core.on_fetch(plan.request, Ok(&answer(ErrorCode::NONE, records)), script.now);
                    }
                }
                Event::Fail { code } => {
                    if let Some(plan) = open.pop_front() {
                        script.core.on_fetch(plan.request, Ok(&answer(code, Vec::new())), script.now);
                    }
                }
                Event::Lose => {
                    for plan in open.drain(..) {
                        script.core.on_fetch(plan.request, Err(RequestFailure::NoAnswer), script.now);
                    }
                }
                Event::Move => leader ^= 3,
                Event::Take => {
                    if let Some(records) = script.core.take_ready() {
                        for value in values(&records.unwrap()) {
                            let expected = log.offsets.iter().copied().find(|offset| *offset >= next);
                            prop_assert_eq!(Some(value), expected);
                            next = value + 1;
                        }
                    }
                }
                Event::Back { by } => {
                    next = (next - by).max(0);
                    script.core.seek("t", P0, Start::At(offset(next))).unwrap();
                }
                Event::Wait => script.now = script.now.after(Duration::from_millis(15)),
            }
            for action in script.core.advance(script.now).actions {
                match action {
                    ConsumerAction::Fetch(plan) => open.push_back(plan),
                    ConsumerAction::Connect(broker) => script.core.on_connected(broker),
                    ConsumerAction::RefreshMetadata => {
                        script.core.on_metadata(&metadata(0, &[leader]), script.now);
                    }
                    ConsumerAction::ListOffsets(_) => prop_assert!(false, "every position is in range"),
                }
            }
            prop_assert!(open.len() <= 2, "one fetch a broker");
        }
        prop_assert_eq!(log.offsets.iter().find(|offset| **offset >= next), None, "all of it is read at the end");
    }
}
