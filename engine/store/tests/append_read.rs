//! Appends and reads against a model, on the simulated seam.

mod support;

use core::time::Duration;

use engine_io::{BLOCK_BYTES, Io, Task};
use engine_record::{CorruptBatch, LeaderEpoch, Offset, RecordBatch, TimestampType, UnverifiedBatch};
use engine_store::{AppendError, AppendOrigin, Piece, ReadBound, ReadError, ReadRequest, StoreError};
use proptest::prelude::*;
use sim::CrashMode;
use support::client::Client;
use support::model::Model;
use support::{EPOCH, Machine, append, at, batch, batch_of, end_of, partition};

fn log_end(offset: i64, max_bytes: u32) -> ReadRequest {
    ReadRequest { offset: at(offset), max_bytes, at_least_one: true, bound: ReadBound::LogEnd }
}

#[test]
fn what_is_appended_is_read_back_with_its_offsets_and_epoch() {
    let machine = Machine::new(1);
    let (_store, log) = machine.start_one();
    let mut model = Model::default();
    for seed in 0..50 {
        let bytes =
            batch(seed, 1 + u32::try_from(seed % 7).unwrap(), 300 + 97 * usize::try_from(seed).unwrap());
        let appended = machine.append(&log, &bytes);
        model.appended(&appended, &bytes);
    }
    machine.run(log.flushed(model.end())).unwrap();
    let mut client = machine.run(Client::connect(&machine.node));
    let read = machine.run(client.read_all(&log, at(0), 20_000));
    assert_eq!(read, model.bytes_from(at(0)));
    assert_eq!(log.size_bytes(), read.len() as u64);
    assert_eq!(log.leader_epoch(), EPOCH);
}

#[test]
fn an_append_resolves_before_its_write_and_written_after() {
    let machine = Machine::new(2);
    let (_store, log) = machine.start_one();
    machine.append_flushed(&log, &batch(0, 1, 100));
    let appended = machine.append(&log, &batch(1, 1, 100));
    assert_eq!(log.offsets().written, at(1));
    machine.run(log.written(end_of(&appended))).unwrap();
    assert_eq!(log.offsets().written, at(2));
}

#[test]
fn appends_that_come_during_a_write_share_the_next_one() {
    let machine = Machine::new(3);
    let (store, log) = machine.start_one();
    machine.append_flushed(&log, &batch(0, 1, 100));
    let before = store.metrics().writes;
    let mut end = at(1);
    for seed in 1..201 {
        end = end_of(&machine.run(append(&log, &batch(seed, 1, 1000))).unwrap());
    }
    machine.run(log.written(end)).unwrap();
    let writes = store.metrics().writes - before;
    assert!(writes <= 12, "200 batches of 1,000 bytes took {writes} writes");
}

#[test]
fn a_reader_that_keeps_up_is_served_from_memory_and_one_behind_from_the_file() {
    let machine = Machine::new(4);
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    for seed in 0..40 {
        let bytes = batch(seed, 1, 10_000);
        model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    }
    let near_end = machine.run(log.read(log_end(39, 100_000))).unwrap();
    assert!(near_end.pieces.iter().all(|piece| matches!(piece, Piece::Memory(_))));
    assert!(near_end.holds_segment());
    assert_eq!(store.metrics().bytes_read_warm + store.metrics().bytes_read_cold, 0);
    let far = machine.run(log.read(log_end(0, 100_000))).unwrap();
    assert!(far.pieces.iter().all(|piece| matches!(piece, Piece::File { .. })));
    let mut client = machine.run(Client::connect(&machine.node));
    let bytes = machine.run(client.receive(&far));
    model.check_prefix(at(0), &bytes);
    let metrics = store.metrics();
    assert_eq!(metrics.bytes_read_warm + metrics.bytes_read_cold, u64::from(far.bytes));
}

