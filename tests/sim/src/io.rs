//! The seam, carried out in memory.

use core::future::Future;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use engine_io::{DirectFile, FileSystemSpace, Io, ListenMode, OpenMode};
use engine_record::{Instant, Timestamp};

use crate::buffer::{SimBuffer, SimBytes};
use crate::disk::{Disk, FileId, OpenFile};
use crate::executor::{Core, SimTask};
use crate::file::{SimCarriedFile, SimFile, SimSendFile};
use crate::network::{SimListener, SimStream};
use crate::replace::Replacing;
use crate::seat::{LatencyOf, Seat};
use crate::timer::{Sleep, Yield};
use crate::trace::{Event, PathOperation, content_hash};
use crate::world::Boot;

/// The wall clock of a machine whose clock was never stepped, at the start of the world: 2026-01-01 00:00 UTC.
const WALL_CLOCK_START_MS: i64 = 1_767_225_600_000;

/// One shard of a simulated machine.
#[derive(Clone)]
pub struct SimIo {
    seat: Seat,
    shard: u32,
    /// The origin of the process's clock.
    started_at: Instant,
}

impl SimIo {
    pub(crate) const fn new(core: Rc<Core>, boot: Boot, shard: u32, started_at: Instant) -> Self {
        Self { seat: Seat { core, boot }, shard, started_at }
    }

    /// Which shard of its machine it is, counted from 0 since the machine was started.
    #[must_use]
    pub const fn shard(&self) -> u32 {
        self.shard
    }

    /// Carries out an operation on a path, if there is a descriptor for it.
    async fn on_path<T: 'static>(
        &self,
        operation: PathOperation,
        path: &Path,
        effect: impl FnOnce(&mut Disk, FileId) -> io::Result<T> + 'static,
    ) -> io::Result<T> {
        let named = path.to_owned();
        let with_descriptor = move |disk: &mut Disk, new_file| {
            if operation.needs_descriptor() {
                disk.faults.take_descriptor(&named)?;
            }
            effect(disk, new_file)
        };
        self.on_open_path(operation, path, with_descriptor).await
    }

    /// Carries out an operation on a path that is open already, or needn't be.
    async fn on_open_path<T: 'static>(
        &self,
        operation: PathOperation,
        path: &Path,
        effect: impl FnOnce(&mut Disk, FileId) -> io::Result<T> + 'static,
    ) -> io::Result<T> {
        let (machine, path) = (self.seat.boot.machine, content_hash(path));
        let latency: LatencyOf = match operation {
            PathOperation::Flush => |latency| &latency.flush,
            PathOperation::Open
            | PathOperation::CreateFolder
            | PathOperation::List
            | PathOperation::ListFiles
            | PathOperation::ReadFile
            | PathOperation::ReadRange
            | PathOperation::WriteFile
            | PathOperation::Rename
            | PathOperation::RemoveFile
            | PathOperation::RemoveFolder
            | PathOperation::Space => |latency| &latency.metadata,
        };
        let done = self.seat.operate_early(latency, move |world| {
            let new_file = FileId(world.number());
            let result = effect(world.disk(machine).0, new_file);
            world.record(Event::PathOperation { machine, operation, path, failed: result.is_err() });
            result
        });
        done.await
    }

    async fn open_file(&self, path: &Path, mode: OpenMode) -> io::Result<OpenFile> {
        let owned = path.to_owned();
        self.on_path(PathOperation::Open, path, move |disk, new_file| disk.open(&owned, mode, new_file)).await
    }
}

impl Io for SimIo {
    type Buffer = SimBuffer;
    type Bytes = SimBytes;
    type File = SimFile;
    type SendFile = SimSendFile;
    type Listener = SimListener;
    type Stream = SimStream;
    type Task = SimTask;

    fn now(&self) -> Instant {
        let now = self.seat.world(|world| world.now);
        Instant::ZERO.after(now.since(self.started_at))
    }

    fn timestamp(&self) -> Timestamp {
        self.seat.world(|world| {
            let elapsed_ms =
                i64::try_from(world.now.as_nanos() / 1_000_000).expect("u64::MAX / 10^6 is an i64");
            let step_ms = world.machines[self.seat.boot.machine].clock_step_ms;
            Timestamp(WALL_CLOCK_START_MS.saturating_add(elapsed_ms).saturating_add(step_ms))
        })
    }

