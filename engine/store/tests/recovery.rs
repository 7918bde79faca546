//! What a start makes of what the last run has left.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod support;

use core::time::Duration;
use std::path::Path;

use engine_io::{Buffer, DirectFile, Io, OpenMode};
use engine_record::{BATCH_HEADER_BYTES, LeaderEpoch, ShardId, assign};
use engine_store::{AppendError, Appended, Corruption, ReadBound, ReadRequest, StoreError};
use sim::{CrashMode, DiskLatency};
use std::rc::Rc;
use support::client::Client;
use support::lines::lines_of;
use support::model::Model;
use support::{Machine, SimLog, append, at, batch, batch_of, partition};

fn read_all(machine: &Machine, log: &SimLog) -> Vec<u8> {
    let mut client = machine.run(Client::connect(&machine.node));
    machine.run(client.read_all(log, at(0), 60_000))
}

fn fill(machine: &Machine, log: &SimLog, model: &mut Model, seeds: core::ops::Range<u64>, bytes: usize) {
    for seed in seeds {
        let bytes = batch(seed, 2, bytes);
        model.appended(&machine.append_flushed(log, &bytes), &bytes);
    }
}

#[test]
fn a_clean_end_is_found_clean_and_costs_a_look_at_the_files() {
    let mut machine = Machine::new(60);
    machine.log_config.segment_bytes = 60_000;
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    fill(&machine, &log, &mut model, 0..30, 5_000);
    log.advance_high_watermark(at(20));
    machine.run(store.shutdown()).unwrap();
    machine.crash(CrashMode::LoseAllUnflushed);

    let (store, report) = machine.start();
    assert!(report.is_clean);
    assert_eq!((report.partitions, report.unclosed), (1, 0));
    let each = Duration::from_micros(50)..=Duration::from_micros(50);
    let latency = DiskLatency { read: each.clone(), metadata: each, ..DiskLatency::default() };
    machine.disk().set_latency(latency);
    let before = machine.sim.now();
    let log = machine.open(&store, partition(0));
    let took = machine.sim.now().since(before);
    assert!(
        took < Duration::from_micros(200),
        "opening a closed partition lists its folder and reads twice, but takes {took:?}"
    );
    assert_eq!((store.metrics().recoveries, store.metrics().descriptors_now), (0, 0));
    assert_eq!((log.offsets().log_end, log.offsets().high_watermark), (model.end(), at(20)));
    assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)));
    fill(&machine, &log, &mut model, 30..60, 5_000);
    assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)));
}

#[test]
fn crash_loses_only_what_was_not_flushed() {
    for mode in [CrashMode::LoseAllUnflushed, CrashMode::KeepRandomSectors, CrashMode::KeepAll] {
        let machine = Machine::new(61);
        let (_store, log) = machine.start_one();
        let mut model = Model::default();
        fill(&machine, &log, &mut model, 0..20, 4_000);
        let flushed = model.end();
        for seed in 20..30 {
            let bytes = batch(seed, 2, 4_000);
            model.appended(&machine.append(&log, &bytes), &bytes);
        }
        machine.crash(mode);
        let (store, report) = machine.start();
        assert!(!report.is_clean);
        let log = machine.open(&store, partition(0));
        assert_eq!(store.metrics().recoveries, 1);
        let end = model.check_prefix(at(0), &read_all(&machine, &log));
        assert!(end >= flushed, "{mode:?}: {end} of {flushed}");
        assert_eq!(end, log.offsets().log_end);
        assert_eq!(end, log.offsets().flushed);
    }
}

#[test]
fn a_crash_of_the_process_alone_loses_nothing_written() {
    let machine = Machine::new(62);
    let (_store, log) = machine.start_one();
    let mut model = Model::default();
    for seed in 0..40 {
        let bytes = batch(seed, 2, 3_000);
        model.appended(&machine.append(&log, &bytes), &bytes);
    }
    machine.run(log.written(model.end())).unwrap();
    machine.crash(CrashMode::KeepAll);
    let (_store, log) = machine.start_one();
    assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)));
}

