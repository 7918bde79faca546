//! Random work on sessions beside a model that keeps everything in plain lists.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;

const LIMITS: SessionLimits = SessionLimits { sessions: 3, bytes: 12 * (PARTITION_BYTES + 3) };

#[derive(Clone, Debug)]
enum Step {
    Keep(Vec<(u8, i64)>),
    Next { session: usize, stale: bool, changed: Vec<(u8, i64)>, forgotten: Vec<u8>, outcomes: Vec<u8> },
    Close(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let changes = || prop::collection::vec((0..8_u8, 0..100_i64), 0..6);
    let next =
        (0..4_usize, any::<bool>(), changes(), prop::collection::vec(0..8_u8, 0..4), any::<[u8; 16]>());
    let step = prop_oneof![
        2 => changes().prop_map(Step::Keep),
        6 => next.prop_map(|(session, stale, changed, forgotten, outcomes)| {
            Step::Next { session, stale: stale && session == 0, changed, forgotten, outcomes: outcomes.into() }
        }),
        1 => (0..4_usize).prop_map(Step::Close),
        1 => (0..200_u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..60)
}

fn topic() -> TopicKey {
    TopicKey::Name("t-1".into())
}

fn fetch((partition, fetch_offset): (u8, i64)) -> FetchPartition {
    FetchPartition { partition: i32::from(partition), fetch_offset, ..FetchPartition::default() }
}

/// What came of a fetch, by chance: records, an error, or one of two watermarks.
fn outcome(chance: u8) -> Outcome {
    let told = Told { high_watermark: i64::from(chance & 1), log_start: 0 };
    Outcome { told: (!chance.is_multiple_of(7)).then_some(told), has_records: chance % 7 > 4 }
}

/// A session as it should be: partition, offset and what was told, in order.
#[derive(Clone, Debug)]
struct Model {
    epoch: i32,
    used_at: Instant,
    members: Vec<(i32, i64, Option<Told>)>,
}

impl Model {
    fn fetch(&mut self, (partition, offset): (u8, i64)) {
        let partition = i32::from(partition);
        match self.members.iter_mut().find(|member| member.0 == partition) {
            Some(member) => member.1 = offset,
            None => self.members.push((partition, offset, None)),
        }
    }

    /// Those told, and the new order.
    fn tell(&mut self, outcomes: &[u8]) -> Vec<i32> {
        let (mut news, mut stay, mut go) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (partition, offset, told)) in self.members.drain(..).enumerate() {
            let outcome = outcome(outcomes[number % outcomes.len()]);
            if outcome.has_records || outcome.told.is_none() || outcome.told != told {
                news.push(partition);
            }
            let place = if outcome.has_records { &mut go } else { &mut stay };
            place.push((partition, offset, outcome.told));
        }
        self.members = stay.into_iter().chain(go).collect();
        news
    }
}

fn listed(sessions: &mut FetchSessions, at: SessionAt) -> Vec<(Place, i32, i64)> {
    let (mut listed, mut last) = (Vec::new(), None);
    while let Some((place, name, fetch)) = sessions.with(at, |session| session.behind(last)).unwrap() {
        assert_eq!(name, topic());
        listed.push((place, fetch.partition, fetch.fetch_offset));
        last = Some(place);
    }
    listed
}

struct Run {
    sessions: FetchSessions,
    model: BTreeMap<i32, Model>,
    now: Instant,
    random: u64,
}

impl Run {
    fn keep(&mut self, partitions: &[(u8, i64)]) {
        let (mut session, mut model) =
            (Session::default(), Model { epoch: 1, used_at: self.now, members: vec![] });
        for &partition in partitions {
            session.fetch(topic(), fetch(partition));
            model.fetch(partition);
        }
        let mut random = self.random;
        let id = self.sessions.keep(session, false, self.now, || {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            random
        });
        self.random = random;
        let gone: Vec<i32> =
            self.model.keys().copied().filter(|id| !self.sessions.sessions.contains_key(id)).collect();
        for id in gone {
            let silent = self.now.since(self.model[&id].used_at);
            assert!(silent >= SILENT_MAX, "one that is in use stays");
            self.model.remove(&id);
        }
        if id == 0 {
            let members: usize = self.model.values().map(|model| model.members.len()).sum();
            let is_full = self.model.len() == LIMITS.sessions || members + model.members.len() > 12;
            assert!(model.members.is_empty() || is_full, "there was room");
        } else {
            assert!(self.model.insert(id, model).is_none());
        }
    }

