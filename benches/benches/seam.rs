//! What the seam costs: the runtime called directly against the same work through [`engine_io::Io`], on one shard, in
//! one run. Criterion times each; at the end alternating rounds give ratios, which a noisy host disturbs least.
//!
//! Two rows are what is promised, not what passing through costs. A task spawned through the seam begins at a later turn,
//! so that a spawn can't run anything of the caller's; the runtime's plain spawn polls it inside the call. The row
//! "spawn and join" has the runtime schedule as well, "spawn inside the call" shows what its shorter way would save. What is
//! left between the two in "spawn and join" is a flag that task and handle share, one small allocation a task: by it a handle
//! tells whether its task has ended, which the runtime's own can't without being polled.
//! And giving way reads the clock, so that rings are looked at once a millisecond; the runtime's yield knows no time.

use core::fmt;
use core::time::Duration;
use std::rc::Rc;
use std::sync::mpsc;

use criterion::Criterion;
use engine_io::{
    Buffer, DirectFile, Io, ListenMode, Listener, OpenMode, Receiver, SendPiece, Sender, Stream,
    StreamReader, StreamWriter, Task, mailbox,
};
use engine_io_glommio::{GlommioFile, GlommioIo, GlommioStreamReader, GlommioStreamWriter, ShardSpec, run};
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use glommio::TaskQueueHandle;
use glommio::io::{DmaBuffer, DmaFile, OpenOptions};
use glommio::net::{TcpListener, TcpStream};
use glommio::timer::Timer;
use tempfile::TempDir;

const IO_MEMORY_BYTES: usize = 4 << 20;
const WRITE_BYTES: usize = 16 << 10;
const FILE_BYTES: usize = 16 << 20;
const ECHO_BYTES: usize = 100;
const ROUNDS: usize = 21;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Write,
    Echo,
    Durable,
    SpawnAndJoin,
    SpawnInside,
    Sleep,
    Yield,
}

impl Work {
    const ALL: [Self; 7] = [
        Self::Write,
        Self::Durable,
        Self::Echo,
        Self::Sleep,
        Self::SpawnAndJoin,
        Self::SpawnInside,
        Self::Yield,
    ];

    /// How often a round repeats it: some ten milliseconds.
    fn turns(self) -> u64 {
        match self {
            Self::Durable => 50,
            Self::Write | Self::Echo => 200,
            Self::Sleep => 2_000,
            Self::SpawnAndJoin | Self::SpawnInside | Self::Yield => 50_000,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Runtime,
    Seam,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Write => "16 KiB direct write",
            Self::Durable => "16 KiB direct write and flush",
            Self::Echo => "100 B echo over loopback",
            Self::SpawnAndJoin => "spawn and join",
            Self::SpawnInside => "spawn inside the call, join",
            Self::Sleep => "sleep(0)",
            Self::Yield => "yield",
        })
    }
}

/// An order to the shard, and where it says how long that took.
struct Order {
    work: Work,
    way: Way,
    turns: u64,
    took: mpsc::Sender<Duration>,
}

/// The shard, seen from the benchmark's thread.
struct Bench {
    orders: Sender<Order>,
}

impl Bench {
    fn time(&self, work: Work, way: Way, turns: u64) -> Duration {
        let (took, answer) = mpsc::channel();
        let order = Order { work, way, turns, took };
        self.orders.try_send(order).map_err(drop).expect("one order at a time fits");
        answer.recv().expect("the shard answers every order")
    }
}

/// Everything both ways work on.
struct Stage {
    io: GlommioIo,
    runtime_file: DmaFile,
    runtime_buffer: Rc<DmaBuffer>,
    runtime_stream: TcpStream,
    seam_file: GlommioFile,
    seam_buffer: Rc<<GlommioIo as Io>::Buffer>,
    seam_stream: (GlommioStreamReader, GlommioStreamWriter),
    _runtime_server: glommio::Task<()>,
    _seam_server: <GlommioIo as Io>::Task,
}

