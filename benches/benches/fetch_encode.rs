//! Writing a Fetch response around its records, beside copying the records into it.

#![forbid(unsafe_code)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use net_wire::fetch::{FetchFrame, FetchResponseStart, FetchResponseWriter, FetchedPartition};
use net_wire::messages::fetch::{FetchResponse, FetchableTopicResponse, PartitionData};
use net_wire::{TopicRef, Uuid, encode_response};

const VERSION: i16 = 16;
const TOPIC: Uuid = Uuid([7; 16]);
const RECORDS_BYTES: usize = 16 << 10;

/// The response with places for the records; uses the memory of the last one again, as a connection does.
fn around(frame: FetchFrame, partitions: i32) -> FetchFrame {
    let start =
        FetchResponseStart { version: VERSION, correlation_id: 1, topic_count: 1, ..Default::default() };
    let mut writer = FetchResponseWriter::begin(frame, &start).expect("the version is served");
    writer.topic(TopicRef::Id(TOPIC), partitions.unsigned_abs() as usize).expect("a topic was announced");
    for partition_index in 0..partitions {
        let partition = FetchedPartition { partition_index, high_watermark: 1_000, ..Default::default() };
        writer.partition(&partition, RECORDS_BYTES).expect("a partition was announced");
    }
    writer.finish(&[]).expect("all that was announced is there")
}

/// The same with the records copied in.
fn copied(buffer: &mut Vec<u8>, partitions: i32, records: &[u8]) {
    let data = |partition_index| PartitionData {
        partition_index,
        high_watermark: 1_000,
        records: Some(records),
        aborted_transactions: None,
        ..PartitionData::default()
    };
    let partitions = (0..partitions).map(data).collect();
    let topic = FetchableTopicResponse { topic_id: TOPIC, partitions, ..FetchableTopicResponse::default() };
    let response = FetchResponse { responses: vec![topic], ..FetchResponse::default() };
    buffer.clear();
    encode_response(buffer, 1, VERSION, &response).expect("the response can be encoded");
}

fn fetch_encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fetch_encode");
    let records = benches::batch(RECORDS_BYTES);
    for partitions in [1, 100] {
        let (mut frame, mut buffer) = (around(FetchFrame::default(), partitions), Vec::new());
        copied(&mut buffer, partitions, &records);
        assert_eq!(frame.total_bytes, buffer.len(), "both ways say the same");
        group.throughput(Throughput::Elements(partitions.unsigned_abs().into()));
        group.bench_function(BenchmarkId::new("around_records", partitions), |bencher| {
            bencher.iter(|| frame = around(core::mem::take(&mut frame), black_box(partitions)));
        });
        group.bench_function(BenchmarkId::new("records_copied", partitions), |bencher| {
            bencher.iter(|| copied(black_box(&mut buffer), partitions, &records));
        });
    }
    group.finish();
}

criterion_group!(benches, fetch_encode);
criterion_main!(benches);
