//! What the log decides for each batch: plan, commit, and the notes that it is written and flushed.

#![forbid(unsafe_code)]

use std::hint::black_box;

use benches::TIMESTAMP;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use engine_log::{AppendDecision, AppendOrigin, Log, LogConfig};
use engine_record::{
    BatchBuilder, BatchHeader, LeaderEpoch, NewRecord, Offset, Producer, ProducerEpoch, ProducerId,
    RecordBatch,
};

/// Appends timed together, each log beginning anew after them.
const APPENDS: u32 = 1_000;
/// Appends that one write takes, as under load.
const APPENDS_PER_WRITE: u32 = 8;
const EPOCH: LeaderEpoch = LeaderEpoch(0);

fn header(producer: Producer) -> BatchHeader {
    let mut builder = BatchBuilder::new().with_producer(producer);
    let record = NewRecord { timestamp: TIMESTAMP, value: Some(&[7; 16 << 10]), ..NewRecord::default() };
    builder.push(&record).expect("the batch can be built");
    let bytes = builder.build().expect("the batch can be built");
    *RecordBatch::parse(&bytes).expect("a built batch is whole").0.header()
}

fn append(log: &mut Log, header: &BatchHeader) {
    let decision = log.plan_append(header, AppendOrigin::Client, EPOCH, TIMESTAMP);
    let AppendDecision::Append(plan) = decision.expect("the batch is accepted") else {
        panic!("no batch of the bench is sent twice");
    };
    log.commit_append(&plan, header);
}

/// As a store calls it: a write and a flush every few appends.
fn append_all(log: &mut Log, mut header: BatchHeader) {
    for count in 1..=APPENDS {
        append(log, black_box(&header));
        if header.has_producer() {
            header.base_sequence += 1;
        }
        if count % APPENDS_PER_WRITE == 0 {
            let (segment, end) = (log.active_segment().id(), log.active_segment().end_position());
            log.complete_write(segment, end);
            log.complete_flush(log.offsets().written);
            log.advance_high_watermark(log.offsets().flushed);
        }
    }
}

fn append_plan(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append_plan");
    group.throughput(Throughput::Elements(APPENDS.into()));
    let log = Log::create(LogConfig::default(), Offset::ZERO, EPOCH);
    let idempotent = Producer { id: ProducerId(7), epoch: ProducerEpoch(0), base_sequence: 0 };
    for (name, producer) in [("plain", Producer::NONE), ("idempotent", idempotent)] {
        let header = header(producer);
        group.bench_function(BenchmarkId::new(name, APPENDS), |bencher| {
            bencher.iter_batched_ref(|| log.clone(), |log| append_all(log, header), BatchSize::SmallInput);
        });
    }
    group.finish();
}

criterion_group!(benches, append_plan);
criterion_main!(benches);
