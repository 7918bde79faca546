//! Produce: what is refused, with the code that clients depend on.

use engine_record::{BatchBuilder, Compression, Producer, ProducerEpoch, ProducerId};
use net_wire::messages::LeaderIdAndEpoch;
use net_wire::{ApiKey, ErrorCode, Uuid};

use crate::batches::{
    ATTRIBUTES_AT, BASE_OFFSET_AT, LAST_OFFSET_DELTA_AT, MAGIC_AT, MAX_TIMESTAMP_AT, NOW_MS, RECORDS_AT,
    batch, compressed, fill, large, sequenced, timed, with_bytes,
};
use crate::calls::{Fetch, Produce, Produced, Topic, impossible_topic_names, produce, read_all};
use crate::client::Client;
use crate::node::{FIRST_BROKER, config, on_node};
use crate::versions;

const HOUR_MS: i64 = 3_600_000;

/// Produces to the topic's first partition.
async fn try_produce(client: &mut Client, topic: &Topic, version: i16, records: &[u8]) -> Produced {
    Produce { version, ..Produce::new(topic, 0, records) }.call(client).await
}

/// The batch is refused with this code in every version, with words from version 8 on, and nothing is appended.
async fn is_refused(client: &mut Client, topic: &Topic, records: &[u8], error: ErrorCode) {
    for version in versions(ApiKey::Produce) {
        let produced = try_produce(client, topic, version, records).await;
        assert_eq!(produced.error, error, "v{version}: {produced:?}");
        assert_eq!((produced.base_offset, produced.append_time_ms), (-1, -1));
        assert_eq!(produced.message.is_some(), version >= 8, "v{version}: {produced:?}");
    }
    assert_eq!(read_all(client, topic, 0).await, []);
}

#[test]
fn acks_that_mean_nothing_are_refused_for_each_partition() {
    on_node(1, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::Produce) {
            for acks in [2, 5, -2, i16::MAX, i16::MIN] {
                let records = batch(&["a"]);
                let produce = Produce { version, acks, ..Produce::new(&topic, 0, &records) };
                assert_eq!(produce.call(&mut client).await.error, ErrorCode::INVALID_REQUIRED_ACKS);
            }
        }
        assert_eq!(read_all(&mut client, &topic, 0).await, []);
    });
}

#[test]
fn a_name_that_no_topic_can_have_is_one_that_no_topic_has() {
    on_node(12, config(1), async |node| {
        let mut client = node.connect(0).await;
        for name in impossible_topic_names() {
            let topic = Topic { name, ..Topic::missing() };
            for version in ApiKey::Produce.versions().min..13 {
                let produced = try_produce(&mut client, &topic, version, &batch(&["a"])).await;
                assert_eq!(produced.error, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "v{version}");
            }
        }
    });
}

#[test]
fn versions_with_record_formats_that_are_gone_close_the_connection() {
    on_node(2, config(1), async |node| {
        for version in [0, 1, 2, 14, -1] {
            let mut client = node.connect(0).await;
            let frame = client.odd_frame(0, version, &[0, 1, 0, 0, 0, 9, 0, 0, 0, 0]);
            client.send_bytes(frame).await;
            client.is_closed().await;
        }
    });
}

#[test]
fn what_is_not_there_is_refused_by_name_with_3_and_by_id_with_100() {
    on_node(3, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let records = batch(&["a"]);
        for version in versions(ApiKey::Produce) {
            let no_topic = try_produce(&mut client, &Topic::missing(), version, &records).await;
            let expected = if version >= 13 {
                ErrorCode::UNKNOWN_TOPIC_ID
            } else {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            };
            assert_eq!(no_topic.error, expected, "v{version}");
            for partition in [1, i32::MAX, -1, i32::MIN] {
                let produce = Produce { version, partition, ..Produce::new(&topic, 0, &records) };
                let no_partition = produce.call(&mut client).await;
                assert_eq!(
                    no_partition.error,
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    "v{version} {partition}"
                );
            }
        }
        let no_id = Topic { id: Uuid::ZERO, ..Topic::missing() };
        assert_eq!(try_produce(&mut client, &no_id, 13, &records).await.error, ErrorCode::UNKNOWN_TOPIC_ID);
    });
}

