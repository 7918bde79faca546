use super::*;
use proptest::prelude::*;

fn offset(value: u32) -> Offset {
    Offset::new(i64::from(value)).unwrap()
}

fn progress(log_end: u32, flushed: u32) -> Progress {
    Progress { log_end: offset(log_end), flushed: offset(flushed) }
}

fn nodes(count: i32) -> Vec<NodeId> {
    (1..=count).map(NodeId).collect()
}

/// Node 1 leads `replicas` replicas, all in sync, with nothing in any log.
fn leader(replicas: i32, flush_mode: FlushMode, min_insync: usize) -> LeaderState {
    let rules = CommitRules { flush_mode, min_insync };
    let nodes = nodes(replicas);
    let who = (NodeId(1), LeaderEpoch(4));
    LeaderState::new(who, rules, &nodes, &nodes, Progress::default(), Offset::ZERO).unwrap()
}

fn watermark(leader: &LeaderState) -> i64 {
    leader.high_watermark().value()
}

#[test]
fn one_replica_commits_what_is_flushed_and_in_async_mode_what_is_appended() {
    for (mode, expected) in
        [(FlushMode::Quorum, 6), (FlushMode::Isr, 6), (FlushMode::Leader, 6), (FlushMode::Async, 10)]
    {
        let mut leader = leader(1, mode, 1);
        leader.advance(progress(10, 6));
        assert_eq!(watermark(&leader), expected, "{mode:?}");
    }
}

#[test]
fn a_quorum_has_flushed_and_everyone_in_sync_has_appended() {
    let mut leader = leader(3, FlushMode::Quorum, 1);
    leader.advance(progress(10, 9));
    leader.report(NodeId(2), progress(8, 5)).unwrap();
    assert_eq!(watermark(&leader), 0, "node 3 has nothing yet");
    leader.report(NodeId(3), progress(7, 0)).unwrap();
    assert_eq!(watermark(&leader), 5, "two of three have flushed up to 5");
    leader.report(NodeId(2), progress(10, 10)).unwrap();
    assert_eq!(watermark(&leader), 7, "node 3 has appended up to 7");
}

#[test]
fn min_insync_replicas_above_the_majority_asks_for_more_flushes() {
    let mut leader = leader(3, FlushMode::Quorum, 3);
    leader.advance(progress(10, 10));
    leader.report(NodeId(2), progress(10, 10)).unwrap();
    leader.report(NodeId(3), progress(10, 4)).unwrap();
    assert_eq!(watermark(&leader), 4);
}

#[test]
fn a_majority_that_is_not_in_sync_is_not_waited_for() {
    let mut leader = leader(3, FlushMode::Quorum, 1);
    leader.isr_committed(&[NodeId(1)]).unwrap();
    leader.advance(progress(10, 8));
    assert_eq!(watermark(&leader), 8, "at most all in sync");
}

#[test]
fn too_few_in_sync_commit_nothing_more() {
    let mut leader = leader(3, FlushMode::Async, 2);
    leader.isr_committed(&[NodeId(1)]).unwrap();
    assert!(!leader.has_min_insync());
    leader.advance(progress(10, 10));
    assert_eq!(watermark(&leader), 0);
    leader.report(NodeId(2), progress(10, 0)).unwrap();
    leader.isr_committed(&[NodeId(1), NodeId(2)]).unwrap();
    assert_eq!(watermark(&leader), 10);
}

#[test]
fn whoever_may_be_in_sync_by_the_controllers_books_counts() {
    let mut leader = leader(3, FlushMode::Async, 1);
    leader.isr_committed(&[NodeId(1), NodeId(2)]).unwrap();
    leader.report(NodeId(2), progress(10, 10)).unwrap();
    leader.propose_isr(&[NodeId(1), NodeId(3)]).unwrap();
    assert_eq!(leader.propose_isr(&[NodeId(1)]), Err(LeaderError::ChangePending));
    leader.advance(progress(10, 10));
    assert_eq!(watermark(&leader), 0, "node 3 may be in already");
    leader.report(NodeId(3), progress(6, 0)).unwrap();
    leader.report(NodeId(2), progress(4, 4)).unwrap();
    assert_eq!(watermark(&leader), 6, "and node 2 may not have left: that it fell back takes nothing away");
    leader.advance(progress(12, 12));
    leader.report(NodeId(3), progress(12, 0)).unwrap();
    assert_eq!(watermark(&leader), 6);
    leader.isr_committed(&[NodeId(1), NodeId(3)]).unwrap();
    assert_eq!(watermark(&leader), 12);
}

#[test]
fn what_is_committed_stays_committed_whatever_changes() {
    let mut leader = leader(2, FlushMode::Async, 1);
    leader.report(NodeId(2), progress(9, 0)).unwrap();
    leader.advance(progress(9, 0));
    assert_eq!(watermark(&leader), 9);
    leader.report(NodeId(2), progress(3, 0)).unwrap();
    leader.set_rules(CommitRules { flush_mode: FlushMode::Isr, min_insync: 2 }).unwrap();
    assert_eq!(watermark(&leader), 9);
}

#[test]
fn what_contradicts_itself_is_refused() {
    let mut state = leader(2, FlushMode::Quorum, 1);
    assert_eq!(state.report(NodeId(9), progress(1, 1)), Err(LeaderError::NotReplica(NodeId(9))));
    assert_eq!(state.report(NodeId(2), progress(1, 2)), Err(LeaderError::FlushedAhead(NodeId(2))));
    assert_eq!(state.propose_isr(&[NodeId(2)]), Err(LeaderError::LeaderNotInSync));
    assert_eq!(state.isr_committed(&[NodeId(1), NodeId(9)]), Err(LeaderError::NotReplica(NodeId(9))));
    let none = CommitRules { flush_mode: FlushMode::Quorum, min_insync: 0 };
    assert_eq!(state.set_rules(none), Err(LeaderError::MinInsync));
    assert_eq!((state.epoch(), state.isr().len()), (LeaderEpoch(4), 2));
}

