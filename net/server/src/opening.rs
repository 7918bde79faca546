//! Opening the partitions that a shard owns, a few at a time: each costs several turns of the disk.

use core::cell::{Cell, RefCell};
use core::pin::pin;

use engine_io::{Io, first};
use engine_record::{PartitionIndex, TopicId, TopicPartition};
use engine_store::StoreError;
use replication::leader::LeaderError;
use replication::metadata::commands::Command;
use replication::metadata::image::{self, Image, Topic};

use crate::deltas::Deltas;
use crate::partition::Partition;
use crate::settings::TopicSettings;
use crate::shard::{Hosted, Shard};
use crate::together::together;

/// How many partitions are opened at a time. One that a crash left to be scanned takes a megabyte meanwhile.
const AT_ONCE: usize = 16;

/// Why a partition is offline.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Leader(#[from] LeaderError),
}

/// Opens every partition of the shard's image that it owns. Those that can't be opened are offline; how many.
pub(crate) async fn open_all<I: Io>(shard: &Shard<I>) -> usize {
    let image = shard.image();
    let openings: Vec<_> = image.topics().map(|topic| Opening::new(shard, topic)).collect();
    together(AT_ONCE, openings.iter().flat_map(|opening| opening.partitions(&image))).await;
    openings.iter().map(Opening::report).sum()
}

/// Opens the partitions of a new topic. One that `deltas` is about to delete is opened no further, and what fails then
/// is no fault: another shard may have removed the topic's folder already.
pub(crate) async fn open_topic<I: Io>(shard: &Shard<I>, topic: TopicId, deltas: &mut Deltas) {
    let image = shard.image();
    let Some(topic) = image.topic(topic) else { return };
    let opening = Opening::new(shard, topic);
    let is_deletion = |command: &Command| matches!(command, Command::DeleteTopic { id } if *id == topic.id);
    {
        let mut opened = pin!(together(AT_ONCE, opening.partitions(&image)));
        while let Err(command) = first(&mut opened, deltas.look_ahead()).await {
            opening.note_deletion(is_deletion(&command));
        }
    }
    while let Some(command) = deltas.look_at_next() {
        opening.note_deletion(is_deletion(&command));
    }
    opening.report();
}

/// The partitions of one topic on their way to be open.
struct Opening<'a, I: Io> {
    shard: &'a Shard<I>,
    topic: &'a Topic,
    settings: TopicSettings,
    is_deleted: Cell<bool>,
    failed: RefCell<Vec<(PartitionIndex, OpenError)>>,
}

impl<'a, I: Io> Opening<'a, I> {
    fn new(shard: &'a Shard<I>, topic: &'a Topic) -> Self {
        let own = topic.configs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let defaults = &shard.config().broker.topic;
        let settings = defaults.with(own).unwrap_or_else(|error| {
            // Settings were checked before they were committed; a later version may have taken one away.
            tracing::error!(topic = topic.name, %error, "a topic's settings are ignored");
            defaults.clone()
        });
        Self { shard, topic, settings, is_deleted: Cell::new(false), failed: RefCell::default() }
    }

    fn note_deletion(&self, is_deletion: bool) {
        self.is_deleted.set(self.is_deleted.get() || is_deletion);
    }

    /// Opens those that the shard owns, each in a future of its own.
    fn partitions(&self, image: &Image) -> impl Iterator<Item = impl Future<Output = ()>> {
        let node = self.shard.config().node;
        let is_here = move |partition: &image::Partition| {
            partition.replicas.contains(&node) && image.owner(node, partition.lane) == Some(self.shard.id())
        };
        let numbered = (0..).map(PartitionIndex).zip(&self.topic.partitions);
        numbered
            .filter(move |(_, partition)| is_here(partition))
            .map(|(index, partition)| self.open(index, partition))
    }

    async fn open(&self, index: PartitionIndex, partition: &image::Partition) {
        if self.is_deleted.get() {
            return;
        }
        let id = TopicPartition { topic: self.topic.id, partition: index };
        let hosted = match self.try_open(id, partition).await {
            Ok(partition) => Hosted::open(partition),
            Err(error) => {
                self.failed.borrow_mut().push((index, error));
                Hosted::Offline
            }
        };
        self.shard.host(id, hosted);
    }

    async fn try_open(
        &self,
        id: TopicPartition,
        partition: &image::Partition,
    ) -> Result<Partition<I>, OpenError> {
        let (store, config) = (self.shard.store(), self.settings.log_config());
        let log = store.open_partition(id, &self.topic.name, config, partition.leader_epoch).await?;
        Ok(Partition::lead(self.shard.config().node, partition, log, self.settings.clone())?)
    }

    /// Says which partitions could not be opened; how many.
    fn report(&self) -> usize {
        let failed = self.failed.take();
        for (partition, error) in &failed {
            let (topic, partition) = (&self.topic.name, partition.0);
            if self.is_deleted.get() {
                tracing::debug!(topic, partition, %error, "a partition of a deleted topic was not opened");
            } else {
                tracing::error!(topic, partition, %error, "a partition is offline");
            }
        }
        failed.len()
    }
}