    fn random(&self) -> u64 {
        self.seat.world(|world| world.random.next())
    }

    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> SimTask {
        self.seat.core.spawn(self.seat.boot, self.shard, future)
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> {
        let until = self.seat.world(|world| world.now.after(duration));
        Sleep::new(Rc::clone(&self.seat.core), until)
    }

    fn yield_now(&self) -> impl Future<Output = ()> {
        Yield::default()
    }

    fn buffer(&self, bytes: usize) -> SimBuffer {
        SimBuffer::zeroed(bytes)
    }

    async fn open(&self, path: &Path, mode: OpenMode) -> io::Result<SimFile> {
        let open = self.open_file(path, mode).await?;
        Ok(SimFile::new(self.seat.clone(), open))
    }

    async fn open_send_file(&self, path: &Path) -> io::Result<SimSendFile> {
        let open = self.open_file(path, OpenMode::Existing).await?;
        Ok(SimSendFile { seat: self.seat.clone(), open })
    }

    fn carried_file(&self, SimCarriedFile(number): SimCarriedFile) -> SimSendFile {
        let open = self.seat.world(|world| world.carried(self.seat.boot, *number));
        SimSendFile { seat: self.seat.clone(), open }
    }

    async fn read_file(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let owned = path.to_owned();
        self.on_path(PathOperation::ReadFile, path, move |disk, _| disk.read_whole(&owned, bytes_max)).await
    }

    async fn read_range(&self, path: &Path, position: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let owned = path.to_owned();
        let read = move |disk: &mut Disk, _| disk.read_range(&owned, position, bytes);
        self.on_path(PathOperation::ReadRange, path, read).await
    }

    async fn write_file(&self, path: &Path, bytes: Vec<u8>) -> io::Result<()> {
        let _alone = Replacing::alone(&self.seat, path).await;
        let mut neighbour = path.as_os_str().to_owned();
        neighbour.push(".tmp");
        let (neighbour, named) = (PathBuf::from(neighbour), path.to_owned());
        let temporary = neighbour.clone();
        let write = move |disk: &mut Disk, new_file| disk.write_whole(&temporary, &named, bytes, new_file);
        let open = self.on_path(PathOperation::WriteFile, path, write).await?;
        SimFile::new(self.seat.clone(), open).flush().await?;
        self.rename(&neighbour, path).await?;
        // Held open from the start: from here on nothing is refused.
        let folder = path.parent().unwrap_or_else(|| Path::new("/")).to_owned();
        let flush = {
            let folder = folder.clone();
            move |disk: &mut Disk, _| disk.flush_folder(&folder)
        };
        self.on_open_path(PathOperation::Flush, &folder, flush).await
    }

    async fn create_folder(&self, path: &Path) -> io::Result<()> {
        let owned = path.to_owned();
        self.on_path(PathOperation::CreateFolder, path, move |disk, _| disk.create_folder(&owned)).await
    }

    async fn list_folder(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let owned = path.to_owned();
        self.on_path(PathOperation::List, path, move |disk, _| disk.list_folder(&owned)).await
    }

    async fn list_files(&self, path: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
        let owned = path.to_owned();
        self.on_path(PathOperation::ListFiles, path, move |disk, _| disk.list_files(&owned)).await
    }

    async fn flush_folder(&self, path: &Path) -> io::Result<()> {
        let owned = path.to_owned();
        self.on_path(PathOperation::Flush, path, move |disk, _| disk.flush_folder(&owned)).await
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, owned) = (from.to_owned(), to.to_owned());
        self.on_path(PathOperation::Rename, to, move |disk, _| disk.rename(&from, &owned)).await
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        let owned = path.to_owned();
        self.on_path(PathOperation::RemoveFile, path, move |disk, _| disk.remove_file(&owned)).await
    }

    async fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let owned = path.to_owned();
        self.on_path(PathOperation::RemoveFolder, path, move |disk, _| disk.remove_folder(&owned)).await
    }

    async fn space(&self, path: &Path) -> io::Result<FileSystemSpace> {
        self.on_path(PathOperation::Space, path, move |disk, _| Ok(disk.space())).await
    }

    async fn listen(&self, address: SocketAddr, mode: ListenMode) -> io::Result<SimListener> {
        SimListener::bind(&self.seat, address, mode)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<SimStream> {
        SimStream::connect(&self.seat, address).await
    }
}
