//! What can go wrong, in three kinds: refusals that leave no trace, damage, and the store's own end.

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

use engine_io::{is_no_descriptor, is_storage_full};
use engine_record::{CorruptBatch, Offset, ShardId, TopicPartition};

use crate::checkpoint::CorruptCheckpoint;
use crate::config::ConfigError;
use crate::format::FormatError;
use crate::layout;

/// What was being done to a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOperation {
    /// Opening or creating a file.
    Open,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making writes durable.
    Flush,
    /// Giving a file space.
    Allocate,
    /// Setting a file's size.
    Truncate,
    /// Making a folder.
    MakeFolder,
    /// Listing a folder.
    ListFolder,
    /// Giving a file another name.
    Rename,
    /// Removing a file or a folder.
    Remove,
}

impl fmt::Display for DiskOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "opening",
            Self::Read => "reading",
            Self::Write => "writing to",
            Self::Flush => "flushing",
            Self::Allocate => "giving space to",
            Self::Truncate => "setting the size of",
            Self::MakeFolder => "making the folder",
            Self::ListFolder => "listing the folder",
            Self::Rename => "renaming a file to",
            Self::Remove => "removing",
        })
    }
}

/// An operation on a file or folder that the system refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {} failed: {}", path.display(), self.cause())]
pub struct DiskError {
    /// What was being done.
    pub operation: DiskOperation,
    /// To what.
    pub path: PathBuf,
    /// How the system called it.
    pub kind: io::ErrorKind,
    /// The system's number for it.
    pub code: Option<i32>,
}

impl DiskError {
    pub(crate) fn new(operation: DiskOperation, path: &Path, error: &io::Error) -> Self {
        Self { operation, path: path.to_owned(), kind: error.kind(), code: error.raw_os_error() }
    }

    /// Whether there was no space, and that is all: what a failed write or flush has left on disk can't be known,
    /// whatever its cause.
    pub(crate) fn is_storage_full(&self) -> bool {
        let is_full = is_storage_full(self.kind);
        match self.operation {
            DiskOperation::Open
            | DiskOperation::Allocate
            | DiskOperation::MakeFolder
            | DiskOperation::ListFolder
            | DiskOperation::Rename
            | DiskOperation::Remove => is_full,
            DiskOperation::Read | DiskOperation::Write | DiskOperation::Flush | DiskOperation::Truncate => {
                false
            }
        }
    }

    /// Whether there was no descriptor for it, and that is all: it was not begun.
    pub(crate) fn is_no_descriptor(&self) -> bool {
        is_no_descriptor(self.code)
    }

    /// Whether there was no space or no descriptor for it, and that is all: it may be tried again.
    pub(crate) fn is_refusal(&self) -> bool {
        self.is_storage_full() || self.is_no_descriptor()
    }

    /// The system's words and its number, or what is known without a number.
    fn cause(&self) -> String {
        let words = self
            .code
            .map_or_else(|| self.kind.to_string(), |code| io::Error::from_raw_os_error(code).to_string());
        let mut letters = words.chars();
        letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
    }
}

/// Names what was done to which path, for `map_err`.
pub(crate) fn disk(operation: DiskOperation, path: &Path) -> impl FnOnce(io::Error) -> DiskError + '_ {
    move |error| DiskError::new(operation, path, &error)
}

/// Why a store, or one of its partitions, doesn't open, close or change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A setting can't be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The folder's format isn't ours to use.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The system refused an operation. Nothing was acknowledged that this could lose.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Bytes that had been durable are damaged or gone. The partition is quarantined: nothing of it was changed.
    #[error("{}. {}", damage(file, *position, *why), advice(file, *why))]
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// The first byte that isn't what it was.
        position: u64,
        /// What is wrong there.
        why: Corruption,
    },
    /// The partition is open already.
    #[error("partition {0} is open already")]
    AlreadyOpen(TopicPartition),
    /// There is no such partition open.
    #[error("partition {0} is not open")]
    NotOpen(TopicPartition),
    /// Readers held on to what was to be cut for longer than they may. Close their connections and try again.
    #[error("readers hold what is to be cut")]
    Held,
    /// The log can't be cut there.
    #[error(transparent)]
    Truncate(#[from] engine_log::TruncateError),
    /// The log knows a later leader epoch than the one it was opened in.
    #[error("leader epoch {given} is older than the log's {known}")]
    LeaderEpoch {
        /// The latest epoch in the log.
        known: engine_record::LeaderEpoch,
        /// The epoch given.
        given: engine_record::LeaderEpoch,
    },
    /// The store or the partition is shut down.
    #[error("closed")]
    Closed,
    /// The store has failed and answers nothing any more.
    #[error("the store has failed: {0}")]
    Failed(StoreFailure),
}

