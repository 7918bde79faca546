//! The one seam between Ringlog and the world: files, sockets, time, randomness, tasks and mailboxes.
//!
//! Everything above this crate is generic over [`Io`] and never names a runtime. `engine-io-glommio` carries the seam
//! out on io_uring; the simulator carries it out in memory, in virtual time, under one seed.
//!
//! The seam is **completion-shaped**: an operation takes what it needs by value, resolves when the work is done and
//! gives back what it was lent. Nothing in it says "ready".
//!
//! ```text
//!   store, server, client          plan, await, complete
//!        |  I: Io
//!   -----+--------------------------------------------- this crate: traits, and the few things that need no runtime
//!        |                                              (mailbox, signal, deadline, tasks)
//!   engine-io-glommio | tests/sim
//! ```
//!
//! Rules that hold for every operation:
//! - A future does nothing before it is first polled.
//! - Dropping a future before it resolves leaves the operation's effect unknown (it may still happen), and never frees
//!   memory the kernel may still read or write. Each operation says what else it means.
//! - Nothing here is `Send`, except the two ends of a [`mailbox`]: an `Io` and all it made belong to one shard.
#![forbid(unsafe_code)]

mod deadline;
mod file;
mod mailbox;
mod signal;
mod stream;
mod tasks;
mod together;

use core::future::Future;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use engine_record::{Instant, Timestamp};

pub use deadline::{deadline, first};
pub use file::{BLOCK_BYTES, Buffer, DirectFile, FileSystemSpace, OpenMode, SendFile};
pub use mailbox::{Closed, Receiver, Reply, ReplySlot, SendError, Sender, mailbox, messages_passed, reply};
pub use signal::{Signal, Wait};
pub use stream::{Closer, ListenMode, Listener, SendPiece, Stream, StreamReader, StreamWriter};
pub use tasks::Tasks;
pub use together::together;

/// Whether an operation failed since the drive, or what of it this user may have, is used up.
#[must_use]
pub fn is_storage_full(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether an operation failed since the process or the machine had no descriptor for it (`EMFILE`, `ENFILE`): before it
/// was begun, so that it may be tried again.
#[must_use]
pub fn is_no_descriptor(code: Option<i32>) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(code, Some(ENFILE | EMFILE))
}

/// A task's handle. Dropping it cancels the task at its next await; await [`Task::join`] to let it end.
///
/// Every task is joined or dropped before its shard ends: a task left behind would keep its sockets open.
pub trait Task: 'static {
    /// Resolves when the task has ended.
    fn join(self) -> impl Future<Output = ()>;

    /// Whether the task has ended.
    fn is_finished(&self) -> bool;
}

