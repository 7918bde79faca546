//! Starting and ending shards.

use core::future::Future;
use core::time::Duration;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use glommio::{LocalExecutor, LocalExecutorBuilder, Placement, PoolPlacement};

use crate::GlommioIo;
use crate::machine;
use crate::start_error::StartError;
use crate::turn::{self, Heartbeat};

/// Entries of each ring. What does not fit waits in memory.
const RING_DEPTH: usize = 256;

/// Threads per shard for what blocks: one may sit in a slow read or discard while others open and rename.
pub(crate) const POOL_THREADS: usize = 4;

/// How long a dedicated core looks for work before it sleeps: about what waking it costs.
const SPIN: Duration = Duration::from_micros(50);

/// One shard to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSpec {
    /// The thread's name; the system shows 15 bytes of it.
    pub name: String,
    /// The processor it is pinned to; `None` leaves the choice to the system.
    pub cpu: Option<usize>,
    /// Whether nothing else runs on that processor: then the shard spins a little before it sleeps. Ignored without
    /// [`ShardSpec::cpu`].
    pub dedicated: bool,
}

/// Shards that run.
#[derive(Debug)]
pub struct Running<T> {
    threads: Vec<JoinHandle<Option<T>>>,
}

impl<T> Running<T> {
    /// Waits until all shards have ended. What each gave, or the panic that ended it, in the order of the specs.
    pub fn join(self) -> Vec<thread::Result<T>> {
        self.threads.into_iter().map(join).collect()
    }
}

fn join<T>(thread: JoinHandle<Option<T>>) -> thread::Result<T> {
    thread.join().map(|output| output.expect("a shard that was told to go gives an output"))
}

/// Starts a thread per spec; on each, `make(index, io)` makes the future that is the shard's life. The shard ends when
/// that future has ended and the jobs it left behind have.
///
/// Each shard pins three times `io_memory_bytes` of memory for its direct I/O; buffers beyond it work and cost a little
/// more. Each executor ever started keeps one descriptor (an eventfd) until the process ends.
///
/// No future is polled before every shard is ready: a failure leaves nothing running.
///
/// # Errors
/// Where any shard can't start: the first cause found.
///
/// # Panics
/// Where the runtime panics while it sets a shard up.
pub fn run<T, F>(
    specs: Vec<ShardSpec>,
    io_memory_bytes: usize,
    data_folder: &Path,
    make: impl Fn(usize, GlommioIo) -> F + Clone + Send + 'static,
) -> Result<Running<T>, StartError>
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    start(specs, io_memory_bytes, Files::Direct(data_folder.to_owned()), make)
}

/// As [`run`], for shards whose files are read and written through the page cache, on any file system. For development:
/// it is slow, and on a file system in memory nothing that is flushed is durable.
///
/// # Errors
/// As [`run`], but none about a folder.
///
/// # Panics
/// As [`run`].
pub fn run_buffered<T, F>(
    specs: Vec<ShardSpec>,
    io_memory_bytes: usize,
    make: impl Fn(usize, GlommioIo) -> F + Clone + Send + 'static,
) -> Result<Running<T>, StartError>
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    start(specs, io_memory_bytes, Files::Buffered, make)
}

/// As [`run`], for shards that keep no files: no drive is probed before they go, so none need be there.
///
/// # Errors
/// As [`run`], but none about a folder.
///
/// # Panics
/// As [`run`].
pub fn run_without_folder<T, F>(
    specs: Vec<ShardSpec>,
    io_memory_bytes: usize,
    make: impl Fn(usize, GlommioIo) -> F + Clone + Send + 'static,
) -> Result<Running<T>, StartError>
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    start(specs, io_memory_bytes, Files::None, make)
}

/// What the shards do with files.
#[derive(Clone, Debug)]
enum Files {
    /// They keep none.
    None,
    /// They read and write them past the page cache, on the drive of this folder.
    Direct(PathBuf),
    /// They read and write them through the page cache.
    Buffered,
}

fn start<T, F>(
    specs: Vec<ShardSpec>,
    io_memory_bytes: usize,
    files: Files,
    make: impl Fn(usize, GlommioIo) -> F + Clone + Send + 'static,
) -> Result<Running<T>, StartError>
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    machine::check(&specs, io_memory_bytes)?;
    let mut starts = Vec::new();
    for (index, spec) in specs.into_iter().enumerate() {
        let seat = Seat::new(index, spec, io_memory_bytes, files.clone())?;
        starts.push(Start::spawn(seat, make.clone())?);
    }
    let ready = starts.into_iter().map(Start::wait).collect::<Result<Vec<_>, _>>()?;
    // Dropping `ready` instead would send all threads home.
    Ok(Running { threads: ready.into_iter().map(Ready::go).collect() })
}

