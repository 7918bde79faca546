//! DeleteRecords: raises the start of partitions' logs.

use core::time::Duration;

use net_wire::messages::DeleteRecordsRequest;
use net_wire::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsTopic,
};
use net_wire::{ApiKey, ErrorCode};
use sim::CrashMode;

use crate::batches::{batch, large};
use crate::calls::{Fetch, Topic, impossible_topic_names, produce, read_all};
use crate::client::Client;
use crate::node::{FIRST_BROKER, config, on_node};
use crate::versions;

const NEWEST: i16 = 2;

async fn delete(
    client: &mut Client,
    version: i16,
    topic: &str,
    offsets: &[(i32, i64)],
) -> Vec<DeleteRecordsPartitionResult> {
    let partition =
        |&(partition_index, offset): &(i32, i64)| DeleteRecordsPartition { partition_index, offset };
    let partitions = offsets.iter().map(partition).collect();
    let topics = vec![DeleteRecordsTopic { name: topic, partitions }];
    let answer = client.ask(version, &DeleteRecordsRequest { topics, timeout_ms: 30_000 }).await;
    let response = answer.body();
    assert_eq!(response.topics[0].name, topic);
    response.topics[0].partitions.clone()
}

fn deleted(partition_index: i32, low_watermark: i64) -> DeleteRecordsPartitionResult {
    DeleteRecordsPartitionResult { partition_index, low_watermark, error_code: ErrorCode::NONE }
}

fn refused(partition_index: i32, error_code: ErrorCode) -> DeleteRecordsPartitionResult {
    DeleteRecordsPartitionResult { partition_index, low_watermark: -1, error_code }
}

async fn log_start(client: &mut Client, topic: &Topic) -> i64 {
    let far = Fetch::at(topic, 0, 0).call(client).await;
    let end = Fetch::at(topic, 0, far.partitions[0].high_watermark.max(20)).call(client).await;
    end.partitions[0].log_start
}

#[test]
fn records_below_an_offset_go_and_stay_gone_through_a_crash() {
    on_node(1, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        let mut start = 0;
        for version in versions(ApiKey::DeleteRecords) {
            produce(&mut client, &topic, 0, &batch(&["a", "b", "c", "d"])).await;
            let result = delete(&mut client, version, "t", &[(0, start + 3)]).await;
            assert_eq!(result, [deleted(0, start + 3)], "v{version}");
            let below = Fetch::at(&topic, 0, start + 2).call(&mut client).await.only();
            assert_eq!(below.error, ErrorCode::OFFSET_OUT_OF_RANGE);
            // Below the start there is nothing left to delete.
            assert_eq!(delete(&mut client, version, "t", &[(0, start)]).await, [deleted(0, start + 3)]);
            start += 4;
        }
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        let mut client = node.connect(0).await;
        let below = Fetch::at(&topic, 0, start - 2).call(&mut client).await.only();
        assert_eq!(below.error, ErrorCode::OFFSET_OUT_OF_RANGE);
        let left = Fetch::at(&topic, 0, start - 1).call(&mut client).await.only();
        assert_eq!((left.error, left.log_start), (ErrorCode::NONE, start - 1));
        let all = delete(&mut client, NEWEST, "t", &[(0, -1)]).await;
        assert_eq!(all, [deleted(0, start)], "all that there is");
        produce(&mut client, &topic, 0, &batch(&["e"])).await;
        let fetched = Fetch::at(&topic, 0, start).call(&mut client).await.only();
        assert_eq!((fetched.high_watermark, fetched.log_start), (start + 1, start));
    });
}

#[test]
fn segments_that_are_wholly_deleted_give_their_space_back_at_once() {
    on_node(2, config(1), async |node| {
        let topic = node.topic_with("t", 1, &[("segment.bytes", "1048576")]).await;
        let mut client = node.connect(0).await;
        for _ in 0..20 {
            produce(&mut client, &topic, 0, &large(500_000)).await;
        }
        let before = node.machine().disk().used_bytes();
        assert_eq!(delete(&mut client, NEWEST, "t", &[(0, 15)]).await, [deleted(0, 15)]);
        node.pause(Duration::from_secs(1)).await;
        let freed = before - node.machine().disk().used_bytes();
        assert!(freed > 6_000_000, "{freed} bytes");
        assert_eq!(log_start(&mut client, &topic).await, 15);
        assert_eq!(node.snapshot(0).await.store.segments_deleted, 7);
    });
}