/// One shard's door to the world.
///
/// An `Io` is cheap to clone; all clones are the same shard.
pub trait Io: Clone + 'static {
    /// Memory that can be written to a file directly.
    type Buffer: Buffer;
    /// Memory that a direct read filled. Cloning shares it.
    type Bytes: AsRef<[u8]> + Clone + 'static;
    /// A file for direct reads and writes.
    type File: DirectFile<Buffer = Self::Buffer, Bytes = Self::Bytes>;
    /// A file whose bytes go from the page cache to a socket.
    type SendFile: SendFile;
    /// A listening socket.
    type Listener: Listener<Stream = Self::Stream>;
    /// A connected socket.
    type Stream: Stream<Io = Self>;
    /// A task's handle.
    type Task: Task;

    /// The monotonic clock. All shards of a process share its origin.
    fn now(&self) -> Instant;

    /// The wall clock. It may be set back or forth at any time.
    fn timestamp(&self) -> Timestamp;

    /// 64 random bits, not for secrets.
    fn random(&self) -> u64;

    /// Starts `future` on this shard. It first runs after the caller next awaits.
    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Self::Task;

    /// Resolves `duration` from now or a little later. Dropping it drops the timer.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;

    /// Lets other tasks of the shard run. Not for waiting: what must be waited for has a future or a [`Signal`].
    fn yield_now(&self) -> impl Future<Output = ()>;

    /// A zeroed, block-aligned buffer.
    ///
    /// # Panics
    /// Where `bytes` is 0 or not a multiple of [`BLOCK_BYTES`].
    fn buffer(&self, bytes: usize) -> Self::Buffer;

    /// Opens a file for direct I/O.
    ///
    /// # Errors
    /// As the system says; [`io::ErrorKind::Unsupported`] where the file system has no direct I/O.
    fn open(&self, path: &Path, mode: OpenMode) -> impl Future<Output = io::Result<Self::File>>;

    /// Opens an existing file read-only for [`StreamWriter::send_file`].
    ///
    /// # Errors
    /// As the system says.
    fn open_send_file(&self, path: &Path) -> impl Future<Output = io::Result<Self::SendFile>>;

    /// A file that another shard of the process has open.
    fn carried_file(&self, carried: <Self::SendFile as SendFile>::Carried) -> Self::SendFile;

    /// Reads a small file whole, at most `bytes_max` bytes.
    ///
    /// # Errors
    /// As the system says; [`io::ErrorKind::FileTooLarge`] over `bytes_max`.
    fn read_file(&self, path: &Path, bytes_max: usize) -> impl Future<Output = io::Result<Vec<u8>>>;

    /// Reads up to `bytes` bytes of a file from `position` on, without opening it for longer; less only at its end.
    ///
    /// # Errors
    /// As the system says.
    fn read_range(
        &self,
        path: &Path,
        position: u64,
        bytes: usize,
    ) -> impl Future<Output = io::Result<Vec<u8>>>;

    /// Makes `path` hold exactly `bytes`, durably and at once: once resolved, a crash leaves the new content; before,
    /// the old or the new. Writes a neighbour named `<path>.tmp`, flushes it, renames it, flushes the folder. Shards of
    /// one process that do so at once take turns.
    ///
    /// # Errors
    /// As the system says; the old content is still there.
    fn write_file(&self, path: &Path, bytes: Vec<u8>) -> impl Future<Output = io::Result<()>>;

    /// Makes a folder and its missing parents, each durable in its parent. An existing folder is fine.
    ///
    /// # Errors
    /// As the system says.
    fn create_folder(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// As the system says.
    fn list_folder(&self, path: &Path) -> impl Future<Output = io::Result<Vec<PathBuf>>>;

    /// The files in a folder with their sizes in bytes, sorted by name; folders in it are left out.
    ///
    /// # Errors
    /// As the system says.
    fn list_files(&self, path: &Path) -> impl Future<Output = io::Result<Vec<(PathBuf, u64)>>>;

    /// Makes the folder's entries durable.
    ///
    /// # Errors
    /// As the system says.
    fn flush_folder(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// Renames a file or folder; durable once the folders are flushed.
    ///
    /// # Errors
    /// As the system says.
    fn rename(&self, from: &Path, to: &Path) -> impl Future<Output = io::Result<()>>;

    /// Removes a file, off the shard, in steps where its size would make that long.
    ///
    /// # Errors
    /// As the system says.
    fn remove_file(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// Removes an empty folder.
    ///
    /// # Errors
    /// As the system says.
    fn remove_folder(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// How much space the file system has on which `path` lies.
    ///
    /// # Errors
    /// As the system says.
    fn space(&self, path: &Path) -> impl Future<Output = io::Result<FileSystemSpace>>;

    /// Binds and listens. Port 0 picks a free one ([`Listener::local_address`] tells it).
    ///
    /// # Errors
    /// As the system says; [`io::ErrorKind::AddrInUse`] where the port is taken.
    fn listen(
        &self,
        address: SocketAddr,
        mode: ListenMode,
    ) -> impl Future<Output = io::Result<Self::Listener>>;

    /// Connects. Bound it with [`deadline`].
    ///
    /// # Errors
    /// As the system says.
    fn connect(&self, address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;
}
