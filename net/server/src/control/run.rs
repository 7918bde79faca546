//! The control executor's loop: what shards ask for becomes proposals, what is committed becomes deltas and answers.
//!
//! Everything that has come while the last turn was being made durable goes into the next one together: one write, one
//! flush.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::sync::Arc;

use engine_io::{Io, ReplySlot, Tasks, first};
use engine_record::ShardId;
use replication::metadata::commands::{
    Command, Incarnation, ListenerEndpoint, PRODUCER_ID_BLOCK, RegisterNode,
};
use replication::metadata::driver::{self, Committed, Driver, Effects, Leadership, ProposeError};
use replication::metadata::image::Image;
use replication::metadata::reply::Reply;
use replication::metadata::snapshot::Snapshot;

use super::answers::{Answers, Asker, fresh_topic_id, refuse};
use super::channel::{ControlError, ControlRequest, Delta, MorePartitions, NewTopic};
use super::create;
use super::files::{FilesError, Leave, MetadataFiles};
use super::grow;
use crate::config::{Config, ListenerConfig, Routing};
use crate::disk_space::DiskSpaces;
use crate::endpoint;
use crate::format::Identity;
use crate::node::{ControlSeat, Ended, ListenerTold, NodeError, ShardEnd};

/// The quorum's tick.
const TICK: Duration = Duration::from_millis(50);
/// The tick of a node that votes alone: nobody waits for its heartbeats.
const TICK_ALONE: Duration = Duration::from_secs(1);

impl From<FilesError> for NodeError {
    fn from(error: FilesError) -> Self {
        Self::Metadata(error.to_string())
    }
}

/// Runs the node's control plane on this executor until it is stopped or its files fail.
///
/// # Errors
/// Why it didn't start, or has failed. The node is told too.
pub async fn run_control<I: Io>(io: I, seat: ControlSeat) -> Result<(), NodeError> {
    let ended = seat.ended.clone();
    // It is large, and made once.
    let result = Box::pin(run(io, seat)).await;
    // There is room for every part's end; nobody listening is fine.
    let _nobody_listens = ended.try_send(Ended { shard: None, result: result.clone() });
    result
}

async fn run<I: Io>(io: I, mut seat: ControlSeat) -> Result<(), NodeError> {
    let watching = Tasks::new();
    for mut watch in seat.disk_spaces.watches(&io, seat.config.watermarks) {
        watch.look().await;
        watching.spawn(&io, watch.run());
    }
    let started = start(&io, &mut seat).await;
    let mut control = match started {
        Ok(control) => control,
        Err(error) => {
            seat.registered.answer(Err(error.clone()));
            return Err(error);
        }
    };
    seat.registered.answer(Ok(told_here(&control.image, &seat.config)));
    loop {
        let tick = io.sleep(control.tick());
        let shards = first(seat.requests.receive(), seat.applied.receive());
        match first(first(shards, seat.stop.receive()), tick).await {
            Ok(Ok(Ok(Ok(request)))) => {
                control.files.make_space().await?;
                control.take(request);
                while let Some(request) = seat.requests.try_receive() {
                    control.take(request);
                }
            }
            Ok(Ok(Err(Ok(())))) => {}
            // Every shard is gone, or the node is told to stop.
            Ok(Ok(Ok(Err(_)) | Err(Err(_))) | Err(_)) => return Ok(()),
            Err(()) => {
                control.driver.tick();
                control.write_snapshot().await?;
            }
        }
        control.turn().await?;
        control.planned = None;
        control.answer_applied();
    }
}

/// What a client on this machine is told by each listener.
fn told_here(image: &Image, config: &Config) -> Vec<ListenerTold> {
    let told = |listener: &ListenerConfig| {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let reached = if listener.address.is_unspecified() { loopback } else { listener.address };
        let endpoints = endpoint::told(image, listener, config.node, reached);
        ListenerTold { name: listener.name.clone(), endpoints }
    };
    config.listeners.iter().map(told).collect()
}

/// Recovers the metadata, waits for the shards to listen, and registers the node.
async fn start<I: Io>(io: &I, seat: &mut ControlSeat) -> Result<Control<I>, NodeError> {
    let mut control = Control::open(io.clone(), &seat.config, &seat.identity).await?;
    control.disk_spaces = seat.disk_spaces.clone();
    control.turn().await?;
    if !control.leadership.active {
        return Err(NodeError::Metadata("this node is not the only voter of its metadata quorum".to_owned()));
    }
    let mut endpoints = Vec::with_capacity(seat.shards.len());
    let mut clean_start = true;
    for shard in &mut seat.shards {
        let listening = shard.listening.take().expect("a shard begins to listen once").wait().await??;
        clean_start &= listening.is_clean;
        // Where all shards have one address, it is the first one's.
        if seat.config.routing == Routing::Node && shard.shard != ShardId(0) {
            continue;
        }
        let bound = seat.config.listeners.iter().zip(&listening.addresses);
        endpoints.extend(bound.map(|(listener, bound)| endpoint::register(listener, shard.shard, *bound)));
    }
    control.register(&seat.config, &seat.identity, endpoints, clean_start).await?;
    control.shards = core::mem::take(&mut seat.shards);
    let image = Arc::new(control.image.clone());
    for shard in &mut control.shards {
        shard.image.take().expect("a shard begins once").answer(Arc::clone(&image));
    }
    Ok(control)
}