/// What is wrong with bytes that had been durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Corruption {
    /// A batch below the durable point can't be read.
    #[error(transparent)]
    Batch(#[from] engine_log::BrokenChain),
    /// The file ends before the durable point.
    #[error("the file ends before its durable bytes do")]
    FileTooShort,
    /// The file isn't there.
    #[error("the file is missing")]
    FileMissing,
    /// A checkpoint can't be read.
    #[error(transparent)]
    Checkpoint(#[from] CorruptCheckpoint),
    /// The segments don't make a log.
    #[error(transparent)]
    Segments(#[from] engine_log::RecoveredError),
}

/// What is wrong with which file.
fn damage(file: &Path, position: u64, why: Corruption) -> String {
    let file = file.display();
    match why {
        Corruption::FileMissing => format!("{file} is missing, and held durable records"),
        Corruption::FileTooShort => format!("{file} ends at byte {position}, before its durable records do"),
        Corruption::Checkpoint(why) => format!("{file} is damaged: {why}"),
        Corruption::Batch(_) | Corruption::Segments(_) => {
            format!("{file} is damaged at byte {position}: {why}")
        }
    }
}

/// What can be done about a damaged segment.
pub(crate) const SEGMENT_ADVICE: &str = "Nothing was changed. Stop the node and put the file, or the whole data folder, \
                                         back from a copy; or give the topic up and delete it";

/// What can be done about a damaged file.
fn advice(file: &Path, why: Corruption) -> String {
    let slot = file.file_name().and_then(|name| layout::checkpoint_slot(Path::new(name)));
    match (why, slot) {
        (Corruption::Checkpoint(_), Some((shard, _))) => checkpoint_advice(file, shard),
        (
            Corruption::Checkpoint(_)
            | Corruption::Batch(_)
            | Corruption::FileTooShort
            | Corruption::FileMissing
            | Corruption::Segments(_),
            _,
        ) => SEGMENT_ADVICE.to_owned(),
    }
}

/// Both slots must go: the older one alone would be believed.
fn checkpoint_advice(file: &Path, shard: ShardId) -> String {
    let folder = file.parent().unwrap_or(file).display();
    format!(
        "It is the checkpoint of shard {shard}, which says how far its logs are durable. Nothing was changed. Put the \
         whole data folder back from a copy; or move both {shard}.0 and {shard}.1 out of {folder}: the next start then \
         scans the logs of that shard whole, but takes durable records that are missing at a log's end for ones that \
         were never acknowledged"
    )
}

/// The write or flush that ended the store. It is never tried again: whether it took effect can't be known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct StoreFailure(pub DiskError);

/// Why a batch was not appended. The log is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The log refuses the batch.
    #[error(transparent)]
    Refused(#[from] engine_log::AppendError),
    /// There is no space for it. Later appends work once there is.
    #[error("no space left to append")]
    StorageFull,
    /// A file can't be opened at the moment.
    #[error(transparent)]
    Unavailable(DiskError),
    /// The batch is damaged: its checksum, which is compared as it is copied, is wrong.
    #[error(transparent)]
    Corrupt(#[from] CorruptBatch),
    /// The partition or the store is shut down.
    #[error("closed")]
    Closed,
    /// The store has failed.
    #[error("the store has failed: {0}")]
    Failed(StoreFailure),
}

/// Why nothing was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The offset isn't in the log.
    #[error("the offset is not between {log_start} and {log_end}")]
    OutOfRange {
        /// The earliest offset there is.
        log_start: Offset,
        /// The offset the next record gets.
        log_end: Offset,
    },
    /// The system refused an operation.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// What was read isn't a batch of this log.
    #[error("{}", damage(file, *position, *why))]
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// The first byte that isn't what it was.
        position: u64,
        /// What is wrong there.
        why: Corruption,
    },
    /// The partition or the store is shut down.
    #[error("closed")]
    Closed,
    /// The store has failed.
    #[error("the store has failed: {0}")]
    Failed(StoreFailure),
}

/// Why a wait ended before what it waited for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// The partition or the store is shut down.
    #[error("closed")]
    Closed,
    /// The store has failed.
    #[error("the store has failed: {0}")]
    Failed(StoreFailure),
}

impl From<WaitError> for AppendError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Closed => Self::Closed,
            WaitError::Failed(failure) => Self::Failed(failure),
        }
    }
}

impl From<WaitError> for ReadError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Closed => Self::Closed,
            WaitError::Failed(failure) => Self::Failed(failure),
        }
    }
}

/// Why records weren't deleted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeleteRecordsError {
    /// Clients haven't seen all that is to be deleted. Nothing has changed.
    #[error("deletion of records below {before} reaches over the high watermark {high_watermark}")]
    OutOfRange {
        /// Where the log was to start.
        before: Offset,
        /// The high watermark.
        high_watermark: Offset,
    },
    /// The deletion isn't durable.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<WaitError> for StoreError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Closed => Self::Closed,
            WaitError::Failed(failure) => Self::Failed(failure),
        }
    }
}

impl From<ReadError> for StoreError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Disk(error) => Self::Disk(error),
            ReadError::Corrupt { file, position, why } => Self::Corrupt { file, position, why },
            ReadError::Failed(failure) => Self::Failed(failure),
            // A store reads for itself only what is in the log.
            ReadError::OutOfRange { .. } | ReadError::Closed => Self::Closed,
        }
    }
}

impl From<StoreError> for AppendError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Disk(error) if error.is_storage_full() => Self::StorageFull,
            StoreError::Disk(error) => Self::Unavailable(error),
            StoreError::Failed(failure) => Self::Failed(failure),
            // The rest is of opening and cutting, and no part of an append.
            StoreError::Config(_)
            | StoreError::Format(_)
            | StoreError::Corrupt { .. }
            | StoreError::AlreadyOpen(_)
            | StoreError::NotOpen(_)
            | StoreError::Truncate(_)
            | StoreError::LeaderEpoch { .. }
            | StoreError::Held
            | StoreError::Closed => Self::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_operation_is_told_in_plain_words() {
        let said =
            |operation, error: &io::Error| DiskError::new(operation, Path::new("a/b"), error).to_string();
        assert_eq!(
            said(DiskOperation::Allocate, &io::Error::from_raw_os_error(28)),
            "giving space to a/b failed: no space left on device (os error 28)"
        );
        assert_eq!(
            said(DiskOperation::Flush, &io::ErrorKind::NotFound.into()),
            "flushing a/b failed: entity not found"
        );
    }
}
