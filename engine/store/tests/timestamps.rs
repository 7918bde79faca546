//! Records found by their time, in batches of clients who may lie about them.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod support;

use core::cell::Cell;
use core::time::Duration;
use std::rc::Rc;

use engine_io::{Buffer, DirectFile, Io, OpenMode, Task};
use engine_record::{
    BATCH_HEADER_BYTES, BatchBuilder, Compression, NewRecord, Timestamp, compress, set_max_timestamp,
};
use engine_store::{Corruption, ReadError, TimestampedOffset};
use support::lines::lines_of;
use support::{Machine, SimLog, SimStore, at, partition};

/// A batch of records of these times, each with a value of so many zeros.
fn timed(codec: Compression, times: impl IntoIterator<Item = i64>, value_bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new().with_compression(codec);
    let value = vec![b'0'; value_bytes];
    for time in times {
        let record = NewRecord { timestamp: Timestamp(time), value: Some(&value), ..Default::default() };
        builder.push(&record).unwrap();
    }
    builder.build().unwrap()
}

/// The batch with this in the place of its records, and a checksum that fits.
fn with_records(batch: &[u8], records: &[u8]) -> Vec<u8> {
    let mut bytes = [&batch[..BATCH_HEADER_BYTES], records].concat();
    let length = i32::try_from(bytes.len() - LENGTH_COUNTS_FROM).unwrap();
    bytes[LENGTH_AT..LENGTH_COUNTS_FROM].copy_from_slice(&length.to_be_bytes());
    let checksum = crc32c::crc32c(&bytes[CHECKSUM_FROM..]);
    bytes[CHECKSUM_AT..CHECKSUM_FROM].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

const LENGTH_AT: usize = 8;
const LENGTH_COUNTS_FROM: usize = 12;
const CHECKSUM_AT: usize = 17;
const CHECKSUM_FROM: usize = 21;

fn find(machine: &Machine, log: &SimLog, time: i64) -> Option<TimestampedOffset> {
    machine.run(log.find_timestamp(Timestamp(time))).unwrap()
}

fn time_and_offset(found: Option<TimestampedOffset>) -> Option<(i64, i64)> {
    found.map(|found| (found.timestamp.0, found.offset.value()))
}

#[test]
fn a_record_is_found_by_its_time_also_inside_a_compressed_batch() {
    let machine = Machine::new(14);
    let (_store, log) = machine.start_one();
    for (seed, compression) in
        [Compression::None, Compression::Lz4, Compression::Zstd, Compression::Gzip].iter().enumerate()
    {
        let mut builder = BatchBuilder::new().with_compression(*compression);
        for record in 0..10 {
            let timestamp = Timestamp(i64::try_from(seed).unwrap() * 100 + record);
            let record = NewRecord { timestamp, value: Some(b"value"), ..Default::default() };
            builder.push(&record).unwrap();
        }
        machine.append(&log, &builder.build().unwrap());
    }
    let find = |time| machine.run(log.find_timestamp(Timestamp(time))).unwrap();
    for (time, found, offset) in [(0, 0, 0), (5, 5, 5), (50, 100, 10), (209, 209, 29), (303, 303, 33)] {
        let record = find(time).unwrap();
        assert_eq!((record.timestamp, record.offset), (Timestamp(found), at(offset)), "{time}");
    }
    assert_eq!(find(310), None);
    let latest = machine.run(log.max_timestamp()).unwrap().unwrap();
    assert_eq!((latest.timestamp, latest.offset), (Timestamp(309), at(39)));
}

#[test]
fn a_batch_that_expands_too_far_is_found_whole_by_its_time() {
    let machine = Machine::new(18);
    let (_store, log) = machine.start_one();
    for (first, compression) in (0_i64..).step_by(1000).zip([
        Compression::Zstd,
        Compression::Gzip,
        Compression::Lz4,
        Compression::Snappy,
    ]) {
        for value_bytes in [5_000, 700_000] {
            let mut builder = BatchBuilder::new().with_compression(compression);
            for record in [0, 1, 2] {
                let timestamp = Timestamp(first + record * 100 + i64::from(value_bytes > 5_000) * 500);
                let value = vec![b'0'; value_bytes];
                let record = NewRecord { timestamp, value: Some(&value), ..Default::default() };
                builder.push(&record).unwrap();
            }
            machine.append(&log, &builder.build().unwrap());
        }
        let find = |time| machine.run(log.find_timestamp(Timestamp(time))).unwrap().unwrap();
        let base = first / 1000 * 6;
        let exact = find(first + 150);
        assert_eq!(
            (exact.timestamp, exact.offset),
            (Timestamp(first + 200), at(base + 2)),
            "{compression:?}"
        );
        let whole = find(first + 550);
        assert_eq!(
            (whole.timestamp, whole.offset),
            (Timestamp(first + 700), at(base + 3)),
            "{compression:?}"
        );
        let latest = machine.run(log.max_timestamp()).unwrap().unwrap();
        assert_eq!((latest.timestamp, latest.offset), (Timestamp(first + 700), at(base + 3)));
    }
}

/// A log whose batches are all in memory, so that nothing is waited for to read them.
fn in_memory(seed: u64) -> (Machine, SimStore, SimLog) {
    let mut machine = Machine::new(seed);
    machine.config.tail_bytes_per_partition = 8 << 20;
    machine.log_config.segment_bytes = 8 << 20;
    let (store, log) = machine.start_one();
    (machine, store, log)
}

/// How often another task had its turn while the log was searched for a time.
fn turns_of_others(machine: &Machine, log: &SimLog, time: i64) -> (u32, Option<TimestampedOffset>) {
    let io = machine.node.io();
    let turns = Rc::new(Cell::new(0));
    let (counted, other) = (Rc::clone(&turns), io.clone());
    let _other = io.spawn(async move {
        loop {
            counted.set(counted.get() + 1);
            other.yield_now().await;
        }
    });
    let found = find(machine, log, time);
    (turns.get(), found)
}

#[test]
fn others_have_a_turn_for_each_batch_that_is_looked_into_in_vain() {
    let (machine, _store, log) = in_memory(500);
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        for _ in 0..10 {
            let mut batch = timed(codec, [1, 2, 3], 300_000);
            set_max_timestamp(&mut batch, Timestamp(1_000));
            machine.append_flushed(&log, &batch);
        }
    }
    let (turns, found) = turns_of_others(&machine, &log, 500);
    assert_eq!(found, None);
    assert!(turns >= 2 * 40, "{turns} turns for 40 batches");
}

