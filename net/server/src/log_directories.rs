//! The log directories of a shard: a store for each, and which partition lies in which.
//!
//! ```text
//! placement.rs   where a partition is opened (pure)
//! failures.rs    one directory's failure is all shards' at once
//! registry.rs    which directories the node has ever used (pure)
//! start.rs       which of those are there at a start, and making new ones
//! ```

pub(crate) mod failures;
pub(crate) mod placement;
mod registry;
mod start;

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use engine_io::{Io, Signal, is_no_descriptor, together};
use engine_record::{PartitionIndex, ShardId, TopicId, TopicPartition};
use engine_store::{
    ConfigError, DiskError, DiskOperation, FlushScope, LogConfig, Resources, Store, StoreConfig, StoreError,
    StoreFailure, StoreMetrics,
};

use crate::config::Config;
use crate::disk_space::DiskSpace;
use crate::node::NodeError;
use failures::DirectoryFailures;
use placement::{DirectoryIndex, Found, Placement, Unplaced};

pub use start::{DirectoryError, Named, Prepared, REGISTRY, format, prepare};

/// A log directory that the node starts with.
#[derive(Clone, Debug)]
pub struct LogDirectory {
    /// Its folder.
    pub path: PathBuf,
    /// Which writes one flush covers there.
    pub flush_scope: FlushScope,
    /// Why it can't be used, where it can't: its partitions are then offline.
    pub offline: Option<String>,
}

impl LogDirectory {
    /// One that can be used.
    #[must_use]
    pub fn online(path: impl Into<PathBuf>, flush_scope: FlushScope) -> Self {
        Self { path: path.into(), flush_scope, offline: None }
    }
}

/// What a shard has in a log directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDirectoryView {
    /// Its folder.
    pub path: PathBuf,
    /// Whether it is in use. Where it isn't, it has failed, or was not there at the start.
    pub is_online: bool,
    /// How many of the shard's partitions are known to lie in it, open or not.
    pub partitions: usize,
}

/// What a shard is given to open its log directories: all of it by directory, in the same order.
pub(crate) struct DirectoriesShare {
    pub(crate) directories: Vec<LogDirectory>,
    pub(crate) failures: DirectoryFailures,
    /// How full the drive of each is.
    pub(crate) spaces: Vec<DiskSpace>,
}

/// The log directories of one shard, in the order of the configuration.
pub(crate) struct LogDirectories<I: Io> {
    directories: Vec<Directory<I>>,
    placement: RefCell<Placement>,
    failures: DirectoryFailures,
    /// Why the last one went offline, once all have.
    last_failure: RefCell<Option<StoreFailure>>,
    all_offline: Signal,
}

struct Directory<I: Io> {
    path: PathBuf,
    /// `None` where it was offline when the shard began.
    store: Option<Store<I>>,
    space: DiskSpace,
}

/// Where a partition is to be opened.
pub(crate) struct Place<I: Io> {
    pub(crate) store: Store<I>,
    /// How full the drive is there.
    pub(crate) space: DiskSpace,
}

/// Where the partitions of a topic were found, of those that aren't open.
#[derive(Debug)]
pub(crate) enum Look {
    /// Nobody looked: they have been created since the start.
    New,
    /// In these directories.
    Found(BTreeMap<PartitionIndex, Vec<DirectoryIndex>>),
    /// It can't be known at the moment.
    Failed(StoreError),
}

/// Why a partition isn't opened anywhere.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error(
        "its log is in {first} and in {second}, and which of them counts can't be known. Nothing was changed. Stop the \
         node and move one of them out of the log directories"
    )]
    InTwo { first: String, second: String },
    #[error("its log directory {0} is offline")]
    Offline(String),
    #[error(
        "its log is in no log directory that is online, and may be in one that is offline; it is not made anew before \
         the node has been started with all of them"
    )]
    Nowhere,
    #[error(transparent)]
    Look(StoreError),
}

impl<I: Io> LogDirectories<I> {
    /// Opens a shard's store in each directory that is online; tells whether all were closed in order. Where there are
    /// several, one that doesn't open is offline.
    ///
    /// # Errors
    /// None of them opens: why the first doesn't.
    pub(crate) async fn open(
        io: &I,
        shard: ShardId,
        config: &Config,
        DirectoriesShare { directories, failures, spaces }: DirectoriesShare,
    ) -> Result<(Self, bool), NodeError> {
        let mut opened = Vec::with_capacity(directories.len());
        let (mut is_clean, mut first_error, mut resources) = (true, None, None);
        for (index, (directory, space)) in directories.iter().zip(spaces).enumerate() {
            let store = match open_store(io, shard, config, directory, &mut resources).await {
                Ok(Some((store, was_closed))) => {
                    is_clean &= was_closed;
                    Some(store)
                }
                Ok(None) => None,
                Err(error) => {
                    if directories.len() > 1 {
                        let failure = failure_of(&error, &directory.path);
                        tell(&failures, DirectoryIndex(index), &directory.path, failure, &error);
                    }
                    first_error = first_error.or(Some(error));
                    None
                }
            };
            opened.push(Directory { path: directory.path.clone(), store, space });
        }
        let is_any_online = opened.iter().any(|directory| directory.store.is_some());
        match first_error {
            Some(error) if !is_any_online => Err(NodeError::Store { shard, error }),
            Some(_) | None => Ok((Self::new(opened, failures), is_clean)),
        }
    }

