//! A topic that is deleted and created again under its name is another one: who goes by its id is told so, who goes by its
//! name sees the new one.

use net_wire::messages::list_offsets::{EARLIEST, LATEST, ListOffsetsPartition, ListOffsetsTopic};
use net_wire::messages::metadata::MetadataRequestTopic;
use net_wire::messages::offset_for_leader_epoch::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use net_wire::messages::{ListOffsetsRequest, MetadataRequest, OffsetForLeaderEpochRequest};
use net_wire::{ApiKey, ErrorCode};
use sim::CrashMode;

use crate::batches::{batch, read};
use crate::calls::{Fetch, Produce, Topic, produce, read_all};
use crate::client::Client;
use crate::node::{Node, config, on_node};
use crate::versions;

/// From these versions on topics are named by id.
const PRODUCE_BY_ID: i16 = 13;
const FETCH_BY_ID: i16 = 13;
const METADATA_BY_ID: core::ops::RangeInclusive<i16> = 12..=13;
const SESSIONS_FROM: i16 = 7;

/// A topic with three records in its one partition, and the empty one that has its name now.
async fn recreated(node: &Node) -> (Topic, Topic) {
    let old = node.topic("t", 1).await;
    produce(&mut node.connect(0).await, &old, 0, &batch(&["old", "old", "old"])).await;
    assert_eq!(node.delete(&old).await, ErrorCode::NONE);
    let new = node.topic("t", 1).await;
    assert_ne!(old.id, new.id);
    (old, new)
}

/// The error and the name told of each of these topics.
async fn metadata(client: &mut Client, version: i16, topics: &[&Topic]) -> Vec<(ErrorCode, Option<String>)> {
    let by_id = |topic: &&Topic| MetadataRequestTopic { name: None, topic_id: topic.id };
    let topics = Some(topics.iter().map(by_id).collect());
    let request = MetadataRequest { topics, ..MetadataRequest::default() };
    let answer = client.ask(version, &request).await;
    let told = answer.body().topics.into_iter();
    told.map(|topic| (topic.error_code, topic.name.map(str::to_owned))).collect()
}

#[test]
fn metadata_by_id_know_the_new_one_alone() {
    on_node(1, config(1), async |node| {
        let (old, new) = recreated(&node).await;
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        let mut client = node.connect(0).await;
        for version in METADATA_BY_ID {
            let told = metadata(&mut client, version, &[&old, &new]).await;
            let expected = [(ErrorCode::UNKNOWN_TOPIC_ID, None), (ErrorCode::NONE, Some("t".to_owned()))];
            assert_eq!(told, expected, "v{version}");
        }
        assert_eq!(node.delete(&old).await, ErrorCode::UNKNOWN_TOPIC_ID);
        assert_eq!(node.describe("t").await.id, new.id);
    });
}

#[test]
fn a_producer_by_the_old_id_appends_nothing_and_one_by_name_to_the_new_one() {
    on_node(2, config(1), async |node| {
        let (old, new) = recreated(&node).await;
        let mut client = node.connect(0).await;
        let records = batch(&["late"]);
        let (mut refused, mut taken) = (0, 0);
        for version in versions(ApiKey::Produce) {
            let produced = Produce { version, ..Produce::new(&old, 0, &records) }.call(&mut client).await;
            if version >= PRODUCE_BY_ID {
                assert_eq!(produced.error, ErrorCode::UNKNOWN_TOPIC_ID, "v{version}");
                refused += 1;
            } else {
                assert_eq!((produced.error, produced.base_offset), (ErrorCode::NONE, taken), "v{version}");
                taken += 1;
            }
        }
        assert!(refused > 0 && taken > 0);
        let kept: Vec<_> = (0..taken).map(|offset| (offset, "late".to_owned())).collect();
        assert_eq!(read_all(&mut client, &new, 0).await, kept);
    });
}

#[test]
fn a_fetch_by_the_old_id_is_told_for_each_partition_and_one_by_name_reads_the_new_one() {
    on_node(3, config(1), async |node| {
        let (old, new) = recreated(&node).await;
        let mut client = node.connect(0).await;
        produce(&mut client, &new, 0, &batch(&["new"])).await;
        for version in versions(ApiKey::Fetch) {
            let fetched = Fetch::new(&old, &[(0, 0), (1, 0)]).version(version).call(&mut client).await;
            assert_eq!(fetched.error, ErrorCode::NONE, "v{version}");
            let errors: Vec<_> = fetched.partitions.iter().map(|told| told.error).collect();
            if version >= FETCH_BY_ID {
                assert_eq!(errors, [ErrorCode::UNKNOWN_TOPIC_ID; 2], "v{version}");
            } else {
                assert_eq!(errors, [ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION], "v{version}");
                assert_eq!(read(&fetched.partitions[0].records), [(0, "new".to_owned())], "v{version}");
            }
            let behind = Fetch::at(&new, 0, 3).version(version).call(&mut client).await.only();
            assert_eq!(behind.error, ErrorCode::OFFSET_OUT_OF_RANGE, "v{version}");
        }
    });
}

