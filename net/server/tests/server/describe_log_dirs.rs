//! DescribeLogDirs: each endpoint tells what its own shard has.

use core::time::Duration;

use net_wire::messages::DescribeLogDirsRequest;
use net_wire::messages::describe_log_dirs::{DescribableLogDirTopic, DescribeLogDirsPartition};
use net_wire::{ApiKey, ErrorCode};

use crate::batches::{batch, large};
use crate::calls::produce;
use crate::client::Client;
use crate::node::{FIRST_BROKER, config, config_with, on_node};
use crate::versions;

const NEWEST: i16 = 4;
/// From this version on the space of the drive is told.
const SPACE_FROM: i16 = 4;

/// From this version on there are tagged fields.
const FLEXIBLE_FROM: i16 = 2;

/// What is told of the one directory: its space, and topic, partition and size of all in it.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    total_bytes: i64,
    usable_bytes: i64,
    logs: Vec<(String, i32, i64)>,
}

async fn ask(client: &mut Client, version: i16, asked: Option<&[(&str, &[i32])]>) -> Told {
    let topics = asked.map(|asked| {
        let topic = asked
            .iter()
            .map(|&(topic, partitions)| DescribableLogDirTopic { topic, partitions: partitions.to_vec() });
        topic.collect()
    });
    let answer = client.ask(version, &DescribeLogDirsRequest { topics, count_segments: false }).await;
    let response = answer.body();
    assert_eq!(response.error_code, ErrorCode::NONE);
    let [directory] = &response.results[..] else { panic!("there is one directory: {response:?}") };
    assert_eq!((directory.error_code, directory.log_dir), (ErrorCode::NONE, "/data"));
    let mut logs = Vec::new();
    for topic in &directory.topics {
        assert!(!topic.partitions.is_empty(), "{topic:?}");
        for told in &topic.partitions {
            let DescribeLogDirsPartition { partition_index, partition_size, .. } = *told;
            // Above all, nobody who didn't ask is told of segments.
            assert_eq!(
                *told,
                DescribeLogDirsPartition { partition_index, partition_size, ..Default::default() }
            );
            logs.push((topic.name.to_owned(), partition_index, partition_size));
        }
    }
    logs.sort();
    Told { total_bytes: directory.total_bytes, usable_bytes: directory.usable_bytes, logs }
}

fn size(batches: &[Vec<u8>]) -> i64 {
    i64::try_from(batches.iter().map(Vec::len).sum::<usize>()).unwrap()
}

/// Partition and count of segments of what is there of a topic, for one who asks for counts.
async fn count_segments(client: &mut Client, version: i16, name: &str) -> Vec<(i32, i32)> {
    let request = DescribeLogDirsRequest { topics: None, count_segments: true };
    let answer = client.ask(version, &request).await;
    let response = answer.body();
    let topics = response.results.iter().flat_map(|told| &told.topics).filter(|told| told.name == name);
    let partitions = topics.flat_map(|topic| &topic.partitions);
    partitions.map(|told| (told.partition_index, told.segment_count)).collect()
}

#[test]
fn each_shard_tells_the_size_of_its_own_logs_and_the_space_of_the_drive() {
    on_node(1, config(2), async |node| {
        let topic = node.topic("t", 4).await;
        node.topic("empty", 2).await;
        let (one, two) = (batch(&["a"]), batch(&["b", "c"]));
        let here = topic.partition_of(FIRST_BROKER);
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, here, &one).await;
        produce(&mut client, &topic, here, &two).await;
        node.machine().disk().set_capacity(1 << 40);
        let free = i64::try_from((1 << 40) - node.machine().disk().used_bytes()).unwrap();
        for version in versions(ApiKey::DescribeLogDirs) {
            let mut all = Vec::new();
            for shard in 0..2 {
                let mut client = node.connect(shard).await;
                let told = ask(&mut client, version, None).await;
                let space = if version >= SPACE_FROM { (1 << 40, free) } else { (-1, -1) };
                assert_eq!((told.total_bytes, told.usable_bytes), space, "v{version}");
                for (name, partition, _) in told.logs.iter().filter(|(name, ..)| name == "t") {
                    let leader = topic.leaders[usize::try_from(*partition).unwrap()];
                    assert_eq!(leader, FIRST_BROKER + i32::from(shard), "{name}/{partition}");
                }
                all.extend(told.logs);
            }
            all.sort();
            let log = |partition| {
                let bytes = if partition == here { size(&[one.clone(), two.clone()]) } else { 0 };
                ("t".to_owned(), partition, bytes)
            };
            let empty = [0, 1].map(|partition| ("empty".to_owned(), partition, 0));
            let expected: Vec<_> = empty.into_iter().chain((0..4).map(log)).collect();
            assert_eq!(all, expected, "v{version}");
        }
    });
}

