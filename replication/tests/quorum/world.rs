//! The world: an event heap in virtual milliseconds, three machines, the network between them, and misfortune.

use std::collections::BTreeMap;

use engine_record::{NodeId, TopicId};
use replication::metadata::driver::{Effects, Token};
use replication::metadata::genesis;
use replication::metadata::membership::MembershipChange;
use replication::metadata::message::PeerMessage;
use replication::metadata::{
    ClusterId, Command, Config, CreateTopic, Driver, Image, Incarnation, Lane, PartitionAssignment,
    RegisterNode,
};

use super::checks::Checks;
use super::disk::Disk;
use super::random::Random;

const CLUSTER: ClusterId = ClusterId([5; 16]);
const TICK_MS: u64 = 10;
const FAULTS_MS: u64 = 6_000;
const CALM_MS: u64 = 8_000;
const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

/// Who votes, and from when on things go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// One voter.
    Alone,
    /// Three voters, grown from one in calm.
    Three,
    /// One voter that becomes three amid faults.
    Growing,
}

/// What happened in a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) acknowledged: usize,
    pub(crate) crashes: usize,
    pub(crate) forgotten_frames: usize,
    pub(crate) snapshots: usize,
    pub(crate) installed: usize,
    pub(crate) grown: usize,
    pub(crate) messages: usize,
}

impl Summary {
    pub(crate) fn add(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.crashes += other.crashes;
        self.forgotten_frames += other.forgotten_frames;
        self.snapshots += other.snapshots;
        self.installed += other.installed;
        self.grown += other.grown;
        self.messages += other.messages;
    }
}

enum Event {
    Tick,
    Client,
    Operator,
    Misfortune,
    Deliver { to: NodeId, bytes: Vec<u8> },
    Flushed { node: NodeId, life: u64, sequence: u64 },
    SnapshotWritten { node: NodeId, life: u64, index: u64 },
    Start { node: NodeId },
}

struct Machine {
    disk: Disk,
    life: u64,
    running: Option<Running>,
    flushing: bool,
}

struct Running {
    driver: Driver,
    image: Image,
    /// A snapshot from the leader, until it is durable.
    arriving: Option<(u64, Image)>,
}

pub(crate) struct World {
    setting: Setting,
    lying: bool,
    random: Random,
    now: u64,
    number: u64,
    events: BTreeMap<(u64, u64), Event>,
    machines: BTreeMap<NodeId, Machine>,
    faulty: bool,
    /// Nothing goes wrong any more, and nobody asks for anything.
    healed: bool,
    /// Links that carry nothing, from and to.
    cut: Vec<(NodeId, NodeId)>,
    proposed: u64,
    checks: Checks,
    summary: Summary,
}

impl World {
    pub(crate) fn new(setting: Setting, seed: u64) -> Self {
        let mut world = Self {
            setting,
            lying: false,
            random: Random::new(seed),
            now: 0,
            number: 0,
            events: BTreeMap::new(),
            machines: BTreeMap::new(),
            faulty: setting != Setting::Three,
            healed: false,
            cut: Vec::new(),
            proposed: 0,
            checks: Checks::default(),
            summary: Summary::default(),
        };
        for node in NODES {
            let first = node == NODES[0];
            let genesis = if first { genesis::alone(CLUSTER, node) } else { genesis::joining(CLUSTER) };
            let disk = Disk::format(&genesis);
            world.machines.insert(node, Machine { disk, life: 0, running: None, flushing: false });
        }
        world
    }

    /// Its shell says that frames are durable when they are merely written.
    pub(crate) fn lying(mut self) -> Self {
        self.lying = true;
        self
    }