#[test]
fn a_session_by_id_is_told_of_the_old_one_each_time_and_may_go_on_with_the_new_one() {
    on_node(4, config(1), async |node| {
        for version in FETCH_BY_ID..=ApiKey::Fetch.versions().max {
            let old = node.topic("t", 2).await;
            let mut client = node.connect(0).await;
            let begun = Fetch::new(&old, &[(0, 0), (1, 0)]).version(version).session(0, 0);
            let id = begun.call(&mut client).await.session_id;
            assert!(id > 0);
            assert_eq!(node.delete(&old).await, ErrorCode::NONE);
            let new = node.topic("t", 2).await;
            produce(&mut client, &new, 1, &batch(&["new"])).await;
            let go_on = |topic, epoch, from: &[(i32, i64)]| {
                Fetch::new(topic, from).version(version).session(id, epoch)
            };
            for epoch in [1, 2] {
                let fetched = go_on(&old, epoch, &[]).call(&mut client).await;
                assert_eq!((fetched.error, fetched.session_id), (ErrorCode::NONE, id), "v{version}");
                let errors: Vec<_> = fetched.partitions.iter().map(|told| (told.index, told.error)).collect();
                assert_eq!(errors, [0, 1].map(|index| (index, ErrorCode::UNKNOWN_TOPIC_ID)), "v{version}");
            }
            let request = go_on(&new, 3, &[(0, 0), (1, 0)]);
            let answer = client.ask(version, &request.request()).await;
            let response = answer.body();
            let of = |topic: &Topic| response.responses.iter().find(|told| told.topic_id == topic.id);
            let errors = |topic| of(topic).unwrap().partitions.iter().map(|told| told.error_code);
            assert!(errors(&old).eq([ErrorCode::UNKNOWN_TOPIC_ID; 2]), "v{version}: {response:?}");
            assert!(errors(&new).eq([ErrorCode::NONE; 2]), "v{version}: {response:?}");
            let records = of(&new).unwrap().partitions[1].records.unwrap();
            assert_eq!(read(records), [(0, "new".to_owned())], "v{version}");
            assert_eq!(node.delete(&new).await, ErrorCode::NONE);
        }
    });
}

#[test]
fn a_session_by_name_goes_on_with_the_new_one() {
    on_node(5, config(1), async |node| {
        for version in SESSIONS_FROM..FETCH_BY_ID {
            let old = node.topic("t", 1).await;
            let mut client = node.connect(0).await;
            produce(&mut client, &old, 0, &batch(&["old", "old"])).await;
            let begun = Fetch::at(&old, 0, 2).version(version).session(0, 0);
            let id = begun.call(&mut client).await.session_id;
            assert_eq!(node.delete(&old).await, ErrorCode::NONE);
            let new = node.topic("t", 1).await;
            produce(&mut client, &new, 0, &batch(&["new"])).await;
            let beyond = Fetch::new(&new, &[]).version(version).session(id, 1).call(&mut client).await.only();
            assert_eq!(beyond.error, ErrorCode::OFFSET_OUT_OF_RANGE, "v{version}");
            let moved = Fetch::at(&new, 0, 0).version(version).session(id, 2).call(&mut client).await.only();
            assert_eq!(read(&moved.records), [(0, "new".to_owned())], "v{version}");
            assert_eq!(node.delete(&new).await, ErrorCode::NONE);
        }
    });
}

async fn offset(client: &mut Client, version: i16, timestamp: i64) -> (ErrorCode, i64) {
    let partitions = vec![ListOffsetsPartition { timestamp, ..ListOffsetsPartition::default() }];
    let topics = vec![ListOffsetsTopic { name: "t", partitions }];
    let request = ListOffsetsRequest { replica_id: -1, topics, ..ListOffsetsRequest::default() };
    let answer = client.ask(version, &request).await;
    let found = &answer.body().topics[0].partitions[0];
    (found.error_code, found.offset)
}

async fn end_of_epoch(client: &mut Client, version: i16) -> (ErrorCode, i32, i64) {
    let partitions = vec![OffsetForLeaderPartition::default()];
    let topics = vec![OffsetForLeaderTopic { topic: "t", partitions }];
    let answer = client.ask(version, &OffsetForLeaderEpochRequest { replica_id: -1, topics }).await;
    let found = answer.body().topics[0].partitions[0];
    (found.error_code, found.leader_epoch, found.end_offset)
}

#[test]
fn offsets_and_epochs_by_name_are_those_of_the_new_one_from_0_on() {
    on_node(6, config(1), async |node| {
        let (_, new) = recreated(&node).await;
        let mut client = node.connect(0).await;
        for end in [0, 1] {
            for version in versions(ApiKey::ListOffsets) {
                assert_eq!(offset(&mut client, version, EARLIEST).await, (ErrorCode::NONE, 0), "v{version}");
                assert_eq!(offset(&mut client, version, LATEST).await, (ErrorCode::NONE, end), "v{version}");
            }
            for version in versions(ApiKey::OffsetForLeaderEpoch) {
                assert_eq!(end_of_epoch(&mut client, version).await, (ErrorCode::NONE, 0, end), "v{version}");
            }
            if end == 0 {
                produce(&mut client, &new, 0, &batch(&["new"])).await;
            }
        }
    });
}
