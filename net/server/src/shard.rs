//! One shard: a core, the partitions it owns, the clients connected to it.
//!
//! Everything here belongs to the shard's executor and is never shared. What other cores decide arrives as deltas of
//! the metadata, applied in order by [`Shard::apply`].

use core::cell::{Cell, RefCell};
use core::ops::Range;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::rc::Rc;

use engine_io::{Io, Tasks};
use engine_record::{LeaderEpoch, PartitionIndex, ProducerId, ShardId, TopicId, TopicPartition};
use engine_store::{StoreError, StoreFailure};
use net_wire::ErrorCode;
use replication::metadata::commands::{AlterTopic, Command};
use replication::metadata::image::{Image, Topic, broker_id};
use replication::metadata::reply::Reply;

use crate::budget::{Budget, Share};
use crate::config::{Config, Limits};
use crate::connection::Connection;
use crate::connections::Connections;
use crate::control::channel::{ControlError, ControlHandle};
use crate::dispatch::Request;
use crate::endpoint::{self, Endpoint};
use crate::fetch_sessions::{FetchSessions, SessionLimits};
use crate::forward::Peers;
use crate::log_directories::placement::DirectoryIndex;
use crate::log_directories::{LogDirectories, LogDirectoryView, Look, failure_of};
use crate::lookups::Lookups;
use crate::metrics::{Metrics, ShardSnapshot};
use crate::notices::{Notice, Notices};
use crate::partition::Partition;
use crate::reopening::Reopening;
use crate::reply_memory::{self, ReplyMemory};
use crate::request_memory::RequestMemory;
use crate::retention::Retention;
use crate::settings::{SettingError, TopicSettings};
use crate::throttle::Load;

/// One shard.
pub(crate) struct Shard<I: Io> {
    io: I,
    id: ShardId,
    config: Config,
    directories: LogDirectories<I>,
    control: ControlHandle,
    /// The metadata as far as this shard has applied it.
    image: RefCell<Rc<Image>>,
    /// The partitions this shard owns.
    partitions: RefCell<BTreeMap<TopicPartition, Hosted<I>>>,
    /// Those of them that are to be opened again.
    reopening: Reopening,
    connections: Rc<Connections<I>>,
    /// The ways to the other shards, where all accept clients from one port.
    peers: Option<Peers>,
    request_memory: RequestMemory,
    list_memory: Budget,
    reply_memory: ReplyMemory,
    /// Whose turn it is to make a long answer.
    making: Budget,
    /// Whose turn it is to decompress a producer's batch.
    decompressing: Budget,
    lookups: Lookups,
    fetch_sessions: RefCell<FetchSessions>,
    retention: Retention,
    metrics: Metrics,
    notices: Notices,
    producer_ids: ProducerIds,
    /// Work that outlives what began it, such as removing a deleted partition's files.
    background: Tasks<I>,
}

/// A partition this shard owns.
pub(crate) enum Hosted<I: Io> {
    /// In use.
    Open(Rc<Partition<I>>),
    /// Not usable: it could not be opened. Where the reason may pass, [`Reopening`] has it.
    Offline,
}

impl<I: Io> Hosted<I> {
    pub(crate) fn open(partition: Partition<I>) -> Self {
        Self::Open(Rc::new(partition))
    }
}

/// Partitions that have come to be, with their topic or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Added {
    pub(crate) topic: TopicId,
    /// Their numbers.
    pub(crate) partitions: Range<usize>,
}

/// A log directory and what is open in it.
pub(crate) struct DirectoryLogs<I: Io> {
    pub(crate) path: PathBuf,
    pub(crate) is_online: bool,
    /// Those of this shard that are open, in order.
    pub(crate) partitions: Vec<Rc<Partition<I>>>,
}

/// What the shard says to a client that asks for a partition it can't serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotServed {
    pub(crate) error: ErrorCode,
    /// Who leads the partition, where this shard doesn't: broker id and epoch.
    pub(crate) leader: Option<(i32, LeaderEpoch)>,
}

impl From<ErrorCode> for NotServed {
    fn from(error: ErrorCode) -> Self {
        Self { error, leader: None }
    }
}

/// The producer ids this shard may hand out.
#[derive(Default)]
struct ProducerIds {
    next: Cell<i64>,
    left: Cell<u32>,
}

