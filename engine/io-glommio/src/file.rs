//! Files for direct I/O.

use core::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use engine_io::{BLOCK_BYTES, Buffer, DirectFile};
use glommio::io::{DmaBuffer, DmaFile, ReadResult};
use rustix::fs::FallocateFlags;

use crate::blocking::Pool;
use crate::buffered::BufferedFile;
use crate::direct;
use crate::error;
use crate::shrink;

/// Block-aligned memory; from the shard's registered memory while there is some.
#[repr(transparent)]
pub struct GlommioBuffer {
    memory: DmaBuffer,
}

impl GlommioBuffer {
    /// Zeroed memory.
    ///
    /// # Panics
    /// Where `bytes` is 0 or not a multiple of [`BLOCK_BYTES`].
    pub(crate) fn zeroed(bytes: usize) -> Self {
        assert!(is_whole_blocks(bytes), "a buffer is one block or more");
        let mut memory = glommio::allocate_dma_buffer(bytes);
        memory.as_bytes_mut().fill(0);
        Self { memory }
    }

    /// The same memory under the runtime's type, so that a write in flight counts as a holder of it.
    #[expect(unsafe_code, reason = "the runtime takes its own type behind an Rc")]
    fn into_runtime(buffer: Rc<Self>) -> Rc<DmaBuffer> {
        let memory = Rc::into_raw(buffer).cast::<DmaBuffer>();
        // SAFETY: `memory` comes from `Rc::into_raw`, and `repr(transparent)` gives both types one size, alignment and
        // layout. Either type's drop does the same: drop the one field.
        unsafe { Rc::from_raw(memory) }
    }
}

fn is_whole_blocks(bytes: usize) -> bool {
    bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES)
}

impl Buffer for GlommioBuffer {
    fn as_slice(&self) -> &[u8] {
        self.memory.as_bytes()
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        self.memory.as_bytes_mut()
    }

    fn trim(&mut self, bytes: usize) {
        assert!(is_whole_blocks(bytes), "a buffer is one block or more");
        assert!(bytes <= self.memory.len(), "a buffer only shrinks");
        self.memory.trim_to_size(bytes);
    }
}

impl fmt::Debug for GlommioBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlommioBuffer").field("bytes", &self.memory.len()).finish_non_exhaustive()
    }
}

/// What a direct read gave. Clones share the memory.
#[derive(Clone)]
pub struct GlommioBytes(Memory);

#[derive(Clone)]
enum Memory {
    /// As the kernel filled it.
    Read(ReadResult),
    /// Put together from several short reads, or read through the page cache.
    Joined(Rc<[u8]>),
}

impl AsRef<[u8]> for GlommioBytes {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Memory::Read(bytes) => bytes,
            Memory::Joined(bytes) => bytes,
        }
    }
}

impl fmt::Debug for GlommioBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlommioBytes").field("bytes", &self.as_ref().len()).finish_non_exhaustive()
    }
}

/// A file. Dropping it closes it at the shard's next turn.
pub struct GlommioFile(Kind);

enum Kind {
    /// Past the page cache.
    Direct(Direct),
    /// Through it, on shards that were started so.
    Buffered(BufferedFile),
}

/// A file for direct I/O.
struct Direct {
    file: DmaFile,
    pool: Pool,
}

impl GlommioFile {
    pub(crate) const fn direct(file: DmaFile, pool: Pool) -> Self {
        Self(Kind::Direct(Direct { file, pool }))
    }

    pub(crate) const fn buffered(file: BufferedFile) -> Self {
        Self(Kind::Buffered(file))
    }
}