    /// Calm growth where the setting asks for it, then faults, then calm again, in which all must come together.
    pub(crate) fn run(mut self) -> Summary {
        for node in self.nodes() {
            self.start(node);
        }
        for event in [Event::Tick, Event::Client, Event::Operator, Event::Misfortune] {
            self.after(1, event);
        }
        if self.setting == Setting::Three {
            self.run_until(CALM_MS, |world| world.voters() == NODES.len());
            assert_eq!(self.voters(), NODES.len(), "a calm quorum grows");
            self.faulty = true;
        }
        self.run_until(FAULTS_MS, |_| false);
        self.heal();
        self.run_until(CALM_MS, Self::has_come_together);
        assert!(self.has_come_together(), "healed, and still not of one mind");
        self.finish()
    }

    fn finish(mut self) -> Summary {
        for machine in self.machines.values().filter_map(|machine| machine.running.as_ref()) {
            if machine.image.applied() > 0 {
                self.checks.finish(&machine.image);
            }
        }
        self.summary.grown = usize::from(self.voters() == NODES.len());
        self.summary.acknowledged = self.checks.acknowledgements();
        self.summary
    }

    fn nodes(&self) -> Vec<NodeId> {
        let count = if self.setting == Setting::Alone { 1 } else { NODES.len() };
        NODES[..count].to_vec()
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.number += 1;
        self.events.insert((self.now + delay, self.number), event);
    }

