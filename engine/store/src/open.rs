//! Opening a partition: new, as its checkpoint left it, or recovered from what a crash left.
//!
//! ```text
//!  checkpoint says      what happens
//!  closed               a look at the files (look.rs), nothing else: the checkpoint is the log
//!  open                 scan from the checkpoint on; the tail behind the last good batch is cut off and fenced
//!  nothing              no segment: a new log; else all segments are scanned, and only the last may end in a torn batch
//! ```
//!
//! Damage below what the checkpoint calls durable is never cut: the partition doesn't open, and stays as it is.

mod look;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use engine_io::Io;
use engine_log::{
    LeaderEpochs, Log, LogConfig, Producers, Recovered, RecoveredSegment, SegmentId, SegmentIndex,
    decode_sidecar,
};
use engine_record::{LeaderEpoch, Offset, TopicPartition};

use crate::checkpoint::{CorruptCheckpoint, LogEntry};
use crate::config::ConfigError;
use crate::error::{Corruption, DiskError, DiskOperation, StoreError, disk};
use crate::layout;
use crate::partition::{Partition, Recorded, State};
use crate::segment_file::SegmentFile;
use crate::shard::Shard;
use crate::truncate::{fence, remove};
use look::{ClosedEnd, OnDisk};
use scan::{Scanned, scan_chain, written_behind};

/// What a partition is opened with.
pub(crate) struct Opening {
    pub(crate) at: TopicPartition,
    pub(crate) topic_name: String,
    pub(crate) config: LogConfig,
    pub(crate) leader_epoch: LeaderEpoch,
}

/// Where there is no room for batches of this size, a log isn't worth opening.
const BATCH_BYTES_MIN: u32 = 64 << 10;

/// A log, and those of its segments that have a file.
struct Found {
    log: Log,
    files: BTreeSet<SegmentId>,
    /// What the checkpoint says of it.
    recorded: Recorded,
}

/// Opens the partition and registers it.
///
/// # Errors
/// See [`StoreError`]; nothing is registered then.
pub(crate) async fn open_partition<I: Io>(
    shard: &Rc<Shard<I>>,
    opening: Opening,
) -> Result<Rc<Partition<I>>, StoreError> {
    shard.check()?;
    let at = opening.at;
    let opening = Opening { config: fitted(shard, at, opening.config)?, ..opening };
    let _opening = shard.begin_opening(at)?;
    let (mut found, left) = find(shard, &opening).await?;
    start_leader_epoch(&mut found.log, opening.leader_epoch)?;
    for segment in found.log.segments().filter(|segment| segment.index().is_some()) {
        if segment.id() != found.log.active_segment().id() {
            shard.indexes.note(shard, at, segment.id());
        }
    }
    let segments = segment_files(shard, at, &found);
    let partition = Partition::new(at, shard, State::new(found.log, segments));
    shard.partitions.borrow_mut().insert(at, Rc::clone(&partition));
    shard.checkpointer.forget_unopened(at);
    partition.set_recorded(found.recorded);
    if found.recorded == Recorded::Open {
        shard.checkpointer.claim_closing(&partition);
        // The next start needn't scan again what this one has.
        shard.checkpointer.note_change(shard, &partition);
    }
    partition.remove_behind(left);
    Ok(partition)
}

pub(crate) fn check_config<I: Io>(shard: &Shard<I>, config: &LogConfig) -> Result<(), ConfigError> {
    let (batch_bytes_max, pool_bytes) = (config.max_batch_bytes, shard.pool.bytes());
    // Room for the largest batch twice over in whole buffers, so that one can be filled while another is written.
    let fits = (batch_bytes_max as usize).saturating_mul(2).saturating_add(4 * shard.config.write_bytes_max)
        <= pool_bytes;
    if fits { Ok(()) } else { Err(ConfigError::BatchBytesMax { batch_bytes_max, pool_bytes }) }
}

