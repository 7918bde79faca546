//! An orderly stop on a drive without a byte of space: what it has to write has its place already.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod support;

use core::time::Duration;

use engine_record::ShardId;
use engine_store::AppendError;
use sim::CrashMode;
use support::client::Client;
use support::model::Model;
use support::{Machine, SimLog, SimStore, append, at, batch, batch_of, partition};

const BLOCK: u64 = 4096;

/// A machine whose drive is filled, and what the first three of its 23 logs ought to have. The others are empty.
struct Filled {
    machine: Machine,
    models: Vec<Model>,
    next_batch: u64,
    /// Every so many batches one is large.
    large_every: u64,
}

impl Filled {
    fn new(seed: u64) -> Self {
        let mut machine = Machine::new(seed);
        machine.log_config.segment_bytes = 60_000;
        machine.log_config.index_interval_bytes = 1;
        machine.config.checkpoint_interval = Duration::from_millis(1);
        Self { machine, models: vec![Model::default(); 3], next_batch: 0, large_every: 3 }
    }

    fn start(&self) -> (SimStore, Vec<SimLog>) {
        let (store, _) = self.machine.start();
        let logs = (0..23).map(|number| self.machine.open(&store, partition(number))).collect();
        (store, logs)
    }

    /// Appends to one log after the other until none takes more, and leaves no byte of space then; how many were taken.
    fn fill(&mut self, logs: &[SimLog]) -> u64 {
        let mut taken = 0;
        let mut is_refused = [false; 3];
        while is_refused.contains(&false) {
            for (number, refused) in is_refused.iter_mut().enumerate() {
                self.next_batch += 1;
                let bytes = match self.next_batch.is_multiple_of(self.large_every) {
                    true => batch(self.next_batch, 1, 7_000),
                    false => batch_of(i64::try_from(self.next_batch).unwrap(), 0, 1, 50),
                };
                match self.machine.run(append(&logs[number], &bytes)) {
                    Ok(appended) => {
                        self.models[number].appended(&appended, &bytes);
                        taken += 1;
                    }
                    Err(error) => {
                        assert_eq!(error, AppendError::StorageFull);
                        *refused = true;
                    }
                }
            }
        }
        self.leave_no_space();
        taken
    }

    fn leave_no_space(&self) {
        self.machine.disk().set_capacity(self.machine.disk().used_bytes());
    }

    /// Starts, checks that the last end was clean and nothing is lost, and goes on.
    fn start_clean(&self, case: &str) -> (SimStore, Vec<SimLog>) {
        let (store, report) = self.machine.start();
        assert!(report.is_clean, "{case}: {report:?}");
        drop(store);
        let (store, logs) = self.start();
        assert_eq!(store.metrics().recoveries, 0, "{case}");
        self.check(&logs, case);
        (store, logs)
    }

    fn check(&self, logs: &[SimLog], case: &str) {
        let mut client = self.machine.run(Client::connect(&self.machine.node));
        for (log, model) in logs.iter().zip(&self.models) {
            let bytes = self.machine.run(client.read_all(log, at(0), 100_000));
            assert!(bytes == model.bytes_from(at(0)), "{case}: {} bytes", bytes.len());
        }
    }

    fn stop(&self, store: &SimStore, case: &str) {
        assert_eq!(self.machine.run(store.shutdown()), Ok(()), "{case}");
        self.machine.crash(CrashMode::LoseAllUnflushed);
    }
}

/// A store that has written about so many changes to its slot, which has space for 256 blocks, and then has `free` bytes
/// of space left.
fn nearly_full(seed: u64, changes: u64, free: u64) -> (Filled, SimStore, Vec<SimLog>) {
    let mut filled = Filled::new(seed);
    let (store, logs) = filled.start();
    for number in 0..changes {
        let log = usize::try_from(number % 3).unwrap();
        let bytes = batch(number, 1, 100);
        filled.models[log].appended(&filled.machine.append_flushed(&logs[log], &bytes), &bytes);
        filled.machine.pause(Duration::from_millis(3));
    }
    filled.machine.disk().set_capacity(filled.machine.disk().used_bytes() + free);
    filled.next_batch = 1_000;
    (filled, store, logs)
}

#[test]
fn a_stop_on_a_full_drive_is_clean_whatever_space_was_left_before_and_so_are_those_after_it() {
    let mut taken = 0;
    for blocks in 0..24 {
        for changes in [1, 236 + blocks] {
            let case = format!("{blocks} blocks, {changes} changes");
            let (mut filled, store, logs) = nearly_full(500 + blocks, changes, blocks * BLOCK);
            taken += filled.fill(&logs);
            filled.stop(&store, &case);
            for _ in 0..2 {
                let (store, logs) = filled.start_clean(&case);
                taken += filled.fill(&logs);
                filled.stop(&store, &case);
            }
            filled.start_clean(&case);
        }
    }
    assert!(taken > 100, "{taken} batches found space");
}