#[test]
fn others_have_their_turn_among_many_records_of_one_batch() {
    let (machine, _store, log) = in_memory(501);
    machine.append_flushed(&log, &timed(Compression::None, 0..80_000, 0));
    // Chance decides who is next after each yield: only the sum of many searches says something.
    let turns = |time| {
        let searched = (0..40).map(|_| turns_of_others(&machine, &log, time));
        let counted = searched.map(|(turns, found)| {
            assert_eq!(time_and_offset(found), Some((time, time)));
            turns
        });
        counted.sum::<u32>()
    };
    let (few, many) = (turns(10), turns(79_999));
    assert!(many >= few + 40 * 9 / 2, "{few} turns for 11 records, {many} for 80,000");
}

#[test]
fn others_have_their_turn_while_what_decompresses_to_nothing_is_gone_through() {
    let (machine, _store, log) = in_memory(504);
    let nothing = compress(Compression::Gzip, b"").unwrap();
    let sound = timed(Compression::Gzip, [10, 20], 5);
    let hostile = with_records(&sound, &nothing.repeat((400 << 10) / nothing.len()));
    machine.append_flushed(&log, &hostile);
    let (turns, found) = turns_of_others(&machine, &log, 15);
    assert_eq!(time_and_offset(found), Some((20, 0)), "it is answered as what is unreadable");
    assert!(turns >= 100, "{turns} turns for 400 KiB, of which each takes 4");
}

