//! OffsetForLeaderEpoch: where the records of a leader's epoch end.

use core::time::Duration;

use net_wire::messages::OffsetForLeaderEpochRequest;
use net_wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use net_wire::{ApiKey, ErrorCode};
use sim::CrashMode;

use crate::batches::{batch, large};
use crate::calls::{Topic, produce};
use crate::client::Client;
use crate::node::{FIRST_BROKER, config, config_with, on_node};
use crate::versions;

/// What is known, and what is asked for.
const UNKNOWN: i32 = -1;

async fn ask(
    client: &mut Client,
    version: i16,
    topic: &Topic,
    partition: i32,
    (current_leader_epoch, leader_epoch): (i32, i32),
) -> EpochEndOffset {
    let partitions = vec![OffsetForLeaderPartition { partition, current_leader_epoch, leader_epoch }];
    let topics = vec![OffsetForLeaderTopic { topic: &topic.name, partitions }];
    let request = OffsetForLeaderEpochRequest { replica_id: -1, topics };
    let answer = client.ask(version, &request).await;
    let response = answer.body();
    assert_eq!(response.topics[0].topic, topic.name);
    let found = response.topics[0].partitions[0];
    assert_eq!(found.partition, partition);
    found
}

fn end(leader_epoch: i32, end_offset: i64) -> EpochEndOffset {
    EpochEndOffset { error_code: ErrorCode::NONE, partition: 0, leader_epoch, end_offset }
}

fn refused(error_code: ErrorCode) -> EpochEndOffset {
    EpochEndOffset { error_code, ..end(-1, -1) }
}

#[test]
fn an_epoch_ends_where_the_next_one_begins_and_the_latest_where_the_log_does() {
    on_node(1, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        produce(&mut node.connect(0).await, &topic, 0, &batch(&["a", "b", "c"])).await;
        // Each start after a crash is a leader of its own; the second one appends nothing.
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &batch(&["d", "e"])).await;
        let latest = node.describe("t").await.epochs[0];
        assert_eq!(latest, 2);
        for version in versions(ApiKey::OffsetForLeaderEpoch) {
            for (asked, expected) in [
                (0, end(0, 3)),
                (1, end(0, 3)),
                (2, end(2, 5)),
                (3, end(-1, -1)),
                (i32::MAX, end(-1, -1)),
                (-1, end(-1, -1)),
                (i32::MIN, end(-1, -1)),
            ] {
                let found = ask(&mut client, version, &topic, 0, (UNKNOWN, asked)).await;
                assert_eq!(found, expected, "epoch {asked} in v{version}");
            }
        }
    });
}

#[test]
fn an_epoch_that_retention_has_deleted_ends_where_the_log_starts() {
    let settings = [("log.retention.check.interval.ms", "60000")];
    on_node(2, config_with(1, &settings), async |node| {
        let kept = [("retention.bytes", "1000000"), ("segment.bytes", "1048576")];
        let topic = node.topic_with("t", 1, &kept).await;
        produce(&mut node.connect(0).await, &topic, 0, &large(500_000)).await;
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        let mut client = node.connect(0).await;
        for _ in 0..7 {
            produce(&mut client, &topic, 0, &large(500_000)).await;
        }
        node.pause(Duration::from_secs(61)).await;
        let gone = ask(&mut client, 4, &topic, 0, (UNKNOWN, 0)).await;
        assert_eq!((gone.error_code, gone.leader_epoch), (ErrorCode::NONE, 0));
        assert!((2..8).contains(&gone.end_offset), "{gone:?}");
        assert_eq!(ask(&mut client, 4, &topic, 0, (UNKNOWN, 1)).await, end(1, 8));
    });
}

#[test]
fn who_knows_another_leader_and_who_asks_for_what_is_not_here_is_told() {
    on_node(3, config(2), async |node| {
        let topic = node.topic("t", 2).await;
        let mut client = node.connect(0).await;
        let here = topic.partition_of(FIRST_BROKER);
        let elsewhere = topic.partition_of(FIRST_BROKER + 1);
        for version in versions(ApiKey::OffsetForLeaderEpoch) {
            let mut errors = Vec::new();
            for (partition, known) in [(here, 0), (here, 1), (elsewhere, 0), (7, 0), (-1, 0)] {
                errors.push(ask(&mut client, version, &topic, partition, (known, 0)).await.error_code);
            }
            let expected = [
                ErrorCode::NONE,
                ErrorCode::UNKNOWN_LEADER_EPOCH,
                ErrorCode::NOT_LEADER_OR_FOLLOWER,
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ];
            assert_eq!(errors, expected, "v{version}");
            let missing = ask(&mut client, version, &Topic::missing(), 0, (UNKNOWN, 0)).await;
            assert_eq!(missing, refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        }
        produce(&mut client, &topic, here, &batch(&["a"])).await;
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        let mut client = node.connect_to_leader(&topic, here).await;
        let fenced = ask(&mut client, 4, &topic, here, (0, 0)).await;
        assert_eq!(fenced.error_code, ErrorCode::FENCED_LEADER_EPOCH);
    });
}
