use super::*;
use crate::metadata::commands::Incarnation;
use crate::metadata::genesis::{self, Genesis};
use crate::metadata::image::ClusterId;
use crate::metadata::reply::Reply;
use crate::metadata::wal::WalFrame;
use crate::metadata::{Command, RegisterNode};
use engine_record::TopicId;

const CLUSTER: ClusterId = ClusterId([7; 16]);

/// A node with a disk that forgets whatever isn't flushed.
struct Node {
    driver: Driver,
    image: Image,
    snapshot: Snapshot,
    durable: Vec<u8>,
    written: Vec<WalFrame>,
    sent: Vec<PeerMessage>,
    leadership: Leadership,
    /// Snapshots that are due aren't made.
    idle: bool,
}

impl Node {
    fn start(node: i32, genesis: &Genesis) -> Self {
        Self::restart(config(node), genesis.snapshot.clone(), genesis.frame.bytes.clone())
    }

    fn restart(config: Config, snapshot: Snapshot, durable: Vec<u8>) -> Self {
        let driver = Driver::new(config, &snapshot, wal::recover(&durable).unwrap()).unwrap();
        let (image, leadership) = (snapshot.image().clone(), Leadership::default());
        Self {
            driver,
            image,
            snapshot,
            durable,
            written: Vec::new(),
            sent: Vec::new(),
            leadership,
            idle: false,
        }
    }

    /// The process stops, and comes back with what had been flushed.
    fn crash(self) -> Self {
        Self::restart(self.driver.config, self.snapshot, self.durable)
    }

    /// Carries out what the driver asks for, except flushing. Answers what was committed.
    fn work(&mut self) -> Vec<Committed> {
        let effects = self.driver.drain();
        if let Some(install) = effects.install {
            self.snapshot = install.snapshot;
            self.image = self.snapshot.image().clone();
        }
        self.written.extend(effects.wal);
        self.sent.extend(effects.messages);
        self.leadership = effects.leadership.unwrap_or(self.leadership);
        for committed in &effects.committed {
            if let Some(command) = &committed.command {
                self.image.apply(committed.index, command);
            }
        }
        if effects.snapshot_wanted && !self.idle {
            self.snapshot = self.driver.snapshot(&self.image);
            self.driver.snapshot_written(self.snapshot.position().index);
            return [effects.committed, self.work()].concat();
        }
        effects.committed
    }

    fn flush(&mut self) {
        for frame in std::mem::take(&mut self.written) {
            if frame.starts_file {
                self.durable.clear();
            }
            self.durable.extend(frame.bytes);
            self.driver.persisted(frame.sequence);
        }
    }

    /// Works and flushes until there is nothing to do.
    fn quiesce(&mut self) -> Vec<Committed> {
        let mut committed = Vec::new();
        loop {
            committed.extend(self.work());
            if self.written.is_empty() {
                return committed;
            }
            self.flush();
        }
    }

    fn deliver(&mut self, messages: Vec<PeerMessage>) {
        for message in messages {
            let read = PeerMessage::decode(&message.encode()).unwrap();
            // An answer may come from a node that has just been removed.
            let stepped = self.driver.step(read);
            assert!(matches!(stepped, Ok(()) | Err(StepError::Stranger(_))), "{stepped:?}");
        }
    }
}

fn config(node: i32) -> Config {
    Config::new(NodeId(node), CLUSTER, 42)
}

fn command(id: u8) -> Command {
    Command::DeleteTopic { id: TopicId([id; 16]) }
}

fn leader_alone() -> Node {
    let mut node = Node::start(1, &genesis::alone(CLUSTER, NodeId(1)));
    node.quiesce();
    assert!(node.leadership.active);
    node
}

#[test]
fn a_node_alone_leads_as_soon_as_its_first_frame_is_durable() {
    let mut node = Node::start(1, &genesis::alone(CLUSTER, NodeId(1)));
    assert!(node.work().is_empty());
    assert_eq!(node.leadership, Leadership { term: 2, leader: Some(NodeId(1)), active: false });
    node.flush();
    node.work();
    assert_eq!(node.leadership, Leadership { term: 2, leader: Some(NodeId(1)), active: true });
}

#[test]
fn a_command_is_committed_only_when_it_is_durable() {
    let mut node = leader_alone();
    node.driver.propose(&command(9), Token(77)).unwrap();
    assert!(node.work().is_empty());
    assert_eq!(node.written.len(), 1);
    node.flush();
    let expected = Committed { index: 3, command: Some(command(9)), token: Some(Token(77)) };
    assert_eq!(node.work(), [expected]);
}