#[test]
fn producers_survive_a_crash_and_a_clean_end() {
    let machine = Machine::new(63);
    let (_store, log) = machine.start_one();
    machine.append_flushed(&log, &batch_of(5, 0, 3, 100));
    machine.append_flushed(&log, &batch_of(5, 3, 3, 100));
    machine.pause(Duration::from_secs(3));
    machine.append_flushed(&log, &batch_of(5, 6, 3, 100));
    machine.crash(CrashMode::LoseAllUnflushed);
    let (store, log) = machine.start_one();
    for base_sequence in [0, 3, 6] {
        assert!(machine.append(&log, &batch_of(5, base_sequence, 3, 100)).duplicate, "{base_sequence}");
    }
    machine.append(&log, &batch_of(5, 9, 3, 100));
    machine.run(store.shutdown()).unwrap();
    let (_store, log) = machine.start_one();
    assert!(machine.append(&log, &batch_of(5, 9, 3, 100)).duplicate);
    let gap = machine.run(append(&log, &batch_of(5, 15, 3, 100)));
    assert!(matches!(gap, Err(AppendError::Refused(_))));
}

#[test]
fn a_scan_begins_at_the_checkpoint() {
    let machine = Machine::new(64);
    let (_store, log) = machine.start_one();
    let mut model = Model::default();
    fill(&machine, &log, &mut model, 0..50, 8_000);
    machine.pause(Duration::from_secs(3));
    fill(&machine, &log, &mut model, 50..52, 8_000);
    machine.crash(CrashMode::LoseAllUnflushed);
    let (store, log) = machine.start_one();
    assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)));
    let scanned = store.metrics().bytes_recovered;
    assert!(scanned <= 20_000, "{scanned} bytes were scanned again");
}

/// Writes `bytes` into a file past the page cache, whole blocks around them kept.
/// A node may have ten thousand of them.
#[test]
fn a_log_that_was_idle_before_a_crash_is_found_without_a_flush() {
    let machine = Machine::new(69);
    let (_store, log) = machine.start_one();
    let mut model = Model::default();
    fill(&machine, &log, &mut model, 0..10, 4_000);
    machine.pause(Duration::from_secs(10));
    machine.crash(CrashMode::LoseAllUnflushed);
    let (store, report) = machine.start();
    assert!(!report.is_clean);
    let each = Duration::from_micros(50)..=Duration::from_micros(50);
    let flush = Duration::from_secs(1)..=Duration::from_secs(1);
    let latency =
        DiskLatency { flush, ..DiskLatency { read: each.clone(), metadata: each, ..DiskLatency::default() } };
    machine.disk().set_latency(latency);
    let before = machine.sim.now();
    let log = machine.open(&store, partition(0));
    let took = machine.sim.now().since(before);
    assert!(took < Duration::from_millis(1), "it takes {took:?}");
    assert_eq!((store.metrics().recoveries, store.metrics().bytes_recovered), (1, 0));
    machine.disk().set_latency(DiskLatency::default());
    // What comes behind it is as durable as ever.
    fill(&machine, &log, &mut model, 10..20, 4_000);
    machine.crash(CrashMode::LoseAllUnflushed);
    let (store, _) = machine.start();
    let log = machine.open(&store, partition(0));
    assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)));
}

async fn patch(io: &impl Io, path: &Path, position: u64, bytes: &[u8]) {
    let file = io.open(path, OpenMode::Existing).await.unwrap();
    let block = position - position % 4096;
    let skip = usize::try_from(position - block).unwrap();
    let blocks = (skip + bytes.len()).next_multiple_of(4096);
    let old = file.read(block, blocks).await.unwrap();
    let mut buffer = io.buffer(blocks);
    buffer.as_mut_slice()[..old.as_ref().len()].copy_from_slice(old.as_ref());
    buffer.as_mut_slice()[skip..skip + bytes.len()].copy_from_slice(bytes);
    file.write(block, Rc::new(buffer)).await.unwrap();
    file.flush().await.unwrap();
}