#[test]
fn only_what_is_asked_for_is_told_once_and_what_is_not_here_is_left_out() {
    on_node(2, config(1), async |node| {
        node.topic("a", 3).await;
        node.topic("b", 1).await;
        let mut client = node.connect(0).await;
        let log = |name: &str, partition| (name.to_owned(), partition, 0);
        for version in versions(ApiKey::DescribeLogDirs) {
            let asked: [(&str, &[i32]); 5] =
                [("a", &[2, 0, 2, 7, -1]), ("missing", &[0]), ("a b", &[0]), ("b", &[]), ("a", &[2])];
            let told = ask(&mut client, version, Some(&asked)).await;
            assert_eq!(told.logs, [log("a", 0), log("a", 2)], "v{version}");
            assert_eq!(ask(&mut client, version, Some(&[])).await.logs, [], "v{version}");
        }
    });
}

#[test]
fn what_is_deleted_is_told_no_more() {
    on_node(3, config_with(1, &[("log.retention.check.interval.ms", "60000")]), async |node| {
        let kept = [("retention.bytes", "1000000"), ("segment.bytes", "1048576")];
        let topic = node.topic_with("t", 1, &kept).await;
        let gone = node.topic("gone", 1).await;
        let mut client = node.connect(0).await;
        let records = large(500_000);
        for _ in 0..8 {
            produce(&mut client, &topic, 0, &records).await;
        }
        let before = ask(&mut client, NEWEST, None).await.logs;
        assert_eq!(before[1], ("t".to_owned(), 0, 8 * size(std::slice::from_ref(&records))));
        assert_eq!(node.delete(&gone).await, ErrorCode::NONE);
        node.pause(Duration::from_secs(61)).await;
        let after = ask(&mut client, NEWEST, None).await.logs;
        let [(name, 0, bytes)] = &after[..] else { panic!("one log is left: {after:?}") };
        assert_eq!(name, "t");
        assert!((1_000_000..2_500_000).contains(bytes), "{bytes}");
    });
}

#[test]
fn segments_are_counted_with_the_active_one_for_those_who_ask_and_nobody_else() {
    on_node(4, config_with(1, &[("log.retention.check.interval.ms", "60000")]), async |node| {
        let kept = [("retention.bytes", "1000000"), ("segment.bytes", "1048576")];
        let topic = node.topic_with("t", 2, &kept).await;
        let mut client = node.connect(0).await;
        assert_eq!(count_segments(&mut client, NEWEST, "t").await, [(0, 1), (1, 1)]);
        // Two fit a segment.
        for _ in 0..7 {
            produce(&mut client, &topic, 1, &large(500_000)).await;
        }
        for version in versions(ApiKey::DescribeLogDirs) {
            let counts = if version >= FLEXIBLE_FROM { [(0, 1), (1, 4)] } else { [(0, -1), (1, -1)] };
            assert_eq!(count_segments(&mut client, version, "t").await, counts, "v{version}");
            // Looks at what is told to all others.
            assert_eq!(ask(&mut client, version, None).await.logs.len(), 2);
        }
        node.pause(Duration::from_secs(61)).await;
        assert_eq!(count_segments(&mut client, NEWEST, "t").await, [(0, 1), (1, 2)]);
    });
}
