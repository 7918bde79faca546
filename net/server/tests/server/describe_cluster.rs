//! DescribeCluster.

use net_wire::messages::DescribeClusterRequest;
use net_wire::{ApiKey, ErrorCode};

use crate::node::{FIRST_BROKER, config, on_node};
use crate::versions;

#[test]
fn every_version_names_each_shard_as_a_broker_that_can_be_reached() {
    on_node(1, config(2), async |node| {
        for shard in 0..2 {
            let mut client = node.connect(shard).await;
            for version in versions(ApiKey::DescribeCluster) {
                let answer = client.ask(version, &DescribeClusterRequest::default()).await;
                let response = answer.body();
                assert_eq!((response.error_code, response.error_message), (ErrorCode::NONE, None));
                assert_eq!((response.controller_id, response.cluster_id.len()), (FIRST_BROKER, 22));
                assert_eq!(response.cluster_authorized_operations, i32::MIN, "it was not asked for");
                let host = node.address(0).ip().to_string();
                let brokers: Vec<_> = response
                    .brokers
                    .iter()
                    .map(|broker| (broker.broker_id, broker.host, broker.port, broker.is_fenced))
                    .collect();
                assert_eq!(brokers, [(1000, host.as_str(), 9092, false), (1001, host.as_str(), 9093, false)]);
            }
        }
    });
}

#[test]
fn what_the_client_may_do_is_told_where_it_is_asked_for() {
    on_node(2, config(1), async |node| {
        let mut client = node.connect(0).await;
        for version in versions(ApiKey::DescribeCluster) {
            let request = DescribeClusterRequest {
                include_cluster_authorized_operations: true,
                ..DescribeClusterRequest::default()
            };
            let operations = client.ask(version, &request).await.body().cluster_authorized_operations;
            let create = 1 << 5;
            assert!(operations > 0 && operations & create != 0, "v{version}: {operations:#b}");
        }
    });
}

#[test]
fn endpoints_other_than_brokers_are_refused() {
    on_node(3, config(1), async |node| {
        let mut client = node.connect(0).await;
        for version in 1..=2 {
            for (endpoint_type, error) in [(2, 114), (0, 115), (9, 115), (-1, 115)] {
                let request = DescribeClusterRequest { endpoint_type, ..DescribeClusterRequest::default() };
                let answer = client.ask(version, &request).await;
                let response = answer.body();
                assert_eq!(response.error_code, ErrorCode(error), "type {endpoint_type}");
                assert!(response.error_message.is_some() && response.brokers.is_empty());
            }
        }
    });
}