#[test]
fn where_memory_is_little_the_newest_is_read_from_the_file_too() {
    let machine = Machine::new(14);
    let (_store, log) = machine.start_one();
    let mut model = Model::default();
    for seed in 0..40 {
        let bytes = batch(seed, 1, 10_000);
        model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    }
    let mut client = machine.run(Client::connect(&machine.node));
    let mut found = 0;
    for offset in (0..40).cycle().take(200) {
        let read = machine.run(log.read_files(log_end(offset, 100_000))).unwrap();
        let kept: usize = read
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Memory(memory) => memory.as_slice().len(),
                Piece::File { .. } => 0,
            })
            .sum();
        assert!(kept < BLOCK_BYTES, "{kept} bytes are in memory");
        let bytes = machine.run(client.receive(&read));
        assert_eq!(model.check_prefix(at(offset), &bytes), read.next_offset);
        found += usize::from(!bytes.is_empty());
    }
    assert!(found > 100, "the page cache had records {found} times of 200");
}

#[test]
fn a_piece_of_a_file_is_in_the_page_cache_when_it_is_handed_out() {
    let machine = Machine::new(5);
    let (_store, log) = machine.start_one();
    for seed in 0..60 {
        machine.append_flushed(&log, &batch(seed, 1, 10_000));
    }
    for offset in 0..20 {
        let read = machine.run(log.read(log_end(offset, 50_000))).unwrap();
        for piece in &read.pieces {
            if let Piece::File { position, bytes, .. } = piece {
                assert!(position + bytes <= 60 * 10_100, "only batches are handed out");
            }
        }
        assert!(read.bytes > 0);
    }
}

#[test]
fn a_read_never_cuts_a_batch_and_never_passes_its_bound() {
    let machine = Machine::new(6);
    let (_store, log) = machine.start_one();
    let mut model = Model::default();
    for seed in 0..10 {
        let bytes = batch(seed, 3, 900);
        model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    }
    log.advance_high_watermark(at(13));
    let request = ReadRequest {
        offset: at(4),
        max_bytes: 1 << 20,
        at_least_one: true,
        bound: ReadBound::HighWatermark,
    };
    let read = machine.run(log.read(request)).unwrap();
    assert_eq!((read.first_offset, read.next_offset, read.high_watermark), (at(3), at(12), at(13)));
    let nothing =
        machine.run(log.read(ReadRequest { max_bytes: 10, at_least_one: false, ..request })).unwrap();
    assert!(nothing.is_empty());
    let one = machine.run(log.read(ReadRequest { max_bytes: 10, ..request })).unwrap();
    assert_eq!((one.first_offset, one.next_offset), (at(3), at(6)));
    let end = machine.run(log.read(ReadRequest { offset: at(12), ..request })).unwrap();
    assert!(end.is_empty());
}

#[test]
fn an_offset_outside_the_log_is_refused() {
    let machine = Machine::new(7);
    let (_store, log) = machine.start_one();
    machine.append(&log, &batch(0, 2, 100));
    let refused = machine.run(log.read(log_end(3, 100))).err();
    assert_eq!(refused, Some(ReadError::OutOfRange { log_start: at(0), log_end: at(2) }));
    assert!(machine.run(log.read(log_end(2, 100))).unwrap().is_empty());
}

#[test]
fn bytes_not_written_yet_are_read_from_memory() {
    let machine = Machine::new(8);
    let (_store, log) = machine.start_one();
    let mut model = Model::default();
    for seed in 0..30 {
        let bytes = batch(seed, 1, 3_000);
        model.appended(&machine.append(&log, &bytes), &bytes);
        let read = machine.run(log.read(log_end(i64::try_from(seed).unwrap(), 1 << 20))).unwrap();
        let mut client = machine.run(Client::connect(&machine.node));
        assert_eq!(machine.run(client.receive(&read)), model.bytes_from(at(i64::try_from(seed).unwrap())));
    }
}

#[test]
fn a_batch_sent_again_by_its_producer_has_one_place() {
    let machine = Machine::new(9);
    let (_store, log) = machine.start_one();
    let first = machine.append(&log, &batch_of(7, 0, 2, 100));
    let again = machine.append(&log, &batch_of(7, 0, 2, 100));
    assert!(again.duplicate && !first.duplicate);
    assert_eq!((again.base_offset, again.last_offset), (first.base_offset, first.last_offset));
    let gap = machine.run(append(&log, &batch_of(7, 9, 2, 100)));
    assert!(matches!(gap, Err(AppendError::Refused(engine_log::AppendError::OutOfOrderSequence { .. }))));
    assert_eq!(log.offsets().log_end, at(2));
}