    fn new(directories: Vec<Directory<I>>, failures: DirectoryFailures) -> Self {
        let placement = Placement::new(directories.iter().map(|directory| directory.store.is_some()));
        let (last_failure, all_offline) = (RefCell::new(None), Signal::new());
        Self { directories, placement: RefCell::new(placement), failures, last_failure, all_offline }
    }

    fn is_online(&self, directory: DirectoryIndex) -> bool {
        self.placement.borrow().is_online(directory)
    }

    /// The stores of the directories that are online.
    pub(crate) fn online(&self) -> impl Iterator<Item = (DirectoryIndex, &Store<I>)> {
        let all = self.directories.iter().enumerate();
        all.filter_map(|(index, directory)| Some((DirectoryIndex(index), directory.store.as_ref()?)))
            .filter(|(index, _)| self.is_online(*index))
    }

    pub(crate) fn path(&self, directory: DirectoryIndex) -> &Path {
        &self.directories[directory.0].path
    }

    /// Looks for the partitions of a topic in the directories that are online. Where there is one directory at all, they
    /// are in that or nowhere. `Err` names the directory that can't be looked at.
    pub(crate) async fn look_for(&self, topic: TopicId) -> Result<Look, (DirectoryIndex, StoreError)> {
        let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
        if self.directories.len() == 1 {
            return Ok(Look::Found(found));
        }
        for (index, store) in self.online() {
            match store.partitions_of(topic).await {
                Ok(here) => here.into_iter().for_each(|at| found.entry(at).or_default().push(index)),
                Err(StoreError::Disk(error)) if is_no_descriptor(error.code) => {
                    return Ok(Look::Failed(StoreError::Disk(error)));
                }
                Err(error) => return Err((index, error)),
            }
        }
        Ok(Look::Found(found))
    }

    /// Where a partition is to be opened. A new one goes to a drive that takes records, where there is one.
    pub(crate) fn place(&self, at: TopicPartition, look: &Look) -> Result<Place<I>, PlaceError> {
        let found = match look {
            Look::New => Found::New,
            Look::Found(found) => Found::In(found.get(&at.partition).map_or(&[], Vec::as_slice)),
            Look::Failed(error) => return Err(PlaceError::Look(error.clone())),
        };
        let is_full =
            |directory: DirectoryIndex| self.directories[directory.0].space.check_records().is_err();
        let placed = self.placement.borrow_mut().place(at, found, is_full);
        let name = |directory| self.path(directory).display().to_string();
        let directory = placed.map_err(|unplaced| match unplaced {
            Unplaced::InTwo(first, second) => PlaceError::InTwo { first: name(first), second: name(second) },
            Unplaced::Offline(directory) => PlaceError::Offline(name(directory)),
            Unplaced::Nowhere => PlaceError::Nowhere,
        })?;
        let Directory { store, space, .. } = &self.directories[directory.0];
        let store = store.clone().expect("a directory without a store is offline");
        Ok(Place { store, space: space.clone() })
    }

    /// The partition is to go: the stores that may have something of it. Those of a directory that is offline keep it
    /// until a start finds it as an orphan.
    pub(crate) fn release(&self, at: TopicPartition) -> Vec<Store<I>> {
        let bound = self.placement.borrow_mut().release(at);
        let stores = self.online().filter(|(index, _)| bound.is_none_or(|bound| bound == *index));
        stores.map(|(_, store)| store.clone()).collect()
    }

    /// Takes a directory offline, here and on all shards; the partitions that were in it, or `None` where it was offline
    /// already. The first shard to notice says so in the log.
    pub(crate) fn take_offline(
        &self,
        directory: DirectoryIndex,
        failure: &StoreFailure,
    ) -> Option<Vec<TopicPartition>> {
        tell(&self.failures, directory, self.path(directory), failure.clone(), failure);
        if !self.placement.borrow_mut().set_offline(directory) {
            return None;
        }
        if let Some(store) = &self.directories[directory.0].store {
            store.fail(failure.clone());
        }
        let placement = self.placement.borrow();
        if placement.are_all_offline() {
            self.last_failure.replace(Some(failure.clone()));
            self.all_offline.notify();
        }
        Some(placement.partitions_in(directory))
    }

