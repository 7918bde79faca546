//! ListOffsets: a partition's ends, and offsets by time.

use engine_record::Compression;
use net_wire::messages::ListOffsetsRequest;
use net_wire::messages::list_offsets::{
    EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, ListOffsetsPartition, ListOffsetsPartitionResponse,
    ListOffsetsTopic, MAX_TIMESTAMP,
};
use net_wire::{ApiKey, ErrorCode};
use sim::CrashMode;

use crate::batches::{RECORDS_AT, batch, compressed, timed, with_bytes};
use crate::calls::{Topic, impossible_topic_names, produce};
use crate::client::Client;
use crate::node::{FIRST_BROKER, config, on_node};
use crate::versions;

/// The newest version.
const NEWEST: i16 = 10;
/// From this version on the answer has the leader epoch.
const EPOCH_FROM: i16 = 4;
/// What no version knows: the earliest offset that is yet to be uploaded comes with version 11.
const EARLIEST_PENDING_UPLOAD: i64 = -6;

#[derive(Clone, Copy)]
struct Ask<'a> {
    version: i16,
    topic: &'a Topic,
    partition: i32,
    epoch: i32,
}

impl<'a> Ask<'a> {
    fn new(version: i16, topic: &'a Topic) -> Self {
        Self { version, topic, partition: 0, epoch: -1 }
    }

    async fn call(self, client: &mut Client, timestamp: i64) -> ListOffsetsPartitionResponse {
        let partition = ListOffsetsPartition {
            partition_index: self.partition,
            current_leader_epoch: self.epoch,
            timestamp,
        };
        let topics = vec![ListOffsetsTopic { name: &self.topic.name, partitions: vec![partition] }];
        let request = ListOffsetsRequest { replica_id: -1, topics, ..ListOffsetsRequest::default() };
        let answer = client.ask(self.version, &request).await;
        let response = answer.body();
        let [topic] = &response.topics[..] else { panic!("one topic was asked: {response:?}") };
        assert_eq!(topic.name, self.topic.name);
        let [partition] = &topic.partitions[..] else { panic!("one partition was asked: {response:?}") };
        assert_eq!(partition.partition_index, self.partition);
        partition.clone()
    }
}

/// What an answer without error says.
fn found(version: i16, timestamp: i64, offset: i64) -> ListOffsetsPartitionResponse {
    let leader_epoch = if version >= EPOCH_FROM { 0 } else { -1 };
    ListOffsetsPartitionResponse {
        partition_index: 0,
        error_code: ErrorCode::NONE,
        timestamp,
        offset,
        leader_epoch,
    }
}

fn nothing_found() -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse { partition_index: 0, ..ListOffsetsPartitionResponse::default() }
}

#[test]
fn a_name_that_no_topic_can_have_is_one_that_no_topic_has() {
    on_node(12, config(1), async |node| {
        let mut client = node.connect(0).await;
        for name in impossible_topic_names() {
            let topic = Topic { name, ..Topic::missing() };
            for version in versions(ApiKey::ListOffsets) {
                let refused = Ask::new(version, &topic).call(&mut client, LATEST).await;
                assert_eq!(refused.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "v{version}");
            }
        }
    });
}

#[test]
fn every_version_finds_both_ends() {
    on_node(1, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::ListOffsets) {
            let ask = Ask::new(version, &topic);
            assert_eq!(ask.call(&mut client, EARLIEST).await, found(version, -1, 0), "v{version}, empty");
            assert_eq!(ask.call(&mut client, LATEST).await, found(version, -1, 0), "v{version}, empty");
        }
        produce(&mut client, &topic, 0, &batch(&["a", "b", "c"])).await;
        for version in versions(ApiKey::ListOffsets) {
            let ask = Ask::new(version, &topic);
            assert_eq!(ask.call(&mut client, EARLIEST).await, found(version, -1, 0), "v{version}");
            assert_eq!(ask.call(&mut client, LATEST).await, found(version, -1, 3), "v{version}");
        }
    });
}