impl Direct {
    #[expect(unsafe_code, reason = "the runtime's file lends its descriptor only as a number")]
    fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: `self.file` owns the descriptor and closes it only when it is consumed or dropped, which the borrow
        // of `self` rules out.
        unsafe { BorrowedFd::borrow_raw(self.file.as_raw_fd()) }
    }

    /// A descriptor that a pool thread can use even if this file is closed meanwhile and its number goes to another.
    fn duplicate(&self) -> io::Result<OwnedFd> {
        self.descriptor().try_clone_to_owned()
    }

    fn bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstat(self.descriptor())?;
        u64::try_from(stat.st_size).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    async fn write_once(&self, position: u64, buffer: Rc<GlommioBuffer>) -> io::Result<usize> {
        self.file.write_rc_at(GlommioBuffer::into_runtime(buffer), position).await.map_err(error::system)
    }

    /// Writes what a short write left over, so that its cause shows: a full drive says so at the next attempt.
    async fn write_rest(&self, position: u64, buffer: &GlommioBuffer, mut written: usize) -> io::Result<()> {
        let whole = buffer.as_slice();
        while written < whole.len() {
            let mut rest = GlommioBuffer::zeroed(whole.len() - written);
            rest.as_mut_slice().copy_from_slice(&whole[written..]);
            let more = self.write_once(position + written as u64, Rc::new(rest)).await?;
            written += progress(more)?;
        }
        Ok(())
    }

    async fn read_once(&self, position: u64, bytes: usize) -> io::Result<ReadResult> {
        self.file.read_at_aligned(position, bytes).await.map_err(error::system)
    }

    /// Goes on where a read stopped short before the end of the file.
    async fn read_rest(&self, position: u64, bytes: usize, first: &[u8]) -> io::Result<GlommioBytes> {
        let mut joined = first.to_vec();
        while joined.len() < bytes && joined.len().is_multiple_of(BLOCK_BYTES) {
            let more = self.read_once(position + joined.len() as u64, bytes - joined.len()).await?;
            if more.is_empty() {
                break;
            }
            joined.extend_from_slice(&more);
        }
        Ok(GlommioBytes(Memory::Joined(joined.into())))
    }
}

/// A write that got nowhere, or stopped inside a block, can't be continued.
fn progress(written: usize) -> io::Result<usize> {
    if is_whole_blocks(written) { Ok(written) } else { Err(io::ErrorKind::WriteZero.into()) }
}

impl Direct {
    async fn write(&self, position: u64, buffer: Rc<GlommioBuffer>) -> io::Result<()> {
        let written = self.write_once(position, Rc::clone(&buffer)).await?;
        if written == buffer.as_slice().len() {
            return Ok(());
        }
        self.write_rest(position, &buffer, progress(written)?).await
    }

    async fn read(&self, position: u64, bytes: usize) -> io::Result<GlommioBytes> {
        if bytes == 0 {
            return Ok(GlommioBytes(Memory::Joined(Rc::default())));
        }
        let first = self.read_once(position, bytes).await?;
        if first.len() == bytes || position + first.len() as u64 >= self.bytes()? {
            return Ok(GlommioBytes(Memory::Read(first)));
        }
        self.read_rest(position, bytes, &first).await
    }

    async fn flush(&self) -> io::Result<()> {
        self.file.fdatasync().await.map_err(error::system)
    }

    async fn allocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        let file = self.duplicate()?;
        self.pool.run(move || reserve(&file, position, bytes)).await
    }

    async fn truncate(&self, bytes: u64) -> io::Result<()> {
        let file = Arc::new(self.duplicate()?);
        shrink::resize(&self.pool, file, self.bytes()?, bytes).await
    }
}

impl DirectFile for GlommioFile {
    type Buffer = GlommioBuffer;
    type Bytes = GlommioBytes;

    async fn write(&self, position: u64, buffer: Rc<GlommioBuffer>) -> io::Result<()> {
        match &self.0 {
            Kind::Direct(file) => file.write(position, buffer).await,
            Kind::Buffered(file) => file.write(position, buffer.as_slice()).await,
        }
    }

    async fn read(&self, position: u64, bytes: usize) -> io::Result<GlommioBytes> {
        match &self.0 {
            Kind::Direct(file) => file.read(position, bytes).await,
            Kind::Buffered(file) => {
                file.read(position, bytes).await.map(|read| GlommioBytes(Memory::Joined(read.into())))
            }
        }
    }

    async fn flush(&self) -> io::Result<()> {
        match &self.0 {
            Kind::Direct(file) => file.flush().await,
            Kind::Buffered(file) => file.flush().await,
        }
    }

