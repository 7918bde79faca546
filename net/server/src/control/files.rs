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
//!
//! A log has space ahead, so that a full drive doesn't end the node: while no more is to be had, what would use up the
//! rest is refused before it is proposed. Space reads as zeros, which end a log as its end does. Where the process may have no
//! more files open, what can be put off is, and what was begun waits.

use core::time::Duration;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use engine_io::{BLOCK_BYTES, Buffer, DirectFile, Io, OpenMode, is_no_descriptor, is_storage_full};
use replication::metadata::snapshot::Snapshot;
use replication::metadata::wal::{self, Recovered, WalFrame};

/// The largest snapshot read, in bytes.
const SNAPSHOT_BYTES_MAX: usize = 1 << 30;
/// How much of the log one read takes.
const READ_BYTES: usize = 1 << 20;
/// How much space a log gets ahead, in bytes; again once half of it is used.
const SPACE_BYTES: u64 = 4 << 20;
/// What a command may take in the log besides its own bytes.
const FRAME_BYTES_MAX: u64 = 2 * BLOCK_BYTES as u64;
/// How long what waits for a descriptor pauses between its attempts.
const DESCRIPTOR_PAUSE: Duration = Duration::from_millis(20);

/// How much of a log's space a command must leave, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Enough to delete topics, which makes space.
    ForDeletions,
    /// Enough to start the node again.
    ForStarts,
}

impl Leave {
    const fn bytes(self) -> u64 {
        match self {
            Self::ForDeletions => 1 << 20,
            Self::ForStarts => 256 << 10,
        }
    }
}

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
    /// There is a log, and no snapshot that it goes on from.
    #[error("{} is gone, from which the metadata log beside it goes on. Nothing was changed; restore the whole data folder from a backup, not this file alone", .0.display())]
    NoSnapshot(PathBuf),
    /// The snapshot is damaged.
    #[error("{}: {why}. Nothing was changed; restore the whole data folder from a backup, not this file alone", path.display())]
    Snapshot { path: PathBuf, why: String },
}

impl FilesError {
    fn is_storage_full(&self) -> bool {
        matches!(self, Self::Disk { error, .. } if is_storage_full(error.kind()))
    }

    fn is_no_descriptor(&self) -> bool {
        matches!(self, Self::Disk { error, .. } if is_no_descriptor(error.raw_os_error()))
    }
}

