//! The seam, carried out.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::future::Future;
use core::time::Duration;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use engine_io::{FileSystemSpace, Io, ListenMode, OpenMode};
use engine_record::{Instant, Timestamp};
use glommio::timer::Timer;

use crate::blocking::Pool;
use crate::buffered::{self, BufferedFile};
use crate::file::{GlommioBuffer, GlommioBytes, GlommioFile};
use crate::listener::{self, GlommioListener};
use crate::send_file::{CarriedFile, GlommioSendFile};
use crate::stream::GlommioStream;
use crate::task::GlommioTask;
use crate::{clock, direct, folder, shrink, turn};

/// The longest timer the runtime is given; it adds it to the time of day unchecked.
const TIMER_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// One shard's door to the world. Usable only on the shard's own thread.
#[derive(Clone)]
pub struct GlommioIo {
    shard: Rc<Shard>,
}

struct Shard {
    pool: Pool,
    /// State of the random numbers.
    random: Cell<u64>,
    /// Drives the runtime has probed with a full file.
    probed: RefCell<BTreeSet<u64>>,
    file_io: FileIo,
}

/// How files are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileIo {
    Direct,
    Buffered,
}

impl GlommioIo {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with(seed, FileIo::Direct)
    }

    /// One whose files are read and written through the page cache.
    pub(crate) fn buffered(seed: u64) -> Self {
        Self::with(seed, FileIo::Buffered)
    }

    fn with(seed: u64, file_io: FileIo) -> Self {
        let (pool, random) = (Pool::default(), Cell::new(seed));
        Self { shard: Rc::new(Shard { pool, random, probed: RefCell::default(), file_io }) }
    }

    /// Lets the runtime probe the drive of `folder`, before any file on it is opened.
    pub(crate) async fn probe(&self, folder: &Path) -> io::Result<()> {
        let device = direct::probe(&self.shard.pool, folder).await?;
        self.shard.probed.borrow_mut().insert(device);
        Ok(())
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.shard.pool
    }

    async fn blocking<R: Send + 'static>(
        &self,
        path: &Path,
        job: impl FnOnce(&Path) -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        let path = path.to_owned();
        self.shard.pool.run(move || job(&path)).await
    }

    async fn bring_into_use(&self, opened: direct::Opened, path: &Path) -> io::Result<GlommioFile> {
        let probed = self.shard.probed.borrow().contains(&opened.device);
        if !probed {
            self.probe(folder::parent(path)).await?;
        }
        let pool = &self.shard.pool;
        Ok(GlommioFile::direct(direct::adopt(pool, opened.descriptor).await?, pool.clone()))
    }
}

impl Io for GlommioIo {
    type Buffer = GlommioBuffer;
    type Bytes = GlommioBytes;
    type File = GlommioFile;
    type SendFile = GlommioSendFile;
    type Listener = GlommioListener;
    type Stream = GlommioStream;
    type Task = GlommioTask;

    fn now(&self) -> Instant {
        clock::now()
    }

    fn timestamp(&self) -> Timestamp {
        clock::timestamp()
    }

    fn random(&self) -> u64 {
        let state = self.shard.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.shard.random.set(state);
        mix(state)
    }

    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> GlommioTask {
        GlommioTask::spawn(future)
    }

    async fn sleep(&self, duration: Duration) {
        let mut left = duration;
        while left > TIMER_MAX {
            Timer::new(TIMER_MAX).await;
            left -= TIMER_MAX;
        }
        Timer::new(left).await;
    }

    async fn yield_now(&self) {
        turn::give_way().await;
    }

    fn buffer(&self, bytes: usize) -> GlommioBuffer {
        GlommioBuffer::zeroed(bytes)
    }

    async fn open(&self, path: &Path, mode: OpenMode) -> io::Result<GlommioFile> {
        if self.shard.file_io == FileIo::Buffered {
            let file = self.blocking(path, move |path| buffered::open(path, mode)).await?;
            return Ok(GlommioFile::buffered(BufferedFile::new(file, self.shard.pool.clone())));
        }
        let opened = self.blocking(path, move |path| direct::open(path, mode)).await?;
        let file = self.bring_into_use(opened, path).await;
        if file.is_err() && mode == OpenMode::New {
            direct::discard(&self.shard.pool, path).await;
        }
        file
    }

    async fn open_send_file(&self, path: &Path) -> io::Result<GlommioSendFile> {
        GlommioSendFile::open(self.shard.pool.clone(), path).await
    }

    fn carried_file(&self, carried: CarriedFile) -> GlommioSendFile {
        GlommioSendFile::taken(self.shard.pool.clone(), carried)
    }

    async fn read_file(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        self.blocking(path, move |path| folder::read_file(path, bytes_max)).await
    }

    async fn read_range(&self, path: &Path, position: u64, bytes: usize) -> io::Result<Vec<u8>> {
        self.blocking(path, move |path| folder::read_range(path, position, bytes)).await
    }

    async fn write_file(&self, path: &Path, bytes: Vec<u8>) -> io::Result<()> {
        self.blocking(path, move |path| folder::write_file(path, &bytes)).await
    }

    async fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.blocking(path, folder::create_folder).await
    }

    async fn list_folder(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.blocking(path, folder::list_folder).await
    }

    async fn list_files(&self, path: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
        self.blocking(path, folder::list_files).await
    }

    async fn flush_folder(&self, path: &Path) -> io::Result<()> {
        self.blocking(path, folder::flush_folder).await
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let to = to.to_owned();
        self.blocking(from, move |from| fs::rename(from, &to)).await
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        let large = self.blocking(path, folder::unlink).await?;
        let Some((file, bytes)) = large else { return Ok(()) };
        shrink::resize(&self.shard.pool, file, bytes, 0).await
    }

    async fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.blocking(path, |path| fs::remove_dir(path)).await
    }

    async fn space(&self, path: &Path) -> io::Result<FileSystemSpace> {
        self.blocking(path, folder::space).await
    }

    async fn listen(&self, address: SocketAddr, mode: ListenMode) -> io::Result<GlommioListener> {
        GlommioListener::listen(address, mode)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<GlommioStream> {
        listener::connect(address).await
    }
}

/// splitmix64's output function: spreads consecutive states over all 64 bits.
fn mix(state: u64) -> u64 {
    let mut bits = state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

impl fmt::Debug for GlommioIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlommioIo").field("pool", &self.shard.pool).finish_non_exhaustive()
    }
}