#[test]
fn a_restart_keeps_what_was_durable_and_forgets_the_rest() {
    let mut node = leader_alone();
    let registration = RegisterNode {
        node: NodeId(1),
        directory_id: 5,
        incarnation: Incarnation(6),
        shards: 1,
        endpoints: Vec::new(),
        clean_start: true,
    };
    node.driver.propose(&Command::RegisterNode(registration.clone()), Token(1)).unwrap();
    node.quiesce();
    node.driver.propose(&command(9), Token(2)).unwrap();
    node.work();
    let mut node = node.crash();
    node.quiesce();
    assert_eq!(node.driver.term(), 3);
    assert_eq!(node.image.node(NodeId(1)).unwrap().epoch, 3);
    assert_eq!(node.driver.applied().index, 4, "the leader's own first entry took the lost command's place");
    let again = node.image.apply(5, &Command::RegisterNode(registration));
    assert_eq!(again, Reply::NodeRegistered { epoch: 3 });
}

#[test]
fn a_node_that_leads_by_its_own_vote_says_nothing_before_its_term_is_durable() {
    let mut one = leader_alone();
    one.driver.propose_membership(&[MembershipChange::Learner(NodeId(2))], Token(1)).unwrap();
    one.quiesce();
    assert!(one.driver.membership().learners.contains(&NodeId(2)));
    let mut one = one.crash();
    let term = one.driver.term();
    one.work();
    for _ in 0..50 {
        one.driver.tick();
        one.work();
    }
    assert!(one.driver.leads());
    assert_eq!(one.sent, [], "term {term} isn't durable yet");
    one.flush();
    one.work();
    assert!(one.sent.iter().any(|message| message.to() == NodeId(2) && message.0.term == term));
}

#[test]
fn a_vote_is_given_only_when_it_is_durable() {
    let mut voter = Node::start(2, &genesis::joining(CLUSTER));
    let mut request = raft::eraftpb::Message::default();
    request.set_msg_type(MessageType::MsgRequestVote);
    (request.from, request.to, request.term) = (raft_id(NodeId(1)), raft_id(NodeId(2)), 3);
    (request.index, request.log_term) = (5, 2);
    voter.driver.step(PeerMessage(request)).unwrap();
    voter.work();
    assert_eq!(voter.sent, []);
    voter.flush();
    voter.work();
    assert_eq!(voter.sent.len(), 1);
    assert_eq!(voter.sent[0].0.get_msg_type(), MessageType::MsgRequestVoteResponse);
}

/// Lets two nodes talk until neither has anything to say.
fn converse(one: &mut Node, two: &mut Node) {
    for _ in 0..200 {
        one.driver.tick();
        two.driver.tick();
        one.quiesce();
        two.quiesce();
        two.deliver(std::mem::take(&mut one.sent));
        one.deliver(std::mem::take(&mut two.sent));
    }
}

#[test]
fn a_joining_node_learns_all_from_a_snapshot_and_becomes_a_voter_by_a_joint_change() {
    let mut one = leader_alone();
    for id in 1..20 {
        one.driver.propose(&command(id), Token(u64::from(id))).unwrap();
    }
    one.quiesce();
    one.driver.propose_membership(&[MembershipChange::Learner(NodeId(2))], Token(50)).unwrap();
    let mut two = Node::start(2, &genesis::joining(CLUSTER));
    converse(&mut one, &mut two);
    assert_eq!(two.driver.applied(), one.driver.applied());
    assert!(two.snapshot.position().index > 1, "a snapshot was installed");
    assert_eq!(one.driver.matched(NodeId(2)), Some(one.driver.applied().index));
    one.driver.propose_membership(&[MembershipChange::Voter(NodeId(2))], Token(51)).unwrap();
    converse(&mut one, &mut two);
    for node in [&one, &two] {
        let membership = node.driver.membership();
        assert_eq!(membership, Membership { voters: vec![NodeId(1), NodeId(2)], ..Membership::default() });
    }
    assert_eq!(one.image, two.image);
    let mut two = two.crash();
    two.quiesce();
    assert_eq!(two.driver.membership().voters, [NodeId(1), NodeId(2)], "the membership survives a restart");
    assert!(!two.driver.leads(), "one voter of two doesn't elect itself");
}

#[test]
fn a_snapshot_that_is_lost_on_the_way_is_sent_again() {
    let mut one = leader_alone();
    one.driver.propose_membership(&[MembershipChange::Learner(NodeId(2))], Token(1)).unwrap();
    let mut two = Node::start(2, &genesis::joining(CLUSTER));
    let mut lost = 0;
    for _ in 0..400 {
        one.driver.tick();
        one.quiesce();
        let sent = std::mem::take(&mut one.sent);
        let (snapshots, others): (Vec<_>, Vec<_>) = sent.into_iter().partition(PeerMessage::is_snapshot);
        if lost == 0 {
            lost = snapshots.len();
        } else {
            two.deliver(snapshots);
        }
        two.deliver(others);
        two.quiesce();
        one.deliver(std::mem::take(&mut two.sent));
    }
    assert_eq!(lost, 1);
    assert_eq!(two.driver.applied(), one.driver.applied());
}

