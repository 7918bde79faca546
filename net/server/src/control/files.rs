//! The metadata's files: one write-ahead log and the snapshot it builds on, in the folder `metadata`.
//!
//! ```text
//! metadata/00000000000000000001.snapshot     named by the index of the last entry in it
//! metadata/00000000000000000001.wal          named by the number of its first frame
//! ```
//!
//! The newest log is the one that counts. A new one gets its name when its first frame is durable, and only then do the
//! files before it go. Frames are written in whole blocks; the last block is padded with zeros and written again when
//! more comes.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use engine_io::{BLOCK_BYTES, Buffer, DirectFile, Io, OpenMode};
use replication::metadata::snapshot::Snapshot;
use replication::metadata::wal::{self, Recovered, WalFrame};

/// The largest snapshot read, in bytes.
const SNAPSHOT_BYTES_MAX: usize = 1 << 30;
/// How much of the log one read takes.
const READ_BYTES: usize = 1 << 20;

/// Why the metadata's files can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesError {
    /// The system refused.
    #[error("{} of {} failed: {error}", .what, .path.display())]
    Disk { what: &'static str, path: PathBuf, error: io::Error },
    /// There is no log.
    #[error("{} holds no metadata log; the folder was formatted and its metadata is gone. Restore the whole data folder from a backup, not its metadata alone", .0.display())]
    NoLog(PathBuf),
    /// The log is damaged.
    #[error("{}: {error}. Nothing was changed; restore the whole data folder from a backup, not this file alone", path.display())]
    Log { path: PathBuf, error: wal::WalError },
    /// The snapshot is damaged.
    #[error("{}: {why}. Nothing was changed; restore the whole data folder from a backup, not this file alone", path.display())]
    Snapshot { path: PathBuf, why: String },
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FilesError {
    move |error| FilesError::Disk { what, path: path.to_owned(), error }
}

/// The open log, and where everything is.
pub(crate) struct MetadataFiles<I: Io> {
    io: I,
    folder: PathBuf,
    wal: WalFile<I>,
}

/// Writes the first snapshot and the log that builds on it into an empty data folder.
pub(crate) async fn create<I: Io>(
    io: &I,
    data_folder: &Path,
    snapshot: &Snapshot,
    frame: &WalFrame,
) -> Result<(), FilesError> {
    let folder = folder_of(data_folder);
    io.create_folder(&folder).await.map_err(failed("creation", &folder))?;
    write_snapshot(io, &folder, snapshot).await?;
    WalFile::create(io, &folder, frame).await?.file.close().await.map_err(failed("closing", &folder))
}

fn folder_of(data_folder: &Path) -> PathBuf {
    data_folder.join("metadata")
}

fn snapshot_path(folder: &Path, index: u64) -> PathBuf {
    folder.join(format!("{index:020}.snapshot"))
}

fn wal_path(folder: &Path, sequence: u64) -> PathBuf {
    folder.join(format!("{sequence:020}.wal"))
}

async fn write_snapshot<I: Io>(io: &I, folder: &Path, snapshot: &Snapshot) -> Result<(), FilesError> {
    let path = snapshot_path(folder, snapshot.position().index);
    io.write_file(&path, snapshot.encode()).await.map_err(failed("writing", &path))
}

impl<I: Io> MetadataFiles<I> {
    /// Opens the newest log and reads the snapshot it builds on. What a crash left behind the log's end is zeroed.
    pub(crate) async fn open(io: &I, data_folder: &Path) -> Result<(Self, Snapshot, Recovered), FilesError> {
        let folder = folder_of(data_folder);
        let newest = newest_wal(io, &folder).await?;
        let path = newest.ok_or_else(|| FilesError::NoLog(folder.clone()))?;
        let (wal, recovered) = WalFile::open(io, &path).await?;
        let snapshot = read_snapshot(io, &folder, recovered.snapshot().index).await?;
        Ok((Self { io: io.clone(), folder, wal }, snapshot, recovered))
    }

    /// Makes `frames` durable, in order. One write and one flush for all of one file.
    pub(crate) async fn append(&mut self, frames: &[WalFrame]) -> Result<(), FilesError> {
        let mut bytes = Vec::new();
        for frame in frames {
            if frame.starts_file {
                self.wal.append(&core::mem::take(&mut bytes)).await?;
                self.begin_file(frame).await?;
            } else {
                bytes.extend_from_slice(&frame.bytes);
            }
        }
        self.wal.append(&bytes).await
    }

    /// Makes a snapshot durable under its name.
    pub(crate) async fn write_snapshot(&self, snapshot: &Snapshot) -> Result<(), FilesError> {
        write_snapshot(&self.io, &self.folder, snapshot).await
    }

    /// Goes on in a new log that begins with `frame`, and removes what it doesn't build on.
    async fn begin_file(&mut self, frame: &WalFrame) -> Result<(), FilesError> {
        let wal = WalFile::create(&self.io, &self.folder, frame).await?;
        let replaced = core::mem::replace(&mut self.wal, wal);
        replaced.file.close().await.map_err(failed("closing", &replaced.path))?;
        self.remove_older(frame).await
    }

    async fn remove_older(&self, frame: &WalFrame) -> Result<(), FilesError> {
        let begun = wal::recover(&frame.bytes)
            .map_err(|error| FilesError::Log { path: self.wal.path.clone(), error })?;
        let snapshot = snapshot_path(&self.folder, begun.snapshot().index);
        let names = self.io.list_folder(&self.folder).await.map_err(failed("listing", &self.folder))?;
        for name in names {
            let path = self.folder.join(name);
            let older_wal = has_extension(&path, "wal") && path < self.wal.path;
            let older_snapshot = has_extension(&path, "snapshot") && path < snapshot;
            if older_wal || older_snapshot {
                self.io.remove_file(&path).await.map_err(failed("removal", &path))?;
            }
        }
        Ok(())
    }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

async fn newest_wal<I: Io>(io: &I, folder: &Path) -> Result<Option<PathBuf>, FilesError> {
    let names = match io.list_folder(folder).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        names => names.map_err(failed("listing", folder))?,
    };
    Ok(names.into_iter().map(|name| folder.join(name)).filter(|path| has_extension(path, "wal")).max())
}

async fn read_snapshot<I: Io>(io: &I, folder: &Path, index: u64) -> Result<Snapshot, FilesError> {
    let path = snapshot_path(folder, index);
    let bytes = io.read_file(&path, SNAPSHOT_BYTES_MAX).await.map_err(failed("reading", &path))?;
    Snapshot::decode(&bytes).map_err(|error| FilesError::Snapshot { path, why: error.to_string() })
}

/// The log file that is appended to.
struct WalFile<I: Io> {
    io: I,
    path: PathBuf,
    file: I::File,
    /// Where the last block begins, in bytes.
    position: u64,
    /// What is in it already.
    tail: Vec<u8>,
}

impl<I: Io> WalFile<I> {
    /// Makes a file that begins with `frame`; once resolved it has its name and is durable.
    async fn create(io: &I, folder: &Path, frame: &WalFrame) -> Result<Self, FilesError> {
        let path = wal_path(folder, frame.sequence);
        let unnamed = path.with_extension("wal.tmp");
        match io.remove_file(&unnamed).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("removal", &unnamed)(error));
            }
            Ok(()) | Err(_) => {}
        }
        let file = io.open(&unnamed, OpenMode::New).await.map_err(failed("creation", &unnamed))?;
        let mut wal = Self { io: io.clone(), path: path.clone(), file, position: 0, tail: Vec::new() };
        wal.append(&frame.bytes).await?;
        io.rename(&unnamed, &path).await.map_err(failed("renaming", &unnamed))?;
        io.flush_folder(folder).await.map_err(failed("flushing", folder))?;
        Ok(wal)
    }

    async fn open(io: &I, path: &Path) -> Result<(Self, Recovered), FilesError> {
        let file = io.open(path, OpenMode::Existing).await.map_err(failed("opening", path))?;
        // What the cache shows may not be durable yet: it must be before anything is built on it.
        file.flush().await.map_err(failed("flushing", path))?;
        let bytes = read_whole::<I>(&file).await.map_err(failed("reading", path))?;
        let recovered =
            wal::recover(&bytes).map_err(|error| FilesError::Log { path: path.to_owned(), error })?;
        let end = recovered.bytes();
        let block = end / BLOCK_BYTES * BLOCK_BYTES;
        let tail = bytes[block..end].to_vec();
        let position = u64::try_from(block).expect("a file's size has 64 bits");
        let wal = Self { io: io.clone(), path: path.to_owned(), file, position, tail };
        if recovered.is_torn() {
            wal.zero(bytes.len() - block).await?;
        }
        Ok((wal, recovered))
    }

    /// Appends `bytes` and makes them durable.
    async fn append(&mut self, bytes: &[u8]) -> Result<(), FilesError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.tail.extend_from_slice(bytes);
        self.write_tail(self.tail.len().next_multiple_of(BLOCK_BYTES)).await?;
        let whole = self.tail.len() / BLOCK_BYTES * BLOCK_BYTES;
        self.tail.drain(..whole);
        self.position += u64::try_from(whole).expect("a file's size has 64 bits");
        Ok(())
    }

    /// Writes zeros behind the end, so that at least `bytes` bytes from the last block's start on are as they should be.
    async fn zero(&self, bytes: usize) -> Result<(), FilesError> {
        self.write_tail(bytes.next_multiple_of(BLOCK_BYTES)).await
    }

    /// Writes the tail, padded with zeros to `bytes` bytes, and flushes.
    async fn write_tail(&self, bytes: usize) -> Result<(), FilesError> {
        let mut buffer = self.io.buffer(bytes);
        buffer.as_mut_slice()[..self.tail.len()].copy_from_slice(&self.tail);
        self.file.write(self.position, Rc::new(buffer)).await.map_err(failed("writing", &self.path))?;
        self.file.flush().await.map_err(failed("flushing", &self.path))
    }
}

async fn read_whole<I: Io>(file: &I::File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let position = u64::try_from(bytes.len()).expect("a file's size has 64 bits");
        let read = file.read(position, READ_BYTES).await?;
        bytes.extend_from_slice(read.as_ref());
        if read.as_ref().len() < READ_BYTES {
            return Ok(bytes);
        }
    }
}
