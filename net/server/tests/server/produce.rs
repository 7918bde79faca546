//! Produce: what is taken, and what is answered.

use core::time::Duration;

use engine_record::{Compression, TimestampType};
use net_wire::messages::ProduceRequest;
use net_wire::messages::produce::{PartitionProduceData, TopicProduceData};
use net_wire::{ApiKey, ErrorCode};
use sim::DiskLatency;

use crate::batches::{NOW_MS, batch, compressed, split, timed};
use crate::calls::{Fetch, PRODUCE, Produce, produce, read_all};
use crate::node::{config, on_node};
use crate::versions;

#[test]
fn every_version_appends_and_answers_where() {
    on_node(1, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let mut end = 0;
        for version in versions(ApiKey::Produce) {
            for acks in [1, -1] {
                let records = batch(&["a", "b", "c"]);
                let produce = Produce { version, acks, ..Produce::new(&topic, 0, &records) };
                let produced = produce.call(&mut client).await;
                assert_eq!(produced.error, ErrorCode::NONE, "v{version}");
                assert_eq!(produced.base_offset, end, "v{version}");
                assert_eq!(produced.append_time_ms, -1, "the times are the producer's");
                assert_eq!(produced.log_start, if version >= 5 { 0 } else { -1 }, "v{version}");
                assert_eq!((produced.message, produced.endpoints), (None, Vec::new()));
                end += 3;
            }
        }
        let read = read_all(&mut client, &topic, 0).await;
        let expected = ["a", "b", "c"].into_iter().cycle().take(read.len());
        assert!(read.iter().map(|(_, value)| value.as_str()).eq(expected));
        assert_eq!(i64::try_from(read.len()).unwrap(), end);
    });
}

#[test]
fn acks_0_is_not_answered_and_appended_all_the_same() {
    on_node(2, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::Produce) {
            let records = batch(&["silent"]);
            let produce = Produce { version, acks: 0, ..Produce::new(&topic, 0, &records) };
            client.send(version, &produce.request()).await;
        }
        // The next answer is this one's, so the others got none.
        let count = i64::from(PRODUCE) - 2;
        assert_eq!(produce(&mut client, &topic, 0, &batch(&["loud"])).await, count);
    });
}

#[test]
fn acks_0_that_fails_closes_the_connection() {
    on_node(3, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        for version in versions(ApiKey::Produce) {
            let mut client = node.connect(0).await;
            let records = batch(&["lost"]);
            let produce = Produce { version, acks: 0, ..Produce::new(&topic, 7, &records) };
            client.send(version, &produce.request()).await;
            client.is_closed().await;
        }
    });
}

#[test]
fn one_bad_partition_spoils_no_other_and_all_are_answered_in_order() {
    on_node(4, config(1), async |node| {
        let (one, other) = (node.topic("one", 2).await, node.topic("other", 1).await);
        let mut client = node.connect(0).await;
        let (sound, damaged) = (batch(&["sound"]), b"no batch at all".to_vec());
        let data = |index, records| PartitionProduceData { index, records: Some(records) };
        let request = ProduceRequest {
            transactional_id: None,
            acks: -1,
            timeout_ms: 1000,
            topic_data: vec![
                TopicProduceData {
                    name: &one.name,
                    partition_data: vec![data(1, &sound[..]), data(5, &sound), data(0, &damaged)],
                    ..TopicProduceData::default()
                },
                TopicProduceData {
                    name: "missing",
                    partition_data: vec![data(0, &sound)],
                    ..TopicProduceData::default()
                },
                TopicProduceData {
                    name: &other.name,
                    partition_data: vec![data(0, &sound)],
                    ..TopicProduceData::default()
                },
            ],
        };
        let answer = client.ask(9, &request).await;
        let response = answer.body();
        let outcomes: Vec<_> = response
            .responses
            .iter()
            .flat_map(|topic| topic.partition_responses.iter().map(|p| (topic.name, p.index, p.error_code.0)))
            .collect();
        let expected = [("one", 1, 0), ("one", 5, 3), ("one", 0, 87), ("missing", 0, 3), ("other", 0, 0)];
        assert_eq!(outcomes, expected);
        assert_eq!(read_all(&mut client, &one, 1).await.len(), 1);
        assert_eq!(read_all(&mut client, &one, 0).await.len(), 0);
        assert_eq!(read_all(&mut client, &other, 0).await.len(), 1);
    });
}

