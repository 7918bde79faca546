//! Any sequence of operations on a file and its name, against a model of plain vectors.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;
use std::rc::Rc;

use engine_io::{BLOCK_BYTES, Buffer, DirectFile, Io, OpenMode};
use proptest::prelude::*;
use sim::{CrashMode, Sim, SimFile, SimIo, SimNode};

const BLOCKS_MAX: usize = 6;

#[derive(Clone, Debug)]
enum Operation {
    Write { block: usize, blocks: usize },
    Allocate { block: usize, blocks: usize },
    Truncate { bytes: usize },
    Flush,
    FlushFolder,
    Rename,
    Crash,
    Die,
}

fn operation() -> impl Strategy<Value = Operation> {
    let range = (0..BLOCKS_MAX, 1..=BLOCKS_MAX);
    prop_oneof![
        4 => range.clone().prop_map(|(block, blocks)| Operation::Write { block, blocks }),
        2 => range.prop_map(|(block, blocks)| Operation::Allocate { block, blocks }),
        2 => (0..BLOCKS_MAX * BLOCK_BYTES).prop_map(|bytes| Operation::Truncate { bytes }),
        3 => Just(Operation::Flush),
        2 => Just(Operation::FlushFolder),
        1 => Just(Operation::Rename),
        2 => Just(Operation::Crash),
        1 => Just(Operation::Die),
    ]
}

/// What the file and its name are, and what a crash would leave of them.
#[derive(Clone, Debug)]
struct Model {
    live: Vec<u8>,
    durable: Vec<u8>,
    name: &'static str,
    durable_name: &'static str,
}

impl Model {
    fn grow(&mut self, bytes: usize) {
        self.live.resize(self.live.len().max(bytes), 0);
    }
}

struct Machine {
    node: SimNode,
    io: SimIo,
    file: SimFile,
}

impl Machine {
    async fn start(node: SimNode) -> Self {
        let io = node.io();
        io.create_folder(Path::new("/data")).await.unwrap();
        let file = io.open(Path::new("/data/a"), OpenMode::New).await.unwrap();
        io.flush_folder(Path::new("/data")).await.unwrap();
        Self { node, io, file }
    }

    async fn carry_out(&mut self, operation: &Operation, fill: u8, model: &mut Model) {
        match *operation {
            Operation::Write { block, blocks } => {
                let mut buffer = self.io.buffer(blocks * BLOCK_BYTES);
                buffer.as_mut_slice().fill(fill);
                let start = block * BLOCK_BYTES;
                self.file.write(start as u64, Rc::new(buffer)).await.unwrap();
                model.grow(start + blocks * BLOCK_BYTES);
                model.live[start..start + blocks * BLOCK_BYTES].fill(fill);
            }
            Operation::Allocate { block, blocks } => {
                let (start, bytes) = (block * BLOCK_BYTES, blocks * BLOCK_BYTES);
                self.file.allocate(start as u64, bytes as u64).await.unwrap();
                model.grow(start + bytes);
            }
            Operation::Truncate { bytes } => {
                self.file.truncate(bytes as u64).await.unwrap();
                model.live.resize(bytes, 0);
            }
            Operation::Flush => {
                self.file.flush().await.unwrap();
                model.durable.clone_from(&model.live);
            }
            Operation::FlushFolder => {
                self.io.flush_folder(Path::new("/data")).await.unwrap();
                model.durable_name = model.name;
            }
            Operation::Rename => {
                let to = if model.name == "/data/a" { "/data/b" } else { "/data/a" };
                self.io.rename(Path::new(model.name), Path::new(to)).await.unwrap();
                model.name = to;
            }
            Operation::Crash => {
                model.live.clone_from(&model.durable);
                model.name = model.durable_name;
                self.restart(CrashMode::LoseAllUnflushed, model).await;
            }
            Operation::Die => {
                model.durable.clone_from(&model.live);
                model.durable_name = model.name;
                self.restart(CrashMode::KeepAll, model).await;
            }
        }
    }

    async fn restart(&mut self, mode: CrashMode, model: &Model) {
        self.node.crash(mode);
        self.io = self.node.io();
        self.file = self.io.open(Path::new(model.name), OpenMode::Existing).await.unwrap();
    }

    async fn check(&self, model: &Model) {
        let bytes = self.file.read(0, 3 * BLOCKS_MAX * BLOCK_BYTES).await.unwrap();
        assert!(bytes.as_ref() == model.live, "a read gives what the model holds");
        assert!(self.node.disk().live(model.name).unwrap() == model.live);
        assert!(self.node.disk().durable(model.durable_name).unwrap() == model.durable);
        let listed = self.io.list_folder(Path::new("/data")).await.unwrap();
        assert_eq!(listed, [Path::new(model.name).strip_prefix("/data").unwrap()]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_disk_keeps_what_was_flushed_and_a_crash_loses_the_rest(
        seed: u64,
        operations in prop::collection::vec(operation(), 1..40),
    ) {
        let sim = Sim::new(seed);
        let node = sim.node();
        sim.block_on(async {
            let mut machine = Machine::start(node).await;
            let (live, durable) = (Vec::new(), Vec::new());
            let mut model = Model { live, durable, name: "/data/a", durable_name: "/data/a" };
            for (fill, operation) in (1..).zip(&operations) {
                machine.carry_out(operation, fill, &mut model).await;
                machine.check(&model).await;
            }
        });
    }

    /// Whatever a crash keeps of what was never flushed: each sector is one that was written there since the last
    /// flush, or the flushed one.
    #[test]
    fn a_crash_leaves_no_sector_that_was_never_written(seed: u64, writes in prop::collection::vec((0..BLOCKS_MAX, any::<bool>()), 1..30)) {
        let sim = Sim::new(seed);
        let node = sim.node();
        sim.block_on(async {
            let machine = Machine::start(node.clone()).await;
            machine.file.allocate(0, (BLOCKS_MAX * BLOCK_BYTES) as u64).await.unwrap();
            machine.file.flush().await.unwrap();
            let mut possible = vec![vec![0_u8]; BLOCKS_MAX];
            for (fill, (block, flushes)) in (1..).zip(writes) {
                let mut buffer = machine.io.buffer(BLOCK_BYTES);
                buffer.as_mut_slice().fill(fill);
                machine.file.write((block * BLOCK_BYTES) as u64, Rc::new(buffer)).await.unwrap();
                possible[block].push(fill);
                if flushes {
                    machine.file.flush().await.unwrap();
                    possible.iter_mut().for_each(|fills| drop(fills.drain(..fills.len() - 1)));
                }
            }
            node.crash(CrashMode::KeepRandomSectors);
            let content = node.disk().live("/data/a").unwrap();
            assert_eq!(content.len(), BLOCKS_MAX * BLOCK_BYTES);
            for (sector, fills) in content.chunks(512).zip(possible.iter().flat_map(|fills| [fills; 8])) {
                assert!(fills.contains(&sector[0]) && sector.iter().all(|byte| *byte == sector[0]));
            }
        });
    }
}
