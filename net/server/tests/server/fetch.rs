//! Fetch: what is read, and how much of it.

use engine_record::Compression;
use net_wire::messages::FetchRequest;
use net_wire::messages::fetch::{FetchPartition, FetchTopic};
use net_wire::{ApiKey, ErrorCode};
use sim::CrashMode;

use crate::batches::{NOW_MS, batch, compressed, large, read, split};
use crate::calls::{FETCH, Fetch, Topic, produce, read_all};
use crate::client::Client;
use crate::node::{config, config_with, on_node};
use crate::versions;

/// Appends so many batches of one record of so many bytes.
async fn fill(client: &mut Client, topic: &Topic, partition: i32, batches: usize, bytes: usize) {
    for _ in 0..batches {
        produce(client, topic, partition, &large(bytes)).await;
    }
}

#[test]
fn every_version_reads_what_was_produced() {
    on_node(1, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &batch(&["a", "b"])).await;
        produce(&mut client, &topic, 0, &batch(&["c"])).await;
        for version in versions(ApiKey::Fetch) {
            let fetched = Fetch::at(&topic, 0, 0).version(version).call(&mut client).await;
            assert_eq!((fetched.session_id, fetched.endpoints.len()), (0, 0), "v{version}");
            let partition = fetched.only();
            assert_eq!(partition.error, ErrorCode::NONE, "v{version}");
            assert_eq!((partition.high_watermark, partition.last_stable), (3, 3), "v{version}");
            assert_eq!(partition.log_start, if version >= 5 { 0 } else { -1 }, "v{version}");
            assert_eq!(partition.preferred_replica, -1, "v{version}");
            let expected = [(0, "a".to_owned()), (1, "b".to_owned()), (2, "c".to_owned())];
            assert_eq!(read(&partition.records), expected, "v{version}");
        }
    });
}

#[test]
fn aborted_transactions_are_listed_only_for_those_who_read_committed_records() {
    on_node(2, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &batch(&["a"])).await;
        for version in versions(ApiKey::Fetch) {
            let mut fetch = Fetch::at(&topic, 0, 0).version(version);
            assert_eq!(fetch.call(&mut client).await.only().aborted, None, "v{version}");
            fetch.request.isolation_level = 1;
            let fetched = fetch.call(&mut client).await.only();
            assert_eq!(fetched.aborted, Some(Vec::new()), "v{version}");
            assert_eq!(read(&fetched.records).len(), 1);
        }
    });
}

#[test]
fn the_end_of_the_log_is_empty_and_what_lies_beyond_is_out_of_range() {
    on_node(3, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &batch(&["a", "b"])).await;
        for version in versions(ApiKey::Fetch) {
            let at = |offset| Fetch::at(&topic, 0, offset).version(version);
            let end = at(2).call(&mut client).await.only();
            assert_eq!((end.error, end.records.len(), end.high_watermark), (ErrorCode::NONE, 0, 2));
            for offset in [3, i64::MAX, -1, i64::MIN] {
                let beyond = at(offset).call(&mut client).await.only();
                assert_eq!(beyond.error, ErrorCode::OFFSET_OUT_OF_RANGE, "offset {offset} in v{version}");
                assert!(beyond.records.is_empty());
            }
        }
    });
}

#[test]
fn a_batch_is_given_whole_also_where_the_offset_lies_within() {
    on_node(4, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &topic, 0, &batch(&["a", "b"])).await;
        let sent = compressed(Compression::Lz4, &[(NOW_MS, "c"), (NOW_MS, "d"), (NOW_MS, "e")]);
        produce(&mut client, &topic, 0, &sent).await;
        for offset in [2, 3, 4] {
            let fetched = Fetch::at(&topic, 0, offset).call(&mut client).await.only();
            let batches = split(&fetched.records);
            assert_eq!(batches.len(), 1, "offset {offset}");
            assert_eq!(batches[0].header().base_offset, 2, "offset {offset}");
        }
        let fetched = Fetch::at(&topic, 0, 1).call(&mut client).await.only();
        assert_eq!(split(&fetched.records)[0].header().base_offset, 0);
    });
}

#[test]
fn a_first_batch_larger_than_every_limit_is_given_whole() {
    on_node(5, config(1), async |node| {
        let topic = node.topic("t", 2).await;
        let mut client = node.connect(0).await;
        fill(&mut client, &topic, 0, 2, 5000).await;
        fill(&mut client, &topic, 1, 2, 5000).await;
        for version in versions(ApiKey::Fetch) {
            let mut fetch =
                Fetch { partition_bytes: 1, ..Fetch::new(&topic, &[(1, 0), (0, 0)]) }.version(version);
            fetch.request.max_bytes = 1;
            let fetched = fetch.call(&mut client).await;
            let given: Vec<_> =
                fetched.partitions.iter().map(|p| (p.index, split(&p.records).len())).collect();
            assert_eq!(given, [(1, 1), (0, 0)], "v{version}: one batch, of the first partition asked for");
            assert!(fetched.partitions.iter().all(|partition| partition.error.is_none()));
        }
    });
}