#[test]
fn what_only_this_disk_holds_up_does_not_time_out() {
    on_node(20, config(1), async |node| {
        let topics =
            [node.topic("t", 1).await, node.topic_with("async", 1, &[("flush.mode", "async")]).await];
        let slow = Duration::from_millis(300);
        let latency = DiskLatency { flush: slow..=slow, write: slow..=slow, ..DiskLatency::default() };
        node.machine().disk().set_latency(latency);
        let mut client = node.connect(0).await;
        let records = batch(&["slow"]);
        for topic in &topics {
            let mut offset = 0;
            for acks in [1, -1] {
                for timeout_ms in [i32::MIN, -1, 0, 1] {
                    let produce = Produce { acks, ..Produce::new(topic, 0, &records) };
                    let request = ProduceRequest { timeout_ms, ..produce.request() };
                    let produced = produce.outcome(&client.ask(PRODUCE, &request).await);
                    assert_eq!((produced.error, produced.base_offset), (ErrorCode::NONE, offset));
                    offset += 1;
                }
            }
        }
    });
}

#[test]
fn a_request_without_topics_is_answered_without_any() {
    on_node(5, config(1), async |node| {
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::Produce) {
            let request = ProduceRequest { acks: -1, timeout_ms: 1000, ..ProduceRequest::default() };
            let answer = client.ask(version, &request).await;
            assert!(answer.body().responses.is_empty(), "v{version}");
        }
    });
}

#[test]
fn a_broker_with_append_time_stamps_every_record_and_says_when() {
    on_node(6, config(1), async |node| {
        let topic = node.topic_with("t", 1, &[("message.timestamp.type", "LogAppendTime")]).await;
        let mut client = node.connect(0).await;
        for (round, version) in (0_i64..).zip(versions(ApiKey::Produce)) {
            // Times that a topic of producers' times would refuse.
            let records = timed(&[(NOW_MS + 10_000_000_000, "far ahead"), (5, "long ago")]);
            let produce = Produce { version, ..Produce::new(&topic, 0, &records) };
            let produced = produce.call(&mut client).await;
            assert_eq!((produced.error, produced.base_offset), (ErrorCode::NONE, round * 2));
            assert!((NOW_MS..NOW_MS + 60_000).contains(&produced.append_time_ms), "{produced:?}");
            let fetched = Fetch::at(&topic, 0, round * 2).call(&mut client).await.only();
            let batches = split(&fetched.records);
            let header = batches[0].header();
            assert_eq!(header.timestamp_type(), TimestampType::LogAppend);
            assert_eq!(header.max_timestamp.0, produced.append_time_ms);
            assert_eq!(batches[0].records().unwrap().count(), 2);
        }
    });
}

#[test]
fn a_batch_is_stored_as_it_came_but_for_offset_and_epoch() {
    on_node(7, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let codecs = [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
        produce(&mut client, &topic, 0, &batch(&["first"])).await;
        for codec in codecs {
            let sent = compressed(codec, &[(NOW_MS, "a"), (NOW_MS + 1, "b")]);
            let base = produce(&mut client, &topic, 0, &sent).await;
            let fetched = Fetch::at(&topic, 0, base).call(&mut client).await.only();
            assert_eq!(fetched.records[0..8], base.to_be_bytes());
            assert_eq!(fetched.records[8..12], sent[8..12]);
            assert_eq!(fetched.records[12..16], [0; 4], "the leader's first epoch");
            assert_eq!(fetched.records[16..], sent[16..], "{codec:?}");
        }
    });
}

#[test]
fn batches_of_one_connection_are_appended_in_the_order_they_were_sent() {
    on_node(8, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let values: Vec<String> = (0..60).map(|number| number.to_string()).collect();
        let mut frames = Vec::new();
        for value in &values {
            let records = batch(&[value]);
            frames.extend(client.frame(PRODUCE, &Produce::new(&topic, 0, &records).request()));
        }
        client.send_bytes(frames).await;
        for offset in 0..60 {
            let answer = client.answer::<ProduceRequest<'_>>(PRODUCE).await;
            assert_eq!(Produce::new(&topic, 0, &[]).outcome(&answer).base_offset, offset);
        }
        let read = read_all(&mut client, &topic, 0).await;
        assert!(read.into_iter().map(|(_, value)| value).eq(values));
    });
}