    fn next(&mut self, id: i32, stale: bool, step: &Step) {
        let Step::Next { changed, forgotten, outcomes, .. } = step else { return };
        let model = self.model.get_mut(&id).unwrap();
        if stale {
            let begun = self.sessions.begin(id, model.epoch + 1, false, self.now);
            assert_eq!(begun, Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH));
            return;
        }
        let begun = self.sessions.begin(id, model.epoch, false, self.now);
        let Ok(Kind::Next(at)) = begun else { panic!("{begun:?}") };
        (model.epoch, model.used_at) = (model.epoch + 1, self.now);
        for &partition in changed {
            if self.sessions.with(at, |session| session.fetch(topic(), fetch(partition))).is_err() {
                assert!(self.sessions.bytes <= LIMITS.bytes);
                self.model.remove(&id);
                return;
            }
            model.fetch(partition);
        }
        if !self.sessions.sessions.contains_key(&id) {
            self.model.remove(&id);
            return;
        }
        for &partition in forgotten {
            self.sessions.with(at, |session| session.forget(topic(), i32::from(partition))).unwrap();
            model.members.retain(|member| member.0 != i32::from(partition));
        }
        let expected: Vec<_> = model.members.iter().map(|member| (member.0, member.1)).collect();
        let listed = listed(&mut self.sessions, at);
        assert!(listed.iter().map(|&(_, partition, offset)| (partition, offset)).eq(expected));
        if self.sessions.end_if_empty(at) {
            assert!(listed.is_empty());
            self.model.remove(&id);
            return;
        }
        let mut news = Vec::new();
        for (number, (place, partition, _)) in listed.into_iter().enumerate() {
            let outcome = outcome(outcomes[number % outcomes.len()]);
            if self.sessions.with(at, |session| session.tell(place, outcome)).unwrap() {
                news.push(partition);
            }
        }
        assert_eq!(news, model.tell(outcomes));
    }

    fn step(&mut self, step: &Step) {
        let id = |run: &Self, number: usize| run.model.keys().nth(number).copied();
        match step {
            Step::Keep(partitions) => self.keep(partitions),
            Step::Next { session, stale, .. } => {
                if let Some(id) = id(self, *session) {
                    self.next(id, *stale, step);
                }
            }
            Step::Close(session) => {
                if let Some(id) = id(self, *session) {
                    assert_eq!(self.sessions.begin(id, -1, false, self.now), Ok(Kind::Whole));
                    self.model.remove(&id);
                }
            }
            Step::Pass(seconds) => self.now = self.now.after(Duration::from_secs(*seconds)),
        }
        assert!(self.sessions.sessions.keys().eq(self.model.keys()));
        let bytes: u64 = self.sessions.sessions.values().map(|kept| kept.session.bytes).sum();
        assert_eq!(self.sessions.bytes, bytes);
        assert!(bytes <= LIMITS.bytes && self.sessions.len() <= LIMITS.sessions);
    }
}

proptest! {
    #![proptest_config(Config { cases: 400, failure_persistence: None, ..Config::default() })]

    #[test]
    fn sessions_are_as_their_requests_say_and_stay_within_their_limits(steps in steps()) {
        let mut run = Run {
            sessions: FetchSessions::new(LIMITS),
            model: BTreeMap::new(),
            now: Instant::ZERO,
            random: 1,
        };
        for step in &steps {
            run.step(step);
        }
    }
}

#[test]
fn the_epoch_behind_the_largest_is_1() {
    let mut sessions = FetchSessions::new(LIMITS);
    let mut session = Session::default();
    session.fetch(topic(), fetch((0, 0)));
    let id = sessions.keep(session, false, Instant::ZERO, || u64::MAX);
    sessions.sessions.get_mut(&id).unwrap().epoch = i32::MAX;
    assert!(sessions.begin(id, i32::MAX, false, Instant::ZERO).is_ok());
    assert!(sessions.begin(id, 1, false, Instant::ZERO).is_ok());
}

#[test]
fn ids_are_never_0_and_never_one_that_is_there() {
    let mut sessions = FetchSessions::new(LIMITS);
    let mut drawn = [0, 5, 0, 5, 6].map(|id: u64| id << 33).into_iter();
    let mut keep = || {
        let mut session = Session::default();
        session.fetch(topic(), fetch((0, 0)));
        sessions.keep(session, false, Instant::ZERO, || drawn.next().unwrap())
    };
    assert_eq!([keep(), keep()], [5, 6]);
}
