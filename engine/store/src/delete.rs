//! Deleting partitions, off the shard and in steps.

use std::io;
use std::path::Path;
use std::rc::Rc;

use engine_io::Io;
use engine_record::{TopicId, TopicPartition};

use crate::error::{DiskError, DiskOperation, StoreError, disk};
use crate::flush::FlushInterest;
use crate::partition::Partition;
use crate::shard::Shard;
use crate::truncate::{drain, remove};

/// Ends the partition, where it is open, and removes its files.
///
/// # Errors
/// As the system says, and [`StoreError::Closed`] where the store closes first; what is left can be deleted again.
pub(crate) async fn delete_partition<I: Io>(
    shard: &Rc<Shard<I>>,
    at: TopicPartition,
) -> Result<(), StoreError> {
    shard.check()?;
    if let Some(partition) = shard.partition(at) {
        end(&partition).await?;
        shard.checkpointer.release_closing(&partition);
        shard.partitions.borrow_mut().remove(&at);
    }
    shard.checkpointer.forget_unopened(at);
    let folder = shard.layout.partition(at);
    match shard.checkpointer.write_entry(shard, at, None).await {
        Err(StoreError::Disk(error)) if error.is_storage_full() => {
            // What is deleted makes the room for saying so. A crash in between leaves an entry without files: the topic
            // is an orphan by then.
            remove_folder(shard, &folder).await?;
            shard.checkpointer.write_entry(shard, at, None).await
        }
        written => {
            written?;
            remove_folder(shard, &folder).await
        }
    }
}

/// Lets everything that uses the partition's files end.
async fn end<I: Io>(partition: &Rc<Partition<I>>) -> Result<(), StoreError> {
    partition.close();
    partition.writes_ended().await;
    {
        // What is written is flushed before its files go: a flush of a removed folder would end the store.
        let _at_once = FlushInterest::new(&partition.shard);
        let end = partition.offsets().written;
        partition.wait_for_flush_or_deletion(end).await?;
    }
    partition.mark_deleted();
    partition.work_ended().await;
    let segments = partition.all_segments();
    let drained = drain(partition, &segments, partition.shard.config.readers_deadline).await;
    if drained.is_err() {
        // A removed file stays readable for those who have it open.
        tracing::warn!(partition = %partition.at, "deleting a partition that is still being read");
    }
    partition.evict_tail();
    Ok(())
}

/// Removes a folder of files; one that isn't there is fine. A stop doesn't wait for all of it.
async fn remove_folder<I: Io>(shard: &Shard<I>, folder: &Path) -> Result<(), StoreError> {
    let io = &shard.io;
    let names = match io.list_folder(folder).await {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(DiskError::new(DiskOperation::ListFolder, folder, &error).into()),
    };
    for name in names {
        if shard.is_closing() {
            return Err(StoreError::Closed);
        }
        remove(io, &folder.join(name)).await?;
    }
    Ok(remove_empty(io, folder).await?)
}

/// Removes an empty folder, durably; one that isn't there is fine.
async fn remove_empty<I: Io>(io: &I, folder: &Path) -> Result<(), DiskError> {
    unless_gone(io.remove_folder(folder).await).map_err(disk(DiskOperation::Remove, folder))?;
    let Some(parent) = folder.parent() else { return Ok(()) };
    // A parent that another shard has removed by now has taken the entry with it.
    unless_gone(io.flush_folder(parent).await).map_err(disk(DiskOperation::Flush, parent))
}

/// Several shards remove what they share: that another was faster is as good.
fn unless_gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes a topic's folder, which holds no partition any more.
///
/// # Errors
/// As the system says, also where a partition is left.
pub(crate) async fn delete_topic_folder<I: Io>(shard: &Shard<I>, topic: TopicId) -> Result<(), StoreError> {
    let folder = shard.layout.topic(topic);
    remove(&shard.io, &shard.layout.topic_name(topic)).await?;
    remove(&shard.io, &shard.layout.topic_name_unfinished(topic)).await?;
    Ok(remove_empty(&shard.io, &folder).await?)
}
