//! Files whose bytes go from the page cache to a socket.

use core::fmt;
use core::num::NonZeroU64;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use engine_io::SendFile;
use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};

use crate::blocking::Pool;

/// What one look at the page cache covers: about 3 us where it is there in small pages, 0.5 us where it isn't.
const LOOK_BYTES: u64 = 128 << 10;

/// A read-only file. Clones share the descriptor; the last one closes it.
#[derive(Clone)]
pub struct GlommioSendFile {
    file: Arc<File>,
    pool: Pool,
}

/// A file on its way to another shard.
#[derive(Debug)]
pub struct CarriedFile(Arc<File>);

impl GlommioSendFile {
    pub(crate) fn taken(pool: Pool, CarriedFile(file): CarriedFile) -> Self {
        Self { file, pool }
    }

    pub(crate) async fn open(pool: Pool, path: &Path) -> io::Result<Self> {
        let path = path.to_owned();
        let file = pool.run(move || File::open(path)).await?;
        Ok(Self { file: Arc::new(file), pool })
    }

    /// Sends from the page cache into a socket that does not block. 0 at the end of the file.
    pub(crate) fn send_to(&self, socket: BorrowedFd<'_>, position: u64, bytes: usize) -> io::Result<usize> {
        let mut position = position;
        Ok(rustix::fs::sendfile(socket, &self.file, Some(&mut position), bytes)?)
    }

    /// Reads at most `bytes` bytes, from the page cache if they are there, else on the pool. Empty at the end.
    pub(crate) async fn read(&self, position: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        match self.read_cached(position, &mut buffer) {
            Ok(count) if count > 0 => {
                buffer.truncate(count);
                return Ok(buffer);
            }
            Ok(_) | Err(_) => {}
        }
        let file = Arc::clone(&self.file);
        let read = move || {
            let count = file.read_at(&mut buffer, position)?;
            buffer.truncate(count);
            Ok(buffer)
        };
        self.pool.run(read).await
    }

    fn read_cached(&self, position: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::preadv2(&self.file, &mut [IoSliceMut::new(buffer)], position, ReadWriteFlags::NOWAIT)
    }

    /// Whether `bytes` bytes, at most [`LOOK_BYTES`], can be sent without waiting for the drive.
    ///
    /// The count of cached pages is exact but includes pages still being read; those lie at the end, and the read of the
    /// last byte sees them. It comes second, because on a page that isn't there it would start read-ahead.
    fn holds(&self, position: u64, bytes: u64) -> bool {
        let page = rustix::param::page_size() as u64;
        let last = position + bytes - 1;
        let pages = last / page - position / page + 1;
        let counted = cached_pages(self.file.as_fd(), position, bytes);
        counted.map_or_else(|| self.has_byte(position), |cached| cached == pages) && self.has_byte(last)
    }

    fn has_byte(&self, position: u64) -> bool {
        self.read_cached(position, &mut [0]) == Ok(1)
    }
}

impl SendFile for GlommioSendFile {
    type Carried = CarriedFile;

    fn carried(&self) -> CarriedFile {
        CarriedFile(Arc::clone(&self.file))
    }

    fn resident(&self, position: u64, bytes: u64) -> u64 {
        let mut found = 0;
        while found < bytes {
            let at = position + found;
            let look = (LOOK_BYTES - at % LOOK_BYTES).min(bytes - found);
            if !self.holds(at, look) {
                break;
            }
            found += look;
        }
        found
    }

    fn peek(&self, position: u64, bytes: &mut [u8]) -> usize {
        self.read_cached(position, bytes).unwrap_or(0)
    }

    async fn prefetch(&self, position: u64, bytes: u64) -> io::Result<()> {
        let file = Arc::clone(&self.file);
        self.pool.run(move || load(&file, position, bytes)).await
    }
}

/// Reads a range into the page cache and waits for it, without copying it: `/dev/null` takes pages by reference.
fn load(file: &File, mut position: u64, bytes: u64) -> io::Result<()> {
    let Some(length) = NonZeroU64::new(bytes) else { return Ok(()) };
    let end = position.saturating_add(bytes);
    // All requests leave at once; the loop only waits for them.
    rustix::fs::fadvise(file, position, Some(length), Advice::WillNeed)?;
    let sink = OpenOptions::new().write(true).open("/dev/null")?;
    while position < end {
        let left = usize::try_from(end - position).unwrap_or(usize::MAX).min(LOAD_STEP_BYTES);
        if rustix::fs::sendfile(&sink, file, Some(&mut position), left)? == 0 {
            break;
        }
    }
    Ok(())
}

/// Below what one `sendfile` call takes (2 GiB).
const LOAD_STEP_BYTES: usize = 1 << 20;

/// How many of the pages the range touches are in the page cache; `None` where the system does not tell.
#[expect(unsafe_code, reason = "no safe wrapper of cachestat(2) exists")]
fn cached_pages(file: BorrowedFd<'_>, position: u64, bytes: u64) -> Option<u64> {
    /// The same number on every architecture.
    const CACHESTAT: libc::c_long = 451;
    let range = [position, bytes];
    let mut counts = [0_u64; 5];
    // SAFETY: the kernel reads two u64 at `range` and writes five at `counts`; both live across the call, and no flag
    // asks for more.
    let result =
        unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0_u32) };
    (result == 0).then_some(counts[0])
}

impl fmt::Debug for GlommioSendFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlommioSendFile").field("descriptor", &self.file.as_raw_fd()).finish_non_exhaustive()
    }
}