#[test]
fn a_joining_node_is_sent_no_snapshot_that_does_not_name_it() {
    let mut one = leader_alone();
    one.driver.propose_membership(&[MembershipChange::Learner(NodeId(2))], Token(1)).unwrap();
    one.idle = true;
    let mut two = Node::start(2, &genesis::joining(CLUSTER));
    for _ in 0..50 {
        one.driver.tick();
        one.quiesce();
        assert!(!one.sent.iter().any(PeerMessage::is_snapshot));
        two.deliver(std::mem::take(&mut one.sent));
        two.quiesce();
        one.deliver(std::mem::take(&mut two.sent));
    }
    one.idle = false;
    converse(&mut one, &mut two);
    assert_eq!(two.driver.applied(), one.driver.applied());
}

#[test]
fn leadership_is_handed_over_and_proposals_under_way_are_not_forgotten() {
    let mut one = leader_alone();
    let mut two = Node::start(2, &genesis::joining(CLUSTER));
    one.driver.propose_membership(&[MembershipChange::Voter(NodeId(2))], Token(1)).unwrap();
    converse(&mut one, &mut two);
    one.driver.propose(&command(1), Token(2)).unwrap();
    one.driver.transfer_leadership(NodeId(2)).unwrap();
    assert_eq!(one.driver.propose(&command(2), Token(3)), Err(ProposeError::Busy));
    converse(&mut one, &mut two);
    assert!(two.leadership.active && !one.driver.leads());
    assert_eq!(
        one.driver.propose(&command(2), Token(3)),
        Err(ProposeError::NotLeader { leader: Some(NodeId(2)) })
    );
    assert_eq!(one.image.applied(), two.image.applied());
}

#[test]
fn a_node_is_removed_after_it_has_handed_over() {
    let mut one = leader_alone();
    let mut two = Node::start(2, &genesis::joining(CLUSTER));
    one.driver.propose_membership(&[MembershipChange::Voter(NodeId(2))], Token(1)).unwrap();
    converse(&mut one, &mut two);
    one.driver.transfer_leadership(NodeId(2)).unwrap();
    converse(&mut one, &mut two);
    two.driver.propose_membership(&[MembershipChange::Remove(NodeId(1))], Token(2)).unwrap();
    converse(&mut one, &mut two);
    assert_eq!(two.driver.membership(), Membership::alone(NodeId(2)));
    two.driver.propose(&command(1), Token(3)).unwrap();
    assert_eq!(two.quiesce().len(), 1, "it commits alone now");
    assert!(!one.driver.leads());
}

#[test]
fn a_node_that_came_to_lead_while_its_removal_was_under_way_stops_leading() {
    let mut one = leader_alone();
    let mut two = Node::start(2, &genesis::joining(CLUSTER));
    one.driver.propose_membership(&[MembershipChange::Voter(NodeId(2))], Token(1)).unwrap();
    converse(&mut one, &mut two);
    // The removal reaches node 2 and its answer is lost, until node 1 gives up leading.
    one.driver.propose_membership(&[MembershipChange::Remove(NodeId(2))], Token(2)).unwrap();
    one.quiesce();
    two.deliver(std::mem::take(&mut one.sent));
    two.quiesce();
    two.sent.clear();
    while one.driver.leads() {
        one.driver.tick();
        one.quiesce();
    }
    one.sent.clear();
    let mut led = false;
    for _ in 0..100 {
        two.driver.tick();
        two.quiesce();
        one.quiesce();
        one.deliver(std::mem::take(&mut two.sent));
        one.quiesce();
        two.deliver(std::mem::take(&mut one.sent));
        two.quiesce();
        led |= two.driver.leads();
    }
    assert!(led && !two.driver.leads());
    assert_eq!(two.driver.membership(), Membership::alone(NodeId(1)));
    converse(&mut one, &mut two);
    assert!(one.leadership.active);
    assert_eq!(one.driver.membership(), Membership::alone(NodeId(1)));
}

#[test]
fn a_leader_that_is_deposed_gives_up_its_proposals() {
    let mut one = leader_alone();
    let mut two = Node::start(2, &genesis::joining(CLUSTER));
    one.driver.propose_membership(&[MembershipChange::Voter(NodeId(2))], Token(1)).unwrap();
    converse(&mut one, &mut two);
    one.driver.propose(&command(1), Token(2)).unwrap();
    let mut abandoned = Vec::new();
    for _ in 0..50 {
        one.driver.tick();
        let effects = one.driver.drain();
        abandoned.extend(effects.abandoned);
        one.written.extend(effects.wal);
        one.flush();
    }
    assert_eq!(abandoned, [Token(2)], "nobody answers, so it steps down");
}

