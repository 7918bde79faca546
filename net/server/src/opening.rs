//! Opening the partitions that a shard owns, a few at a time: each costs several turns of the disk.

use core::cell::{Cell, RefCell};
use core::ops::Range;
use core::pin::pin;
use std::io;
use std::rc::Rc;

use engine_io::{Io, first, is_no_descriptor, is_storage_full, together};
use engine_record::{PartitionIndex, TopicPartition};
use engine_store::{DiskOperation, StoreError};
use replication::leader::LeaderError;
use replication::metadata::commands::Command;
use replication::metadata::image::{self, Image, Topic};

use crate::deltas::Deltas;
use crate::log_directories::{Look, Place, PlaceError};
use crate::partition::Partition;
use crate::settings::TopicSettings;
use crate::shard::{Added, Hosted, Shard};

/// How many partitions are opened at a time. One that a crash left to be scanned takes a megabyte meanwhile.
const AT_ONCE: usize = 16;
/// Of how many topics new partitions are opened together. The answers to their creation wait for each other.
pub(crate) const TOPICS_AT_ONCE: usize = 64;

/// Why a partition is offline.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Leader(#[from] LeaderError),
    #[error(transparent)]
    Place(#[from] PlaceError),
}

/// Opens every partition of the shard's image that it owns. Those that can't be opened are offline; how many.
pub(crate) async fn open_all<I: Io>(shard: &Shard<I>) -> usize {
    let image = shard.image();
    let openings: Vec<_> =
        image.topics().map(|topic| Opening::new(shard, topic, 0..topic.partitions.len())).collect();
    let owning = openings.iter().filter(|opening| opening.owned(&image).next().is_some());
    together(AT_ONCE, owning.map(Opening::look_for_logs)).await;
    together(AT_ONCE, openings.iter().flat_map(|opening| opening.partitions(&image))).await;
    openings.iter().map(Opening::report).sum()
}

/// Opens new partitions, of new topics or of some that were there. A topic that `deltas` is about to delete is opened no
/// further, and what fails then is no fault: another shard may have removed the topic's folder already.
pub(crate) async fn open_added<I: Io>(shard: &Shard<I>, added: &[Added], deltas: &mut Deltas) {
    let image = shard.image();
    let opening =
        |added: &Added| Some(Opening::new(shard, image.topic(added.topic)?, added.partitions.clone()));
    let openings: Vec<_> = added.iter().filter_map(opening).collect();
    if openings.is_empty() {
        return;
    }
    openings.iter().for_each(Opening::need_no_look);
    let look_at = |command: &Command| openings.iter().for_each(|opening| opening.look_at(command));
    {
        let partitions = openings.iter().flat_map(|opening| opening.partitions(&image));
        let mut opened = pin!(together(AT_ONCE, partitions));
        while let Err(command) = first(&mut opened, deltas.look_ahead()).await {
            look_at(&command);
        }
    }
    while let Some(command) = deltas.look_at_next() {
        look_at(&command);
    }
    for opening in &openings {
        opening.report();
    }
}

/// Opens partitions that could not be opened before, as far as their topics are still there.
pub(crate) async fn open_again<I: Io>(shard: &Shard<I>, partitions: &[TopicPartition]) {
    let image = shard.image();
    let of_topics = partitions.chunk_by(|one, next| one.topic == next.topic);
    let openings: Vec<_> = of_topics
        .filter_map(|ids| Some((Opening::again(shard, image.topic(ids.first()?.topic)?), ids)))
        .collect();
    together(AT_ONCE, openings.iter().map(|(opening, _)| opening.look_for_logs())).await;
    let opened = Cell::new(0);
    let attempts = openings.iter().flat_map(|(opening, ids)| ids.iter().map(move |id| (opening, *id)));
    together(
        AT_ONCE,
        attempts.map(async |(opening, id)| {
            opened.set(opened.get() + usize::from(opening.open_again(id).await));
        }),
    )
    .await;
    if opened.get() > 0 {
        tracing::info!(partitions = opened.get(), "partitions that were offline are open");
    }
}

/// Why a partition isn't open, for clients, where that may pass with nothing but time passing.
fn passing_reason(error: &OpenError) -> Option<String> {
    let cause = match error {
        OpenError::Store(StoreError::Disk(error))
        | OpenError::Place(PlaceError::Look(StoreError::Disk(error))) => {
            let is_short = is_storage_full(error.kind) || is_no_descriptor(error.code);
            // What a failed flush has left can't be known.
            let may_pass = is_short && error.operation != DiskOperation::Flush;
            let cause = error.code.map_or_else(|| io::Error::from(error.kind), io::Error::from_raw_os_error);
            // Without the path: it is no business of clients.
            may_pass.then(|| cause.to_string())
        }
        // The topic's settings may change.
        OpenError::Store(StoreError::Config(error)) => Some(error.to_string()),
        OpenError::Store(_) | OpenError::Leader(_) | OpenError::Place(_) => None,
    };
    cause.map(|cause| format!("the partition can't be opened at the moment: {cause}"))
}

/// Partitions of one topic on their way to be open.
struct Opening<'a, I: Io> {
    shard: &'a Shard<I>,
    topic: &'a Topic,
    partitions: Range<usize>,
    settings: Rc<TopicSettings>,
    /// Where its logs lie.
    look: RefCell<Look>,
    is_deleted: Cell<bool>,
    failed: RefCell<Vec<(PartitionIndex, OpenError)>>,
}