impl Stage {
    async fn set(io: GlommioIo, folder: &std::path::Path) -> Self {
        let path = folder.join("runtime");
        prepare(&io, &path).await.close().await.expect("the file closes");
        let runtime_file =
            OpenOptions::new().read(true).write(true).dma_open(&path).await.expect("the file opens");
        let runtime_buffer = Rc::new(runtime_file.alloc_dma_buffer(WRITE_BYTES));
        let seam_file = prepare(&io, &folder.join("seam")).await;
        let seam_buffer = Rc::new(io.buffer(WRITE_BYTES));
        let (runtime_stream, server) = runtime_echo().await;
        let (seam_stream, seam_server) = seam_echo(&io).await;
        Self {
            io,
            runtime_file,
            runtime_buffer,
            runtime_stream,
            seam_file,
            seam_buffer,
            seam_stream,
            _runtime_server: server,
            _seam_server: seam_server,
        }
    }

    async fn play(&mut self, order: &Order) -> Duration {
        let before = self.io.now();
        for turn in 0..order.turns {
            match order.way {
                Way::Runtime => self.runtime(order.work, turn).await,
                Way::Seam => self.seam(order.work, turn).await,
            }
        }
        self.io.now().since(before)
    }

    async fn runtime(&mut self, work: Work, turn: u64) {
        match work {
            Work::Write => self.runtime_write(turn).await,
            Work::Durable => {
                self.runtime_write(turn).await;
                self.runtime_file.fdatasync().await.expect("the drive flushes");
            }
            Work::Echo => {
                let mut bytes = [7; ECHO_BYTES];
                self.runtime_stream.write_all(&bytes).await.expect("the peer takes it");
                self.runtime_stream.read_exact(&mut bytes).await.expect("the peer answers");
            }
            Work::SpawnAndJoin => {
                let task = glommio::spawn_local_into(async {}, TaskQueueHandle::default());
                task.expect("the default queue is there").await;
            }
            Work::SpawnInside => glommio::spawn_local(async {}).await,
            Work::Sleep => drop(Timer::new(Duration::ZERO).await),
            Work::Yield => futures_lite::future::yield_now().await,
        }
    }

    async fn runtime_write(&self, turn: u64) {
        let buffer = Rc::clone(&self.runtime_buffer);
        let written = self.runtime_file.write_rc_at(buffer, position(turn)).await;
        assert_eq!(written.expect("the drive takes it"), WRITE_BYTES);
    }

    async fn seam_write(&self, turn: u64) {
        let buffer = Rc::clone(&self.seam_buffer);
        self.seam_file.write(position(turn), buffer).await.expect("the drive takes it");
    }

    async fn seam(&mut self, work: Work, turn: u64) {
        match work {
            Work::Write => self.seam_write(turn).await,
            Work::Durable => {
                self.seam_write(turn).await;
                self.seam_file.flush().await.expect("the drive flushes");
            }
            Work::Echo => {
                let (reader, writer) = &mut self.seam_stream;
                let piece = SendPiece::Owned(vec![7; ECHO_BYTES]);
                writer.send(vec![piece]).await.expect("the peer takes it");
                let (result, _) = reader.receive_exactly(Vec::new(), ECHO_BYTES).await;
                result.expect("the peer answers");
            }
            Work::SpawnAndJoin | Work::SpawnInside => self.io.spawn(async {}).join().await,
            Work::Sleep => self.io.sleep(Duration::ZERO).await,
            Work::Yield => self.io.yield_now().await,
        }
    }
}

fn position(turn: u64) -> u64 {
    turn % (FILE_BYTES / WRITE_BYTES) as u64 * WRITE_BYTES as u64
}

/// A file whose space has all been written once: a write into it changes nothing that says where its bytes lie, so neither
/// way's flush has more to do than the other's.
async fn prepare(io: &GlommioIo, path: &std::path::Path) -> GlommioFile {
    let file = io.open(path, OpenMode::New).await.expect("the folder takes files");
    let mut buffer = io.buffer(1 << 20);
    buffer.as_mut_slice().fill(1);
    let buffer = Rc::new(buffer);
    for position in (0..FILE_BYTES as u64).step_by(1 << 20) {
        file.write(position, Rc::clone(&buffer)).await.expect("the drive takes it");
    }
    file.flush().await.expect("the drive flushes");
    file
}