#[test]
fn a_snapshot_begins_a_new_file_that_restates_everything() {
    let config = Config { snapshot_entries: 10, kept_entries: 3, ..config(1) };
    let genesis = genesis::alone(CLUSTER, NodeId(1));
    let mut node = Node::restart(config, genesis.snapshot, genesis.frame.bytes);
    for id in 1..30 {
        node.quiesce();
        node.driver.propose(&command(id), Token(u64::from(id))).unwrap();
    }
    node.quiesce();
    assert!(node.snapshot.position().index > 20);
    let (applied, image, term) = (node.driver.applied(), node.image.clone(), node.driver.term());
    let log = wal::recover(&node.durable).unwrap();
    assert_eq!(log.snapshot(), node.snapshot.position());
    let mut node = node.crash();
    node.quiesce();
    assert_eq!(node.image, image);
    assert_eq!((node.driver.applied().index, node.driver.term()), (applied.index + 1, term + 1));
}

#[test]
fn a_snapshot_of_another_place_or_cluster_is_refused_at_the_start() {
    let genesis = genesis::alone(CLUSTER, NodeId(1));
    let log = || wal::recover(&genesis.frame.bytes).unwrap();
    let other = genesis::joining(CLUSTER).snapshot;
    assert!(matches!(Driver::new(config(1), &other, log()), Err(StartError::OtherSnapshot { .. })));
    let elsewhere = Config::new(NodeId(1), ClusterId([8; 16]), 1);
    assert!(matches!(
        Driver::new(elsewhere, &genesis.snapshot, log()),
        Err(StartError::OtherCluster(CLUSTER))
    ));
    let absurd = Config { election_ticks: 1, heartbeat_ticks: 5, ..config(1) };
    assert!(matches!(Driver::new(absurd, &genesis.snapshot, log()), Err(StartError::Raft(_))));
}

#[test]
fn messages_for_others_from_strangers_and_from_other_clusters_are_refused() {
    let mut node = leader_alone();
    let mut answer = raft::eraftpb::Message::default();
    answer.set_msg_type(MessageType::MsgAppendResponse);
    (answer.from, answer.to, answer.term) = (raft_id(NodeId(5)), raft_id(NodeId(1)), 2);
    let stranger = node.driver.step(PeerMessage(answer.clone()));
    assert!(matches!(stranger, Err(StepError::Stranger(NodeId(5)))));
    answer.to = raft_id(NodeId(3));
    assert!(matches!(node.driver.step(PeerMessage(answer)), Err(StepError::NotForUs(NodeId(3)))));
    let foreign = genesis::alone(ClusterId([8; 16]), NodeId(1)).snapshot.to_raft();
    let mut message = raft::eraftpb::Message::default();
    message.set_msg_type(MessageType::MsgSnapshot);
    (message.from, message.to, message.term) = (raft_id(NodeId(5)), raft_id(NodeId(1)), 9);
    message.set_snapshot(foreign);
    let refused = node.driver.step(PeerMessage(message.clone()));
    assert!(matches!(refused, Err(StepError::OtherCluster(ClusterId(_)))));
    message.mut_snapshot().set_data(vec![1, 2].into());
    assert!(matches!(node.driver.step(PeerMessage(message)), Err(StepError::Snapshot(_))));
    assert_eq!(node.driver.term(), 2, "none of these changed anything");
}

#[test]
fn what_cannot_be_proposed_is_refused() {
    let mut node = leader_alone();
    let huge = Command::CreateTopic(crate::metadata::CreateTopic {
        name: "x".repeat(COMMAND_BYTES_MAX),
        id: TopicId([1; 16]),
        partitions: Vec::new(),
        configs: Vec::new(),
    });
    assert!(matches!(node.driver.propose(&huge, Token(1)), Err(ProposeError::TooLarge { .. })));
    let empty = node.driver.propose_membership(&[], Token(1));
    assert_eq!(empty, Err(ProposeError::Busy));
    for change in [MembershipChange::Remove(NodeId(1)), MembershipChange::Learner(NodeId(1))] {
        let voteless = node.driver.propose_membership(&[change], Token(1));
        assert_eq!(voteless, Err(ProposeError::TakesLeadersVote));
    }
}

#[test]
#[should_panic(expected = "has not been handed out")]
fn a_frame_that_was_never_made_cannot_be_durable() {
    leader_alone().driver.persisted(1_000);
}
