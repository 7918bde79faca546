//! In which log directory each partition of a shard lies.

use std::collections::BTreeMap;

use engine_record::TopicPartition;

/// A log directory's place in the node's list; the same on every shard, as long as the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirectoryIndex(pub(crate) usize);

/// Where the partitions of a shard lie, and which directories are online.
#[derive(Debug)]
pub(crate) struct Placement {
    directories: Vec<Directory>,
    bound: BTreeMap<TopicPartition, DirectoryIndex>,
}

#[derive(Clone, Copy, Debug)]
struct Directory {
    is_online: bool,
    /// Partitions bound to it.
    partitions: usize,
}

/// What was found of a partition's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// Nothing was looked for: it has been created since the start.
    New,
    /// It lies in these directories, of those online.
    In(&'a [DirectoryIndex]),
}

/// Why a partition has no directory to be opened in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unplaced {
    /// It lies in two: which of them is the log can't be known.
    InTwo(DirectoryIndex, DirectoryIndex),
    /// It lies in one that is offline.
    Offline(DirectoryIndex),
    /// It was found nowhere, and may lie in a directory that is offline.
    Nowhere,
}

impl Placement {
    /// No partition yet; `online` tells of each directory whether it is.
    pub(crate) fn new(online: impl IntoIterator<Item = bool>) -> Self {
        let directory = |is_online| Directory { is_online, partitions: 0 };
        Self { directories: online.into_iter().map(directory).collect(), bound: BTreeMap::new() }
    }

    /// The directory in which a partition is to be opened. Decided once: whatever becomes of the attempt, the next one is
    /// made in the same directory, since this one may have left something there.
    ///
    /// `is_full` tells of a directory whether its drive takes no records at the moment.
    pub(crate) fn place(
        &mut self,
        at: TopicPartition,
        found: Found<'_>,
        is_full: impl Fn(DirectoryIndex) -> bool,
    ) -> Result<DirectoryIndex, Unplaced> {
        let directory = match (self.directory_of(at), found) {
            (Some(bound), _) => bound,
            (None, Found::New) => self.for_new(is_full)?,
            (None, Found::In([])) if self.is_any_offline() => return Err(Unplaced::Nowhere),
            (None, Found::In([])) => self.for_new(is_full)?,
            (None, Found::In([one])) => *one,
            (None, Found::In([first, second, ..])) => return Err(Unplaced::InTwo(*first, *second)),
        };
        if !self.is_online(directory) {
            return Err(Unplaced::Offline(directory));
        }
        self.bind(at, directory);
        Ok(directory)
    }

    /// The directory of a partition that is nowhere: of those online the first with the fewest, and a full one only where
    /// all are.
    fn for_new(&self, is_full: impl Fn(DirectoryIndex) -> bool) -> Result<DirectoryIndex, Unplaced> {
        let all = self.directories.iter().enumerate();
        let online = all.filter(|(_, directory)| directory.is_online);
        let online = online.map(|(index, directory)| (DirectoryIndex(index), directory.partitions));
        let best = online.min_by_key(|(index, partitions)| (is_full(*index), *partitions));
        best.map(|(index, _)| index).ok_or(Unplaced::Nowhere)
    }

    fn bind(&mut self, at: TopicPartition, directory: DirectoryIndex) {
        if self.bound.insert(at, directory).is_none() {
            self.directories[directory.0].partitions += 1;
        }
    }

    /// The partition is gone; where it lay, as far as that is known.
    pub(crate) fn release(&mut self, at: TopicPartition) -> Option<DirectoryIndex> {
        let directory = self.bound.remove(&at)?;
        self.directories[directory.0].partitions -= 1;
        Some(directory)
    }

    /// Where a partition lies.
    pub(crate) fn directory_of(&self, at: TopicPartition) -> Option<DirectoryIndex> {
        self.bound.get(&at).copied()
    }

    /// The partitions in a directory.
    pub(crate) fn partitions_in(&self, directory: DirectoryIndex) -> Vec<TopicPartition> {
        self.bound.iter().filter(|(_, bound)| **bound == directory).map(|(at, _)| *at).collect()
    }

    /// How many there are.
    pub(crate) fn count_in(&self, directory: DirectoryIndex) -> usize {
        self.directories[directory.0].partitions
    }

    /// Takes a directory offline; `false` where it is already.
    pub(crate) fn set_offline(&mut self, directory: DirectoryIndex) -> bool {
        core::mem::replace(&mut self.directories[directory.0].is_online, false)
    }

    pub(crate) fn is_online(&self, directory: DirectoryIndex) -> bool {
        self.directories[directory.0].is_online
    }

    fn is_any_offline(&self) -> bool {
        self.directories.iter().any(|directory| !directory.is_online)
    }

    pub(crate) fn are_all_offline(&self) -> bool {
        self.directories.iter().all(|directory| !directory.is_online)
    }
}

#[cfg(test)]
mod tests;
