//! What retention doesn't keep goes by itself.

use core::time::Duration;

use net_wire::ErrorCode;
use net_wire::messages::ListOffsetsRequest;
use net_wire::messages::list_offsets::{EARLIEST, ListOffsetsPartition, ListOffsetsTopic};
use sim::CrashMode;

use crate::batches::large;
use crate::calls::{Fetch, Topic, produce};
use crate::node::{Node, config, config_with, on_node};

/// The newest version.
const LIST_OFFSETS: i16 = 10;
/// A look each minute.
const EACH_MINUTE: (&str, &str) = ("log.retention.check.interval.ms", "60000");
/// What a segment holds.
const SEGMENT_BYTES: (&str, &str) = ("segment.bytes", "1048576");

/// Where the partition's log begins.
async fn log_start(node: &Node, topic: &Topic) -> i64 {
    let mut client = node.connect_to_leader(topic, 0).await;
    let partition =
        ListOffsetsPartition { partition_index: 0, current_leader_epoch: -1, timestamp: EARLIEST };
    let topics = vec![ListOffsetsTopic { name: &topic.name, partitions: vec![partition] }];
    let request = ListOffsetsRequest { replica_id: -1, topics, ..ListOffsetsRequest::default() };
    let answer = client.ask(LIST_OFFSETS, &request).await;
    let partition = answer.body().topics[0].partitions[0].clone();
    assert_eq!(partition.error_code, ErrorCode::NONE);
    partition.offset
}

/// Produces so many batches of half a segment.
async fn fill(node: &Node, topic: &Topic, batches: usize) {
    let mut client = node.connect_to_leader(topic, 0).await;
    for _ in 0..batches {
        produce(&mut client, topic, 0, &large(500_000)).await;
    }
}

#[test]
fn a_topic_keeps_as_much_as_it_says_and_others_what_the_broker_says() {
    on_node(1, config_with(2, &[EACH_MINUTE]), async |node| {
        let kept = ("retention.bytes", "2000000");
        let small = node.topic_with("small", 2, &[kept, SEGMENT_BYTES]).await;
        let whole = node.topic_with("whole", 1, &[SEGMENT_BYTES]).await;
        fill(&node, &small, 12).await;
        fill(&node, &whole, 12).await;
        assert_eq!(log_start(&node, &small).await, 0);
        node.pause(Duration::from_secs(61)).await;
        let start = log_start(&node, &small).await;
        assert_eq!(start, 8, "two segments of two batches stay, or more than the size would go");
        assert_eq!(log_start(&node, &whole).await, 0);
        let mut client = node.connect_to_leader(&small, 0).await;
        let gone = Fetch::at(&small, 0, start - 1).call(&mut client).await.only();
        assert_eq!((gone.error, gone.records.len()), (ErrorCode::OFFSET_OUT_OF_RANGE, 0));
        let there = Fetch::at(&small, 0, start).call(&mut client).await.only();
        assert!(there.error.is_none() && there.records.len() > 500_000);
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        assert_eq!(log_start(&node, &small).await, start);
    });
}

#[test]
fn what_is_too_old_goes_though_nothing_is_appended_and_the_offsets_go_on() {
    let settings = [EACH_MINUTE, ("log.retention.hours", "2"), ("log.retention.minutes", "10")];
    on_node(2, config_with(1, &settings), async |node| {
        let topic = node.topic_with("topic", 1, &[SEGMENT_BYTES]).await;
        let kept = node.topic_with("kept", 1, &[("retention.ms", "-1")]).await;
        fill(&node, &topic, 5).await;
        fill(&node, &kept, 5).await;
        node.pause(Duration::from_mins(9)).await;
        assert_eq!(log_start(&node, &topic).await, 0);
        node.pause(Duration::from_mins(3)).await;
        assert_eq!((log_start(&node, &topic).await, log_start(&node, &kept).await), (5, 0));
        let node = node.restart().await;
        let mut client = node.connect_to_leader(&topic, 0).await;
        assert_eq!(produce(&mut client, &topic, 0, &large(100)).await, 5);
    });
}

#[test]
fn a_reader_that_takes_nothing_keeps_no_segment_for_long() {
    on_node(9, config(1), async |node| {
        let topic = node.topic_with("t", 1, &[("retention.bytes", "2000000"), SEGMENT_BYTES]).await;
        fill(&node, &topic, 12).await;
        // What isn't in memory any more is read through the file, which the answer holds until it is taken.
        let mut reader = node.connect_to_leader(&topic, 0).await;
        let fetch = Fetch::at(&topic, 0, 0);
        for _ in 0..40 {
            reader.send(fetch.version, &fetch.request()).await;
        }
        // The first look is after 30 seconds, the next one after five minutes.
        node.pause(Duration::from_secs(60)).await;
        let store = node.snapshot(0).await.store;
        assert_eq!(store.segments_deleted, 4, "{store:?}");
    });
}
