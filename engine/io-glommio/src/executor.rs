//! Starting and ending shards.

use core::future::Future;
use core::time::Duration;
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use glommio::timer::Timer;
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement, PoolPlacement};

use crate::GlommioIo;
use crate::start_error::StartError;

/// Entries of each ring. What does not fit waits in memory.
const RING_DEPTH: usize = 256;

/// Threads per shard for what blocks: one may sit in a slow read or discard while others open and rename.
const POOL_THREADS: usize = 4;

/// How long a task may run before others and the rings get their turn. The runtime's own 100 ms would be the tail.
const PREEMPT: Duration = Duration::from_millis(1);

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
    check_machine(&specs)?;
    let mut starts = Vec::new();
    for (index, spec) in specs.into_iter().enumerate() {
        let seat = Seat::new(index, spec, io_memory_bytes, data_folder)?;
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
    data_folder: PathBuf,
    seed: u64,
}

impl Seat {
    fn new(
        index: usize,
        spec: ShardSpec,
        io_memory_bytes: usize,
        data_folder: &Path,
    ) -> Result<Self, StartError> {
        let seed = getrandom::u64().map_err(StartError::Random)?;
        Ok(Self { index, spec, io_memory_bytes, data_folder: data_folder.to_owned(), seed })
    }

    fn executor(&self) -> Result<LocalExecutor, StartError> {
        let placement = self.spec.cpu.map_or(Placement::Unbound, Placement::Fixed);
        let spin = if self.spec.dedicated { SPIN } else { Duration::ZERO };
        LocalExecutorBuilder::new(placement)
            .name(&self.spec.name)
            .io_memory(self.io_memory_bytes)
            .ring_depth(RING_DEPTH)
            .preempt_timer(PREEMPT)
            .spin_before_park(spin)
            // Pool threads keep the process's processors: the runtime starts them before it pins the shard.
            .blocking_thread_pool_placement(PoolPlacement::Unbound(POOL_THREADS))
            .make()
            .map_err(StartError::of_executor)
    }

    fn set_up(&self) -> Result<(LocalExecutor, GlommioIo), StartError> {
        let executor = self.executor()?;
        let io = GlommioIo::new(self.seed);
        executor
            .run(io.probe(&self.data_folder))
            .map_err(|source| StartError::Folder { folder: self.data_folder.clone(), source })?;
        Ok((executor, io))
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
    let output = make(index, io.clone()).await;
    // A pool thread that has nobody to answer to panics.
    io.idle().await;
    // What was dropped is closed only at the next turn of the rings.
    Timer::new(PREEMPT).await;
    output
}

fn check_machine(specs: &[ShardSpec]) -> Result<(), StartError> {
    if specs.is_empty() {
        return Err(StartError::NoShards);
    }
    let allowed =
        rustix::thread::sched_getaffinity(None).map_err(|errno| StartError::Thread(errno.into()))?;
    let missing = specs.iter().filter_map(|spec| spec.cpu).find(|&cpu| !is_allowed(&allowed, cpu));
    if let Some(cpu) = missing {
        return Err(StartError::NoSuchProcessor { cpu });
    }
    check_ring()
}

fn is_allowed(allowed: &rustix::thread::CpuSet, cpu: usize) -> bool {
    cpu < rustix::thread::CpuSet::MAX_CPU && allowed.is_set(cpu)
}

/// Tries to make a ring: the runtime panics, or leaves the process, where it can't.
fn check_ring() -> Result<(), StartError> {
    /// Came with Linux 5.11, after all operations the runtime uses.
    const FEATURE_EXT_ARG: u32 = 1 << 8;
    let mut parameters = [0_u32; 30];
    make_ring(&mut parameters)?;
    let [_, _, _, _, _, features, ..] = parameters;
    if features & FEATURE_EXT_ARG == 0 { Err(StartError::RingTooOld) } else { Ok(()) }
}

/// Makes a ring of one entry and closes it.
fn make_ring(parameters: &mut [u32; 30]) -> Result<(), StartError> {
    let number = ring_setup(parameters);
    match i32::try_from(number) {
        Ok(number) if number >= 0 => {
            drop(own(number));
            Ok(())
        }
        Ok(_) | Err(_) => Err(StartError::of_ring(std::io::Error::last_os_error())),
    }
}

#[expect(
    unsafe_code,
    reason = "the ring itself is the runtime's; only whether one can be made is asked here"
)]
fn ring_setup(parameters: &mut [u32; 30]) -> libc::c_long {
    // SAFETY: the kernel reads and writes the 120 bytes of `struct io_uring_params`, which is `parameters`.
    unsafe { libc::syscall(libc::SYS_io_uring_setup, 1_u32, parameters.as_mut_ptr()) }
}

#[expect(unsafe_code, reason = "a system call gives a descriptor as a number")]
fn own(descriptor: i32) -> OwnedFd {
    // SAFETY: the kernel just opened it for us and nobody else knows the number.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