impl<I: Io> Shard<I> {
    /// A shard that owns no partition yet.
    pub(crate) fn new(
        io: I,
        id: ShardId,
        config: Config,
        directories: LogDirectories<I>,
        control: ControlHandle,
        image: Image,
    ) -> Self {
        Self {
            io,
            id,
            request_memory: RequestMemory::new(
                config.limits.request_bytes,
                u64::from(config.limits.frame_bytes),
            ),
            list_memory: Budget::new(config.limits.list_bytes),
            reply_memory: ReplyMemory::new(config.limits.reply_bytes),
            making: Budget::new(1),
            decompressing: Budget::new(1),
            lookups: Lookups::new(),
            fetch_sessions: RefCell::new(FetchSessions::new(SessionLimits {
                sessions: config.limits.fetch_sessions,
                bytes: config.limits.fetch_session_bytes,
            })),
            retention: Retention::new(),
            config,
            directories,
            control,
            image: RefCell::new(Rc::new(image)),
            partitions: RefCell::default(),
            reopening: Reopening::default(),
            connections: Rc::new(Connections::new()),
            peers: None,
            metrics: Metrics::new(),
            notices: Notices::default(),
            producer_ids: ProducerIds::default(),
            background: Tasks::new(),
        }
    }

    /// The same, with ways to other shards.
    pub(crate) fn with_peers(self, peers: Option<Peers>) -> Self {
        Self { peers, ..self }
    }

    pub(crate) fn peers(&self) -> Option<&Peers> {
        self.peers.as_ref()
    }

    pub(crate) fn io(&self) -> &I {
        &self.io
    }

    pub(crate) fn id(&self) -> ShardId {
        self.id
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.config.limits
    }

    pub(crate) fn directories(&self) -> &LogDirectories<I> {
        &self.directories
    }

    /// The log directories, and what of this shard lies in each, open or not.
    pub(crate) fn directory_views(&self) -> Vec<LogDirectoryView> {
        self.directories.views()
    }

    pub(crate) fn control(&self) -> &ControlHandle {
        &self.control
    }

    pub(crate) fn connections(&self) -> &Rc<Connections<I>> {
        &self.connections
    }

    pub(crate) fn reopening(&self) -> &Reopening {
        &self.reopening
    }

    pub(crate) fn request_memory(&self) -> &RequestMemory {
        &self.request_memory
    }

    /// How the memory for requests is used by the connections there are.
    pub(crate) fn request_load(&self) -> Load {
        self.request_memory.load(self.connections.count())
    }

    pub(crate) fn list_memory(&self) -> &Budget {
        &self.list_memory
    }

    pub(crate) fn reply_memory(&self) -> &ReplyMemory {
        &self.reply_memory
    }

    /// Waits for the turn to make an answer of `bytes`, where that is long. They are made one after the other: made side
    /// by side none would be there sooner, and whoever asks for little would wait for a piece of each. Whoever has the
    /// turn waits for nothing but turns of the shard, and no client: a reply that was begun is driven while those before it
    /// are sent ([`crate::driven`]).
    pub(crate) async fn turn_to_make(&self, bytes: u64) -> Option<Share> {
        if bytes <= reply_memory::SMALL_BYTES {
            return None;
        }
        Some(self.making.take(1).await)
    }

    /// Waits for the turn to decompress a producer's batch. Whoever has it waits for nothing but turns of the shard.
    pub(crate) async fn turn_to_decompress(&self) -> Share {
        self.decompressing.take(1).await
    }

    pub(crate) fn lookups(&self) -> &Lookups {
        &self.lookups
    }

    pub(crate) fn retention(&self) -> &Retention {
        &self.retention
    }