#[test]
fn a_torn_tail_is_cut_and_no_ghost_behind_it_ever_comes_back() {
    let machine = Machine::new(65);
    let (_store, log) = machine.start_one();
    let mut model = Model::default();
    fill(&machine, &log, &mut model, 0..5, 2_000);
    machine.crash(CrashMode::LoseAllUnflushed);
    let end = usize::try_from(log_bytes(&model)).unwrap();

    // What a lost write leaves: a hole as long as a batch, and behind it a batch that would be the one after the next.
    // The hole ends at a block's end: nothing that is written into it later touches the ghost.
    let lost =
        (2_000..8_000).map(|bytes| batch(100, 1, bytes)).find(|lost| (end + lost.len()).is_multiple_of(4096));
    let lost = lost.unwrap();
    let mut ghost = batch(101, 2, 2_000);
    assign(&mut ghost, at(11), LeaderEpoch(0));
    let mut torn = lost.clone();
    torn[BATCH_HEADER_BYTES..].fill(0);
    let path = machine.segment(partition(0), 0);
    let behind = [torn, ghost.clone()].concat();
    machine.run(patch(&machine.node.io(), &path, end as u64, &behind));

    let (_store, log) = machine.start_one();
    assert_eq!(log.offsets().log_end, model.end());
    // A batch of exactly the lost one's size: the ghost would follow it.
    model.appended(&machine.append_flushed(&log, &lost), &lost);
    machine.crash(CrashMode::KeepAll);
    let (_store, log) = machine.start_one();
    assert_eq!(log.offsets().log_end, model.end(), "the ghost is gone");
    assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)));
    let live = machine.disk().live(&path).unwrap();
    let found = live.windows(64).any(|window| window == &ghost[61..125]);
    assert!(!found, "nothing of the ghost is left in the file");
}

#[test]
fn how_much_of_a_torn_tail_was_cut_is_told() {
    for bytes_torn in [1, 5_000, 3 << 20] {
        let machine = Machine::new(79);
        let (_store, log) = machine.start_one();
        let mut model = Model::default();
        fill(&machine, &log, &mut model, 0..5, 2_000);
        machine.crash(CrashMode::LoseAllUnflushed);
        let (path, end) = (machine.segment(partition(0), 0), log_bytes(&model));
        let io = machine.node.io();
        machine.run(patch(&io, &path, end, &vec![7; bytes_torn]));
        machine.run(async {
            let file = io.open(&path, OpenMode::Existing).await.unwrap();
            file.truncate(8 << 20).await.unwrap();
        });
        let lines = lines_of(|| drop(machine.start_one()));
        let said = format!(
            "WARN cut a torn tail off file={} position={end} bytes_cut={bytes_torn} segments_removed=0",
            path.display()
        );
        assert!(lines.contains(&said), "{lines:#?}");
    }
}

fn log_bytes(model: &Model) -> u64 {
    model.bytes_from(at(0)).len() as u64
}

#[test]
fn damage_below_the_durable_point_is_reported_and_never_cut() {
    let machine = Machine::new(66);
    let (_store, log) = machine.start_one();
    let mut model = Model::default();
    fill(&machine, &log, &mut model, 0..5, 3_000);
    machine.pause(Duration::from_secs(3));
    fill(&machine, &log, &mut model, 5..8, 3_000);
    machine.crash(CrashMode::LoseAllUnflushed);
    let path = machine.segment(partition(0), 0);
    let whole = machine.disk().live(&path).unwrap();
    // The file ends in front of what the checkpoint calls durable.
    let io = machine.node.io();
    machine.run(async {
        let file = io.open(&path, OpenMode::Existing).await.unwrap();
        file.truncate(4096).await.unwrap();
        file.flush().await.unwrap();
    });
    let (store, _) = machine.start();
    let refused = machine.try_open(&store, partition(0)).err();
    assert!(matches!(refused, Some(StoreError::Corrupt { .. })), "{refused:?}");
    assert_eq!(machine.disk().live(&path).unwrap(), whole[..4096], "nothing was changed");
    let again = machine.try_open(&store, partition(0)).err();
    assert_eq!(again, refused, "it stays refused");
    // Other partitions go on, and a clean end doesn't make the damage good.
    let other = machine.open(&store, partition(1));
    machine.append_flushed(&other, &batch(0, 1, 100));
    machine.run(store.shutdown()).unwrap();
    let (store, report) = machine.start();
    assert!(!report.is_clean);
    assert!(matches!(machine.try_open(&store, partition(0)), Err(StoreError::Corrupt { .. })));
}

