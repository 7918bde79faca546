//! CRC-32C, alone and fused with the copy into the appender's memory, beside the copy alone.
//!
//! Some processors copy long runs very slowly where the target lies a few bytes further into its page than the source
//! (the `rep movsb` of AMD's Zen 3 does). A batch may lie anywhere, so both placements are timed.

#![forbid(unsafe_code)]

use std::hint::black_box;

use benches::BATCH_SIZES_BYTES;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use engine_record::copy_and_checksum;

const PAGE_BYTES: usize = 4096;
/// How far into its page the target begins, while the source begins with a page.
const PLACEMENTS: [(&str, usize); 2] = [("apart", PAGE_BYTES / 2), ("near", 16)];

/// Memory in which `bytes` bytes begin `offset` into a page.
struct Placed {
    memory: Vec<u8>,
    begin: usize,
    bytes: usize,
}

impl Placed {
    fn new(bytes: usize, offset: usize) -> Self {
        let memory: Vec<u8> = (0..=u8::MAX).cycle().take(bytes + 2 * PAGE_BYTES).collect();
        let begin = memory.as_ptr().align_offset(PAGE_BYTES) + offset;
        Self { memory, begin, bytes }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..][..self.bytes]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..][..self.bytes]
    }
}

fn checksum(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checksum");
    for bytes in BATCH_SIZES_BYTES {
        let source = Placed::new(bytes, 0);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new("crc32c", bytes), |bencher| {
            bencher.iter(|| crc32c::crc32c(black_box(source.bytes())));
        });
        for (placement, offset) in PLACEMENTS {
            let mut target = Placed::new(bytes, offset);
            group.bench_function(BenchmarkId::new(format!("copy/{placement}"), bytes), |bencher| {
                bencher.iter(|| black_box(target.bytes_mut()).copy_from_slice(black_box(source.bytes())));
            });
            group.bench_function(
                BenchmarkId::new(format!("copy_and_checksum/{placement}"), bytes),
                |bencher| {
                    bencher
                        .iter(|| copy_and_checksum(black_box(source.bytes()), black_box(target.bytes_mut())));
                },
            );
        }
    }
    group.finish();
}

criterion_group!(benches, checksum);
criterion_main!(benches);