#[test]
fn a_topic_with_append_time_stamps_its_batches() {
    let mut machine = Machine::new(10);
    machine.log_config.timestamp_type = TimestampType::LogAppend;
    let (_store, log) = machine.start_one();
    // Large enough that a batch lies in several buffers.
    for bytes in [100, 900_000, 5_000, 1_000_000] {
        let appended = machine.append(&log, &batch(1, 1, bytes));
        let time = appended.append_time.unwrap();
        let offset = appended.base_offset.value();
        let read = machine.run(log.read(log_end(offset, 2 << 20))).unwrap();
        let mut client = machine.run(Client::connect(&machine.node));
        let bytes = machine.run(client.receive(&read));
        let (batch, _) = RecordBatch::parse(&bytes).unwrap();
        assert_eq!(batch.header().max_timestamp, time);
        assert_eq!(batch.header().timestamp_type(), TimestampType::LogAppend);
    }
}

#[test]
fn a_fenced_leader_appends_nothing() {
    let machine = Machine::new(11);
    let (_store, log) = machine.start_one();
    log.start_leader_epoch(LeaderEpoch(4)).unwrap();
    let bytes = batch(0, 1, 100);
    let (parsed, _) = RecordBatch::parse(&bytes).unwrap();
    let fenced = machine.run(log.append(parsed, AppendOrigin::Client, LeaderEpoch(3)));
    assert!(matches!(fenced, Err(AppendError::Refused(engine_log::AppendError::FencedLeaderEpoch { .. }))));
    let taken = machine.run(log.append(parsed, AppendOrigin::Client, LeaderEpoch(4))).unwrap();
    assert_eq!(taken.base_offset, at(0));
    assert_eq!(log.end_offset_for(LeaderEpoch(4)), Some((LeaderEpoch(4), at(1))));
}

/// Checksums are compared in the copy, and before any other answer: a damaged batch is never taken for a duplicate, nor
/// refused for what its damaged header seems to say.
#[test]
fn a_damaged_batch_is_answered_as_such_and_leaves_nothing() {
    let machine = Machine::new(18);
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    let first = batch_of(7, 0, 2, 300_000);
    model.appended(&machine.append_flushed(&log, &first), &first);
    let before = log.offsets();
    let next = batch_of(7, 2, 2, 900_000);
    let out_of_order = batch_of(7, 9, 1, 100);
    for whole in [&next, &first, &out_of_order] {
        let mut damaged = whole.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let (unverified, _) = UnverifiedBatch::parse(&damaged, u32::MAX).unwrap();
        let refused = machine.run(log.append(unverified, AppendOrigin::Client, EPOCH));
        assert!(matches!(refused, Err(AppendError::Corrupt(CorruptBatch::Checksum { .. }))), "{refused:?}");
        assert_eq!(log.offsets(), before);
    }
    assert!(machine.append(&log, &first).duplicate);
    assert!(matches!(machine.run(append(&log, &out_of_order)), Err(AppendError::Refused(_))));
    model.appended(&machine.append_flushed(&log, &next), &next);
    assert_eq!(store.metrics().appends, 2);
    let mut client = machine.run(Client::connect(&machine.node));
    let read = machine.run(client.read_all(&log, at(0), 4 << 20));
    assert!(read == model.bytes_from(at(0)), "what was refused has left something");
}

#[test]
fn segments_roll_and_reads_cross_them() {
    let mut machine = Machine::new(12);
    machine.log_config.segment_bytes = 100_000;
    let (store, log) = machine.start_one();
    let mut model = Model::default();
    for seed in 0..100 {
        let bytes = batch(seed, 2, 7_000);
        model.appended(&machine.append(&log, &bytes), &bytes);
    }
    machine.run(log.flushed(model.end())).unwrap();
    machine.pause(Duration::from_secs(2));
    assert!(store.metrics().segments_sealed >= 6, "{:?}", store.metrics());
    let mut client = machine.run(Client::connect(&machine.node));
    for max_bytes in [1, 10_000, 64_000, 1 << 20] {
        let read = machine.run(client.read_all(&log, at(0), max_bytes));
        assert_eq!(read, model.bytes_from(at(0)), "reads of {max_bytes} bytes");
    }
    let segment = machine.segment(partition(0), 0);
    let live = machine.disk().live(&segment).unwrap();
    assert!(live.len() <= 100_000, "a sealed segment has no spare space: {}", live.len());
}