    pub(crate) fn with_fetch_sessions<T>(&self, work: impl FnOnce(&mut FetchSessions) -> T) -> T {
        work(&mut self.fetch_sessions.borrow_mut())
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn background(&self) -> &Tasks<I> {
        &self.background
    }

    /// The metadata now. While it is held, the next delta copies it: over an await, only where an answer must be of one
    /// state of it.
    pub(crate) fn image(&self) -> Rc<Image> {
        Rc::clone(&self.image.borrow())
    }

    /// The endpoints of the cluster, as the client of this connection is told.
    pub(crate) fn endpoints_told(&self, connection: &Connection<I>) -> Vec<Endpoint> {
        let listener = &self.config.listeners[connection.listener];
        endpoint::told(&self.image.borrow(), listener, self.config.node, connection.reached)
    }

    /// The same where an answer must name them, else none.
    pub(crate) fn endpoints_told_if(&self, needed: bool, request: &Request<I>) -> Vec<Endpoint> {
        if needed { self.endpoints_told(&request.connection) } else { Vec::new() }
    }

    /// The broker id that clients send the controller's requests to.
    pub(crate) fn controller_id(&self) -> i32 {
        broker_id(self.config.node, ShardId(0))
    }

    /// Writes a log line that clients can cause, unless there was one of its kind just now. `write` gets the count of
    /// those held back.
    pub(crate) fn notice(&self, notice: Notice, write: impl FnOnce(u64)) {
        if let Some(held_back) = self.notices.admit(notice, self.io.now()) {
            write(held_back);
        }
    }

    /// The partition, if this shard leads it and can serve it.
    pub(crate) fn partition(&self, id: TopicPartition) -> Result<Rc<Partition<I>>, NotServed> {
        match self.partitions.borrow().get(&id) {
            Some(Hosted::Open(partition)) => return Ok(Rc::clone(partition)),
            Some(Hosted::Offline) => {
                self.reopening.ask(id);
                return Err(ErrorCode::KAFKA_STORAGE_ERROR.into());
            }
            None => {}
        }
        Err(self.why_not_served(id))
    }

    fn why_not_served(&self, id: TopicPartition) -> NotServed {
        let image = self.image.borrow();
        let Some(topic) = image.topic(id.topic) else { return ErrorCode::UNKNOWN_TOPIC_ID.into() };
        let Some(partition) = topic.partition(id.partition) else {
            return ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.into();
        };
        let Some(node) = partition.leader else { return ErrorCode::LEADER_NOT_AVAILABLE.into() };
        let Some(shard) = image.owner(node, partition.lane) else {
            return ErrorCode::LEADER_NOT_AVAILABLE.into();
        };
        if self.peers.is_some() && (node, shard) == (self.config.node, self.id) {
            // It is being opened: nobody else leads it, and there is no other address to go to.
            return ErrorCode::KAFKA_STORAGE_ERROR.into();
        }
        self.metrics.wrong_shard();
        NotServed {
            error: ErrorCode::NOT_LEADER_OR_FOLLOWER,
            leader: Some((endpoint::broker_of(&image, node, shard), partition.leader_epoch)),
        }
    }

    /// How many partitions this shard owns.
    pub(crate) fn partition_count(&self) -> usize {
        self.partitions.borrow().len()
    }

    /// The topic's id by its name.
    pub(crate) fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.image.borrow().topic_named(name).map(|topic| topic.id)
    }

    /// A producer id nobody has had.
    pub(crate) async fn next_producer_id(&self) -> Result<ProducerId, ControlError> {
        loop {
            if let Some(id) = self.producer_ids.take() {
                return Ok(id);
            }
            // Tasks that run dry together each take a block; the last one's stays, the others' rest is never used.
            let block = self.control.allocate_producer_ids().await?;
            self.producer_ids.next.set(block.first.0);
            self.producer_ids.left.set(block.count);
        }
    }

    /// A partition that this shard owns is in use from now on, or can't be used.
    pub(crate) fn host(&self, id: TopicPartition, hosted: Hosted<I>) {
        self.partitions.borrow_mut().insert(id, hosted);
    }

    /// Applies one command that the metadata quorum has committed, and acts on it. Partitions that have come to be are to
    /// be opened by the caller.
    pub(crate) fn apply(self: &Rc<Self>, index: u64, command: &Command) -> Option<Added> {
        let reply = Rc::make_mut(&mut self.image.borrow_mut()).apply(index, command);
        match (command, reply) {
            (Command::CreateTopic(topic), Reply::TopicCreated { id }) => {
                return Some(Added { topic: id, partitions: 0..topic.partitions.len() });
            }
            (Command::CreatePartitions(growth), Reply::PartitionsCreated) => {
                let first = usize::try_from(growth.first).expect("the topic has that many");
                let partitions = first..first + growth.partitions.len();
                return Some(Added { topic: growth.id, partitions });
            }
            (Command::DeleteTopic { id }, Reply::TopicDeleted { .. }) => self.drop_topic(*id),
            (Command::BumpLeaderEpochs { .. } | Command::RegisterNode(_), _) => self.follow_epochs(),
            (Command::AlterTopic(AlterTopic { id, .. }), Reply::TopicAltered) => self.follow_settings(*id),
            (
                Command::CreateTopic(_)
                | Command::DeleteTopic { .. }
                | Command::AlterTopic(_)
                | Command::CreatePartitions(_)
                | Command::AllocateProducerIds { .. },
                _,
            ) => {}
        }
        None
    }