#[test]
fn a_missing_segment_is_reported() {
    let mut machine = Machine::new(67);
    machine.log_config.segment_bytes = 30_000;
    let (_store, log) = machine.start_one();
    let mut model = Model::default();
    fill(&machine, &log, &mut model, 0..20, 5_000);
    machine.pause(Duration::from_secs(3));
    machine.crash(CrashMode::LoseAllUnflushed);
    machine.run(machine.node.io().remove_file(&machine.segment(partition(0), 0))).unwrap();
    let (store, _) = machine.start();
    match machine.try_open(&store, partition(0)) {
        Err(StoreError::Corrupt { why, file, .. }) => {
            assert_eq!((why, file), (Corruption::FileMissing, machine.segment(partition(0), 0)));
        }
        other => panic!("{:?}", other.err()),
    }
}

/// What someone may do to a file while the node is down.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Delete,
    Cut(u64),
    Flip(u64),
}

fn harm(machine: &Machine, path: &Path, harm: Harm) {
    let io = machine.node.io();
    match harm {
        Harm::Delete => machine.run(io.remove_file(path)).unwrap(),
        Harm::Cut(bytes) => machine.run(async {
            let file = io.open(path, OpenMode::Existing).await.unwrap();
            file.truncate(bytes).await.unwrap();
        }),
        Harm::Flip(position) => machine.disk().flip_bit(path, position).unwrap(),
    }
}

/// A machine whose store has ended cleanly, and the bases of the partition's segments.
fn cleanly_ended(seed: u64) -> (Machine, Model, Vec<i64>) {
    let mut machine = Machine::new(seed);
    machine.log_config.segment_bytes = 60_000;
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    fill(&machine, &log, &mut model, 0..30, 5_000);
    let other = machine.open(&store, partition(1));
    machine.append_flushed(&other, &batch(0, 1, 100));
    machine.run(store.shutdown()).unwrap();
    let names = machine.run(machine.node.io().list_folder(&machine.folder(partition(0)))).unwrap();
    let segments = names.iter().filter(|name| name.extension().is_some_and(|extension| extension == "log"));
    let bases = segments.map(|name| name.file_stem().unwrap().to_str().unwrap().parse().unwrap());
    let bases = bases.collect();
    (machine, model, bases)
}

#[test]
fn a_segment_damaged_after_a_clean_end_takes_its_partition_out_of_service_and_nothing_else() {
    let (_, model, bases) = cleanly_ended(79);
    let [first, .., active] = bases[..] else { panic!("several segments") };
    let last_byte = model.bytes_from(at(active)).len() as u64 - 1;
    let harms = [
        (first, Harm::Delete),
        (first, Harm::Cut(0)),
        (first, Harm::Cut(32_768)),
        (active, Harm::Delete),
        (active, Harm::Cut(0)),
        (active, Harm::Cut(8_192)),
        (active, Harm::Flip(last_byte)),
    ];
    for (base, kind) in harms {
        let (machine, _, _) = cleanly_ended(79);
        let path = machine.segment(partition(0), base);
        harm(&machine, &path, kind);
        let left = machine.disk().live(&path);
        for _twice in 0..2 {
            let (store, _) = machine.start();
            let refused = machine.try_open(&store, partition(0)).err();
            let Some(StoreError::Corrupt { file, .. }) = &refused else { panic!("{kind:?}: {refused:?}") };
            assert_eq!(*file, path, "{kind:?}");
            let said = refused.unwrap().to_string();
            assert!(said.contains("Nothing was changed. Stop the node"), "{said}");
            assert_eq!(machine.disk().live(&path), left, "nothing was changed");
            assert_eq!(machine.open(&store, partition(1)).offsets().log_end, at(1));
            machine.run(store.shutdown()).unwrap();
        }
    }
}