#[test]
fn an_empty_first_partition_leaves_the_right_to_a_large_batch_to_the_next() {
    on_node(6, config(1), async |node| {
        let topic = node.topic("t", 3).await;
        let mut client = node.connect(0).await;
        fill(&mut client, &topic, 1, 1, 5000).await;
        fill(&mut client, &topic, 2, 1, 5000).await;
        let mut fetch = Fetch { partition_bytes: 1, ..Fetch::new(&topic, &[(0, 0), (1, 0), (2, 0)]) };
        fetch.request.max_bytes = 1;
        let fetched = fetch.call(&mut client).await;
        let given: Vec<_> = fetched.partitions.iter().map(|p| split(&p.records).len()).collect();
        assert_eq!(given, [0, 1, 0]);
    });
}

#[test]
fn limits_hold_for_a_partition_and_for_the_whole() {
    on_node(7, config(1), async |node| {
        let topic = node.topic("t", 2).await;
        let mut client = node.connect(0).await;
        fill(&mut client, &topic, 0, 10, 1000).await;
        fill(&mut client, &topic, 1, 10, 1000).await;
        let batch_bytes = i32::try_from(large(1000).len()).unwrap();
        for version in versions(ApiKey::Fetch) {
            let mut fetch = Fetch::new(&topic, &[(0, 0), (1, 0)]).version(version);
            fetch.partition_bytes = 4 * batch_bytes + 1;
            fetch.request.max_bytes = 6 * batch_bytes + 1;
            let fetched = fetch.call(&mut client).await;
            let given: Vec<_> = fetched.partitions.iter().map(|p| split(&p.records).len()).collect();
            assert_eq!(given, [4, 2], "v{version}");
        }
    });
}

#[test]
fn the_brokers_own_limit_holds_whatever_is_asked() {
    on_node(8, config_with(1, &[("fetch.max.bytes", "5000")]), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        fill(&mut client, &topic, 0, 10, 1000).await;
        let fetched = Fetch::at(&topic, 0, 0).call(&mut client).await.only();
        assert_eq!(split(&fetched.records).len(), 4);
        assert_eq!(read_all(&mut client, &topic, 0).await.len(), 10);
    });
}

#[test]
fn partitions_and_topics_are_answered_in_the_order_asked() {
    on_node(9, config(1), async |node| {
        let (one, other) = (node.topic("one", 3).await, node.topic("other", 2).await);
        let mut client = node.connect(0).await;
        let partition =
            |partition| FetchPartition { partition, partition_max_bytes: 1000, ..FetchPartition::default() };
        let topics = vec![
            FetchTopic { topic_id: other.id, partitions: vec![partition(1)], ..FetchTopic::default() },
            FetchTopic {
                topic_id: one.id,
                partitions: vec![partition(2), partition(0)],
                ..FetchTopic::default()
            },
            FetchTopic { topic_id: other.id, partitions: vec![partition(0)], ..FetchTopic::default() },
        ];
        let answer = client.ask(FETCH, &FetchRequest { topics, ..FetchRequest::default() }).await;
        let response = answer.body();
        let order: Vec<_> = response
            .responses
            .iter()
            .map(|topic| {
                (topic.topic_id, topic.partitions.iter().map(|p| p.partition_index).collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(order, [(other.id, vec![1]), (one.id, vec![2, 0]), (other.id, vec![0])]);
    });
}

#[test]
fn what_no_longer_is_in_memory_is_read_from_the_disk() {
    on_node(10, config(1), async |node| {
        let topic = node.topic_with("t", 1, &[("segment.bytes", "1048576")]).await;
        let mut client = node.connect(0).await;
        fill(&mut client, &topic, 0, 40, 100_000).await;
        let values = |read: Vec<(i64, String)>| {
            read.into_iter().map(|(offset, value)| (offset, value.len())).collect::<Vec<_>>()
        };
        let expected: Vec<_> = (0..40).map(|offset| (offset, 100_000)).collect();
        assert_eq!(values(read_all(&mut client, &topic, 0).await), expected);
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        let mut client = node.connect(0).await;
        assert_eq!(values(read_all(&mut client, &topic, 0).await), expected);
        let store = node.snapshot(0).await.store;
        assert!(store.bytes_read_warm + store.bytes_read_cold > 4_000_000, "{store:?}");
    });
}

#[test]
fn one_request_may_read_from_memory_and_from_the_disk() {
    on_node(11, config(1), async |node| {
        let topic = node.topic("t", 2).await;
        let mut client = node.connect(0).await;
        fill(&mut client, &topic, 0, 5, 20_000).await;
        let node = node.restart().await;
        let mut client = node.connect(0).await;
        fill(&mut client, &topic, 0, 5, 20_000).await;
        fill(&mut client, &topic, 1, 5, 20_000).await;
        let fetched = Fetch::new(&topic, &[(0, 0), (1, 0), (0, 7)]).call(&mut client).await;
        let given: Vec<_> = fetched.partitions.iter().map(|p| split(&p.records).len()).collect();
        assert_eq!(given, [10, 5, 3]);
    });
}
