//! Images of several frames, in files that crashes have cut short.

use core::time::Duration;

use engine_io::Task;
use engine_record::TopicPartition;
use sim::{CrashMode, Sim, SimIo, SimNode};

use super::*;
use crate::checkpoint::Entry;
use crate::checkpoint::testing::{entry, partition};
use crate::config::StoreConfig;
use crate::resources::Resources;
use crate::shard::Shard;

/// More than a frame of an image takes: each entry of this size has one of its own.
const LARGE: usize = 1100 << 10;

/// A machine with the checkpoints of one shard.
struct Machine {
    sim: Sim,
    node: SimNode,
}

impl Machine {
    fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        let node = sim.node();
        Self { node, sim }
    }

    fn shard(&self) -> Result<(Shard<SimIo>, FoundCheckpoints), StoreError> {
        let config = StoreConfig::new("data", ShardId(0), 1);
        let (io, layout) = (self.node.io(), Layout::new(&config.folder));
        let found = self.sim.block_on(async {
            io.create_folder(&layout.checkpoints()).await.unwrap();
            read_all(&io, &layout, config.shard).await
        })?;
        let nothing =
            FoundSlots { entries: Entries::new(), elsewhere: BTreeSet::new(), slot: None, image: 0 };
        let unused = Checkpointer::new(0, SlotWriter::new(nothing), Entries::new());
        let resources = Resources::new(&config);
        Ok((Shard::new(io, config, resources, layout, unused), found))
    }

    /// Starts anew and writes an image with what was found and these entries, given `time` for it.
    fn write(&self, entries: Vec<(TopicPartition, Entry)>, time: Duration) -> bool {
        let (shard, found) = self.shard().expect("the checkpoint can be read");
        let io = shard.io.clone();
        let task = io.spawn(async move {
            let mut slots = SlotWriter::new(found.own);
            slots.write(&shard, found.generation, entries).await.unwrap();
        });
        self.sim.run_for(time);
        task.is_finished()
    }

    /// The marks of the entries that a start finds.
    fn marks(&self) -> Vec<i64> {
        let (_, found) = self.shard().expect("the checkpoint can be read");
        let logs = found.entries.values().filter_map(|entry| entry.log.as_ref());
        logs.map(|log| log.high_watermark.value()).collect()
    }
}

const ENOUGH: Duration = Duration::from_secs(1);

/// An image of one frame, and over the next one, of three frames, a crash.
fn crashed_in_an_image(seed: u64, after: Duration) -> (Machine, bool) {
    let machine = Machine::new(seed);
    assert!(machine.write(vec![(partition(0), entry(1, 10))], ENOUGH));
    let large = (0..3).map(|number| (partition(number), entry(2, LARGE))).collect();
    let is_whole = machine.write(large, after);
    machine.node.crash(CrashMode::KeepRandomSectors);
    (machine, is_whole)
}

#[test]
fn a_short_image_after_a_crash_in_a_long_one_is_read_back() {
    let mut cut_short = 0;
    for micros in (0..6_000).step_by(199) {
        let (machine, is_whole) = crashed_in_an_image(micros, Duration::from_micros(micros));
        let before = machine.marks();
        assert!(!is_whole || before == [2; 3], "what was written is found: {before:?}");
        cut_short += usize::from(before == [1]);
        assert!(machine.write(vec![(partition(0), entry(3, 10))], ENOUGH));
        machine.node.crash(CrashMode::LoseAllUnflushed);
        assert_eq!(machine.marks(), [&[3], &before[1..]].concat(), "after {micros} microseconds");
    }
    assert!(cut_short > 10, "{cut_short} crashes hit the image");
}

#[test]
fn an_old_image_half_overwritten_does_no_harm() {
    let mut hit = 0;
    for micros in (0..6_000).step_by(61) {
        let machine = Machine::new(micros);
        let (shard, found) = machine.shard().unwrap();
        // An image of one block with many changes behind it, which the next but one image is written over.
        machine.sim.block_on(async {
            let mut slots = SlotWriter::new(found.own);
            for mark in 1..200 {
                slots.write(&shard, 1, vec![(partition(0), entry(mark, 10))]).await.unwrap();
            }
        });
        assert!(machine.write(vec![(partition(0), entry(500, 10))], ENOUGH));
        machine.write(vec![(partition(0), entry(600, 100_000))], Duration::from_micros(micros));
        machine.node.crash(CrashMode::KeepRandomSectors);
        let marks = machine.marks();
        assert!(marks == [500] || marks == [600], "{marks:?} after {micros} microseconds");
        let file = machine.node.disk().live("data/checkpoints/0.0").unwrap();
        hit += usize::from(read_slot(&file).lost == Some(1));
    }
    assert!(hit > 0, "some crash left the old image's end without its middle");
}

#[test]
fn a_newest_image_that_is_damaged_is_reported_and_not_replaced_by_the_one_before() {
    let machine = Machine::new(5);
    assert!(machine.write(vec![(partition(0), entry(1, 10))], ENOUGH));
    let (shard, found) = machine.shard().unwrap();
    machine.sim.block_on(async {
        let mut slots = SlotWriter::new(found.own);
        for mark in 2..4 {
            slots.write(&shard, 2, vec![(partition(0), entry(mark, 10))]).await.unwrap();
        }
    });
    machine.node.disk().flip_bit("data/checkpoints/0.1", 50).unwrap();
    machine.node.crash(CrashMode::LoseAllUnflushed);
    let refused = machine.shard().err();
    let lost = Corruption::Checkpoint(CorruptCheckpoint::FrameLost);
    assert!(matches!(refused, Some(StoreError::Corrupt { why, .. }) if why == lost), "{:?}", refused);
}