    /// The directories that have failed on any shard since the last call; resolves when there is one.
    pub(crate) async fn next_failures(&self) -> Vec<(DirectoryIndex, StoreFailure)> {
        self.failures.next().await;
        self.failures.all()
    }

    /// Resolves when no directory is left, with why the last one went.
    pub(crate) async fn all_offline(&self) -> StoreFailure {
        loop {
            let next = self.all_offline.wait();
            if let Some(failure) = self.last_failure.borrow().clone() {
                return failure;
            }
            next.await;
        }
    }

    /// Closes every store that is online.
    ///
    /// # Errors
    /// The first that doesn't end well.
    pub(crate) async fn shutdown(&self) -> Result<(), StoreError> {
        let outcome = Cell::new(Ok(()));
        let stores: Vec<_> = self.online().map(|(_, store)| store.clone()).collect();
        let ends = stores.iter().map(async |store| {
            let ended = store.shutdown().await;
            outcome.set(outcome.replace(Ok(())).and(ended));
        });
        together(stores.len().max(1), ends).await;
        outcome.into_inner()
    }

    /// What all stores have counted, those included that have failed.
    pub(crate) fn metrics(&self) -> StoreMetrics {
        let stores = self.directories.iter().filter_map(|directory| directory.store.as_ref());
        stores.map(Store::metrics).fold(StoreMetrics::default(), StoreMetrics::with)
    }

    /// Whether a partition's log may be configured so: that doesn't depend on where it lies.
    ///
    /// # Errors
    /// Where the largest batch doesn't fit the shard's memory.
    pub(crate) fn check_log_config(&self, config: &LogConfig) -> Result<(), ConfigError> {
        let store = self.directories.iter().find_map(|directory| directory.store.as_ref());
        store.map_or(Ok(()), |store| store.check_log_config(config))
    }

    pub(crate) fn views(&self) -> Vec<LogDirectoryView> {
        let placement = self.placement.borrow();
        let view = |(index, directory): (usize, &Directory<I>)| LogDirectoryView {
            path: directory.path.clone(),
            is_online: placement.is_online(DirectoryIndex(index)),
            partitions: placement.count_in(DirectoryIndex(index)),
        };
        self.directories.iter().enumerate().map(view).collect()
    }

    /// The partitions that are known to lie in each directory, open or not, in order.
    pub(crate) fn partitions(&self) -> Vec<Vec<TopicPartition>> {
        let placement = self.placement.borrow();
        (0..self.directories.len()).map(|index| placement.partitions_in(DirectoryIndex(index))).collect()
    }
}

/// The directory's store and whether it was closed in order; `None` where it is offline.
async fn open_store<I: Io>(
    io: &I,
    shard: ShardId,
    config: &Config,
    directory: &LogDirectory,
    resources: &mut Option<Resources<I>>,
) -> Result<Option<(Store<I>, bool)>, StoreError> {
    if directory.offline.is_some() {
        return Ok(None);
    }
    let config = store_config(shard, config, directory);
    let resources = resources.get_or_insert_with(|| Resources::new(&config));
    let (store, recovery) = Store::open_sharing(io, config, resources).await?;
    Ok(Some((store, recovery.is_clean)))
}

fn store_config(shard: ShardId, config: &Config, directory: &LogDirectory) -> StoreConfig {
    let mut store = StoreConfig::new(directory.path.clone(), shard, config.shards);
    store.flush_scope = directory.flush_scope;
    store.idle_descriptors_max = config.limits.idle_files;
    store.pool_bytes = usize::try_from(config.limits.pool_bytes).unwrap_or(usize::MAX);
    store
}

/// Tells all shards that a directory has failed, and the operator, once.
fn tell(
    failures: &DirectoryFailures,
    directory: DirectoryIndex,
    path: &Path,
    failure: StoreFailure,
    error: &dyn core::fmt::Display,
) {
    if failures.report(directory, failure) {
        tracing::error!(
            directory = %path.display(),
            %error,
            "a log directory has failed: its partitions are offline until the drive is in order and the node is started \
             again"
        );
    }
}

/// What ends the stores of a directory on all shards, where one can't use it.
pub(crate) fn failure_of(error: &StoreError, path: &Path) -> StoreFailure {
    match error {
        StoreError::Failed(failure) => failure.clone(),
        StoreError::Disk(error) => StoreFailure(error.clone()),
        StoreError::Config(_)
        | StoreError::Format(_)
        | StoreError::Corrupt { .. }
        | StoreError::AlreadyOpen(_)
        | StoreError::NotOpen(_)
        | StoreError::Truncate(_)
        | StoreError::LeaderEpoch { .. }
        | StoreError::Held
        | StoreError::Closed => StoreFailure(DiskError {
            operation: DiskOperation::Open,
            path: path.to_owned(),
            kind: std::io::ErrorKind::InvalidData,
            code: None,
        }),
    }
}