#[test]
fn an_older_checkpoint_put_back_loses_nothing() {
    let mut machine = Machine::new(78);
    machine.log_config.segment_bytes = 60_000;
    let checkpoints = machine.config.folder.join("checkpoints");
    let slots = ["0.0", "0.1"].map(|slot| checkpoints.join(slot));
    for batches in [1, 4, 40] {
        let (store, _) = machine.start();
        let number = batches;
        let log = machine.open(&store, partition(number));
        let mut model = Model::default();
        fill(&machine, &log, &mut model, 0..3, 5_000);
        machine.run(store.shutdown()).unwrap();
        let older = slots.clone().map(|slot| machine.disk().live(slot));
        let (store, _) = machine.start();
        let log = machine.open(&store, partition(number));
        fill(&machine, &log, &mut model, 3..3 + u64::try_from(batches).unwrap(), 5_000);
        machine.run(store.shutdown()).unwrap();
        for (slot, bytes) in slots.iter().zip(older) {
            let _there_may_be_none = machine.run(machine.node.io().remove_file(slot));
            if let Some(bytes) = bytes {
                machine.run(machine.node.io().write_file(slot, bytes)).unwrap();
            }
        }
        let (store, _) = machine.start();
        let log = machine.open(&store, partition(number));
        assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)), "{batches} batches");
        machine.run(store.shutdown()).unwrap();
    }
}

#[test]
fn a_damaged_checkpoint_stops_the_start_and_says_what_to_do() {
    let mut machine = Machine::new(77);
    machine.config.shard = ShardId(3);
    machine.config.shards = 4;
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    fill(&machine, &log, &mut model, 0..5, 3_000);
    machine.run(store.shutdown()).unwrap();
    let slots = ["3.0", "3.1"].map(|slot| machine.config.folder.join("checkpoints").join(slot));
    harm(&machine, &slots[0], Harm::Flip(0));
    // Each shard reads the checkpoints of all.
    machine.config.shard = ShardId(0);
    let refused = machine.try_start().err().unwrap().to_string();
    let said = "data/checkpoints/3.0 is damaged: a frame of the checkpoint is damaged. It is the checkpoint of shard 3";
    assert!(refused.starts_with(said), "{refused}");
    assert!(refused.contains("move both 3.0 and 3.1 out of data/checkpoints"), "{refused}");
    for slot in &slots {
        let _there_may_be_none = machine.run(machine.node.io().remove_file(slot));
    }
    let (_store, log) = machine.start_one();
    assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)));
}

#[test]
fn without_any_checkpoint_the_whole_log_is_scanned() {
    let mut machine = Machine::new(68);
    machine.log_config.segment_bytes = 30_000;
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    fill(&machine, &log, &mut model, 0..20, 5_000);
    machine.run(store.shutdown()).unwrap();
    let io = machine.node.io();
    for slot in ["0.0", "0.1"] {
        let removed = machine.run(io.remove_file(&machine.config.folder.join("checkpoints").join(slot)));
        assert!(removed.is_ok() || slot == "0.1");
    }
    let (_store, log) = machine.start_one();
    assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)));
    assert_eq!(log.offsets().log_end, model.end());
}

#[test]
fn a_second_slot_where_neither_has_an_image_is_a_checkpoint_lost() {
    let machine = Machine::new(79);
    let (store, log) = machine.start_one();
    machine.append_flushed(&log, &batch(0, 1, 100));
    machine.run(store.shutdown()).unwrap();
    let io = machine.node.io();
    let slots = ["0.0", "0.1"].map(|slot| machine.config.folder.join("checkpoints").join(slot));
    machine.run(io.write_file(&slots[1], vec![0; 4096])).unwrap();
    machine.run(io.remove_file(&slots[0])).unwrap();
    let refused = machine.try_start().err().unwrap().to_string();
    assert!(refused.contains("move both 0.0 and 0.1"), "{refused}");
    machine.run(io.write_file(&slots[0], Vec::new())).unwrap();
    assert_eq!(machine.try_start().err().unwrap().to_string(), refused);
    slots.iter().for_each(|slot| machine.run(io.remove_file(slot)).unwrap());
    let (_store, report) = machine.start();
    assert!(!report.is_clean, "what is left says nothing of how it ended");
}

