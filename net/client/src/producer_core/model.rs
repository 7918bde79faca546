//! The producer against brokers that behave and a network that doesn't: what is in the logs at the end is compared with
//! what was accepted.

use core::time::Duration;
use std::collections::VecDeque;

use engine_record::{Offset, ProducerEpoch, ProducerId, RecordBatch};
use proptest::collection::vec;
use proptest::prelude::*;

use super::tests::{metadata, settings};
use super::*;

const PARTITIONS: usize = 3;
const BROKERS: [BrokerId; 2] = [BrokerId(1), BrokerId(2)];

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The application sends a record.
    Accept { partition: usize, bytes: usize },
    /// A broker carries out the oldest request that reached it.
    Serve { broker: usize },
    /// The oldest answer of a broker arrives.
    Arrive { broker: usize },
    /// The answer that arrived last arrives again.
    ArriveAgain,
    /// A connection breaks after the broker carried out so many more requests.
    Break { broker: usize, served: usize },
    /// A partition gets another leader.
    Move { partition: usize },
    /// The next request for the partition is answered with an error before or after the append.
    Fault { partition: usize, code: ErrorCode, appends: bool },
    /// Time passes.
    Wait { ms: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    let broker = || 0..BROKERS.len();
    let partition = || 0..PARTITIONS;
    let faults = prop::sample::select(vec![
        (ErrorCode::NOT_ENOUGH_REPLICAS, false),
        (ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND, true),
        (ErrorCode::REQUEST_TIMED_OUT, true),
        (ErrorCode::KAFKA_STORAGE_ERROR, false),
        (ErrorCode::NOT_LEADER_OR_FOLLOWER, true),
    ]);
    prop_oneof![
        6 => (partition(), 1_usize..120).prop_map(|(partition, bytes)| Event::Accept { partition, bytes }),
        5 => broker().prop_map(|broker| Event::Serve { broker }),
        5 => broker().prop_map(|broker| Event::Arrive { broker }),
        1 => Just(Event::ArriveAgain),
        1 => (broker(), 0_usize..4).prop_map(|(broker, served)| Event::Break { broker, served }),
        1 => partition().prop_map(|partition| Event::Move { partition }),
        1 => (partition(), faults)
            .prop_map(|(partition, (code, appends))| Event::Fault { partition, code, appends }),
        2 => (1_u64..40).prop_map(|ms| Event::Wait { ms }),
    ]
}

/// What a broker remembers of a producer in one partition.
#[derive(Debug, Default)]
struct Memory {
    id: i64,
    epoch: i16,
    /// (base sequence, last sequence, base offset) of the last five batches.
    batches: VecDeque<(i32, i32, i64)>,
}

#[derive(Debug, Default)]
struct Log {
    values: Vec<u64>,
    memory: Option<Memory>,
}

impl Log {
    fn append(&mut self, bytes: &[u8]) -> (ErrorCode, i64) {
        let (batch, rest) = RecordBatch::parse(bytes).expect("the producer sends whole batches");
        assert!(rest.is_empty());
        let header = batch.header();
        let (base, last) = (header.base_sequence, header.last_sequence());
        let memory =
            self.memory.get_or_insert_with(|| Memory { id: header.producer_id.0, ..Memory::default() });
        assert_eq!(memory.id, header.producer_id.0);
        if header.producer_epoch.0 < memory.epoch {
            return (ErrorCode::INVALID_PRODUCER_EPOCH, -1);
        }
        if header.producer_epoch.0 > memory.epoch {
            *memory = Memory { id: memory.id, epoch: header.producer_epoch.0, batches: VecDeque::new() };
        }
        if let Some(known) = memory.batches.iter().find(|known| (known.0, known.1) == (base, last)) {
            return (ErrorCode::NONE, known.2);
        }
        if memory.batches.back().map_or(0, |last| last.1 + 1) != base {
            return (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1);
        }
        let base_offset = i64::try_from(self.values.len()).unwrap();
        memory.batches.push_back((base, last, base_offset));
        if memory.batches.len() > 5 {
            memory.batches.pop_front();
        }
        for record in batch.records().unwrap() {
            let value = record.unwrap().value.unwrap();
            self.values.push(u64::from_be_bytes(*value.first_chunk().unwrap()));
        }
        (ErrorCode::NONE, base_offset)
    }
}