#[test]
fn a_stop_on_a_full_drive_is_clean_after_a_crash_on_it() {
    for blocks in 0..12 {
        for mode in [CrashMode::LoseAllUnflushed, CrashMode::KeepAll] {
            let case = format!("{blocks} blocks, {mode:?}");
            let (mut filled, store, logs) = nearly_full(600 + blocks, 240 + blocks, blocks * BLOCK);
            filled.fill(&logs);
            for (log, model) in logs.iter().zip(&filled.models) {
                filled.machine.run(log.flushed(model.end())).unwrap();
            }
            drop(store);
            filled.machine.crash(mode);
            filled.leave_no_space();
            let (store, logs) = filled.start();
            filled.check(&logs, &case);
            filled.stop(&store, &case);
            filled.start_clean(&case);
        }
    }
}

/// Each producer's place in the checkpoint is counted with five batches: it takes more than its only one does in the log.
#[test]
fn what_logs_grow_by_is_refused_where_there_would_be_no_space_to_close_them() {
    const SEGMENT_SPACE: u32 = 1 << 20;
    for kibibytes in [0, 200, 700] {
        let case = format!("{kibibytes} KiB");
        let mut filled = Filled::new(700 + kibibytes);
        filled.large_every = u64::MAX;
        filled.machine.log_config.segment_bytes = 2 << 20;
        let config = &mut filled.machine.config;
        (config.allocation_bytes_min, config.allocation_bytes_max) = (SEGMENT_SPACE, SEGMENT_SPACE);
        let (store, logs) = filled.start();
        for (log, model) in logs.iter().zip(&mut filled.models) {
            let bytes = batch(0, 1, 100);
            model.appended(&filled.machine.append_flushed(log, &bytes), &bytes);
        }
        filled.machine.pause(Duration::from_millis(100));
        filled.machine.disk().set_capacity(filled.machine.disk().used_bytes() + (kibibytes << 10));
        let taken = filled.fill(&logs);
        assert!(taken > 5_000, "{case}: {taken} batches found space");
        let bytes: u64 = logs.iter().map(SimLog::size_bytes).sum();
        assert!(bytes < 3 * u64::from(SEGMENT_SPACE) - 100_000, "{case}: the segments had space, {bytes}");
        filled.stop(&store, &case);
        let (store, logs) = filled.start_clean(&case);
        filled.fill(&logs);
        filled.stop(&store, &case);
        filled.start_clean(&case);
    }
}

#[test]
fn another_shard_starts_and_stops_on_a_full_drive_with_what_the_first_one_closed() {
    let (mut filled, store, logs) = nearly_full(900, 250, 5 * BLOCK);
    filled.fill(&logs);
    filled.stop(&store, "one shard");
    (filled.machine.config.shard, filled.machine.config.shards) = (ShardId(1), 2);
    let (store, logs) = filled.start_clean("the second shard");
    assert_eq!(filled.fill(&logs), 0, "its checkpoint has no space");
    filled.stop(&store, "the second shard");
    (filled.machine.config.shard, filled.machine.config.shards) = (ShardId(0), 1);
    let (store, logs) = filled.start_clean("one shard again");
    filled.fill(&logs);
    filled.stop(&store, "one shard again");
    filled.start_clean("one shard again");
}

#[test]
fn logs_that_nothing_was_appended_to_need_no_space_at_a_stop() {
    let machine = Machine::new(800);
    let (store, log) = machine.start_one();
    machine.append_flushed(&log, &batch(0, 1, 100));
    for number in 1..12_000 {
        machine.open(&store, partition(number));
    }
    machine.disk().set_capacity(machine.disk().used_bytes());
    assert_eq!(machine.run(store.shutdown()), Ok(()));
    machine.crash(CrashMode::LoseAllUnflushed);
    let (store, report) = machine.start();
    assert_eq!((report.is_clean, report.partitions), (true, 1));
    let log = machine.open(&store, partition(0));
    let other = machine.open(&store, partition(11_999));
    assert_eq!((log.offsets().log_end, other.offsets().log_end), (at(1), at(0)));
    machine.disk().set_capacity(1 << 40);
    machine.append_flushed(&other, &batch(1, 1, 100));
    assert_eq!(store.metrics().recoveries, 0);
}