    async fn allocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        match &self.0 {
            Kind::Direct(file) => file.allocate(position, bytes).await,
            Kind::Buffered(file) => file.allocate(position, bytes).await,
        }
    }

    async fn truncate(&self, bytes: u64) -> io::Result<()> {
        match &self.0 {
            Kind::Direct(file) => file.truncate(bytes).await,
            Kind::Buffered(file) => file.truncate(bytes).await,
        }
    }

    async fn size(&self) -> io::Result<u64> {
        match &self.0 {
            Kind::Direct(file) => file.bytes(),
            Kind::Buffered(file) => file.bytes(),
        }
    }

    async fn close(self) -> io::Result<()> {
        match self.0 {
            Kind::Direct(file) => direct::close(&file.pool, file.file).await,
            Kind::Buffered(file) => file.close().await,
        }
    }
}

/// The runtime's own preallocation always begins at 0 and so would fill holes below `position`.
pub(crate) fn reserve(file: &OwnedFd, position: u64, bytes: u64) -> io::Result<()> {
    let reserve = || rustix::fs::fallocate(file, FallocateFlags::empty(), position, bytes);
    rustix::io::retry_on_intr(reserve).map_err(io::Error::from)
}

impl fmt::Debug for GlommioFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let descriptor = match &self.0 {
            Kind::Direct(file) => file.file.as_raw_fd(),
            Kind::Buffered(file) => file.as_raw_fd(),
        };
        f.debug_struct("GlommioFile").field("descriptor", &descriptor).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::ErrorKind;

    use engine_io::{Io, OpenMode};

    use crate::testing::on_shard;

    use super::*;

    fn as_direct(file: &GlommioFile) -> &Direct {
        match &file.0 {
            Kind::Direct(file) => file,
            Kind::Buffered(_) => panic!("the shard was started for direct I/O"),
        }
    }

    #[test]
    fn what_a_short_write_left_over_is_written() {
        on_shard(|io, folder| async move {
            let file = io.open(&folder.join("log"), OpenMode::New).await.unwrap();
            let mut buffer = io.buffer(4 * BLOCK_BYTES);
            buffer.as_mut_slice().fill(7);
            as_direct(&file).write_rest(0, &buffer, BLOCK_BYTES).await.unwrap();
            let read = file.read(0, 4 * BLOCK_BYTES).await.unwrap();
            assert!(
                read.as_ref()[..BLOCK_BYTES].iter().all(|&byte| byte == 0),
                "written before, says the caller"
            );
            assert!(read.as_ref()[BLOCK_BYTES..].iter().all(|&byte| byte == 7));
        })
        .unwrap();
    }

    #[test]
    fn a_write_that_gets_nowhere_is_an_error() {
        assert_eq!(progress(0).unwrap_err().kind(), ErrorKind::WriteZero);
        assert_eq!(progress(100).unwrap_err().kind(), ErrorKind::WriteZero);
        assert_eq!(progress(BLOCK_BYTES).unwrap(), BLOCK_BYTES);
    }

    #[test]
    fn a_read_that_stopped_short_goes_on_to_what_was_asked_or_the_end() {
        on_shard(|io, folder| async move {
            let whole: Vec<u8> = (0..=u8::MAX).cycle().take(3 * BLOCK_BYTES + 9).collect();
            std::fs::write(folder.join("log"), &whole).unwrap();
            let file = io.open(&folder.join("log"), OpenMode::Existing).await.unwrap();
            let first = &whole[..BLOCK_BYTES];
            let file = as_direct(&file);
            let some = file.read_rest(0, 2 * BLOCK_BYTES, first).await.unwrap();
            assert_eq!(some.as_ref(), &whole[..2 * BLOCK_BYTES]);
            let all = file.read_rest(0, 8 * BLOCK_BYTES, first).await.unwrap();
            assert_eq!(all.as_ref(), whole);
        })
        .unwrap();
    }

    /// The memory file system refuses what can never fit without taking the space that there is.
    #[test]
    fn no_space_is_told_as_such() {
        let Ok(file) = tempfile::tempfile_in("/dev/shm").map(File::into) else {
            return;
        };
        assert_eq!(reserve(&file, 0, 1 << 50).unwrap_err().kind(), ErrorKind::StorageFull);
        reserve(&file, BLOCK_BYTES as u64, BLOCK_BYTES as u64).unwrap();
    }
}