struct World {
    core: ProducerCore,
    now: Instant,
    logs: Vec<Log>,
    leaders: Vec<usize>,
    leader_epoch: i32,
    faults: Vec<Option<(ErrorCode, bool)>>,
    /// Requests on their way to each broker, and answers on their way back.
    requests: Vec<VecDeque<ProducePlan>>,
    answers: Vec<VecDeque<(RequestId, ProduceAnswer)>>,
    last_answer: Option<(RequestId, ProduceAnswer)>,
    identities: i64,
    accepted: Vec<Vec<(u64, BatchId)>>,
    completions: BTreeMap<BatchId, Result<Appended, DeliveryError>>,
    next_value: u64,
    in_flight_seen: usize,
}

impl World {
    fn new(settings: ProducerSettings) -> Self {
        let mut core = ProducerCore::new(settings).unwrap();
        core.topic_number("t");
        let mut world = Self {
            core,
            now: Instant::from_nanos(1),
            logs: (0..PARTITIONS).map(|_| Log::default()).collect(),
            leaders: vec![0, 1, 0],
            leader_epoch: 0,
            faults: vec![None; PARTITIONS],
            requests: vec![VecDeque::new(); BROKERS.len()],
            answers: vec![VecDeque::new(); BROKERS.len()],
            last_answer: None,
            identities: 0,
            accepted: vec![Vec::new(); PARTITIONS],
            completions: BTreeMap::new(),
            next_value: 0,
            in_flight_seen: 0,
        };
        world.tell_metadata();
        world
    }