#[test]
fn what_a_client_never_made_readable_is_answered_whole_and_is_no_damage() {
    let machine = Machine::new(502);
    let (_store, log) = machine.start_one();
    machine.append(&log, &timed(Compression::None, [10, 20], 5));
    let codecs =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    for (codec, base) in codecs.into_iter().zip((2..).step_by(3)) {
        let time = base * 100;
        let sound = timed(codec, [time, time + 10, time + 20], 5);
        machine.append(&log, &with_records(&sound, b"neither records nor compressed"));
        let lines = lines_of(|| {
            for asked in [time - 50, time, time + 15, time + 20] {
                let found = time_and_offset(find(&machine, &log, asked));
                assert_eq!(found, Some((time + 20, base)), "{codec:?}, {asked}");
            }
            let latest = machine.run(log.max_timestamp()).unwrap();
            assert_eq!(time_and_offset(latest), Some((time + 20, base)), "{codec:?}");
        });
        assert!(lines.is_empty(), "{codec:?}: {lines:#?}");
    }
}

#[test]
fn a_record_late_enough_is_found_in_front_of_what_is_unreadable() {
    let machine = Machine::new(503);
    let (_store, log) = machine.start_one();
    let sound = timed(Compression::None, [100, 200, 300], 5);
    let records = &sound[BATCH_HEADER_BYTES..];
    let cut = &records[..records.len() - 1];
    machine.append(&log, &with_records(&sound, cut));
    assert_eq!(time_and_offset(find(&machine, &log, 150)), Some((200, 1)));
    assert_eq!(time_and_offset(find(&machine, &log, 250)), Some((300, 0)));
}

#[test]
fn unreadable_records_with_a_wrong_checksum_are_damage() {
    for codec in [Compression::None, Compression::Gzip] {
        let machine = Machine::new(504);
        let (_store, log) = machine.start_one();
        machine.append_flushed(&log, &timed(codec, [100, 200, 300], 5));
        machine.pause(machine.config.idle_after * 4);
        let path = machine.segment(partition(0), 0);
        let io = machine.node.io();
        machine.run(async {
            let file = io.open(&path, OpenMode::Existing).await.unwrap();
            let old = file.read(0, 4096).await.unwrap();
            let mut buffer = io.buffer(4096);
            buffer.as_mut_slice().copy_from_slice(old.as_ref());
            buffer.as_mut_slice()[BATCH_HEADER_BYTES] ^= 0xff;
            file.write(0, Rc::new(buffer)).await.unwrap();
        });
        let lines = lines_of(|| {
            for _ in 0..2 {
                let refused = machine.run(log.find_timestamp(Timestamp(150)));
                let Err(ReadError::Corrupt { file, position: 0, why: Corruption::Batch(_) }) = refused else {
                    panic!("{codec:?}: {refused:?}");
                };
                assert_eq!(file, path);
            }
        });
        let [line] = &lines[..] else { panic!("{codec:?}: {lines:#?}") };
        assert!(line.starts_with("ERROR records can't be read."), "{line}");
    }
}

#[test]
fn a_time_is_found_while_old_segments_go() {
    for micros in (0..6_000).step_by(40) {
        let mut machine = Machine::new(7_000 + micros);
        machine.log_config.segment_bytes = 20_000;
        machine.log_config.retention_age = None;
        let (store, log) = machine.start_one();
        for time in 0..60 {
            machine.append_flushed(&log, &timed(Compression::None, [time], 6_000));
        }
        log.advance_high_watermark(at(60));
        machine.run(store.shutdown()).unwrap();
        drop((store, log));
        // From here on indexes are read from their files.
        machine.log_config.retention_bytes = Some(45_000);
        let (_store, log) = machine.start_one();
        let (finding, deleting, io) = (log.clone(), log.clone(), machine.node.io());
        let found = Rc::new(Cell::new(None));
        let known = Rc::clone(&found);
        let find = io.spawn(async move {
            known.set(finding.find_timestamp(Timestamp(58)).await.unwrap());
        });
        let pause = machine.node.io();
        let delete = io.spawn(async move {
            pause.sleep(Duration::from_micros(micros)).await;
            deleting.delete_old_segments().await.unwrap();
        });
        machine.run(find.join());
        machine.run(delete.join());
        assert_eq!(found.get().map(|found| found.offset), Some(at(58)), "after {micros} us");
    }
}
