//! CRC-32C, alone and fused with the copy into the appender's memory, beside the copy alone.

#![forbid(unsafe_code)]

use std::hint::black_box;

use benches::BATCH_SIZES_BYTES;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use engine_record::copy_and_checksum;

fn checksum(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checksum");
    for bytes in BATCH_SIZES_BYTES {
        let source: Vec<u8> = (0..=u8::MAX).cycle().take(bytes).collect();
        let mut target = vec![0; bytes];
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new("crc32c", bytes), |bencher| {
            bencher.iter(|| crc32c::crc32c(black_box(&source)));
        });
        group.bench_function(BenchmarkId::new("copy", bytes), |bencher| {
            bencher.iter(|| black_box(&mut target[..]).copy_from_slice(black_box(&source)));
        });
        group.bench_function(BenchmarkId::new("copy_and_checksum", bytes), |bencher| {
            bencher.iter(|| copy_and_checksum(black_box(&source), black_box(&mut target)));
        });
    }
    group.finish();
}

criterion_group!(benches, checksum);
criterion_main!(benches);