#[test]
fn what_is_not_there_or_not_yet_seen_or_not_here_is_refused() {
    on_node(3, config(2), async |node| {
        let topic = node.topic("t", 2).await;
        let mut client = node.connect(0).await;
        let (here, elsewhere) = (topic.partition_of(FIRST_BROKER), topic.partition_of(FIRST_BROKER + 1));
        produce(&mut client, &topic, here, &batch(&["a", "b"])).await;
        for version in versions(ApiKey::DeleteRecords) {
            for beyond in [3, -2, i64::MAX] {
                let results = delete(&mut client, version, "t", &[(here, beyond)]).await;
                assert_eq!(
                    results,
                    [refused(here, ErrorCode::OFFSET_OUT_OF_RANGE)],
                    "{beyond} in v{version}"
                );
            }
            let mut results = delete(&mut client, version, "t", &[(elsewhere, 0), (9, 0), (-1, 0)]).await;
            results.sort_unstable_by_key(|result| result.partition_index);
            let expected = [
                refused(-1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                refused(elsewhere, ErrorCode::NOT_LEADER_OR_FOLLOWER),
                refused(9, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            ];
            assert_eq!(results, expected, "v{version}");
            // Of a partition that is named again the last mention counts, and it is answered once.
            let results = delete(&mut client, version, "t", &[(here, 3), (here, 0), (here, 1)]).await;
            assert_eq!(results, [deleted(here, 1)], "v{version}");
            for name in impossible_topic_names() {
                let results = delete(&mut client, version, &name, &[(0, 0)]).await;
                assert_eq!(results, [refused(0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)], "`{name}`");
            }
        }
        assert_eq!(read_from(&mut client, &topic, here, 1).await, 1);
    });
}

/// How many records there are from `offset` on.
async fn read_from(client: &mut Client, topic: &Topic, partition: i32, offset: i64) -> i64 {
    let fetched = Fetch::at(topic, partition, offset).call(client).await.only();
    assert_eq!(fetched.error, ErrorCode::NONE);
    fetched.high_watermark - offset
}

#[test]
fn a_partition_named_a_hundred_thousand_times_is_one_deletion_whatever_time_there_is() {
    on_node(5, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &batch(&["a", "b"])).await;
        let before = node.snapshot(0).await.store.checkpoint_entries;
        let partitions = vec![DeleteRecordsPartition { partition_index: 0, offset: -1 }; 100_000];
        let topics = vec![DeleteRecordsTopic { name: "t", partitions }];
        let answer = client.ask(NEWEST, &DeleteRecordsRequest { topics, timeout_ms: 0 }).await;
        assert_eq!(answer.body().topics[0].partitions, [deleted(0, 2)]);
        let written = node.snapshot(0).await.store.checkpoint_entries - before;
        assert!(written <= 4, "{written} entries");
    });
}

#[test]
fn a_fetch_that_waits_below_the_new_start_is_told() {
    on_node(4, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &batch(&["a", "b"])).await;
        assert_eq!(read_all(&mut client, &topic, 0).await.len(), 2);
        let waiting = Fetch::at(&topic, 0, 0).waiting(30_000, 1_000_000);
        client.send(waiting.version, &waiting.request()).await;
        let mut other = node.connect(0).await;
        let since = other.now();
        assert_eq!(delete(&mut other, NEWEST, "t", &[(0, 2)]).await, [deleted(0, 2)]);
        let told = waiting.outcome(&client.answer(waiting.version).await).only();
        assert_eq!(told.error, ErrorCode::OFFSET_OUT_OF_RANGE);
        assert!(other.now().since(since) < Duration::from_secs(5), "it did not wait for its time");
    });
}