    fn run_until(&mut self, duration: u64, done: impl Fn(&Self) -> bool) {
        let end = self.now + duration;
        while let Some(((at, _), event)) = self.events.pop_first() {
            self.now = at;
            self.handle(event);
            if at >= end || done(self) {
                return;
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Tick => self.tick(),
            Event::Client => self.client(),
            Event::Operator => self.operator(),
            Event::Misfortune => self.misfortune(),
            Event::Deliver { to, bytes } => self.deliver(to, &bytes),
            Event::Flushed { node, life, sequence } => self.flushed(node, life, sequence),
            Event::SnapshotWritten { node, life, index } => {
                self.with(node, life, |running| running.driver.snapshot_written(index));
            }
            Event::Start { node } => self.start(node),
        }
    }

    fn machine(&mut self, node: NodeId) -> &mut Machine {
        self.machines.get_mut(&node).unwrap()
    }

    /// Does something to a node, if that life of it still runs, and what its driver then asks for.
    fn with(&mut self, node: NodeId, life: u64, act: impl FnOnce(&mut Running)) {
        let machine = self.machine(node);
        if let Some(running) = machine.running.as_mut().filter(|_| machine.life == life) {
            act(running);
            self.work(node);
        }
    }

    fn with_any(&mut self, node: NodeId, act: impl FnOnce(&mut Running)) {
        let life = self.machine(node).life;
        self.with(node, life, act);
    }

    fn start(&mut self, node: NodeId) {
        if self.machine(node).running.is_some() {
            return;
        }
        let seed = self.random.next();
        let machine = self.machines.get_mut(&node).unwrap();
        machine.life += 1;
        machine.flushing = false;
        let (snapshot, log) = machine.disk.recover();
        let config = Config {
            snapshot_entries: 40,
            kept_entries: 10,
            snapshot_ticks: 30,
            ..Config::new(node, CLUSTER, seed)
        };
        self.checks.started(node, log.term());
        let driver = Driver::new(config, &snapshot, log).unwrap();
        let image = snapshot.image().clone();
        self.machine(node).running = Some(Running { driver, image, arriving: None });
        self.work(node);
    }

    fn tick(&mut self) {
        self.after(TICK_MS, Event::Tick);
        for node in self.nodes() {
            self.with_any(node, |running| running.driver.tick());
        }
    }

    fn deliver(&mut self, to: NodeId, bytes: &[u8]) {
        let message = PeerMessage::decode(bytes).unwrap();
        // A node that isn't a member any more, or not yet, is no error of the world.
        self.with_any(to, |running| drop(running.driver.step(message)));
    }

    fn flushed(&mut self, node: NodeId, life: u64, sequence: u64) {
        let machine = self.machine(node);
        if machine.life == life && machine.running.is_some() {
            machine.disk.flush(sequence);
            machine.flushing = false;
        }
        self.with(node, life, |running| {
            running.driver.persisted(sequence);
            if let Some((_, image)) = running.arriving.take_if(|(arriving, _)| *arriving <= sequence) {
                running.image = image;
            }
        });
    }

    /// Carries out what a driver asks for until it asks for nothing.
    fn work(&mut self, node: NodeId) {
        loop {
            let running = self.machine(node).running.as_mut().unwrap();
            let effects = running.driver.drain();
            if effects.is_empty() {
                break;
            }
            self.carry_out(node, effects);
        }
        let delay = self.random.within(1..25);
        let machine = self.machine(node);
        if let Some(sequence) = machine.disk.last_pending().filter(|_| !machine.flushing) {
            machine.flushing = true;
            let life = machine.life;
            self.after(delay, Event::Flushed { node, life, sequence });
        }
    }

    fn carry_out(&mut self, node: NodeId, effects: Effects) {
        let lying = self.lying;
        let machine = self.machines.get_mut(&node).unwrap();
        let running = machine.running.as_mut().unwrap();
        if let Some(install) = effects.install {
            self.summary.installed += 1;
            machine.disk.keep(&install.snapshot);
            let first = effects.wal.last().unwrap();
            assert!(first.starts_file);
            running.arriving = Some((first.sequence, install.snapshot.image().clone()));
        }
        let last = effects.wal.last().map(|frame| frame.sequence);
        machine.disk.write(effects.wal);
        if let Some(sequence) = last.filter(|_| lying) {
            running.driver.persisted(sequence);
            if let Some((_, image)) = running.arriving.take() {
                running.image = image;
            }
        }
        for committed in &effects.committed {
            self.checks.applied(committed);
            let Some(command) = &committed.command else { continue };
            let reply = running.image.apply(committed.index, command);
            if let Some(Token(token)) = committed.token {
                self.checks.acknowledged(token, &reply);
            }
        }
        if running.driver.leads() {
            self.checks.leads(node, running.driver.term());
        }
        if effects.snapshot_wanted {
            self.begin_snapshot(node);
        }
        self.send(node, effects.messages);
    }

    fn begin_snapshot(&mut self, node: NodeId) {
        self.summary.snapshots += 1;
        let delay = self.random.within(1..60);
        let machine = self.machines.get_mut(&node).unwrap();
        let running = machine.running.as_mut().unwrap();
        let snapshot = running.driver.snapshot(&running.image);
        machine.disk.keep(&snapshot);
        let (life, index) = (machine.life, snapshot.position().index);
        self.after(delay, Event::SnapshotWritten { node, life, index });
    }

    fn send(&mut self, from: NodeId, messages: Vec<PeerMessage>) {
        for message in messages {
            self.summary.messages += 1;
            let to = message.to();
            self.checks.spoke(from, message.term().unwrap_or_default());
            let lost = self.faulty && self.random.percent(8);
            let times = if self.faulty && self.random.percent(4) { 2 } else { 1 };
            if lost || self.cut.contains(&(from, to)) {
                continue;
            }
            for _ in 0..times {
                let delay = if self.faulty { self.random.within(1..60) } else { self.random.within(1..5) };
                self.after(delay, Event::Deliver { to, bytes: message.encode() });
            }
        }
    }

    fn client(&mut self) {
        let delay = self.random.within(5..60);
        self.after(delay, Event::Client);
        if self.healed {
            return;
        }
        self.proposed += 1;
        let nodes = self.nodes();
        let node = nodes[self.random.place(nodes.len())];
        let (command, token) = (self.command(), Token(self.proposed));
        // Whoever doesn't lead refuses; so does a leader with too much under way.
        self.with_any(node, |running| {
            let _ = running.driver.propose(&command, token);
        });
    }

    fn command(&mut self) -> Command {
        let number = self.proposed;
        match self.random.within(0..10) {
            0 => Command::CreateTopic(CreateTopic {
                name: format!("topic-{number}"),
                id: TopicId(u128::from(number).to_be_bytes()),
                partitions: vec![PartitionAssignment { replicas: vec![NODES[0]], lane: Lane::default() }],
                configs: Vec::new(),
            }),
            1..8 if self.proposed > 3 => {
                let (node, incarnation) = (NODES[0], Incarnation(1));
                Command::AllocateProducerIds { node, incarnation, count: 1_000 }
            }
            _ => Command::RegisterNode(RegisterNode {
                node: NODES[0],
                directory_id: 1,
                incarnation: Incarnation(1),
                shards: 4,
                endpoints: Vec::new(),
                clean_start: true,
            }),
        }
    }

    /// Makes learners of the nodes that are none, and voters of the learners that have caught up.
    fn operator(&mut self) {
        self.after(100, Event::Operator);
        let nodes = self.nodes();
        for &node in &nodes {
            self.with_any(node, |running| {
                let driver = &mut running.driver;
                let membership = driver.membership();
                let applied = driver.applied().index;
                let caught_up =
                    |node: NodeId| driver.matched(node).is_some_and(|matched| matched + 20 > applied);
                let changes: Vec<_> = nodes[1..]
                    .iter()
                    .filter(|node| !membership.voters.contains(node))
                    .filter_map(|&node| match membership.learners.contains(&node) {
                        true if caught_up(node) => Some(MembershipChange::Voter(node)),
                        true => None,
                        false => Some(MembershipChange::Learner(node)),
                    })
                    .collect();
                // Refused where another node leads, or a change is under way, or there is nothing to change.
                let _ = driver.propose_membership(&changes, Token(u64::MAX));
            });
        }
    }

    fn misfortune(&mut self) {
        let delay = self.random.within(20..300);
        self.after(delay, Event::Misfortune);
        if !self.faulty {
            return;
        }
        let nodes = self.nodes();
        let node = nodes[self.random.place(nodes.len())];
        match self.random.within(0..4) {
            0 | 1 => self.crash(node),
            2 => {
                let other = nodes[self.random.place(nodes.len())];
                self.cut.push((node, other));
                if self.random.percent(70) {
                    self.cut.push((other, node));
                }
            }
            _ => self.cut.clear(),
        }
    }

    fn crash(&mut self, node: NodeId) {
        let downtime = self.random.within(10..800);
        let machine = self.machines.get_mut(&node).unwrap();
        if machine.running.take().is_none() {
            return;
        }
        self.summary.crashes += 1;
        self.summary.forgotten_frames += machine.disk.crash(&mut self.random);
        self.after(downtime, Event::Start { node });
    }

    fn heal(&mut self) {
        self.faulty = false;
        self.healed = true;
        self.cut.clear();
        for node in self.nodes() {
            self.start(node);
        }
    }

    fn voters(&self) -> usize {
        let first = self.machines.get(&NODES[0]).and_then(|machine| machine.running.as_ref());
        let membership = first.map(|running| running.driver.membership()).unwrap_or_default();
        if membership.is_joint() { 0 } else { membership.voters.len() }
    }

    /// One node leads, and every member has applied what it has.
    fn has_come_together(&self) -> bool {
        let nodes = self.nodes();
        let running: Option<Vec<_>> = nodes.iter().map(|node| self.machines[node].running.as_ref()).collect();
        let Some(running) = running else { return false };
        let leaders: Vec<_> = running.iter().filter(|one| one.driver.leads()).collect();
        let [leader] = leaders[..] else { return false };
        let grown = self.voters() == nodes.len();
        let applied = leader.driver.applied();
        let equal = |one: &&Running| one.driver.applied() == applied && one.image == leader.image;
        grown && applied.term == leader.driver.term() && running.iter().all(equal)
    }
}