/// What a shard's thread needs to set itself up.
struct Seat {
    index: usize,
    spec: ShardSpec,
    io_memory_bytes: usize,
    files: Files,
    seed: u64,
}

impl Seat {
    fn new(index: usize, spec: ShardSpec, io_memory_bytes: usize, files: Files) -> Result<Self, StartError> {
        let seed = getrandom::u64().map_err(StartError::Random)?;
        Ok(Self { index, spec, io_memory_bytes, files, seed })
    }

    fn executor(&self) -> Result<LocalExecutor, StartError> {
        let placement = self.spec.cpu.map_or(Placement::Unbound, Placement::Fixed);
        let spin = if self.spec.dedicated { SPIN } else { Duration::ZERO };
        LocalExecutorBuilder::new(placement)
            .name(&self.spec.name)
            .io_memory(self.io_memory_bytes)
            .ring_depth(RING_DEPTH)
            .preempt_timer(turn::PREEMPT)
            .spin_before_park(spin)
            // Pool threads keep the process's processors: the runtime starts them before it pins the shard.
            .blocking_thread_pool_placement(PoolPlacement::Unbound(POOL_THREADS))
            .make()
            .map_err(StartError::of_executor)
    }

    fn set_up(&self) -> Result<(LocalExecutor, GlommioIo), StartError> {
        let executor = self.executor()?;
        match &self.files {
            Files::None => Ok((executor, GlommioIo::new(self.seed))),
            Files::Buffered => Ok((executor, GlommioIo::buffered(self.seed))),
            Files::Direct(folder) => {
                let io = GlommioIo::new(self.seed);
                let probed = executor.run(io.probe(folder));
                probed.map_err(|error| StartError::of_folder(folder, error))?;
                Ok((executor, io))
            }
        }
    }
}

/// A thread that sets its shard up.
struct Start<T> {
    ready: Ready<T>,
    outcome: mpsc::Receiver<Result<(), StartError>>,
}

/// A thread that waits to be told to go.
struct Ready<T> {
    thread: JoinHandle<Option<T>>,
    go: mpsc::Sender<()>,
}

impl<T: Send + 'static> Start<T> {
    fn spawn<F>(seat: Seat, make: impl Fn(usize, GlommioIo) -> F + Send + 'static) -> Result<Self, StartError>
    where
        F: Future<Output = T> + 'static,
    {
        let (tell, outcome) = mpsc::channel();
        let (go, told) = mpsc::channel();
        let name = seat.spec.name.clone();
        let body = move || {
            let (executor, io) = report(seat.set_up(), &tell)?;
            told.recv().ok()?;
            Some(executor.run(live(make, seat.index, io)))
        };
        let thread = thread::Builder::new().name(name).spawn(body).map_err(StartError::Thread)?;
        Ok(Self { ready: Ready { thread, go }, outcome })
    }

    fn wait(self) -> Result<Ready<T>, StartError> {
        match self.outcome.recv() {
            Ok(outcome) => outcome.map(|()| self.ready),
            Err(mpsc::RecvError) => resume_unwind(self.ready.panic()),
        }
    }
}

impl<T> Ready<T> {
    fn go(self) -> JoinHandle<Option<T>> {
        // A thread that is gone by now has panicked; whoever joins it sees that.
        let _gone = self.go.send(());
        self.thread
    }

    /// Why the thread ended without a word.
    fn panic(self) -> Box<dyn core::any::Any + Send> {
        self.thread.join().err().expect("a thread that says nothing has panicked")
    }
}

/// Tells whoever starts the shards how this one fared, and keeps what it made.
fn report<S>(set_up: Result<S, StartError>, tell: &mpsc::Sender<Result<(), StartError>>) -> Option<S> {
    let (made, outcome) = match set_up {
        Ok(made) => (Some(made), Ok(())),
        Err(error) => (None, Err(error)),
    };
    // Nobody listens where another shard failed first; this one is then not told to go.
    let _nobody_listens = tell.send(outcome);
    made
}

/// A shard's life.
async fn live<T, F: Future<Output = T>>(
    make: impl Fn(usize, GlommioIo) -> F,
    index: usize,
    io: GlommioIo,
) -> T {
    let heartbeat = Heartbeat::start();
    let output = make(index, io.clone()).await;
    // A pool thread that has nobody to answer to panics.
    io.pool().idle().await;
    // What was dropped is closed, and what was cancelled is dropped, only at the next turn of the rings.
    drop((heartbeat, io));
    turn::look_at_rings().await;
    output
}