#[test]
fn indexes_of_sealed_segments_are_loaded_and_dropped_and_rebuilt() {
    let mut machine = Machine::new(13);
    machine.log_config.segment_bytes = 60_000;
    machine.log_config.index_interval_bytes = 4_096;
    machine.config.loaded_indexes_max = 2;
    let (_store, log) = machine.start_one();
    let mut model = Model::default();
    for seed in 0..80 {
        let bytes = batch(seed, 2, 5_000);
        model.appended(&machine.append_flushed(&log, &bytes), &bytes);
    }
    machine.pause(Duration::from_secs(1));
    let io = machine.node.io();
    let index = machine.folder(partition(0)).join("00000000000000000000.index");
    assert!(machine.disk().live(&index).is_some());
    machine.run(io.remove_file(&index)).unwrap();
    let mut client = machine.run(Client::connect(&machine.node));
    for _ in 0..2 {
        let read = machine.run(client.read_all(&log, at(0), 9_000));
        assert_eq!(read, model.bytes_from(at(0)));
    }
    assert!(machine.disk().live(&index).is_some(), "a lost index is stored again");
}

#[test]
fn appends_keep_their_order_while_they_wait_for_memory() {
    let mut machine = Machine::new(15);
    machine.config.pool_bytes = 7 << 20;
    machine.config.allocation_bytes_min = 64 << 20;
    machine.config.allocation_bytes_max = 64 << 20;
    machine.log_config.segment_bytes = 64 << 20;
    let (store, log) = machine.start_one();
    let io = machine.node.io();
    let batches: Vec<Vec<u8>> = (0..40).map(|seed| batch(seed, 1, 900_000)).collect();
    let tasks: Vec<_> = batches
        .iter()
        .cloned()
        .map(|bytes| {
            let log = log.clone();
            let (slot, reply) = engine_io::reply();
            let task = io.spawn(async move { slot.answer(append(&log, &bytes).await) });
            (task, reply)
        })
        .collect();
    let mut model = Model::default();
    let mut ordered = Vec::new();
    for ((_task, reply), bytes) in tasks.into_iter().zip(&batches) {
        let appended = machine.run(reply.wait()).unwrap().unwrap();
        ordered.push((appended, bytes));
    }
    ordered.sort_by_key(|(appended, _)| appended.base_offset);
    ordered.iter().for_each(|(appended, bytes)| model.appended(appended, bytes));
    machine.run(log.flushed(model.end())).unwrap();
    assert!(store.metrics().pool_waits > 0, "the pool was never short");
    assert!(store.metrics().pool_bytes_now <= 7 << 20);
    let mut client = machine.run(Client::connect(&machine.node));
    assert_eq!(machine.run(client.read_all(&log, at(0), 1 << 20)), model.bytes_from(at(0)));
}

#[test]
fn an_append_that_is_dropped_while_it_waits_leaves_no_trace() {
    let machine = Machine::new(16);
    let (_store, log) = machine.start_one();
    let bytes = batch(0, 1, 100);
    // The first append waits for the disk; it is polled once and dropped.
    assert!(machine.run(futures_lite::future::poll_once(append(&log, &bytes))).is_none());
    assert_eq!(log.offsets().log_end, at(0));
    machine.sim.run_for(Duration::from_millis(50));
    assert_eq!(machine.append(&log, &bytes).base_offset, at(0));
}

#[test]
fn a_leader_s_batch_that_no_memory_could_hold_is_refused() {
    let mut machine = Machine::new(17);
    machine.config.pool_bytes = 7 << 20;
    let (_store, log) = machine.start_one();
    let mut bytes = batch(0, 1, 8 << 20);
    engine_record::assign(&mut bytes, at(0), EPOCH);
    let (parsed, _) = RecordBatch::parse(&bytes).unwrap();
    let refused = machine.run(log.append(parsed, AppendOrigin::Replication, EPOCH));
    assert!(matches!(refused, Err(AppendError::Refused(engine_log::AppendError::BatchTooLarge { .. }))));
    machine.append_flushed(&log, &batch(0, 1, 100));
}