/// The configuration, with no larger batches than the pool has room for: what a log has is served all the same where the pool is
/// smaller than when it was made.
///
/// # Errors
/// There is no room for any batch.
pub(crate) fn fitted<I: Io>(
    shard: &Shard<I>,
    partition: TopicPartition,
    config: LogConfig,
) -> Result<LogConfig, ConfigError> {
    let Err(error) = check_config(shard, &config) else { return Ok(config) };
    let room = shard.pool.bytes().saturating_sub(4 * shard.config.write_bytes_max) / 2;
    let max_batch_bytes = u32::try_from(room).unwrap_or(u32::MAX);
    if max_batch_bytes < BATCH_BYTES_MIN {
        return Err(error);
    }
    // The pool is the shard's: what is so of one partition is so of every other with batches as large.
    if shard.want_of_pool.refused(shard.io.now()) {
        tracing::warn!(
            %partition,
            max_batch_bytes,
            "{error}; larger batches than these are refused, of this partition and of every other that allows as much: allow the \
             process more memory, or lower max.message.bytes"
        );
    }
    Ok(LogConfig { max_batch_bytes, ..config })
}

pub(crate) fn start_leader_epoch(log: &mut Log, epoch: LeaderEpoch) -> Result<(), StoreError> {
    let known = log.leader_epochs().latest();
    match log.start_leader_epoch(epoch) {
        Ok(()) => Ok(()),
        Err(_) => Err(StoreError::LeaderEpoch { known: known.unwrap_or_default(), given: epoch }),
    }
}

fn segment_files<I: Io>(
    shard: &Shard<I>,
    at: TopicPartition,
    found: &Found,
) -> BTreeMap<SegmentId, Rc<SegmentFile<I>>> {
    let folder = shard.layout.partition(at);
    let with_file = found.log.segments().filter(|segment| found.files.contains(&segment.id()));
    let file = |segment: &engine_log::Segment| {
        let path = layout::segment(&folder, segment.id().0);
        (segment.id(), SegmentFile::existing(segment.id(), path, segment.end_position()))
    };
    with_file.map(file).collect()
}

/// The log, and the files that a deletion of old segments has left.
async fn find<I: Io>(shard: &Rc<Shard<I>>, opening: &Opening) -> Result<(Found, Vec<PathBuf>), StoreError> {
    let on_disk = OnDisk::list(&shard.io, &shard.layout.partition(opening.at)).await?;
    let found = find_log(shard, opening, &on_disk).await?;
    let first = found.log.segments().next().expect("a log has a segment").id();
    Ok((found, on_disk.before(first)))
}

async fn find_log<I: Io>(
    shard: &Rc<Shard<I>>,
    opening: &Opening,
    on_disk: &OnDisk,
) -> Result<Found, StoreError> {
    let entry = shard.checkpointer.unopened(opening.at);
    if let Some(entry) = &entry {
        on_disk.check_sizes(&entry.segments)?;
        if let Some(found) = find_closed(shard, opening, entry, on_disk).await? {
            return Ok(found);
        }
    }
    // An entry was recorded in folders that were durable.
    if entry.is_none() || !on_disk.is_there() {
        make_folders(shard, opening).await?;
    }
    let segments = on_disk.segments();
    match entry {
        Some(entry) => {
            let found = recover(shard, opening, &entry, on_disk).await?;
            Ok(Found { recorded: Recorded::Open, ..found })
        }
        None if segments.is_empty() => {
            let log = Log::create(opening.config, Offset::ZERO, opening.leader_epoch);
            Ok(Found { log, files: BTreeSet::new(), recorded: Recorded::Nothing })
        }
        None => recover_all(shard, opening, &segments).await,
    }
}

/// The log that a closed entry describes, where it still ends so; `None` where it is to be scanned.
async fn find_closed<I: Io>(
    shard: &Rc<Shard<I>>,
    opening: &Opening,
    entry: &LogEntry,
    on_disk: &OnDisk,
) -> Result<Option<Found>, StoreError> {
    let Some(found) = as_closed(entry, opening.config) else { return Ok(None) };
    match on_disk.check_end(&shard.io, found.log.active_segment()).await? {
        ClosedEnd::AsRecorded => {
            // What was made for appends that were then refused.
            for left in on_disk.behind(found.log.active_segment().id()) {
                remove(&shard.io, &left).await?;
            }
            Ok(Some(found))
        }
        ClosedEnd::GoesOn => {
            tracing::warn!(
                partition = %opening.at,
                "the log goes on behind where the checkpoint has it closed, as if an older checkpoint had been put \
                 back; what is behind is scanned"
            );
            Ok(None)
        }
    }
}

