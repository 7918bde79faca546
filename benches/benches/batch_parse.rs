//! Taking a batch apart: its header only, with its checksum, and with all that a broker checks of a client's batch.

#![forbid(unsafe_code)]

use std::hint::black_box;

use benches::{BATCH_SIZES_BYTES, RULES};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use engine_record::{BatchHeader, RecordBatch, validate_client_batch};

fn batch_parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batch_parse");
    for bytes in BATCH_SIZES_BYTES {
        let batch = benches::batch(bytes);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new("header", bytes), |bencher| {
            bencher.iter(|| BatchHeader::parse(black_box(&batch), u32::MAX));
        });
        group.bench_function(BenchmarkId::new("header_and_checksum", bytes), |bencher| {
            bencher.iter(|| RecordBatch::parse(black_box(&batch)));
        });
        assert!(validate_client_batch(&batch, &RULES).is_ok(), "the batch that is timed is a good one");
        group.bench_function(BenchmarkId::new("client_batch", bytes), |bencher| {
            bencher.iter(|| validate_client_batch(black_box(&batch), &RULES));
        });
    }
    group.finish();
}

criterion_group!(benches, batch_parse);
criterion_main!(benches);