    /// Stops serving a topic at once and removes its files in the background.
    fn drop_topic(self: &Rc<Self>, topic: TopicId) {
        let mut dropped = Vec::new();
        self.partitions.borrow_mut().retain(|id, hosted| {
            if id.topic != topic {
                return true;
            }
            if let Hosted::Open(partition) = hosted {
                partition.close();
            }
            dropped.push(*id);
            false
        });
        self.reopening.forget(topic);
        if !dropped.is_empty() {
            let shard = Rc::clone(self);
            self.background.spawn(&self.io, async move { shard.remove_files(topic, dropped).await });
        }
    }

    /// Removes what a dropped topic leaves on this shard. The last shard to do so removes the topic's folder too.
    async fn remove_files(&self, topic: TopicId, dropped: Vec<TopicPartition>) {
        self.reopening.rests(topic).await;
        for id in dropped {
            for store in self.directories.release(id) {
                match store.delete_partition(id).await {
                    // Another shard was the last to remove something, and has removed the topic's folder too.
                    Err(StoreError::Disk(error)) if error.kind == ErrorKind::NotFound => {}
                    // Its directory has failed, or the node stops: whoever starts with it again finds an orphan.
                    Err(StoreError::Failed(_) | StoreError::Closed) => {}
                    Err(error) => {
                        tracing::error!(%id, %error, "a deleted partition's files could not be removed")
                    }
                    Ok(()) => {}
                }
            }
        }
        let stores: Vec<_> = self.directories.online().map(|(_, store)| store.clone()).collect();
        for store in stores {
            match store.delete_topic_folder(topic).await {
                Err(StoreError::Disk(error)) if error.kind == ErrorKind::DirectoryNotEmpty => {}
                Err(error) => {
                    tracing::error!(%topic, %error, "a deleted topic's folder could not be removed")
                }
                Ok(()) => {}
            }
        }
    }

    /// Looks in which directories the partitions of a topic lie. One that can't be looked at has failed.
    pub(crate) async fn look_for(&self, topic: TopicId) -> Look {
        loop {
            match self.directories.look_for(topic).await {
                Ok(look) => return look,
                Err((directory, error)) => {
                    let path = self.directories.path(directory);
                    self.lose_directory(directory, &failure_of(&error, path));
                }
            }
        }
    }

    /// A log directory has failed, on this shard or another: what lies in it is offline, and the rest goes on.
    pub(crate) fn lose_directory(&self, directory: DirectoryIndex, failure: &StoreFailure) {
        let lost = self.directories.take_offline(directory, failure).unwrap_or_default();
        let mut partitions = self.partitions.borrow_mut();
        for id in lost {
            if let Some(hosted) = partitions.get_mut(&id)
                && let Hosted::Open(partition) = core::mem::replace(hosted, Hosted::Offline)
            {
                partition.fail();
            }
            // No time opens it again.
            self.reopening.settle(id);
        }
    }

    /// Removes in the background what a crash has left of deleted topics. To be called before the first delta: topics
    /// that the image at the start doesn't know are then deleted ones, and not new ones.
    pub(crate) fn remove_orphans(self: &Rc<Self>) {
        let image = self.image();
        for (_, store) in self.directories.online() {
            let orphans = store.orphans(|topic| image.topic(topic).is_some());
            if orphans.is_empty() {
                continue;
            }
            let store = store.clone();
            self.background.spawn(&self.io, async move {
                for topic in orphans {
                    match store.delete_topic(topic).await {
                        Ok(()) => tracing::warn!(%topic, "removed what was left of a deleted topic"),
                        // The node stops: the next start goes on.
                        Err(StoreError::Closed) => return,
                        Err(error) => tracing::error!(%topic, %error, "the rest of a deleted topic stays"),
                    }
                }
            });
        }
    }

    /// Brings every partition to the leader epoch of the image.
    pub(crate) fn follow_epochs(&self) {
        let image = self.image();
        for (id, hosted) in self.partitions.borrow().iter() {
            let known = image.topic(id.topic).and_then(|topic| topic.partition(id.partition));
            if let (Hosted::Open(partition), Some(known)) = (hosted, known)
                && let Err(error) = partition.follow(known)
            {
                tracing::error!(%id, %error, "a partition's metadata make no sense");
            }
        }
    }

    /// The settings of a topic: the broker's, and its own instead of some. Its own were checked before they were
    /// committed, but a later version may have taken one away: then the broker's count, and why.
    pub(crate) fn settings_of(&self, topic: &Topic) -> (Rc<TopicSettings>, Option<SettingError>) {
        let defaults = &self.config.broker.topic;
        let own = topic.configs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        match defaults.with(own) {
            Ok(settings) => (Rc::new(settings), None),
            Err(error) => (Rc::new(defaults.clone()), Some(error)),
        }
    }