#[test]
fn a_shard_that_does_not_lead_the_partition_says_who_does() {
    on_node(4, config(2), async |node| {
        let topic = node.topic("t", 2).await;
        let other = FIRST_BROKER + 1;
        let partition = topic.partition_of(other);
        let mut client = node.connect(0).await;
        let records = batch(&["a"]);
        for version in versions(ApiKey::Produce) {
            let produced = Produce { version, partition, ..Produce::new(&topic, 0, &records) };
            let produced = produced.call(&mut client).await;
            assert_eq!(produced.error, ErrorCode::NOT_LEADER_OR_FOLLOWER, "v{version}");
            if version < 10 {
                assert_eq!((produced.leader, produced.endpoints), (LeaderIdAndEpoch::default(), Vec::new()));
                continue;
            }
            assert_eq!(produced.leader, LeaderIdAndEpoch { leader_id: other, leader_epoch: 0 });
            let (_, port) = produced.endpoints.into_iter().find(|(broker, _)| *broker == other).unwrap();
            assert_eq!(port, i32::from(node.address(1).port()));
        }
        let mut leader = node.connect_to(other).await;
        assert_eq!(produce(&mut leader, &topic, partition, &records).await, 0);
    });
}

#[test]
fn a_batch_above_the_topics_limit_is_too_large_and_one_at_the_limit_is_not() {
    on_node(5, config(1), async |node| {
        let at_the_limit = large(1000);
        let limit = at_the_limit.len().to_string();
        let topic = node.topic_with("t", 1, &[("max.message.bytes", limit.as_str())]).await;
        let mut client = node.connect(0).await;
        is_refused(&mut client, &topic, &large(1001), ErrorCode::MESSAGE_TOO_LARGE).await;
        assert_eq!(produce(&mut client, &topic, 0, &at_the_limit).await, 0);
    });
}

#[test]
fn a_damaged_batch_is_corrupt() {
    on_node(6, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let sound = batch(&["a", "b"]);
        for at in [17, 22, 30, 60, 61, sound.len() - 1] {
            let mut damaged = sound.clone();
            damaged[at] ^= 0x10;
            is_refused(&mut client, &topic, &damaged, ErrorCode::CORRUPT_MESSAGE).await;
        }
        for bytes in [1, 30, 61, sound.len() - 1] {
            is_refused(&mut client, &topic, &sound[..bytes], ErrorCode::INVALID_RECORD).await;
        }
    });
}

#[test]
fn what_is_whole_and_yet_no_client_batch_is_an_invalid_record() {
    on_node(7, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let sound = || batch(&["a", "b"]);
        let producer = Producer { id: ProducerId(5), epoch: ProducerEpoch(0), base_sequence: -1 };
        let cases = [
            ("no bytes", Vec::new()),
            ("magic 0", with_bytes(sound(), MAGIC_AT, &[0])),
            ("magic 1", with_bytes(sound(), MAGIC_AT, &[1])),
            ("two batches", [sound(), sound()].concat()),
            ("a base offset", with_bytes(sound(), BASE_OFFSET_AT, &7_i64.to_be_bytes())),
            ("fewer records than offsets", with_bytes(sound(), LAST_OFFSET_DELTA_AT, &5_i32.to_be_bytes())),
            ("a control batch", with_bytes(sound(), ATTRIBUTES_AT, &0x20_i16.to_be_bytes())),
            ("no sequence", fill(BatchBuilder::new().with_producer(producer), &[(NOW_MS, "a")])),
        ];
        for (what, records) in cases {
            for version in versions(ApiKey::Produce) {
                let produced = try_produce(&mut client, &topic, version, &records).await;
                assert_eq!(produced.error, ErrorCode::INVALID_RECORD, "{what} in v{version}: {produced:?}");
            }
        }
        let null = Produce { records: None, ..Produce::new(&topic, 0, &[]) };
        assert_eq!(null.call(&mut client).await.error, ErrorCode::INVALID_RECORD);
        assert_eq!(read_all(&mut client, &topic, 0).await, []);
    });
}

