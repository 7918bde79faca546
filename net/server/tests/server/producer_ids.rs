//! InitProducerId: identities that nobody else ever gets.

use std::collections::BTreeSet;

use net_wire::messages::InitProducerIdRequest;
use net_wire::{ApiKey, ErrorCode};
use sim::CrashMode;

use crate::node::{Node, config, on_node};
use crate::versions;

fn request(transactional_id: Option<&str>) -> InitProducerIdRequest<'_> {
    InitProducerIdRequest {
        transactional_id,
        transaction_timeout_ms: 60_000,
        ..InitProducerIdRequest::default()
    }
}

/// Takes ids from every shard, each of which must be new.
async fn take(node: &Node, shards: u16, taken: &mut BTreeSet<i64>) {
    for _ in 0..20 {
        for shard in 0..shards {
            let id = node.producer_id(shard).await;
            assert!(id >= 0 && taken.insert(id), "producer id {id} was given twice");
        }
    }
}

#[test]
fn every_version_gives_a_fresh_id_and_epoch_0() {
    on_node(1, config(1), async |node| {
        let mut client = node.connect(0).await;
        let mut taken = BTreeSet::new();
        for version in versions(ApiKey::InitProducerId) {
            let response = client.ask(version, &request(None)).await.body();
            assert_eq!((response.error_code, response.producer_epoch), (ErrorCode::NONE, 0), "v{version}");
            assert!(response.producer_id >= 0 && taken.insert(response.producer_id), "v{version}");
        }
    });
}

#[test]
fn half_an_identity_is_refused() {
    on_node(2, config(1), async |node| {
        let mut client = node.connect(0).await;
        for (producer_id, producer_epoch) in [(5, -1), (-1, 5)] {
            let half = InitProducerIdRequest { producer_id, producer_epoch, ..request(None) };
            let response = client.ask(5, &half).await.body();
            let answered = (response.error_code, response.producer_id, response.producer_epoch);
            assert_eq!(answered, (ErrorCode::INVALID_REQUEST, -1, -1));
        }
    });
}

#[test]
fn an_identity_held_already_is_replaced_by_a_fresh_one() {
    on_node(2, config(1), async |node| {
        let mut client = node.connect(0).await;
        for version in 3..=5 {
            let held = client.ask(version, &request(None)).await.body();
            let again =
                InitProducerIdRequest { producer_id: held.producer_id, producer_epoch: 0, ..request(None) };
            let response = client.ask(version, &again).await.body();
            assert_eq!(response.error_code, ErrorCode::NONE);
            assert!(
                (response.producer_id, response.producer_epoch) > (held.producer_id, held.producer_epoch),
                "the same identity would let old batches pass for new ones"
            );
        }
    });
}

#[test]
fn transactional_ids_are_refused() {
    on_node(3, config(1), async |node| {
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::InitProducerId) {
            let response = client.ask(version, &request(Some("tx"))).await.body();
            assert_eq!(response.error_code, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
            assert_eq!(response.producer_id, -1);
            let response = client.ask(version, &request(Some(""))).await.body();
            assert_eq!(response.error_code, ErrorCode::INVALID_REQUEST);
        }
    });
}

#[test]
fn ids_are_distinct_over_shards_stops_and_crashes() {
    on_node(4, config(3), async |node| {
        let mut taken = BTreeSet::new();
        take(&node, 3, &mut taken).await;
        let node = node.restart().await;
        take(&node, 3, &mut taken).await;
        let node = node.restart_after(CrashMode::LoseAllUnflushed).await;
        take(&node, 3, &mut taken).await;
        let node = node.restart_after(CrashMode::KeepRandomSectors).await;
        take(&node, 3, &mut taken).await;
        assert_eq!(taken.len(), 4 * 3 * 20);
    });
}
