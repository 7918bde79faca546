//! Finding a batch by offset and by time in the index of a full segment, and the plan of a read that begins with it.

#![forbid(unsafe_code)]

use std::hint::black_box;

use benches::TIMESTAMP;
use criterion::{Criterion, criterion_group, criterion_main};
use engine_log::{AppendDecision, AppendOrigin, Log, LogConfig, ReadBound};
use engine_record::{BatchHeader, LeaderEpoch, Offset, RecordBatch, Timestamp};

const EPOCH: LeaderEpoch = LeaderEpoch(0);
/// Batches of 16 KiB that fill the default segment of 128 MiB but for the last: an index entry for every second one.
const BATCHES: u64 = 8_191;
/// An odd step that visits offsets of the whole segment in no order that a cache could learn.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

fn full_segment() -> Log {
    let bytes = benches::batch(16 << 10);
    let mut header = *RecordBatch::parse(&bytes).expect("a built batch is whole").0.header();
    let mut log = Log::create(LogConfig::default(), Offset::ZERO, EPOCH);
    for _ in 0..BATCHES {
        header.max_timestamp.0 += 1;
        append(&mut log, &header);
    }
    let (segment, end) = (log.active_segment().id(), log.active_segment().end_position());
    log.complete_write(segment, end);
    log.complete_flush(log.offsets().log_end);
    log.advance_high_watermark(log.offsets().log_end);
    log
}

fn append(log: &mut Log, header: &BatchHeader) {
    let decision = log.plan_append(header, AppendOrigin::Client, EPOCH, TIMESTAMP);
    let AppendDecision::Append(plan) = decision.expect("the batch is accepted") else {
        panic!("a producer without identity sends no batch twice");
    };
    log.commit_append(&plan, header);
}

fn offset_index(criterion: &mut Criterion) {
    let log = full_segment();
    assert_eq!(log.segments().count(), 1, "the batches fit one segment");
    let index = log.active_segment().index().expect("the active segment has its index in memory");
    let end = log.offsets().log_end.value().unsigned_abs();
    let mut place = 0_u64;
    let mut next = || {
        place = place.wrapping_add(STEP);
        place % end
    };
    let mut group = criterion.benchmark_group("offset_index");
    group.bench_function("floor", |bencher| {
        bencher.iter(|| index.floor(black_box(offset(next()))));
    });
    group.bench_function("floor_of_time", |bencher| {
        let time = |place: u64| Timestamp(TIMESTAMP.0 + (place % BATCHES).cast_signed());
        bencher.iter(|| index.floor_of_time(black_box(time(next()))));
    });
    group.bench_function("plan_read", |bencher| {
        bencher.iter(|| log.plan_read(black_box(offset(next())), 1 << 20, ReadBound::HighWatermark));
    });
    group.finish();
}

fn offset(value: u64) -> Offset {
    Offset::ZERO.checked_add(value).expect("the segment's offsets are small")
}

criterion_group!(benches, offset_index);
criterion_main!(benches);
