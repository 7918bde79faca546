//! What was promised can be written, at every point where the drive may be full.

use std::path::PathBuf;

use engine_record::ShardId;
use sim::{Sim, SimIo, SimNode};

use super::*;
use crate::checkpoint::testing::{self, partition};
use crate::checkpoint_files::read_all;
use crate::checkpointer::Checkpointer;
use crate::config::StoreConfig;
use crate::layout::Layout;
use crate::resources::Resources;

/// An entry told from others by `mark`, of exactly `bytes` bytes.
fn entry(mark: i64, bytes: u64) -> Entry {
    let padding = usize::try_from(bytes).unwrap() - checkpoint::encoded_bytes(&testing::entry(mark, 0));
    testing::entry(mark, padding)
}

fn entries(count: i32, mark: i64, bytes: u64) -> Vec<(TopicPartition, Entry)> {
    (0..count).map(|number| (partition(number), entry(mark, bytes))).collect()
}

/// A machine with the checkpoint of one shard.
struct Machine {
    sim: Sim,
    node: SimNode,
}

impl Machine {
    fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        Self { node: sim.node(), sim }
    }

    /// What a start finds: the writer, and the marks of the entries.
    fn start(&self) -> (Shard<SimIo>, SlotWriter<SimIo>, Vec<i64>) {
        let config = StoreConfig::new(PathBuf::from("data"), ShardId(0), 1);
        let (io, layout) = (self.node.io(), Layout::new(&config.folder));
        let found = self.sim.block_on(async {
            io.create_folder(&layout.checkpoints()).await.unwrap();
            read_all(&io, &layout, config.shard).await.unwrap()
        });
        let logs = found.entries().values().filter_map(|entry| entry.log.as_ref());
        let marks = logs.map(|log| log.high_watermark.value()).collect();
        let nothing =
            FoundSlots { entries: Entries::new(), elsewhere: BTreeSet::new(), slot: None, image: 0 };
        let unused = Checkpointer::new(0, SlotWriter::new(nothing), Entries::new());
        let resources = Resources::new(&config);
        (Shard::new(io, config, resources, layout, unused), SlotWriter::new(found.into_own_slots()), marks)
    }

    fn leave(&self, free: u64) {
        let disk = self.node.disk();
        disk.set_capacity(disk.used_bytes() + free);
    }
}

const LARGE: u64 = 190_000;

/// Promises entries of `LARGE` bytes to one partition after the other while the drive gives space; to how many.
fn promise(machine: &Machine, shard: &Shard<SimIo>, slots: &mut SlotWriter<SimIo>) -> i32 {
    let reserve = slots.reserve();
    for number in 0..50 {
        reserve.set_promise(partition(number), LARGE);
        if let (false, Err(error)) = (reserve.is_backed(), machine.sim.block_on(slots.extend(shard, 1))) {
            assert!(error.is_storage_full());
            reserve.set_promise(partition(number), 0);
            return number;
        }
        assert!(reserve.is_backed());
    }
    50
}

#[test]
fn what_was_promised_is_written_on_a_full_drive_again_and_again_and_after_starts() {
    let mut promised = BTreeSet::new();
    for blocks in (0..160).step_by(11) {
        let machine = Machine::new(blocks);
        let (shard, mut slots, _) = machine.start();
        machine.sim.block_on(slots.write(&shard, 1, entries(3, 1, 500))).unwrap();
        machine.leave(blocks * 7 * 4096);
        let count = promise(&machine, &shard, &mut slots);
        promised.insert(count);
        machine.leave(0);
        for mark in 2..8 {
            let written = machine.sim.block_on(slots.write(&shard, 1, entries(count, mark, LARGE)));
            assert_eq!(written, Ok(()), "{blocks}: change or image {mark} of {count}");
        }
        for mark in 8..10 {
            let (shard, mut slots, marks) = machine.start();
            let found = marks.iter().filter(|found| **found == mark - 1).count();
            assert_eq!(i32::try_from(found), Ok(count), "{blocks}");
            let written = machine.sim.block_on(slots.write(&shard, 1, entries(count, mark, LARGE)));
            assert_eq!(written, Ok(()), "{blocks}: after a start");
        }
    }
    assert!(promised.len() > 5 && promised.last() < Some(&50), "{promised:?}");
}

#[test]
fn what_nobody_was_promised_is_refused_in_the_space_of_what_was_and_is_in_no_later_image() {
    let machine = Machine::new(1);
    let (shard, mut slots, _) = machine.start();
    machine.sim.block_on(slots.write(&shard, 1, entries(1, 1, 500))).unwrap();
    machine.leave(5 << 20);
    let count = promise(&machine, &shard, &mut slots);
    machine.leave(0);
    let mut refused = entries(1, 9, 500);
    refused.extend((100..110).map(|number| (partition(number), entry(9, LARGE))));
    let refused = machine.sim.block_on(slots.write(&shard, 1, refused));
    assert!(refused.is_err_and(|error| error.is_storage_full()));
    for mark in 2..5 {
        let others = entries(count, mark, LARGE).split_off(1);
        assert_eq!(machine.sim.block_on(slots.write(&shard, 1, others)), Ok(()));
        let marks = machine.start().2;
        assert_eq!(marks[0], 1);
        assert_eq!(marks[1..], vec![mark; usize::try_from(count).unwrap() - 1]);
    }
}

#[test]
fn a_crash_before_the_first_image_is_whole_leaves_one_slot() {
    for micros in (0..4_000).step_by(37) {
        let machine = Machine::new(micros);
        let (shard, mut slots, _) = machine.start();
        let io = machine.node.io();
        let _task = io.spawn(async move {
            slots.write(&shard, 1, entries(1, 5, 500)).await.unwrap();
        });
        machine.sim.run_for(core::time::Duration::from_micros(micros));
        machine.node.crash(sim::CrashMode::KeepRandomSectors);
        let (_, _, marks) = machine.start();
        assert!(marks.is_empty() || marks == [5], "{micros}: {marks:?}");
    }
}