/// The log a closed entry describes, without a look at the disk; `None` where the entry isn't closed or not whole.
fn as_closed(entry: &LogEntry, config: LogConfig) -> Option<Found> {
    let active = *entry.active();
    let index = match active.is_empty() {
        true => SegmentIndex::new(active.segment),
        false => decode_sidecar(&entry.active_index).ok().filter(|(summary, _)| *summary == active)?.1,
    };
    if !entry.is_closed {
        return None;
    }
    let (leader_epochs, producers) = decode_states(entry).ok()?;
    let sealed = entry.segments.iter().take(entry.segments.len() - 1);
    let sealed = sealed.map(|summary| RecoveredSegment { summary: *summary, index: None });
    let last = RecoveredSegment { summary: active, index: Some(index) };
    let segments: Vec<_> = sealed.chain([last]).collect();
    let files = segments.iter().map(|segment| segment.summary).filter(|summary| !summary.is_empty());
    let files = files.map(|summary| summary.segment).collect();
    let (log_start, high_watermark) = (entry.log_start, entry.high_watermark);
    let found = Recovered { log_start, high_watermark, segments, leader_epochs, producers };
    Some(Found { log: Log::recovered(config, found).ok()?, files, recorded: Recorded::Closed })
}

fn decode_states(entry: &LogEntry) -> Result<(LeaderEpochs, Producers), CorruptCheckpoint> {
    let (leader_epochs, _) =
        LeaderEpochs::decode(&entry.leader_epochs).map_err(|_| CorruptCheckpoint::Log)?;
    let (producers, _) = Producers::decode(&entry.producers).map_err(|_| CorruptCheckpoint::Log)?;
    Ok((leader_epochs, producers))
}

async fn make_folders<I: Io>(shard: &Shard<I>, opening: &Opening) -> Result<(), DiskError> {
    let folder = shard.layout.partition(opening.at);
    shard.io.create_folder(&folder).await.map_err(disk(DiskOperation::MakeFolder, &folder))?;
    if is_named(shard, opening).await? {
        return Ok(());
    }
    let name = shard.layout.topic_name(opening.at.topic);
    let written = shard.io.write_file(&name, opening.topic_name.clone().into_bytes()).await;
    written.map_err(disk(DiskOperation::Write, &name))
}

/// Whether the topic's folder says whose it is.
async fn is_named<I: Io>(shard: &Shard<I>, opening: &Opening) -> Result<bool, DiskError> {
    let name = shard.layout.topic_name(opening.at.topic);
    match shard.io.read_file(&name, opening.topic_name.len()).await {
        Ok(known) => Ok(known == opening.topic_name.as_bytes()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::FileTooLarge) => {
            Ok(false)
        }
        Err(error) => Err(DiskError::new(DiskOperation::Read, &name, &error)),
    }
}

/// Scans from the checkpoint on.
async fn recover<I: Io>(
    shard: &Rc<Shard<I>>,
    opening: &Opening,
    entry: &LogEntry,
    on_disk: &OnDisk,
) -> Result<Found, StoreError> {
    let folder = shard.layout.partition(opening.at);
    let active = *entry.active();
    let (leader_epochs, producers) = decode_states(entry).map_err(|why| StoreError::Corrupt {
        file: layout::segment(&folder, active.segment.0),
        position: 0,
        why: why.into(),
    })?;
    let sealed = entry.segments.iter().take(entry.segments.len() - 1);
    let sealed: Vec<_> = sealed.map(|summary| RecoveredSegment { summary: *summary, index: None }).collect();
    let start = engine_log::Checkpoint {
        summary: active,
        durable_position: active.end_position,
        leader_epochs,
        producers,
    };
    let segments = on_disk.segments();
    let scanned = scan_chain(shard, &folder, start, opening.config, &segments).await?;
    // What an entry tells of is durable, the file's name in its folder too; a file without a batch may not be.
    let is_known = !active.is_empty() || !on_disk.has(active.segment);
    if !(is_known && scanned.is_nothing_new() && on_disk.ends_with(active.segment)) {
        make_sure(shard, opening, &scanned, &segments).await?;
    }
    found(shard, opening, (entry.log_start, entry.high_watermark), sealed, scanned, &segments)
}