/// The control plane at work.
struct Control<I: Io> {
    io: I,
    node: engine_record::NodeId,
    incarnation: Incarnation,
    disk_spaces: DiskSpaces,
    driver: Driver,
    files: MetadataFiles<I>,
    image: Image,
    /// The image with the topics and partitions that were proposed since, so that those proposed together are placed level and don't
    /// collide. Only what was proposed and isn't committed in the same turn is forgotten, and then places are less level.
    planned: Option<Image>,
    leadership: Leadership,
    shards: Vec<ShardEnd>,
    answers: Answers,
    /// A snapshot that there was no space for.
    unwritten: Option<Snapshot>,
    /// The reply to the registration, once it is applied.
    registration: Option<(driver::Token, Option<Reply>)>,
}

impl<I: Io> Control<I> {
    async fn open(io: I, config: &Config, identity: &Identity) -> Result<Self, NodeError> {
        let (files, snapshot, recovered) = MetadataFiles::open(&io, &config.data_folder).await?;
        let image = snapshot.image().clone();
        let settings = driver::Config::new(config.node, identity.cluster, io.random());
        let driver = Driver::new(settings, &snapshot, recovered)
            .map_err(|error| NodeError::Metadata(error.to_string()))?;
        let incarnation = Incarnation((u128::from(io.random()) << 64) | u128::from(io.random()));
        Ok(Self {
            io,
            node: config.node,
            incarnation,
            disk_spaces: DiskSpaces::default(),
            driver,
            files,
            image,
            planned: None,
            leadership: Leadership::default(),
            shards: Vec::new(),
            answers: Answers::default(),
            unwritten: None,
            registration: None,
        })
    }

    fn tick(&self) -> Duration {
        if self.driver.membership().is_sole_voter(self.node) { TICK_ALONE } else { TICK }
    }

    /// Registers this process. An unclean start raises the leader epoch of every partition the node leads.
    async fn register(
        &mut self,
        config: &Config,
        identity: &Identity,
        endpoints: Vec<ListenerEndpoint>,
        clean_start: bool,
    ) -> Result<(), NodeError> {
        let command = Command::RegisterNode(RegisterNode {
            node: config.node,
            directory_id: identity.directory_id,
            incarnation: self.incarnation,
            shards: config.shards,
            endpoints,
            clean_start,
        });
        let token = self.answers.token();
        self.registration = Some((token, None));
        let proposed = self.driver.propose(&command, token);
        proposed.map_err(|error| NodeError::Registration(error.to_string()))?;
        self.turn().await?;
        match self.registration.take() {
            Some((_, Some(Reply::NodeRegistered { .. }))) => Ok(()),
            Some((_, Some(Reply::InvalidRegistration(error)))) => {
                Err(NodeError::Registration(error.to_string()))
            }
            other => Err(NodeError::Registration(format!("unexpected outcome {other:?}"))),
        }
    }

    /// Turns a request into a proposal, or answers it at once.
    fn take(&mut self, request: ControlRequest) {
        match request {
            ControlRequest::CreateTopic(topic, slot) => self.create_topic(topic, slot),
            ControlRequest::DeleteTopic(id, slot) => {
                self.propose(&Command::DeleteTopic { id }, Asker::DeleteTopic(slot));
            }
            ControlRequest::CreatePartitions(wish, slot) => self.create_partitions(&wish, slot),
            ControlRequest::AlterTopic(alteration, slot) => {
                self.propose(&Command::AlterTopic(alteration), Asker::AlterTopic(slot));
            }
            ControlRequest::AllocateProducerIds(slot) => {
                let command = Command::AllocateProducerIds {
                    node: self.node,
                    incarnation: self.incarnation,
                    count: PRODUCER_ID_BLOCK,
                };
                self.propose(&command, Asker::ProducerIds(slot));
            }
        }
    }

    fn create_topic(
        &mut self,
        topic: NewTopic,
        slot: ReplySlot<Result<super::channel::CreatedTopic, ControlError>>,
    ) {
        let validate_only = topic.validate_only;
        let id = fresh_topic_id(|| self.io.random());
        match create::plan(&self.image, self.planned.as_ref(), topic, id) {
            Err(error) => slot.answer(Err(error)),
            Ok(command) if validate_only => {
                slot.answer(Ok(create::created(&command, engine_record::TopicId::ZERO)));
            }
            Ok(command) => {
                let creation = Command::CreateTopic(command.clone());
                self.propose_planned(&creation, Asker::CreateTopic(command, slot));
            }
        }
    }

