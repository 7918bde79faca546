//! Files: direct reads and writes in whole blocks, and the page cache's way to a socket.

use core::future::Future;
use std::io;
use std::rc::Rc;

/// The unit of direct I/O in bytes. Positions, lengths and memory of direct operations are multiples of it.
pub const BLOCK_BYTES: usize = 4096;

/// Owned memory, aligned to [`BLOCK_BYTES`] and a multiple of it long.
///
/// Once behind an `Rc` it never changes again, so it can be written to disk and sent to clients at the same time.
pub trait Buffer: 'static {
    /// The bytes.
    fn as_slice(&self) -> &[u8];

    /// The bytes, to be filled.
    fn as_mut_slice(&mut self) -> &mut [u8];

    /// Shortens the buffer. Its memory stays as large as it was.
    ///
    /// # Panics
    /// Where `bytes` is 0, longer than the buffer, or not a multiple of [`BLOCK_BYTES`].
    fn trim(&mut self, bytes: usize);
}

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading and writing; it must exist.
    Existing,
    /// For reading and writing; it must not exist. Durable once the file and its folder are flushed.
    New,
}

/// The space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemSpace {
    /// All of it, in bytes.
    pub total_bytes: u64,
    /// What this process may still have of it, in bytes: without what is kept for the superuser.
    pub free_bytes: u64,
}

/// A file that is read and written past the page cache.
///
/// Writes may overlap in time, also with reads, flushes and allocation; the caller keeps overlapping *ranges* apart.
pub trait DirectFile: 'static {
    /// What is written.
    type Buffer: Buffer;
    /// What a read gives.
    type Bytes: AsRef<[u8]> + Clone + 'static;

    /// Writes the whole buffer at `position`. Resolves when the device has taken all of it; that is not durable.
    ///
    /// # Errors
    /// As the system says. What lies in the range is then unknown.
    fn write(&self, position: u64, buffer: Rc<Self::Buffer>) -> impl Future<Output = io::Result<()>>;

    /// Reads up to `bytes` from `position`; less only at the end of the file.
    ///
    /// # Errors
    /// As the system says.
    fn read(&self, position: u64, bytes: usize) -> impl Future<Output = io::Result<Self::Bytes>>;

    /// Makes every write that had resolved before the call durable, and what is needed to read it back.
    ///
    /// # Errors
    /// As the system says. The writes' fate is then unknown and stays so: a later flush that succeeds proves nothing.
    fn flush(&self) -> impl Future<Output = io::Result<()>>;

    /// Gives the file space from `position` on, `bytes` long, and grows its size to cover it. Reads of fresh space
    /// give zeros.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] where there is no space; the file is as it was or partly grown.
    fn allocate(&self, position: u64, bytes: u64) -> impl Future<Output = io::Result<()>>;

    /// Sets the file's size. Never called while a socket may still owe a client bytes above `bytes`.
    ///
    /// # Errors
    /// As the system says.
    fn truncate(&self, bytes: u64) -> impl Future<Output = io::Result<()>>;

    /// The file's size in bytes.
    ///
    /// # Errors
    /// As the system says.
    fn size(&self) -> impl Future<Output = io::Result<u64>>;

    /// Closes the file. Dropping it closes it too, without saying how that went.
    ///
    /// # Errors
    /// As the system says.
    fn close(self) -> impl Future<Output = io::Result<()>>;
}

/// A read-only file whose bytes go from the page cache to a socket without passing through our memory.
///
/// Only bytes that never change again are sent. Cloning shares the descriptor.
pub trait SendFile: Clone + 'static {
    /// The file on its way to another shard of the process. It stays open, and keeps its bytes when its name is removed.
    type Carried: Send + 'static;

    /// The same open file, for another shard: see [`Io::carried_file`](crate::Io::carried_file).
    fn carried(&self) -> Self::Carried;

    /// How many bytes from `position` on are in the page cache, at most `bytes`. Costs about a microsecond, never
    /// blocks.
    fn resident(&self, position: u64, bytes: u64) -> u64;

    /// Copies what of the range from `position` on is in the page cache, from its front on; answers how many bytes.
    /// Never blocks.
    fn peek(&self, position: u64, bytes: &mut [u8]) -> usize;

    /// Brings the range into the page cache, off the shard.
    ///
    /// # Errors
    /// As the system says.
    fn prefetch(&self, position: u64, bytes: u64) -> impl Future<Output = io::Result<()>>;
}