    /// Brings every open partition of a topic to the settings of the image. Those that are opened later come to them then.
    fn follow_settings(&self, topic: TopicId) {
        let image = self.image();
        let Some(topic) = image.topic(topic) else { return };
        let (settings, _) = self.settings_of(topic);
        let partition = |index| TopicPartition { topic: topic.id, partition: PartitionIndex(index) };
        let mut refused = None;
        for (&id, hosted) in self.partitions.borrow().range(partition(0)..=partition(i32::MAX)) {
            match hosted {
                Hosted::Open(partition) => {
                    refused = self.change_settings(id, partition, &settings).err().or(refused);
                }
                // Its settings may be why it isn't open.
                Hosted::Offline => self.reopening.ask(id),
            }
        }
        if let Some(error) = refused {
            tracing::error!(topic = topic.name, %error, "a topic's logs go on by the settings they had");
        }
    }

    /// The same for one partition.
    pub(crate) fn follow_settings_of(&self, id: TopicPartition) {
        let image = self.image();
        let (Some(topic), Ok(partition)) = (image.topic(id.topic), self.partition(id)) else { return };
        if let Err(error) = self.change_settings(id, &partition, &self.settings_of(topic).0) {
            tracing::error!(%id, %error, "a partition's log goes on by the settings it had");
        }
    }

    fn change_settings(
        &self,
        id: TopicPartition,
        partition: &Partition<I>,
        settings: &Rc<TopicSettings>,
    ) -> Result<(), StoreError> {
        let before = partition.settings();
        let retention = |settings: &TopicSettings| (settings.retention_age, settings.retention_bytes);
        let changed = partition.change_settings(Rc::clone(settings));
        if retention(&before) != retention(settings) {
            self.retention.want(id, self.io.now());
        }
        changed
    }

    /// Moves the high watermarks of `moved`.
    pub(crate) fn advance(&self, moved: &[TopicPartition]) {
        let partitions = self.partitions.borrow();
        for id in moved {
            if let Some(Hosted::Open(partition)) = partitions.get(id) {
                partition.advance();
            }
        }
    }

    /// The partitions that are open now, in order.
    pub(crate) fn open_partitions(&self) -> Vec<Rc<Partition<I>>> {
        let partitions = self.partitions.borrow();
        let open = partitions.values().filter_map(|hosted| match hosted {
            Hosted::Open(partition) => Some(Rc::clone(partition)),
            Hosted::Offline => None,
        });
        open.collect()
    }

    /// The log directories, each with those logs of this shard that are open.
    pub(crate) fn log_directories(&self) -> Vec<DirectoryLogs<I>> {
        let hosted = self.partitions.borrow();
        let open = |at| match hosted.get(&at) {
            Some(Hosted::Open(partition)) => Some(Rc::clone(partition)),
            Some(Hosted::Offline) | None => None,
        };
        let logs = |(LogDirectoryView { path, is_online, .. }, partitions): (_, Vec<_>)| {
            let partitions = partitions.into_iter().filter_map(open).collect();
            DirectoryLogs { path, is_online, partitions }
        };
        self.directories.views().into_iter().zip(self.directories.partitions()).map(logs).collect()
    }

    /// Ends every wait on a partition: the shard is stopping.
    pub(crate) fn close_partitions(&self) {
        for hosted in self.partitions.borrow().values() {
            if let Hosted::Open(partition) = hosted {
                partition.close();
            }
        }
    }

    /// What the shard has counted.
    pub(crate) fn snapshot(&self) -> ShardSnapshot {
        let (connections_accepted, connections_refused, wrong_shard) = self.metrics.connection_counts();
        ShardSnapshot {
            shard: self.id,
            connections: self.connections.count(),
            connections_accepted,
            connections_refused,
            fetch_sessions: self.with_fetch_sessions(|sessions| sessions.len()),
            wrong_shard,
            low_space_refusals: self.metrics.low_space_refusals(),
            request_bytes: self.request_memory.used(),
            reply_bytes: self.reply_memory.used(),
            mailbox_messages: engine_io::messages_passed(),
            questions: self.metrics.questions(),
            latencies: self.metrics.latencies(),
            store: self.directories.metrics(),
            log_directories: self.directory_views(),
        }
    }
}

impl ProducerIds {
    fn take(&self) -> Option<ProducerId> {
        let left = self.left.get().checked_sub(1)?;
        let id = self.next.get();
        self.left.set(left);
        self.next.set(id + 1);
        Some(ProducerId(id))
    }
}