    fn create_partitions(&mut self, wish: &MorePartitions, slot: ReplySlot<Result<(), ControlError>>) {
        match grow::plan(self.planned.as_ref().unwrap_or(&self.image), wish) {
            Err(error) => slot.answer(Err(error)),
            Ok(_) if wish.validate_only => slot.answer(Ok(())),
            Ok(growth) => {
                self.propose_planned(&Command::CreatePartitions(growth), Asker::CreatePartitions(slot));
            }
        }
    }

    /// Proposes what the plans made later in this turn build on.
    fn propose_planned(&mut self, command: &Command, asker: Asker) {
        if self.propose(command, asker) {
            let planned = self.planned.get_or_insert_with(|| self.image.clone());
            // One that can't be is refused when it is applied.
            let _refused_later = planned.apply(planned.applied() + 1, command);
        }
    }

    /// Proposes a command, or answers why not; whether it is proposed.
    fn propose(&mut self, command: &Command, asker: Asker) -> bool {
        let token = self.answers.token();
        match self.try_propose(command, token) {
            Ok(()) => self.answers.expect(token, asker),
            Err(error) => {
                refuse(asker, error);
                return false;
            }
        }
        true
    }

    fn try_propose(&mut self, command: &Command, token: driver::Token) -> Result<(), ControlError> {
        if !self.leadership.active {
            return Err(ControlError::NotController);
        }
        if grows_data(command)
            && let Err(low) = self.disk_spaces.check_topics()
        {
            return Err(ControlError::LowSpace(low));
        }
        if !self.files.admit(command.encode().len(), leave(command)) {
            return Err(ControlError::NoSpace);
        }
        self.driver.propose(command, token).map_err(refusal)
    }

    /// Carries out everything the driver hands out, until it is quiet.
    async fn turn(&mut self) -> Result<(), NodeError> {
        loop {
            let effects = self.driver.drain();
            if effects.is_empty() {
                return Ok(());
            }
            self.carry_out(effects).await?;
        }
    }

    async fn carry_out(&mut self, effects: Effects) -> Result<(), NodeError> {
        assert!(effects.install.is_none(), "a quorum of one has no leader to get a snapshot from");
        assert!(effects.messages.is_empty(), "a quorum of one has nobody to write to");
        if let Some(last) = effects.wal.last().map(|frame| frame.sequence) {
            self.files.append(&effects.wal).await?;
            self.driver.persisted(last);
        }
        for committed in effects.committed {
            self.apply(committed).await;
        }
        for token in effects.abandoned {
            self.answers.abandoned(token);
        }
        if let Some(leadership) = effects.leadership {
            self.leadership = leadership;
        }
        if effects.snapshot_wanted {
            self.unwritten = Some(self.driver.snapshot(&self.image));
            self.write_snapshot().await?;
        }
        Ok(())
    }

    /// Writes the snapshot that is to be written, if any. Without space for it the log goes on growing until there is.
    async fn write_snapshot(&mut self) -> Result<(), NodeError> {
        if let Some(snapshot) = self.unwritten.take() {
            if self.files.write_snapshot(&snapshot).await? {
                self.driver.snapshot_written(snapshot.position().index);
            } else {
                self.unwritten = Some(snapshot);
            }
        }
        Ok(())
    }

    /// Applies a committed command here and sends it to the shards.
    async fn apply(&mut self, committed: Committed) {
        let Some(command) = committed.command else { return };
        let reply = self.image.apply(committed.index, &command);
        let command = Arc::new(command);
        for shard in core::mem::take(&mut self.shards) {
            let delta = Delta { index: committed.index, command: Arc::clone(&command) };
            // A shard that has ended hears of it when it starts again, and nobody waits for it to apply anything.
            if shard.deltas.send(delta).await.is_ok() {
                self.shards.push(shard);
            }
        }
        if let Some(token) = committed.token {
            match &mut self.registration {
                Some((expected, outcome)) if *expected == token => *outcome = Some(reply),
                Some(_) | None => self.answers.applied(token, committed.index, reply),
            }
        }
    }

    /// Sends the answers whose commands every shard has applied.
    fn answer_applied(&mut self) {
        let everywhere = self.shards.iter().map(|shard| shard.applied.index()).min();
        self.answers.shards_applied(everywhere.unwrap_or_default());
    }
}

/// Whether a command makes room for more records.
fn grows_data(command: &Command) -> bool {
    matches!(command, Command::CreateTopic(_) | Command::CreatePartitions(_))
}

/// What a command must leave of the log's space.
fn leave(command: &Command) -> Leave {
    let makes_space = matches!(command, Command::DeleteTopic { .. });
    if makes_space { Leave::ForStarts } else { Leave::ForDeletions }
}

fn refusal(error: ProposeError) -> ControlError {
    match error {
        ProposeError::NotLeader { .. } => ControlError::NotController,
        ProposeError::Busy => ControlError::Busy,
        ProposeError::TooLarge { .. } => ControlError::TooLarge,
        ProposeError::TakesLeadersVote => unreachable!("a command changes no membership"),
    }
}