#[test]
fn zstandard_needs_version_7_and_other_codecs_do_not() {
    on_node(8, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::Produce) {
            let zstd = compressed(Compression::Zstd, &[(NOW_MS, "a")]);
            let produced = try_produce(&mut client, &topic, version, &zstd).await;
            let expected =
                if version < 7 { ErrorCode::UNSUPPORTED_COMPRESSION_TYPE } else { ErrorCode::NONE };
            assert_eq!(produced.error, expected, "v{version}");
            for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4] {
                let records = compressed(codec, &[(NOW_MS, "a")]);
                let produced = try_produce(&mut client, &topic, version, &records).await;
                assert_eq!(produced.error, ErrorCode::NONE, "{codec:?} in v{version}");
            }
        }
        for codec in 5..=7_i16 {
            let records = with_bytes(batch(&["a"]), ATTRIBUTES_AT, &codec.to_be_bytes());
            let error = try_produce(&mut client, &topic, 13, &records).await.error;
            let allowed = [ErrorCode::CORRUPT_MESSAGE, ErrorCode::UNSUPPORTED_COMPRESSION_TYPE];
            assert!(allowed.contains(&error), "codec {codec}: {error}");
        }
    });
}

#[test]
fn transactions_are_refused_whole_and_batch_by_batch() {
    on_node(9, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let records = batch(&["a"]);
        let producer = Producer { id: ProducerId(5), epoch: ProducerEpoch(0), base_sequence: 0 };
        let builder = BatchBuilder::new().with_producer(producer).in_transaction();
        let transactional = fill(builder, &[(NOW_MS, "a")]);
        for version in versions(ApiKey::Produce) {
            let named =
                Produce { version, transactional_id: Some("tx"), ..Produce::new(&topic, 0, &records) };
            let error = named.call(&mut client).await.error;
            assert_eq!(error, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "v{version}");
            let error = try_produce(&mut client, &topic, version, &transactional).await.error;
            assert_eq!(error, ErrorCode::INVALID_TXN_STATE, "v{version}");
        }
        assert_eq!(read_all(&mut client, &topic, 0).await, []);
    });
}

#[test]
fn times_outside_of_what_the_topic_allows_are_invalid() {
    on_node(10, config(1), async |node| {
        let settings =
            [("message.timestamp.before.max.ms", "60000"), ("message.timestamp.after.max.ms", "3600000")];
        let topic = node.topic_with("t", 1, &settings).await;
        let mut client = node.connect(0).await;
        let invalid = ErrorCode::INVALID_TIMESTAMP;
        is_refused(&mut client, &topic, &timed(&[(NOW_MS + 2 * HOUR_MS, "late")]), invalid).await;
        is_refused(&mut client, &topic, &timed(&[(NOW_MS - 61_000, "early")]), invalid).await;
        is_refused(&mut client, &topic, &timed(&[(NOW_MS, "a"), (NOW_MS - 61_000, "early")]), invalid).await;
        produce(&mut client, &topic, 0, &timed(&[(NOW_MS - 30_000, "a"), (NOW_MS + HOUR_MS / 2, "b")])).await;
    });
}

#[test]
fn a_client_cannot_claim_append_time_on_a_topic_of_producers_times() {
    on_node(11, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let claimed = with_bytes(batch(&["a"]), ATTRIBUTES_AT, &0x08_i16.to_be_bytes());
        is_refused(&mut client, &topic, &claimed, ErrorCode::INVALID_TIMESTAMP).await;
    });
}

#[test]
fn what_a_refused_batch_of_a_producer_carried_is_not_remembered() {
    on_node(12, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let producer = node.producer_id(0).await;
        let mut damaged = sequenced(producer, 0, 0, 2);
        *damaged.last_mut().unwrap() ^= 1;
        let produced = try_produce(&mut client, &topic, 13, &damaged).await;
        assert_eq!(produced.error, ErrorCode::CORRUPT_MESSAGE);
        assert_eq!(produce(&mut client, &topic, 0, &sequenced(producer, 0, 0, 2)).await, 0);
    });
}