async fn runtime_echo() -> (TcpStream, glommio::Task<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("a listener has an address");
    let client = TcpStream::connect(address).await.expect("the listener is there");
    client.set_nodelay(true).expect("the socket is open");
    let mut server = listener.accept().await.expect("the client is there");
    server.set_nodelay(true).expect("the socket is open");
    let task = glommio::spawn_local(async move {
        let mut bytes = vec![0; 4096];
        while let Ok(count @ 1..) = server.read(&mut bytes).await {
            if server.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    });
    (client, task)
}

async fn seam_echo(io: &GlommioIo) -> ((GlommioStreamReader, GlommioStreamWriter), <GlommioIo as Io>::Task) {
    let address = "127.0.0.1:0".parse().expect("an address");
    let listener = io.listen(address, ListenMode::Exclusive).await.expect("a port is free");
    let client = io.connect(listener.local_address()).await.expect("the listener is there");
    let (mut reader, mut writer) = listener.accept().await.expect("the client is there").split();
    let task = io.spawn(async move {
        while let (Ok(1..), bytes) = reader.receive_some(Vec::with_capacity(4096)).await {
            if writer.send(vec![SendPiece::Owned(bytes)]).await.is_err() {
                return;
            }
        }
    });
    (client.split(), task)
}

async fn serve(io: GlommioIo, folder: std::path::PathBuf, orders: Receiver<Order>) {
    let mut stage = Stage::set(io, &folder).await;
    while let Ok(order) = orders.receive().await {
        let took = stage.play(&order).await;
        order.took.send(took).expect("the benchmark waits for it");
    }
}

fn start(folder: &TempDir) -> (Bench, engine_io_glommio::Running<()>) {
    let (orders, received) = mailbox(1);
    let received = std::sync::Mutex::new(Some(received));
    let received = std::sync::Arc::new(received);
    let path = folder.path().to_owned();
    let spec = ShardSpec { name: "bench".to_owned(), cpu: Some(0), dedicated: false };
    let running = run(vec![spec], IO_MEMORY_BYTES, folder.path(), move |_, io| {
        let orders = received.lock().expect("nobody panicked").take().expect("there is one shard");
        serve(io, path.clone(), orders)
    });
    (Bench { orders }, running.expect("the host runs shards"))
}

fn bench(criterion: &mut Criterion, bench: &Bench) {
    for work in Work::ALL {
        let mut group = criterion.benchmark_group(work.to_string());
        group.sample_size(20).measurement_time(Duration::from_secs(2));
        for way in [Way::Runtime, Way::Seam] {
            group.bench_function(format!("{way:?}"), |bencher| {
                bencher.iter_custom(|turns| bench.time(work, way, turns));
            });
        }
        group.finish();
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark's result")]
fn print_ratios(bench: &Bench) {
    println!("| work, medians of {ROUNDS} alternating rounds | seam, us | runtime, us | seam / runtime |");
    println!("| --- | --- | --- | --- |");
    for work in Work::ALL {
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (way, round) in [Way::Runtime, Way::Seam].into_iter().zip(&mut rounds) {
                round.push(bench.time(work, way, work.turns()));
            }
        }
        let [runtime, seam] = rounds.map(|round| median(round, work.turns()));
        println!("| {work} | {seam:.2} | {runtime:.2} | {:.2} |", seam / runtime);
    }
}

/// Microseconds a turn.
fn median(mut round: Vec<Duration>, turns: u64) -> f64 {
    round.sort_unstable();
    let turns = u32::try_from(turns).expect("a round is short");
    round[round.len() / 2].as_secs_f64() * 1e6 / f64::from(turns)
}

fn main() {
    let program = std::env::current_exe().expect("a program has a path");
    let folder = program.parent().expect("it lies in a folder");
    let folder = tempfile::tempdir_in(folder).expect("the build folder takes folders");
    let (shard, running) = start(&folder);
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion, &shard);
    criterion.final_summary();
    print_ratios(&shard);
    drop(shard);
    assert!(running.join().iter().all(Result::is_ok), "the shard ends well");
}