/// Scans everything: no checkpoint knows the partition.
async fn recover_all<I: Io>(
    shard: &Rc<Shard<I>>,
    opening: &Opening,
    on_disk: &BTreeSet<SegmentId>,
) -> Result<Found, StoreError> {
    let folder = shard.layout.partition(opening.at);
    let first = *on_disk.first().expect("there is a segment to recover");
    tracing::warn!(partition = %opening.at, "no checkpoint knows this partition; its whole log is scanned");
    let start = engine_log::Checkpoint::segment_start(first, 0, LeaderEpochs::new(), Producers::new());
    let scanned = scan_chain(shard, &folder, start, opening.config, on_disk).await?;
    let end = scanned.end();
    if on_disk.last().is_some_and(|last| last.0 > end.offset) {
        // Whether the break was durable can't be known, and there is more behind it: too much to be a torn tail.
        let segment = scanned.last_segment();
        let why = scanned.cause.map_or(Corruption::FileTooShort, Corruption::Batch);
        let file = layout::segment(&folder, segment.0);
        return Err(StoreError::Corrupt { file, position: u64::from(end.position), why });
    }
    make_sure(shard, opening, &scanned, on_disk).await?;
    found(shard, opening, (first.0, first.0), Vec::new(), scanned, on_disk)
}

/// Removes what lies behind the end, and makes sure of what lies before it.
async fn make_sure<I: Io>(
    shard: &Rc<Shard<I>>,
    opening: &Opening,
    scanned: &Scanned<I>,
    on_disk: &BTreeSet<SegmentId>,
) -> Result<(), StoreError> {
    let folder = shard.layout.partition(opening.at);
    let last = scanned.last_segment();
    remove_behind(shard, &folder, last, on_disk).await?;
    let end = scanned.end().position;
    for (segment, file) in &scanned.files {
        let path = layout::segment(&folder, segment.0);
        if *segment == last && scanned.cause.is_some() {
            let bytes_cut = written_behind(file, &path, end).await?;
            let segments_removed = on_disk.iter().filter(|segment| **segment > last).count();
            tracing::warn!(
                file = %path.display(), position = end, bytes_cut, segments_removed, "cut a torn tail off"
            );
            fence(&shard.io, file, &path, end).await?;
        } else {
            engine_io::DirectFile::flush(file).await.map_err(disk(DiskOperation::Flush, &path))?;
        }
    }
    Ok(())
}

/// Makes a log of what was found.
fn found<I: Io>(
    shard: &Shard<I>,
    opening: &Opening,
    (log_start, high_watermark): (Offset, Offset),
    sealed: Vec<RecoveredSegment>,
    scanned: Scanned<I>,
    on_disk: &BTreeSet<SegmentId>,
) -> Result<Found, StoreError> {
    let (last, end) = (scanned.last_segment(), scanned.end().position);
    shard.counters.count(|metrics| {
        metrics.recoveries += 1;
        metrics.bytes_recovered += scanned.bytes;
    });
    let files = on_disk.iter().copied().filter(|segment| *segment <= last).collect();
    let Scanned { segments, leader_epochs, producers, .. } = scanned;
    let segments: Vec<_> = sealed.into_iter().chain(segments).collect();
    let found = Recovered { log_start, high_watermark, segments, leader_epochs, producers };
    let log = Log::recovered(opening.config, found).map_err(|why| StoreError::Corrupt {
        file: layout::segment(&shard.layout.partition(opening.at), last.0),
        position: u64::from(end),
        why: Corruption::Segments(why),
    })?;
    Ok(Found { log, files, recorded: Recorded::Nothing })
}

/// Removes the segments behind the last one, the last first, and what was made ready for later.
async fn remove_behind<I: Io>(
    shard: &Shard<I>,
    folder: &Path,
    last: SegmentId,
    on_disk: &BTreeSet<SegmentId>,
) -> Result<(), DiskError> {
    let io = &shard.io;
    remove(io, &layout::next_segment(folder)).await?;
    for segment in on_disk.iter().rev().take_while(|segment| **segment > last) {
        remove(io, &layout::segment(folder, segment.0)).await?;
        remove(io, &layout::index(folder, segment.0)).await?;
    }
    remove(io, &layout::index(folder, last.0)).await?;
    shard.flush_folder(folder).await
}