/// Takes want of space or of descriptors for `false`.
fn unless_refused(done: Result<(), FilesError>) -> Result<bool, FilesError> {
    match done {
        Ok(()) => Ok(true),
        Err(error) if error.is_storage_full() || error.is_no_descriptor() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Takes want of a descriptor for `false`: nothing was tried then.
fn unless_no_descriptor(done: io::Result<()>) -> io::Result<bool> {
    match done {
        Err(error) if is_no_descriptor(error.raw_os_error()) => Ok(false),
        done => done.map(|()| true),
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FilesError {
    move |error| FilesError::Disk { what, path: path.to_owned(), error }
}

/// The open log, and where everything is.
pub(crate) struct MetadataFiles<I: Io> {
    io: I,
    folder: PathBuf,
    wal: WalFile<I>,
    /// The file of the next log, with its space.
    next: Option<I::File>,
    /// Bytes of the commands that were let through since the last append.
    promised: u64,
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
    let file = make_unnamed(io, &folder).await?;
    WalFile::begin(io, &folder, file, frame).await?.file.close().await.map_err(failed("closing", &folder))
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

/// Where a log is until its first frame is durable.
fn unnamed_path(folder: &Path) -> PathBuf {
    folder.join("next.wal.tmp")
}

/// An empty file for a log, in place of what a crash may have left of one.
async fn make_unnamed<I: Io>(io: &I, folder: &Path) -> Result<I::File, FilesError> {
    let path = unnamed_path(folder);
    match io.remove_file(&path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("removal", &path)(error)),
        Ok(()) | Err(_) => {}
    }
    io.open(&path, OpenMode::New).await.map_err(failed("creation", &path))
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
        let mut files = Self { io: io.clone(), folder, wal, next: None, promised: 0 };
        files.make_space().await?;
        Ok((files, snapshot, recovered))
    }

    /// Gets more space ahead where it is needed and there is some.
    pub(crate) async fn make_space(&mut self) -> Result<(), FilesError> {
        unless_refused(self.wal.make_space().await).map(drop)
    }

    /// Lets a command of `bytes` bytes through where the log keeps space for what is more important.
    pub(crate) fn admit(&mut self, bytes: usize, leave: Leave) -> bool {
        let needed = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_add(FRAME_BYTES_MAX);
        let promised = self.promised.saturating_add(needed);
        let is_admitted = promised.saturating_add(leave.bytes()) <= self.wal.space();
        if is_admitted {
            self.promised = promised;
        }
        is_admitted
    }

    /// Makes `frames` durable, in order. One write and one flush for all of one file.
    pub(crate) async fn append(&mut self, frames: &[WalFrame]) -> Result<(), FilesError> {
        self.promised = 0;
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

    /// Makes a snapshot durable under its name, and the file of the log to build on it; `false` where there is no space
    /// or no descriptor for them, and then it can be tried again.
    pub(crate) async fn write_snapshot(&mut self, snapshot: &Snapshot) -> Result<bool, FilesError> {
        Ok(unless_refused(self.make_next().await)?
            && unless_refused(write_snapshot(&self.io, &self.folder, snapshot).await)?)
    }

    async fn make_next(&mut self) -> Result<(), FilesError> {
        if self.next.is_some() {
            return Ok(());
        }
        let file = make_unnamed(&self.io, &self.folder).await?;
        if let Err(error) = file.allocate(0, SPACE_BYTES).await {
            // A part of the space may have been had, which others need now.
            let path = unnamed_path(&self.folder);
            self.io.remove_file(&path).await.map_err(failed("removal", &path))?;
            return Err(failed("allocation", &path)(error));
        }
        self.next = Some(file);
        Ok(())
    }

    /// Goes on in a new log that begins with `frame`, and removes what it doesn't build on.
    async fn begin_file(&mut self, frame: &WalFrame) -> Result<(), FilesError> {
        let file = match self.next.take() {
            Some(file) => file,
            None => make_unnamed(&self.io, &self.folder).await?,
        };
        let wal = WalFile::begin(&self.io, &self.folder, file, frame).await?;
        let replaced = core::mem::replace(&mut self.wal, wal);
        replaced.file.close().await.map_err(failed("closing", &replaced.path))?;
        // What can't be looked for now goes when the next log is begun.
        unless_refused(self.remove_older(frame).await).map(drop)
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
    let bytes = match io.read_file(&path, SNAPSHOT_BYTES_MAX).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(FilesError::NoSnapshot(path)),
        read => read.map_err(failed("reading", &path))?,
    };
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
    /// Below it the file has space, in bytes: as far as it is long, once the holes are filled that a copy may have left.
    allocated: u64,
}

impl<I: Io> WalFile<I> {
    /// Has an unnamed file begin with `frame`; once resolved it has its name and is durable.
    async fn begin(io: &I, folder: &Path, file: I::File, frame: &WalFrame) -> Result<Self, FilesError> {
        let (unnamed, path) = (unnamed_path(folder), wal_path(folder, frame.sequence));
        let allocated = file.size().await.map_err(failed("sizing", &unnamed))?;
        let mut wal =
            Self { io: io.clone(), path: path.clone(), file, position: 0, tail: Vec::new(), allocated };
        wal.append(&frame.bytes).await?;
        io.rename(&unnamed, &path).await.map_err(failed("renaming", &unnamed))?;
        // It has its name: there is no way back.
        while !unless_no_descriptor(io.flush_folder(folder).await).map_err(failed("flushing", folder))? {
            io.sleep(DESCRIPTOR_PAUSE).await;
        }
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
        let size = u64::try_from(bytes.len()).expect("a file's size has 64 bits");
        let used = position + tail.len().next_multiple_of(BLOCK_BYTES) as u64;
        let filled = file.allocate(0, size).await.map_err(failed("allocation", path));
        let allocated = if unless_refused(filled)? { size } else { used };
        let mut wal = Self { io: io.clone(), path: path.to_owned(), file, position, tail, allocated };
        if recovered.is_torn() {
            wal.zero(bytes.len() - block).await?;
        }
        Ok((wal, recovered))
    }

    /// How much may be appended before more space is needed, in bytes.
    fn space(&self) -> u64 {
        self.allocated.saturating_sub(self.position + self.tail.len() as u64)
    }

    async fn make_space(&mut self) -> Result<(), FilesError> {
        if self.space() >= SPACE_BYTES / 2 {
            return Ok(());
        }
        let from = self.allocated.next_multiple_of(BLOCK_BYTES as u64);
        self.file.allocate(from, SPACE_BYTES).await.map_err(failed("allocation", &self.path))?;
        self.allocated = from + SPACE_BYTES;
        Ok(())
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
    async fn zero(&mut self, bytes: usize) -> Result<(), FilesError> {
        self.write_tail(bytes.next_multiple_of(BLOCK_BYTES)).await
    }

    /// Writes the tail, padded with zeros to `bytes` bytes, and flushes.
    async fn write_tail(&mut self, bytes: usize) -> Result<(), FilesError> {
        let mut buffer = self.io.buffer(bytes);
        buffer.as_mut_slice()[..self.tail.len()].copy_from_slice(&self.tail);
        self.file.write(self.position, Rc::new(buffer)).await.map_err(failed("writing", &self.path))?;
        self.allocated = self.allocated.max(self.position + bytes as u64);
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

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use engine_record::NodeId;
    use replication::metadata::genesis;
    use replication::metadata::image::ClusterId;
    use sim::{CrashMode, Sim, SimIo};

    use super::*;

    const COMMAND_BYTES: usize = 50_000;

    fn frame(sequence: u64) -> WalFrame {
        WalFrame { sequence, starts_file: false, bytes: vec![0xa5; COMMAND_BYTES] }
    }

    async fn fill(files: &mut MetadataFiles<SimIo>, leave: Leave) -> usize {
        let mut taken = 0;
        while files.admit(COMMAND_BYTES, leave) {
            files.append(&[frame(2)]).await.unwrap();
            files.make_space().await.unwrap();
            taken += 1;
        }
        taken
    }

    #[test]
    fn on_a_full_drive_what_was_let_through_is_written_and_deletions_go_on_longest() {
        let sim = Sim::new(1);
        let node = sim.node();
        let (io, disk, folder) = (node.io(), node.disk(), Path::new("/data"));
        sim.block_on(async {
            let begun = genesis::alone(ClusterId([1; 16]), NodeId(1));
            create(&io, folder, &begun.snapshot, &begun.frame).await.unwrap();
            let (mut files, ..) = MetadataFiles::open(&io, folder).await.unwrap();
            disk.set_capacity(disk.used_bytes());
            let created = fill(&mut files, Leave::ForDeletions).await;
            assert!(created >= 50, "{created} commands of what was kept ahead");
            assert!(fill(&mut files, Leave::ForStarts).await > 5);
            assert!(files.admit(1_000, Leave::ForStarts) && !files.admit(1 << 20, Leave::ForStarts));
            files.append(&[frame(2)]).await.unwrap();
            disk.set_capacity(u64::MAX);
            files.make_space().await.unwrap();
            assert!(files.admit(1 << 20, Leave::ForDeletions));
        });
    }

    #[test]
    fn a_log_that_was_copied_with_holes_has_no_space_where_the_drive_has_none() {
        let sim = Sim::new(5);
        let node = sim.node();
        let (io, disk, folder) = (node.io(), node.disk(), Path::new("/data"));
        sim.block_on(async {
            let begun = genesis::alone(ClusterId([1; 16]), NodeId(1));
            create(&io, folder, &begun.snapshot, &begun.frame).await.unwrap();
            let (files, ..) = MetadataFiles::open(&io, folder).await.unwrap();
            let (path, size) = (files.wal.path.clone(), files.wal.allocated);
            drop(files);
            leave_holes(&io, &path, size).await;
            let capacity = disk.used_bytes();
            disk.set_capacity(capacity);
            let (mut files, ..) = MetadataFiles::open(&io, folder).await.unwrap();
            assert!(!files.admit(COMMAND_BYTES, Leave::ForDeletions) && !files.admit(1, Leave::ForStarts));
            drop(files);
            disk.set_capacity(u64::MAX);
            let (mut files, ..) = MetadataFiles::open(&io, folder).await.unwrap();
            disk.set_capacity(disk.used_bytes());
            assert!(fill(&mut files, Leave::ForDeletions).await >= 50);
        });
    }

    /// Makes the file one of its first block and a hole.
    async fn leave_holes(io: &SimIo, path: &Path, size: u64) {
        let old = io.open(path, OpenMode::Existing).await.unwrap();
        let mut block = io.buffer(BLOCK_BYTES);
        block.as_mut_slice().copy_from_slice(old.read(0, BLOCK_BYTES).await.unwrap().as_ref());
        io.remove_file(path).await.unwrap();
        let copy = io.open(path, OpenMode::New).await.unwrap();
        copy.write(0, Rc::new(block)).await.unwrap();
        copy.truncate(size).await.unwrap();
        copy.flush().await.unwrap();
    }

    #[test]
    fn commands_of_one_turn_are_counted_together() {
        let sim = Sim::new(2);
        let node = sim.node();
        sim.block_on(async {
            let begun = genesis::alone(ClusterId([1; 16]), NodeId(1));
            create(&node.io(), Path::new("/data"), &begun.snapshot, &begun.frame).await.unwrap();
            let (mut files, ..) = MetadataFiles::open(&node.io(), Path::new("/data")).await.unwrap();
            let mut together = Vec::new();
            while files.admit(COMMAND_BYTES, Leave::ForDeletions) {
                together.push(frame(2));
            }
            node.disk().set_capacity(node.disk().used_bytes());
            files.append(&together).await.unwrap();
        });
    }

    #[test]
    fn a_snapshot_without_space_is_put_off_and_the_log_goes_on() {
        let sim = Sim::new(3);
        let node = sim.node();
        let (disk, folder) = (node.disk(), Path::new("/data"));
        sim.block_on(async {
            let begun = genesis::alone(ClusterId([1; 16]), NodeId(1));
            create(&node.io(), folder, &begun.snapshot, &begun.frame).await.unwrap();
            let (mut files, ..) = MetadataFiles::open(&node.io(), folder).await.unwrap();
            disk.set_capacity(disk.used_bytes());
            assert!(!files.write_snapshot(&begun.snapshot).await.unwrap());
            files.append(&[]).await.unwrap();
            node.crash(CrashMode::LoseAllUnflushed);
            let (mut files, ..) = MetadataFiles::open(&node.io(), folder).await.unwrap();
            disk.set_capacity(u64::MAX);
            assert!(files.write_snapshot(&begun.snapshot).await.unwrap());
            disk.set_capacity(disk.used_bytes());
            // The next log has its space already.
            let first = WalFrame { sequence: 9, starts_file: true, ..begun.frame.clone() };
            files.append(&[first]).await.unwrap();
            assert!(fill(&mut files, Leave::ForDeletions).await >= 50);
        });
    }

    #[test]
    fn without_descriptors_a_snapshot_is_put_off_and_a_log_that_was_begun_waits() {
        let sim = Sim::new(4);
        let node = sim.node();
        let (disk, folder) = (node.disk(), Path::new("/data"));
        sim.block_on(async {
            let begun = genesis::alone(ClusterId([1; 16]), NodeId(1));
            create(&node.io(), folder, &begun.snapshot, &begun.frame).await.unwrap();
            let (mut files, ..) = MetadataFiles::open(&node.io(), folder).await.unwrap();
            disk.refuse_descriptors(|_| true);
            assert!(!files.write_snapshot(&begun.snapshot).await.unwrap());
            disk.heal();
            assert!(files.write_snapshot(&begun.snapshot).await.unwrap());
            let refused = Rc::new(Cell::new(0));
            let count = Rc::clone(&refused);
            disk.refuse_descriptors(move |path| {
                count.set(count.get() + u32::from(path == folder_of(Path::new("/data"))));
                count.get() < 50
            });
            let first = WalFrame { sequence: 9, starts_file: true, ..begun.frame.clone() };
            files.append(&[first]).await.unwrap();
            assert_eq!(refused.get(), 51, "each attempt, and the look for what is older");
            node.crash(CrashMode::LoseAllUnflushed);
            let newest = newest_wal(&node.io(), &folder_of(folder)).await.unwrap();
            assert_eq!(newest, Some(wal_path(&folder_of(folder), 9)), "what was appended is durable");
        });
    }
}