#[test]
#[should_panic(expected = "never shrinks")]
fn a_leaders_log_never_shrinks() {
    let mut leader = leader(1, FlushMode::Quorum, 1);
    leader.advance(progress(5, 5));
    leader.advance(progress(4, 4));
}

/// The rule of the module's head, written as counting: an offset is committed where enough replicas are past it.
struct Model {
    rules: CommitRules,
    replicas: Vec<(u32, u32)>,
    isr: Vec<bool>,
    pending: Option<Vec<bool>>,
    high_watermark: u32,
}

impl Model {
    fn committed(&self, end: u32) -> bool {
        let in_sync = self.isr.iter().filter(|member| **member).count();
        let pending = |at: usize| self.pending.as_ref().is_some_and(|pending| pending[at]);
        let may_be_in = |at: &usize| self.isr[*at] || pending(*at);
        let mut all = (0..self.replicas.len()).filter(may_be_in);
        let flushed = |at: usize| self.replicas[at].1 >= end;
        let flushed_in_sync = (0..self.replicas.len()).filter(|at| self.isr[*at] && flushed(*at)).count();
        let enough = match self.rules.flush_mode {
            FlushMode::Quorum => {
                let most = self.replicas.len() / 2 + 1;
                let needed = if self.rules.min_insync > most { self.rules.min_insync } else { most };
                flushed_in_sync >= needed || flushed_in_sync == in_sync
            }
            FlushMode::Isr => all.clone().all(flushed),
            FlushMode::Leader => flushed(0),
            FlushMode::Async => true,
        };
        in_sync >= self.rules.min_insync && enough && all.all(|at| self.replicas[at].0 >= end)
    }

    fn settle(&mut self) {
        while self.high_watermark < self.replicas[0].0 && self.committed(self.high_watermark + 1) {
            self.high_watermark += 1;
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Report(usize, u32, u32),
    Propose(Vec<bool>),
    Commit(Vec<bool>),
    Rules(FlushMode, usize),
}

fn mode() -> impl Strategy<Value = FlushMode> {
    prop::sample::select(vec![FlushMode::Quorum, FlushMode::Isr, FlushMode::Leader, FlushMode::Async])
}

fn event() -> impl Strategy<Value = Event> {
    let isr = || prop::collection::vec(any::<bool>(), 5);
    prop_oneof![
        6 => (0..5_usize, 0..8_u32, 0..8_u32).prop_map(|(node, a, b)| Event::Report(node, a, b)),
        1 => isr().prop_map(Event::Propose),
        1 => isr().prop_map(Event::Commit),
        1 => (mode(), 1..5_usize).prop_map(|(mode, min)| Event::Rules(mode, min)),
    ]
}

fn members(isr: &[bool]) -> Vec<NodeId> {
    let at = |at: usize| NodeId(i32::try_from(at).unwrap() + 1);
    (0..isr.len()).filter(|member| isr[*member]).map(at).collect()
}

fn first_in(mut isr: Vec<bool>, count: usize) -> Vec<bool> {
    isr.truncate(count);
    isr[0] = true;
    isr
}

proptest! {
    #[test]
    fn the_high_watermark_is_the_one_that_counting_finds(
        count in 1..=5_usize,
        mode in mode(),
        min_insync in 1..4_usize,
        events in prop::collection::vec(event(), 0..60),
    ) {
        let mut leader = leader(i32::try_from(count).unwrap(), mode, min_insync);
        let rules = CommitRules { flush_mode: mode, min_insync };
        let (replicas, isr) = (vec![(0, 0); count], vec![true; count]);
        let mut model = Model { rules, replicas, isr, pending: None, high_watermark: 0 };
        for event in events {
            match event {
                Event::Report(node, a, b) if node % count == 0 => {
                    // The leader's own log only grows.
                    let (end, flushed) = model.replicas[0];
                    let end = end + a.max(b);
                    model.replicas[0] = (end, (flushed + a.min(b)).min(end));
                    leader.advance(progress(model.replicas[0].0, model.replicas[0].1));
                }
                Event::Report(node, a, b) => {
                    model.replicas[node % count] = (a.max(b) * 3, a.min(b) * 3);
                    let node_id = NodeId(i32::try_from(node % count).unwrap() + 1);
                    leader.report(node_id, progress(a.max(b) * 3, a.min(b) * 3)).unwrap();
                }
                Event::Propose(isr) => {
                    let isr = first_in(isr, count);
                    let proposed = leader.propose_isr(&members(&isr));
                    prop_assert_eq!(proposed.is_err(), model.pending.is_some());
                    model.pending = model.pending.or(Some(isr));
                }
                Event::Commit(isr) => {
                    model.isr = first_in(isr, count);
                    model.pending = None;
                    leader.isr_committed(&members(&model.isr)).unwrap();
                }
                Event::Rules(flush_mode, min_insync) => {
                    model.rules = CommitRules { flush_mode, min_insync };
                    leader.set_rules(model.rules).unwrap();
                }
            }
            model.settle();
            prop_assert_eq!(watermark(&leader), i64::from(model.high_watermark));
        }
    }
}