#[test]
fn without_any_checkpoint_damage_in_front_of_later_segments_is_reported() {
    let mut machine = Machine::new(69);
    machine.log_config.segment_bytes = 30_000;
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    fill(&machine, &log, &mut model, 0..20, 5_000);
    machine.run(store.shutdown()).unwrap();
    let io = machine.node.io();
    for slot in ["0.0", "0.1"] {
        let _one_slot_may_be_unused =
            machine.run(io.remove_file(&machine.config.folder.join("checkpoints").join(slot)));
    }
    machine.disk().flip_bit(machine.segment(partition(0), 0), 7_000).unwrap();
    let (store, _) = machine.start();
    let refused = machine.try_open(&store, partition(0)).err();
    assert!(matches!(refused, Some(StoreError::Corrupt { why: Corruption::Batch(_), .. })), "{refused:?}");
}

#[test]
fn a_changed_shard_count_loses_nothing() {
    let mut machine = Machine::new(70);
    machine.config.shards = 2;
    let mut models = [Model::default(), Model::default()];
    let mut run = |machine: &mut Machine,
                   owners: [(u16, i32); 2],
                   shards: u16,
                   seeds: core::ops::Range<u64>,
                   clean: bool| {
        machine.config.shards = shards;
        let mut stores = Vec::new();
        let mut numbers: Vec<u16> = owners.iter().map(|(shard, _)| *shard).collect();
        numbers.dedup();
        for shard in numbers {
            machine.config.shard = ShardId(shard);
            stores.push((shard, machine.start().0));
        }
        for (shard, number) in owners {
            let store = &stores.iter().find(|(owner, _)| *owner == shard).unwrap().1;
            let log = machine.open(store, partition(number));
            let model = &mut models[usize::try_from(number).unwrap()];
            assert_eq!(log.offsets().log_end, model.end(), "partition {number} on shard {shard} of {shards}");
            assert_eq!(read_all(machine, &log), model.bytes_from(at(0)));
            fill(machine, &log, model, seeds.clone(), 3_000);
        }
        if clean {
            stores.iter().for_each(|(_, store)| machine.run(store.shutdown()).unwrap());
        }
        machine.crash(CrashMode::LoseAllUnflushed);
    };
    run(&mut machine, [(0, 0), (1, 1)], 2, 0..5, true);
    run(&mut machine, [(0, 0), (0, 1)], 1, 5..10, false);
    run(&mut machine, [(2, 0), (3, 1)], 4, 10..15, true);
    run(&mut machine, [(1, 0), (0, 1)], 2, 15..20, false);
    run(&mut machine, [(0, 0), (1, 1)], 2, 20..25, true);
}

#[test]
fn a_deleted_topic_s_partitions_are_gone_after_a_crash() {
    let machine = Machine::new(71);
    let (store, log) = machine.start_one();
    machine.append_flushed(&log, &batch(0, 1, 100));
    machine.run(store.delete_partition(partition(0))).unwrap();
    machine.run(store.delete_topic_folder(partition(0).topic)).unwrap();
    machine.crash(CrashMode::LoseAllUnflushed);
    let (_store, report) = machine.start();
    assert_eq!((report.partitions, report.is_clean), (0, true));
    assert!(machine.disk().live(machine.segment(partition(0), 0)).is_none());
}

#[test]
fn an_older_leader_epoch_is_refused_at_opening() {
    let machine = Machine::new(72);
    let (store, log) = machine.start_one();
    log.start_leader_epoch(LeaderEpoch(3)).unwrap();
    let bytes = batch(0, 1, 100);
    let (parsed, _) = engine_record::RecordBatch::parse(&bytes).unwrap();
    machine.run(log.append(parsed, engine_store::AppendOrigin::Client, LeaderEpoch(3))).unwrap();
    machine.run(store.shutdown()).unwrap();
    let (store, _) = machine.start();
    let refused = machine.try_open(&store, partition(0)).err();
    assert_eq!(refused, Some(StoreError::LeaderEpoch { known: LeaderEpoch(3), given: LeaderEpoch(0) }));
}

#[test]
fn the_index_below_the_checkpoint_survives_in_a_clean_end() {
    let machine = Machine::new(73);
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    fill(&machine, &log, &mut model, 0..40, 8_000);
    machine.run(store.shutdown()).unwrap();
    let (_store, log) = machine.start_one();
    let request = ReadRequest { offset: at(60), max_bytes: 1, at_least_one: true, bound: ReadBound::LogEnd };
    let before = machine.sim.now();
    assert_eq!(machine.run(log.read(request)).unwrap().first_offset, at(60));
    assert!(machine.sim.now().since(before) < Duration::from_millis(5), "the batch was found by the index");
}