/// What happens to a log in the model test.
#[derive(Clone, Debug)]
enum Step {
    Append { records: u32, bytes: usize },
    Read { from: u64, max_bytes: u32, from_files: bool },
    WaitFlushed,
    Pause { micros: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1_u32..6, prop_oneof![8 => 10_usize..3_000, 2 => 3_000_usize..40_000, 1 => 40_000_usize..300_000])
            .prop_map(|(records, bytes)| Step::Append { records, bytes }),
        3 => (any::<u64>(), prop_oneof![1_u32..5_000, 5_000_u32..400_000], any::<bool>())
            .prop_map(|(from, max_bytes, from_files)| Step::Read { from, max_bytes, from_files }),
        1 => Just(Step::WaitFlushed),
        2 => (0_u64..3_000).prop_map(|micros| Step::Pause { micros }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_appends_and_reads_agree_with_the_model(seed: u64, steps in prop::collection::vec(step(), 1..80)) {
        let mut machine = Machine::new(seed);
        machine.log_config.segment_bytes = 300_000;
        machine.log_config.index_interval_bytes = 8_192;
        machine.config.tail_bytes_per_partition = 64 << 10;
        machine.config.loaded_indexes_max = 1;
        let (_store, log) = machine.start_one();
        let mut client = machine.run(Client::connect(&machine.node));
        let mut model = Model::default();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Append { records, bytes } => {
                    let bytes = batch(number as u64, records, bytes);
                    model.appended(&machine.append(&log, &bytes), &bytes);
                }
                Step::Read { from, max_bytes, from_files } => {
                    let end = u64::try_from(model.end().value()).unwrap();
                    let from = Offset::new(i64::try_from(from % (end + 1)).unwrap()).unwrap();
                    let request = ReadRequest { offset: from, max_bytes, at_least_one: true, bound: ReadBound::LogEnd };
                    let read = if from_files {
                        machine.run(log.read_files(request)).unwrap()
                    } else {
                        machine.run(log.read(request)).unwrap()
                    };
                    let bytes = machine.run(client.receive(&read));
                    let end = model.check_prefix(from, &bytes);
                    prop_assert_eq!(end, read.next_offset);
                    // The page cache needn't keep what is read by it alone.
                    prop_assert!(bytes.is_empty() == (from == model.end()) || from_files && bytes.is_empty());
                }
                Step::WaitFlushed => machine.run(log.flushed(model.end())).unwrap(),
                Step::Pause { micros } => machine.pause(Duration::from_micros(micros)),
            }
        }
        prop_assert_eq!(machine.run(client.read_all(&log, at(0), 50_000)), model.bytes_from(at(0)));
    }
}

#[test]
fn an_epoch_that_begins_beside_the_first_append_is_durable_before_its_own() {
    for micros in (0..4_000).step_by(50) {
        let machine = Machine::new(3_000 + micros);
        let (_store, log) = machine.start_one();
        let first = log.clone();
        let task = machine.node.io().spawn(async move {
            // It may be of the epoch that is over.
            let _appended_or_fenced = append(&first, &batch(1, 1, 100)).await;
        });
        machine.pause(Duration::from_micros(micros));
        if log.offsets().log_end > at(0) {
            continue;
        }
        log.start_leader_epoch(LeaderEpoch(5)).unwrap();
        machine.run(task.join());
        let bytes = batch(2, 1, 100);
        let (parsed, _) = RecordBatch::parse(&bytes).unwrap();
        machine.run(log.append(parsed, AppendOrigin::Client, LeaderEpoch(5))).unwrap();
        // Nothing of it is flushed, and all the same a leader of an older epoch is refused.
        machine.crash(CrashMode::LoseAllUnflushed);
        let (store, _) = machine.start();
        let opened = machine.try_open(&store, partition(0)).map(drop);
        assert!(matches!(opened, Err(StoreError::LeaderEpoch { .. })), "{opened:?} after {micros} us");
    }
}