#[test]
fn every_version_finds_the_first_record_at_or_after_a_time() {
    on_node(2, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &timed(&[(100, "a"), (200, "b"), (300, "c")])).await;
        produce(&mut client, &topic, 0, &timed(&[(250, "late"), (400, "d")])).await;
        for version in versions(ApiKey::ListOffsets) {
            let ask = Ask::new(version, &topic);
            for (time, timestamp, offset) in [
                (0, 100, 0),
                (100, 100, 0),
                (101, 200, 1),
                (200, 200, 1),
                (250, 300, 2),
                (301, 400, 4),
                (400, 400, 4),
            ] {
                let answer = ask.call(&mut client, time).await;
                assert_eq!(answer, found(version, timestamp, offset), "time {time} in v{version}");
            }
            for time in [401, i64::MAX] {
                assert_eq!(ask.call(&mut client, time).await, nothing_found(), "time {time} in v{version}");
            }
        }
    });
}

#[test]
fn a_time_finds_its_record_within_a_compressed_batch() {
    on_node(3, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let codecs = [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
        for (base, codec) in (0..).step_by(3).zip(codecs) {
            let time = 1000 + base * 100;
            let records = compressed(codec, &[(time, "a"), (time + 10, "b"), (time + 20, "c")]);
            assert_eq!(produce(&mut client, &topic, 0, &records).await, base);
            let answer = Ask::new(NEWEST, &topic).call(&mut client, time + 5).await;
            assert_eq!(answer, found(NEWEST, time + 10, base + 1), "{codec:?}");
        }
    });
}

#[test]
fn a_batch_that_its_client_never_made_readable_is_found_whole() {
    on_node(31, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &timed(&[(100, "a"), (200, "b")])).await;
        let sound = compressed(Compression::Gzip, &[(300, "c"), (400, "d"), (500, "e")]);
        let unreadable = with_bytes(sound, RECORDS_AT, b"not gzip at all");
        assert_eq!(produce(&mut client, &topic, 0, &unreadable).await, 2);
        for version in versions(ApiKey::ListOffsets) {
            let ask = Ask::new(version, &topic);
            for time in [201, 300, 450, 500] {
                assert_eq!(ask.call(&mut client, time).await, found(version, 500, 2), "{time} in v{version}");
            }
            assert_eq!(ask.call(&mut client, 150).await, found(version, 200, 1), "v{version}");
            assert_eq!(ask.call(&mut client, 501).await, nothing_found(), "v{version}");
            if version >= 7 {
                let latest = ask.call(&mut client, MAX_TIMESTAMP).await;
                assert_eq!(latest, found(version, 500, 2), "v{version}");
            }
        }
    });
}

#[test]
fn the_largest_timestamp_is_found_from_version_7_on() {
    on_node(4, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for version in 7..=NEWEST {
            let empty = Ask::new(version, &topic).call(&mut client, MAX_TIMESTAMP).await;
            assert_eq!(empty, nothing_found(), "v{version}");
        }
        produce(&mut client, &topic, 0, &timed(&[(100, "a"), (900, "largest"), (300, "c")])).await;
        produce(&mut client, &topic, 0, &timed(&[(400, "d")])).await;
        for version in 7..=NEWEST {
            let answer = Ask::new(version, &topic).call(&mut client, MAX_TIMESTAMP).await;
            assert_eq!(answer, found(version, 900, 1), "v{version}");
        }
    });
}

#[test]
fn without_tiers_the_local_ones_end_where_the_log_does() {
    on_node(5, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &batch(&["a"])).await;
        for version in 8..=NEWEST {
            let answer = Ask::new(version, &topic).call(&mut client, EARLIEST_LOCAL).await;
            assert_eq!(answer, found(version, -1, 0), "v{version}");
        }
        for version in 9..=NEWEST {
            let answer = Ask::new(version, &topic).call(&mut client, LATEST_TIERED).await;
            assert_eq!((answer.error_code, answer.offset), (ErrorCode::NONE, -1), "v{version}");
        }
    });
}