#[test]
fn a_record_that_is_why_is_told_by_its_index() {
    on_node(21, config(1), async |node| {
        let topic = node.topic_with("t", 1, &[("message.timestamp.before.max.ms", "1000")]).await;
        let mut client = node.connect(0).await;
        let late = timed(&[(NOW_MS, "a"), (NOW_MS, "b"), (NOW_MS - HOUR_MS, "c")]);
        let broken = with_bytes(batch(&["a"]), RECORDS_AT + 1, &[0, 0, 7]);
        for version in versions(ApiKey::Produce) {
            let told = |indexes: &[i32]| if version >= 8 { indexes.to_vec() } else { Vec::new() };
            let refused = try_produce(&mut client, &topic, version, &late).await;
            assert_eq!((refused.error, refused.records), (ErrorCode::INVALID_TIMESTAMP, told(&[2])));
            let refused = try_produce(&mut client, &topic, version, &broken).await;
            assert_eq!((refused.error, refused.records), (ErrorCode::INVALID_RECORD, told(&[0])));
        }
        let whole = with_bytes(batch(&["a"]), ATTRIBUTES_AT, &0x20_u16.to_be_bytes());
        assert_eq!(try_produce(&mut client, &topic, 13, &whole).await.records, [], "none of them is");
    });
}

#[test]
fn compressed_records_are_looked_at_where_the_topic_asks_for_it() {
    on_node(22, config(1), async |node| {
        let trusting = node.topic("trusting", 1).await;
        let strict = node.topic_with("strict", 1, &[("records.validation", "all")]).await;
        let mut client = node.connect(0).await;
        for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
            let sound = compressed(codec, &[(NOW_MS, "a"), (NOW_MS, "b")]);
            produce(&mut client, &strict, 0, &sound).await;
            let garbage = with_bytes(sound, RECORDS_AT, &[0xff; 8]);
            produce(&mut client, &trusting, 0, &garbage).await;
            let refused = try_produce(&mut client, &strict, 13, &garbage).await;
            assert_eq!(refused.error, ErrorCode::INVALID_RECORD, "{codec}: {refused:?}");
            let early = compressed(codec, &[(NOW_MS + 9 * HOUR_MS, "a"), (NOW_MS, "b")]);
            let hidden = with_bytes(early, MAX_TIMESTAMP_AT, &NOW_MS.to_be_bytes());
            produce(&mut client, &trusting, 0, &hidden).await;
            let refused = try_produce(&mut client, &strict, 13, &hidden).await;
            assert_eq!((refused.error, refused.records), (ErrorCode::INVALID_TIMESTAMP, vec![0]), "{codec}");
        }
        assert_eq!(Fetch::at(&strict, 0, 0).call(&mut client).await.only().high_watermark, 8);
    });
}

/// A megabyte can stand for gigabytes.
#[test]
fn compressed_records_without_end_are_refused_and_others_have_their_turn_meanwhile() {
    on_node(23, config(1), async |node| {
        let settings = [("records.validation", "all"), ("max.message.bytes", "10000000")];
        let (topic, other) = (node.topic_with("t", 1, &settings).await, node.topic("other", 1).await);
        let endless = endless();
        let mut clients = Vec::new();
        for _ in 0..4 {
            let mut client = node.connect(0).await;
            client.send(13, &Produce::new(&topic, 0, &endless).request()).await;
            clients.push(client);
        }
        produce(&mut node.connect(0).await, &other, 0, &batch(&["a"])).await;
        for client in &mut clients {
            let answer = client.answer(13).await;
            let refused = Produce::new(&topic, 0, &endless).outcome(&answer);
            assert_eq!(refused.error, ErrorCode::MESSAGE_TOO_LARGE, "{refused:?}");
            assert!(refused.message.unwrap().contains("after decompression"));
        }
    });
}

/// A batch of one record of 80 MiB, compressed to some kilobytes.
fn endless() -> Vec<u8> {
    let value = "x".repeat(80 << 20);
    compressed(Compression::Zstd, &[(NOW_MS, &value)])
}
