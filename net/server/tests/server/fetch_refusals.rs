//! Fetch: what is refused, with the code that clients depend on.

use net_wire::messages::LeaderIdAndEpoch;
use net_wire::messages::fetch::ReplicaState;
use net_wire::{ApiKey, ErrorCode, Uuid};
use sim::CrashMode;

use crate::batches::{batch, read};
use crate::calls::{Fetch, Topic, impossible_topic_names, produce};
use crate::node::{FIRST_BROKER, config, on_node};
use crate::versions;

#[test]
fn what_is_not_there_is_refused_by_name_with_3_and_by_id_with_100() {
    on_node(1, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::Fetch) {
            let missing = Topic::missing();
            let no_topic = Fetch::at(&missing, 0, 0).version(version).call(&mut client).await.only();
            let expected = if version >= 13 {
                ErrorCode::UNKNOWN_TOPIC_ID
            } else {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            };
            assert_eq!(no_topic.error, expected, "v{version}");
            for partition in [1, i32::MAX, -1] {
                let no_partition =
                    Fetch::at(&topic, partition, 0).version(version).call(&mut client).await.only();
                assert_eq!(
                    no_partition.error,
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    "v{version} {partition}"
                );
                assert_eq!(no_partition.high_watermark, -1);
            }
        }
        let no_id = Topic { id: Uuid::ZERO, ..Topic::missing() };
        let refused = Fetch::at(&no_id, 0, 0).call(&mut client).await.only();
        assert_eq!(refused.error, ErrorCode::UNKNOWN_TOPIC_ID);
    });
}

#[test]
fn a_name_that_no_topic_can_have_is_one_that_no_topic_has() {
    on_node(12, config(1), async |node| {
        let mut client = node.connect(0).await;
        for name in impossible_topic_names() {
            let topic = Topic { name, ..Topic::missing() };
            for version in ApiKey::Fetch.versions().min..13 {
                let refused = Fetch::at(&topic, 0, 0).version(version).call(&mut client).await.only();
                assert_eq!(refused.error, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "v{version}");
            }
        }
    });
}

#[test]
fn a_shard_that_does_not_lead_the_partition_says_who_does() {
    on_node(2, config(2), async |node| {
        let topic = node.topic("t", 2).await;
        let other = FIRST_BROKER + 1;
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::Fetch) {
            let fetch = Fetch::at(&topic, topic.partition_of(other), 0).version(version);
            let fetched = fetch.call(&mut client).await;
            let endpoint = fetched.endpoints.iter().find(|(broker, _)| *broker == other).copied();
            let expected = (version >= 16).then_some((other, i32::from(node.address(1).port())));
            assert_eq!(endpoint, expected, "v{version}");
            let partition = fetched.only();
            assert_eq!(partition.error, ErrorCode::NOT_LEADER_OR_FOLLOWER, "v{version}");
            let told = LeaderIdAndEpoch { leader_id: other, leader_epoch: 0 };
            assert_eq!(partition.leader, if version >= 12 { told } else { LeaderIdAndEpoch::default() });
        }
    });
}

#[test]
fn clients_of_an_older_leader_are_fenced_and_those_of_a_newer_one_told_to_wait() {
    on_node(3, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        produce(&mut node.connect(0).await, &topic, 0, &batch(&["a"])).await;
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        let epoch = node.describe("t").await.epochs[0];
        assert_eq!(epoch, 1);
        let mut client = node.connect(0).await;
        for version in 9..=ApiKey::Fetch.versions().max {
            let expected = [
                (-1, ErrorCode::NONE),
                (epoch, ErrorCode::NONE),
                (epoch - 1, ErrorCode::FENCED_LEADER_EPOCH),
                (epoch + 1, ErrorCode::UNKNOWN_LEADER_EPOCH),
            ];
            for (known, error) in expected {
                let fetch = Fetch::at(&topic, 0, 0).version(version).epoch(known);
                let fetched = fetch.call(&mut client).await.only();
                assert_eq!(fetched.error, error, "epoch {known} in v{version}");
                assert_eq!(read(&fetched.records).len(), usize::from(error.is_none()));
            }
        }
    });
}

#[test]
fn who_says_to_be_a_replica_gets_no_records_from_the_clients_listener() {
    on_node(6, config(1), async |node| {
        let topic = node.topic("t", 1).await;
        produce(&mut node.connect(0).await, &topic, 0, &batch(&["a"])).await;
        for version in versions(ApiKey::Fetch) {
            let mut client = node.connect(0).await;
            let mut fetch = Fetch::at(&topic, 0, 0).version(version);
            if version >= 15 {
                fetch.request.replica_state = ReplicaState { replica_id: 2, replica_epoch: 1 };
            } else {
                fetch.request.replica_id = 2;
            }
            if version < 7 {
                // There is no field for an error of the request as a whole.
                client.send(version, &fetch.request()).await;
                client.is_closed().await;
                continue;
            }
            let fetched = fetch.call(&mut client).await;
            assert_eq!(fetched.error, ErrorCode::CLUSTER_AUTHORIZATION_FAILED, "v{version}");
            assert_eq!(fetched.partitions, []);
        }
    });
}

#[test]
fn versions_that_are_not_served_close_the_connection() {
    on_node(7, config(1), async |node| {
        for version in [0, 3, 18, -1] {
            let mut client = node.connect(0).await;
            let frame = client.odd_frame(1, version, &[0; 40]);
            client.send_bytes(frame).await;
            client.is_closed().await;
        }
    });
}