#[test]
fn the_index_below_the_checkpoint_survives_a_crash_for_the_most_part() {
    let mut machine = Machine::new(74);
    machine.log_config.segment_bytes = 64 << 20;
    machine.config.allocation_bytes_max = 8 << 20;
    let (_store, log) = machine.start_one();
    for seed in 0..2_300 {
        machine.append(&log, &batch(seed, 1, 8_000));
    }
    machine.run(log.flushed(at(2_300))).unwrap();
    machine.pause(Duration::from_secs(3));
    machine.crash(CrashMode::LoseAllUnflushed);
    let (_store, log) = machine.start_one();
    let request =
        ReadRequest { offset: at(1_900), max_bytes: 1, at_least_one: true, bound: ReadBound::LogEnd };
    let before = machine.sim.now();
    assert_eq!(machine.run(log.read(request)).unwrap().first_offset, at(1_900));
    assert!(machine.sim.now().since(before) < Duration::from_millis(5), "the batch was found by the index");
}

#[test]
fn what_was_recovered_is_closed_by_the_next_clean_end_also_without_an_append() {
    let machine = Machine::new(75);
    let (_store, log) = machine.start_one();
    let mut model = Model::default();
    fill(&machine, &log, &mut model, 0..5, 3_000);
    machine.crash(CrashMode::LoseAllUnflushed);
    let (store, log) = machine.start_one();
    assert_eq!(log.offsets().log_end, model.end());
    machine.run(store.shutdown()).unwrap();
    let (store, report) = machine.start();
    assert!(report.is_clean);
    let log = machine.open(&store, partition(0));
    assert_eq!(store.metrics().recoveries, 0);
    assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)));
}

#[test]
fn a_leader_epoch_is_durable_before_its_first_batch() {
    let machine = Machine::new(76);
    let (_store, log) = machine.start_one();
    machine.append_flushed(&log, &batch(0, 1, 100));
    log.start_leader_epoch(LeaderEpoch(5)).unwrap();
    let bytes = batch(1, 1, 100);
    let (parsed, _) = engine_record::RecordBatch::parse(&bytes).unwrap();
    machine.run(log.append(parsed, engine_store::AppendOrigin::Client, LeaderEpoch(5))).unwrap();
    machine.crash(CrashMode::LoseAllUnflushed);
    let (store, _) = machine.start();
    let refused = machine.try_open(&store, partition(0)).err();
    assert_eq!(refused, Some(StoreError::LeaderEpoch { known: LeaderEpoch(5), given: LeaderEpoch(0) }));
}

/// Between two steps of a roll lies some moment that the append is dropped at.
#[test]
fn a_roll_whose_append_is_dropped_leaves_the_next_one_its_own_file() {
    for nanos in (0..300_000).step_by(7_300) {
        let mut machine = Machine::new(nanos);
        machine.log_config.segment_bytes = 60_000;
        let (_store, log) = machine.start_one();
        let mut model = Model::default();
        fill(&machine, &log, &mut model, 0..5, 10_000);
        machine.pause(Duration::from_secs(2));
        let (rolling, bytes) = (log.clone(), batch(5, 2, 30_000));
        let appended = bytes.clone();
        let task = machine.node.io().spawn(async move {
            let _appended_or_dropped = append(&rolling, &appended).await;
        });
        machine.pause(Duration::from_nanos(nanos));
        drop(task);
        if log.offsets().log_end > model.end() {
            let (base_offset, last_offset, log_start) = (at(10), at(11), at(0));
            let appended =
                Appended { base_offset, last_offset, log_start, append_time: None, duplicate: false };
            model.appended(&appended, &bytes);
        }
        // The first still fits the old segment, so that the next roll is at another offset.
        fill(&machine, &log, &mut model, 6..7, 100);
        fill(&machine, &log, &mut model, 7..9, 30_000);
        machine.crash(CrashMode::LoseAllUnflushed);
        let (_store, log) = machine.start_one();
        assert_eq!(read_all(&machine, &log), model.bytes_from(at(0)), "dropped after {nanos} nanoseconds");
    }
}