#[test]
fn a_special_time_that_the_version_does_not_know_is_refused() {
    on_node(6, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let gates = [
            (MAX_TIMESTAMP, 7),
            (EARLIEST_LOCAL, 8),
            (LATEST_TIERED, 9),
            (EARLIEST_PENDING_UPLOAD, 11),
            (-7, 99),
            (i64::MIN, 99),
        ];
        for version in versions(ApiKey::ListOffsets) {
            for (timestamp, _) in gates.into_iter().filter(|(_, known_from)| version < *known_from) {
                let answer = Ask::new(version, &topic).call(&mut client, timestamp).await;
                assert_eq!(answer.error_code, ErrorCode::UNSUPPORTED_VERSION, "{timestamp} in v{version}");
                assert_eq!((answer.offset, answer.timestamp, answer.leader_epoch), (-1, -1, -1));
            }
        }
    });
}

#[test]
fn what_is_not_there_or_elsewhere_is_refused() {
    on_node(7, config(2), async |node| {
        let topic = node.topic("t", 2).await;
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::ListOffsets) {
            let missing = Ask::new(version, &Topic::missing()).call(&mut client, LATEST).await;
            assert_eq!(missing.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "v{version}");
            let partition = topic.partition_of(FIRST_BROKER + 1);
            let elsewhere = Ask { partition, ..Ask::new(version, &topic) }.call(&mut client, LATEST).await;
            assert_eq!(elsewhere.error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER, "v{version}");
            for partition in [2, -1] {
                let no_partition =
                    Ask { partition, ..Ask::new(version, &topic) }.call(&mut client, LATEST).await;
                assert_eq!(no_partition.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "v{version}");
            }
        }
    });
}

#[test]
fn clients_of_other_leader_epochs_are_fenced_and_offsets_carry_the_epoch_they_were_written_in() {
    on_node(8, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        produce(&mut node.connect(0).await, &topic, 0, &timed(&[(100, "first epoch")])).await;
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &timed(&[(200, "second epoch")])).await;
        for version in EPOCH_FROM..=NEWEST {
            let ask = Ask::new(version, &topic);
            let outdated = Ask { epoch: 0, ..ask }.call(&mut client, LATEST).await;
            assert_eq!(outdated.error_code, ErrorCode::FENCED_LEADER_EPOCH, "v{version}");
            let ahead = Ask { epoch: 2, ..ask }.call(&mut client, LATEST).await;
            assert_eq!(ahead.error_code, ErrorCode::UNKNOWN_LEADER_EPOCH, "v{version}");
            let current = Ask { epoch: 1, ..ask };
            for (time, offset, epoch) in [(EARLIEST, 0, 0), (100, 0, 0), (101, 1, 1), (LATEST, 2, 1)] {
                let answer = current.call(&mut client, time).await;
                let told = (answer.error_code, answer.offset, answer.leader_epoch);
                assert_eq!(told, (ErrorCode::NONE, offset, epoch), "time {time} in v{version}");
            }
        }
    });
}

#[test]
fn a_partition_named_twice_is_refused_at_each_mention() {
    on_node(30, config(1), async |node| {
        let topic = node.topic("t", 2).await;
        let partition = |partition_index| ListOffsetsPartition {
            partition_index,
            current_leader_epoch: -1,
            timestamp: LATEST,
        };
        let of = |name, partitions: &[i32]| ListOffsetsTopic {
            name,
            partitions: partitions.iter().copied().map(partition).collect(),
        };
        let topics = vec![
            of(&topic.name, &[0, 1, 0]),
            of("missing", &[0, 3, 3]),
            of(&topic.name, &[0]),
            of("m", &[0]),
        ];
        let request = ListOffsetsRequest { replica_id: -1, topics, ..ListOffsetsRequest::default() };
        for version in versions(ApiKey::ListOffsets) {
            let answer = node.connect(0).await.ask(version, &request).await;
            let codes: Vec<Vec<i16>> = answer
                .body()
                .topics
                .iter()
                .map(|topic| topic.partitions.iter().map(|partition| partition.error_code.0).collect())
                .collect();
            assert_eq!(codes, [vec![42, 0, 42], vec![3, 42, 42], vec![42], vec![3]], "v{version}");
        }
    });
}
