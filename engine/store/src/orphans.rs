//! What a crash has left of deleted topics: the metadata don't name them any more, the disk or a checkpoint still does.

use core::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use engine_io::{Io, together};
use engine_record::{ShardId, TopicId, TopicPartition};

use crate::checkpoint::Entries;
use crate::delete::{delete_partition, delete_topic_folder};
use crate::error::{DiskError, DiskOperation, StoreError};
use crate::layout::{self, Layout};
use crate::shard::Shard;

/// The shard that looks for orphans, so that each is found once.
const FINDER: ShardId = ShardId(0);

/// Folders looked into at the same time: each takes a turn of the disk.
const LISTED_AT_ONCE: usize = 32;

/// The topics that the disk or a checkpoint knows, for the shard that looks for orphans.
///
/// To be called while no shard has opened a partition yet: what comes later is no orphan, whatever the metadata know.
pub(crate) async fn topics_found<I: Io>(
    io: &I,
    layout: &Layout,
    own: ShardId,
    entries: &Entries,
) -> Result<BTreeSet<TopicId>, DiskError> {
    if own != FINDER {
        return Ok(BTreeSet::new());
    }
    let live = entries.iter().filter(|(_, entry)| entry.log.is_some());
    let mut topics: BTreeSet<_> = live.map(|(at, _)| at.topic).collect();
    for name in list(io, &layout.topics()).await? {
        match layout::topic_id(&name) {
            Some(topic) => _ = topics.insert(topic),
            None => tracing::warn!(name = %name.display(), "left alone among the topics: no topic's folder"),
        }
    }
    Ok(topics)
}

/// Whether a partition of these topics has segments and no checkpoint knows it: its checkpoint is lost, or a crash has
/// cut a deletion short. Opened, it is scanned whole, and what that cuts off may have been led in the latest epoch.
pub(crate) async fn is_any_unknown<I: Io>(
    io: &I,
    layout: &Layout,
    entries: &Entries,
    topics: &BTreeSet<TopicId>,
) -> Result<bool, DiskError> {
    let mut unknown = Vec::new();
    for topic in topics {
        let names = list(io, &layout.topic(*topic)).await?;
        let partitions = names.iter().filter_map(|name| layout::partition_index(name));
        let all = partitions.map(|partition| TopicPartition { topic: *topic, partition });
        unknown.extend(all.filter(|at| entries.get(at).is_none_or(|entry| entry.log.is_none())));
    }
    let outcome = Cell::new(Ok(false));
    let looks = unknown.into_iter().map(async |at| {
        let found = list(io, &layout.partition(at)).await;
        let found = found.map(|files| files.iter().any(|name| layout::segment_base(name).is_some()));
        let before = outcome.replace(Ok(false));
        outcome.set(before.and_then(|before| found.map(|found| before || found)));
    });
    together(LISTED_AT_ONCE, looks).await;
    outcome.into_inner()
}

/// Removes what disk and checkpoints have of a topic that nobody has open.
///
/// # Errors
/// As the system says; what is left can be deleted again.
pub(crate) async fn delete_topic<I: Io>(shard: &Rc<Shard<I>>, topic: TopicId) -> Result<(), StoreError> {
    for at in partitions_of(shard, topic).await? {
        delete_partition(shard, at).await?;
    }
    delete_topic_folder(shard, topic).await
}

/// What disk and checkpoints have of a topic.
///
/// # Errors
/// As the system says.
pub(crate) async fn partitions_of<I: Io>(
    shard: &Shard<I>,
    topic: TopicId,
) -> Result<BTreeSet<TopicPartition>, DiskError> {
    let mut partitions = shard.checkpointer.unopened_partitions(topic);
    let names = list(&shard.io, &shard.layout.topic(topic)).await?;
    let on_disk = names.iter().filter_map(|name| layout::partition_index(name));
    partitions.extend(on_disk.map(|partition| TopicPartition { topic, partition }));
    Ok(partitions)
}

/// Whether a folder has segments of any topic's partitions: records, or the offset at which a log goes on.
///
/// # Errors
/// As the system says.
pub async fn holds_segments<I: Io>(io: &I, folder: &Path) -> Result<bool, DiskError> {
    let layout = Layout::new(folder);
    let topics = list(io, &layout.topics()).await?;
    let topics: BTreeSet<_> = topics.iter().filter_map(|name| layout::topic_id(name)).collect();
    is_any_unknown(io, &layout, &Entries::new(), &topics).await
}

/// The names in a folder; none where it isn't there.
async fn list<I: Io>(io: &I, folder: &Path) -> Result<Vec<PathBuf>, DiskError> {
    match io.list_folder(folder).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names.map_err(|error| DiskError::new(DiskOperation::ListFolder, folder, &error)),
    }
}
