//! Decoding a Produce request: in place, into structures of ours, and by the independent codec of the tests.
//!
//! The size of the records doesn't matter to any of them, only how many partitions there are.

#![forbid(unsafe_code)]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kafka_protocol::messages::ProduceRequest as Theirs;
use kafka_protocol::protocol::Decodable;
use net_wire::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use net_wire::{Message, ProduceView, Reader, Writer};

/// The last version with names, which most clients of the field send.
const VERSION: i16 = 9;

fn request(partitions: i32) -> Vec<u8> {
    let batch = benches::batch(1 << 10);
    let data = |index| PartitionProduceData { index, records: Some(&batch) };
    let partition_data = (0..partitions).map(data).collect();
    let topic = TopicProduceData { name: "orders", partition_data, ..TopicProduceData::default() };
    let request =
        ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data: vec![topic], ..ProduceRequest::default() };
    let mut bytes = Vec::new();
    request.encode(&mut Writer::new(&mut bytes), VERSION).expect("the request can be encoded");
    bytes
}

/// Goes through the request as the handler does.
fn walk(bytes: &[u8]) -> usize {
    let view = ProduceView::decode(&mut Reader::new(bytes), VERSION).expect("the request can be decoded");
    let partitions = view.topics().flat_map(|topic| topic.partitions());
    partitions.map(|partition| partition.records.map_or(0, <[u8]>::len)).sum()
}

fn produce_decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("produce_decode");
    for partitions in [1, 100] {
        let bytes = request(partitions);
        let shared = Bytes::copy_from_slice(&bytes);
        group.throughput(Throughput::Elements(partitions.unsigned_abs().into()));
        group.bench_function(BenchmarkId::new("view", partitions), |bencher| {
            bencher.iter(|| walk(black_box(&bytes)));
        });
        group.bench_function(BenchmarkId::new("structures", partitions), |bencher| {
            bencher.iter(|| ProduceRequest::decode(&mut Reader::new(black_box(&bytes)), VERSION));
        });
        group.bench_function(BenchmarkId::new("kafka_protocol", partitions), |bencher| {
            bencher.iter(|| Theirs::decode(&mut black_box(&shared).clone(), VERSION));
        });
    }
    group.finish();
}

criterion_group!(benches, produce_decode);
criterion_main!(benches);