impl<'a, I: Io> Opening<'a, I> {
    fn new(shard: &'a Shard<I>, topic: &'a Topic, partitions: Range<usize>) -> Self {
        if let (_, Some(error)) = shard.settings_of(topic) {
            tracing::error!(topic = topic.name, %error, "a topic's settings are ignored");
        }
        Self { partitions, ..Self::again(shard, topic) }
    }

    fn again(shard: &'a Shard<I>, topic: &'a Topic) -> Self {
        let (settings, _) = shard.settings_of(topic);
        let (is_deleted, failed) = (Cell::new(false), RefCell::default());
        // What is taken for new and isn't would be made anew, empty.
        let look = RefCell::new(Look::Failed(StoreError::Closed));
        Self { shard, topic, partitions: 0..0, settings, look, is_deleted, failed }
    }

    /// Looks whether a command that is still to be applied deletes the topic.
    fn look_at(&self, command: &Command) {
        if matches!(command, Command::DeleteTopic { id } if *id == self.topic.id) {
            self.is_deleted.set(true);
        }
    }

    /// Looks where the logs lie: they may have been there before.
    async fn look_for_logs(&self) {
        self.look.replace(self.shard.look_for(self.topic.id).await);
    }

    /// They have been created since the start: there is nothing to be found.
    fn need_no_look(&self) {
        self.look.replace(Look::New);
    }

    /// Opens those that the shard owns, each in a future of its own.
    fn partitions(&self, image: &Image) -> impl Iterator<Item = impl Future<Output = ()>> {
        self.owned(image).map(|(index, partition)| self.open(index, partition))
    }

    fn owned(&self, image: &Image) -> impl Iterator<Item = (PartitionIndex, &'a image::Partition)> {
        let node = self.shard.config().node;
        let is_here = move |partition: &image::Partition| {
            partition.replicas.contains(&node) && image.owner(node, partition.lane) == Some(self.shard.id())
        };
        let numbered = (0..).map(PartitionIndex).zip(&self.topic.partitions);
        let Range { start, end } = self.partitions;
        numbered.take(end).skip(start).filter(move |(_, partition)| is_here(partition))
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
        let Place { store, space } = self.shard.directories().place(id, &self.look.borrow())?;
        let config = self.settings.log_config();
        let log = store.open_partition(id, &self.topic.name, config, partition.leader_epoch).await?;
        Ok(Partition::lead(self.shard.config().node, partition, (log, space), Rc::clone(&self.settings))?)
    }

    /// Opens one that could not be opened before; whether it is open.
    async fn open_again(&self, id: TopicPartition) -> bool {
        let Some(partition) = self.topic.partition(id.partition) else { return false };
        let reopening = self.shard.reopening();
        let attempt = reopening.attempt(id);
        let tried = self.try_open(id, partition).await;
        drop(attempt);
        if reopening.why(id).is_none() {
            // Its topic was deleted meanwhile.
            return false;
        }
        let error = match tried {
            Ok(partition) => {
                reopening.settle(id);
                self.shard.host(id, Hosted::open(partition));
                // The metadata may have changed since the attempt began.
                self.shard.follow_epochs();
                self.shard.follow_settings_of(id);
                return true;
            }
            Err(error) => error,
        };
        if let Some(why) = passing_reason(&error) {
            reopening.failed(id, why, self.shard.io().now());
        } else {
            reopening.settle(id);
            self.report_lasting(id.partition, &error);
        }
        false
    }

    fn report_lasting(&self, partition: PartitionIndex, error: &OpenError) {
        tracing::error!(topic = self.topic.name, partition = partition.0, %error, "a partition is offline");
    }

    /// Says which partitions could not be opened, and has those opened again that may be; how many there are.
    fn report(&self) -> usize {
        let failed = self.failed.take();
        let count = failed.len();
        let topic = &self.topic.name;
        if self.is_deleted.get() {
            for (partition, error) in &failed {
                let partition = partition.0;
                tracing::debug!(topic, partition, %error, "a partition of a deleted topic was not opened");
            }
            return count;
        }
        let (mut passing, mut nowhere) = (OneLine::default(), OneLine::default());
        for (partition, error) in failed {
            let id = TopicPartition { topic: self.topic.id, partition };
            if let Some(why) = passing_reason(&error) {
                self.shard.reopening().failed(id, why, self.shard.io().now());
                passing.add(error);
            } else if matches!(error, OpenError::Place(PlaceError::Nowhere | PlaceError::Offline(_))) {
                nowhere.add(error);
            } else {
                self.report_lasting(partition, &error);
            }
        }
        if let OneLine { partitions, first: Some(error) } = passing {
            tracing::error!(topic, partitions, %error, "partitions are offline until they can be opened");
        }
        if let OneLine { partitions, first: Some(error) } = nowhere {
            tracing::error!(topic, partitions, %error, "partitions are offline");
        }
        count
    }
}

/// Partitions of a topic that one line tells of.
#[derive(Default)]
struct OneLine {
    partitions: usize,
    first: Option<OpenError>,
}

impl OneLine {
    fn add(&mut self, error: OpenError) {
        self.partitions += 1;
        self.first.get_or_insert(error);
    }
}