    fn tell_metadata(&mut self) {
        let leaders: Vec<_> = self.leaders.iter().map(|&leader| BROKERS[leader].0).collect();
        self.core.on_metadata(&metadata(1, self.leader_epoch, &leaders), self.now);
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Accept { partition, bytes } => self.accept(partition, bytes),
            Event::Serve { broker } => self.serve(broker),
            Event::Arrive { broker } => self.arrive(broker),
            Event::ArriveAgain => {
                if let Some((request, answer)) = &self.last_answer {
                    self.core.on_answer(*request, Ok(answer), self.now);
                }
            }
            Event::Break { broker, served } => self.break_connection(broker, served),
            Event::Move { partition } => {
                self.leaders[partition] ^= 1;
                self.leader_epoch += 1;
            }
            Event::Fault { partition, code, appends } => self.faults[partition] = Some((code, appends)),
            Event::Wait { ms } => self.now = self.now.after(Duration::from_millis(ms)),
        }
        self.carry_out();
    }

    fn accept(&mut self, partition: usize, bytes: usize) {
        let mut value = self.next_value.to_be_bytes().to_vec();
        value.resize(8 + bytes, 0);
        let index = PartitionIndex(i32::try_from(partition).unwrap());
        let record = ProducerRecord::new("t", &value).with_partition(index);
        let accepted = self.core.accept(&record, Timestamp(1), self.now).unwrap();
        self.accepted[partition].push((self.next_value, accepted.ticket.batch));
        self.next_value += 1;
    }

    fn serve(&mut self, broker: usize) {
        let Some(plan) = self.requests[broker].pop_front() else { return };
        let parts = plan.parts.iter().map(|part| Some(self.append(broker, part))).collect();
        self.answers[broker].push_back((plan.request, ProduceAnswer { parts, throttle: Duration::ZERO }));
    }

    fn append(&mut self, broker: usize, part: &ProducePart) -> PartAnswer {
        let partition = index(part.partition);
        let refused = |error| PartAnswer { error, base_offset: None, append_time: None };
        if self.leaders[partition] != broker {
            return refused(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        let fault = self.faults[partition].take();
        if let Some((code, false)) = fault {
            return refused(code);
        }
        let (error, offset) = self.logs[partition].append(&part.bytes);
        match fault {
            Some((code, _)) if error.is_none() => refused(code),
            Some(_) | None => PartAnswer { base_offset: Offset::new(offset), ..refused(error) },
        }
    }

    fn arrive(&mut self, broker: usize) {
        let Some((request, answer)) = self.answers[broker].pop_front() else { return };
        self.core.on_answer(request, Ok(&answer), self.now);
        self.last_answer = Some((request, answer));
    }

    fn break_connection(&mut self, broker: usize, served: usize) {
        for _ in 0..served {
            self.serve(broker);
        }
        let lost: Vec<_> = self.answers[broker].drain(..).map(|(request, _)| request).collect();
        let lost = lost.into_iter().chain(self.requests[broker].drain(..).map(|plan| plan.request));
        for request in lost {
            self.core.on_answer(request, Err(RequestFailure::NoAnswer), self.now);
        }
    }

    fn carry_out(&mut self) {
        let plan = self.core.advance(self.now);
        let mut is_told = true;
        for action in plan.actions {
            match action {
                Action::Connect(broker) => self.core.on_connected(broker),
                Action::Send(plan) => {
                    let broker = BROKERS.iter().position(|id| *id == plan.broker).unwrap();
                    self.requests[broker].push_back(plan);
                }
                Action::RefreshMetadata => self.tell_metadata(),
                Action::InitProducerId => {
                    self.identities += 1;
                    let identity = Identity { id: ProducerId(self.identities), epoch: ProducerEpoch(0) };
                    self.core.on_identity(Ok(identity), self.now);
                }
                Action::Complete(Completion { batch, result }) => {
                    assert!(self.completions.insert(batch, result).is_none(), "completed twice");
                    continue;
                }
            }
            is_told = false;
        }
        for broker in 0..BROKERS.len() {
            self.in_flight_seen =
                self.in_flight_seen.max(self.requests[broker].len() + self.answers[broker].len());
        }
        if !is_told {
            self.carry_out();
        }
    }

    /// Lets everything work until nothing is left to do.
    fn heal(&mut self) {
        self.faults = vec![None; PARTITIONS];
        for _ in 0..1_000 {
            if self.core.oldest_unfinished().is_none() {
                return;
            }
            for broker in 0..BROKERS.len() {
                self.step(Event::Serve { broker });
                self.step(Event::Arrive { broker });
            }
            self.step(Event::Wait { ms: 5 });
        }
        panic!("the producer is stuck: {:?}", self.core);
    }

    fn offset_is_right(&self, partition: usize, batch: BatchId, appended: Appended) -> bool {
        let first = self.accepted[partition].iter().find(|(_, of)| *of == batch).map(|(value, _)| *value);
        let place = self.logs[partition].values.iter().position(|value| Some(*value) == first);
        appended.base_offset.map(|offset| usize::try_from(offset.value()).unwrap()) == place
    }
}

fn lasting() -> ProducerSettings {
    ProducerSettings { delivery_timeout: Duration::from_secs(10_000), ..settings() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_record_is_appended_once_and_in_order(events in vec(event(), 1..250)) {
        let mut world = World::new(lasting());
        for event in events {
            world.step(event);
        }
        world.heal();
        prop_assert!(world.in_flight_seen <= 5);
        for partition in 0..PARTITIONS {
            let accepted: Vec<_> = world.accepted[partition].iter().map(|(value, _)| *value).collect();
            prop_assert_eq!(&world.logs[partition].values, &accepted);
            for (_, batch) in &world.accepted[partition] {
                let appended = world.completions[batch];
                prop_assert!(appended.is_ok_and(|appended| world.offset_is_right(partition, *batch, appended)));
            }
        }
        prop_assert_eq!(world.core.buffered_bytes(), 0);
    }

    #[test]
    fn what_is_given_up_leaves_the_rest_in_order_and_once(events in vec(event(), 1..250)) {
        let settings = ProducerSettings { delivery_timeout: Duration::from_millis(60), ..settings() };
        let mut world = World::new(settings);
        for event in events {
            world.step(event);
        }
        world.heal();
        for partition in 0..PARTITIONS {
            let log = &world.logs[partition].values;
            prop_assert!(log.is_sorted_by(|a, b| a < b), "out of order or repeated: {:?}", log);
            for (value, batch) in &world.accepted[partition] {
                match world.completions[batch] {
                    Ok(_) => prop_assert!(log.contains(value), "acknowledged and lost"),
                    Err(error) if !error.may_be_appended() => prop_assert!(!log.contains(value), "{}", error),
                    Err(_) => {}
                }
            }
        }
    }
}
