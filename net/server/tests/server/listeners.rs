//! Several listeners: each client is told the endpoints of the one it came by.

use std::net::SocketAddr;

use net_server::config::{Advertised, Config, Limits, ListenerConfig};
use net_wire::ErrorCode;
use net_wire::messages::{DescribeClusterRequest, MetadataRequest};

use crate::batches::batch;
use crate::calls::{Fetch, Produce};
use crate::client::Client;
use crate::node::{Node, config, on_node};

/// Where the second listener is bound.
const OUTER_PORT: u16 = 19_092;
/// What its clients are told.
const ADVERTISED: [(&str, u16); 2] = [("outer-a.example", 7000), ("outer-b.example", 5000)];

/// Two shards with two listeners: the one that every node has, and one behind a translation of addresses.
fn two_listeners() -> Config {
    let plain = config(2);
    let endpoints = ADVERTISED.map(|(host, port)| (host.to_owned(), port));
    let outer = ListenerConfig {
        name: "OUTER".to_owned(),
        port: OUTER_PORT,
        advertised: Advertised::Each(endpoints.to_vec()),
        ..plain.listeners[0].clone()
    };
    Config { listeners: vec![plain.listeners[0].clone(), outer], ..plain }
}

/// A connection to a shard through the second listener.
async fn connect_outside(node: &Node, shard: u16) -> Client {
    let address = SocketAddr::new(node.address(0).ip(), OUTER_PORT + shard);
    Client::connect(&node.setting().io, address).await.unwrap()
}

/// Broker id, host and port of each broker that the client is told.
async fn brokers(client: &mut Client) -> Vec<(i32, String, i32)> {
    let metadata = client.ask(13, &MetadataRequest::default()).await;
    let metadata = metadata.body().brokers.into_iter();
    let told: Vec<_> = metadata.map(|broker| (broker.node_id, broker.host.to_owned(), broker.port)).collect();
    let described = client.ask(2, &DescribeClusterRequest::default()).await;
    let described = described.body().brokers.into_iter();
    let described: Vec<_> =
        described.map(|broker| (broker.broker_id, broker.host.to_owned(), broker.port)).collect();
    assert_eq!(told, described);
    told
}

#[test]
fn each_client_is_told_the_endpoints_of_the_listener_it_came_by() {
    on_node(1, two_listeners(), async |node| {
        let host = node.address(0).ip().to_string();
        let inner = [(1000, host.clone(), 9092), (1001, host, 9093)];
        let [(first, first_port), (second, second_port)] = ADVERTISED;
        let outer = [
            (1000, first.to_owned(), i32::from(first_port)),
            (1001, second.to_owned(), i32::from(second_port)),
        ];
        for shard in 0..2 {
            assert_eq!(brokers(&mut node.connect(shard).await).await, inner);
            assert_eq!(brokers(&mut connect_outside(&node, shard).await).await, outer);
        }
    });
}

#[test]
fn a_client_at_the_wrong_shard_is_sent_to_the_right_one_by_its_own_listener() {
    on_node(2, two_listeners(), async |node| {
        let topic = node.topic("t", 2).await;
        let partition = topic.partition_of(1001);
        let records = batch(&["a"]);
        for (mut client, port) in [(node.connect(0).await, 9093), (connect_outside(&node, 0).await, 5000)] {
            let produced = Produce::new(&topic, partition, &records).call(&mut client).await;
            assert_eq!(produced.error, ErrorCode::NOT_LEADER_OR_FOLLOWER);
            assert!(produced.endpoints.contains(&(1001, port)), "{produced:?}");
            let fetched = Fetch::at(&topic, partition, 0).call(&mut client).await;
            assert!(fetched.endpoints.contains(&(1001, port)), "{fetched:?}");
        }
        let mut outside = connect_outside(&node, 1).await;
        assert_eq!(Produce::new(&topic, partition, &records).call(&mut outside).await.error, ErrorCode::NONE);
    });
}

#[test]
fn what_each_shard_has_bound_is_told_by_listener() {
    on_node(3, two_listeners(), async |node| {
        for (shard, opened) in (0..).zip(node.opened()) {
            let ports: Vec<_> = opened.addresses.iter().map(SocketAddr::port).collect();
            assert_eq!(ports, [9092 + shard, OUTER_PORT + shard]);
        }
    });
}

#[test]
fn the_limit_of_connections_is_the_shards_whatever_they_come_by() {
    let limits = Limits { connections: 2, ..Limits::default() };
    on_node(4, Config { limits, ..two_listeners() }, async |node| {
        let mut inner = node.connect(0).await;
        brokers(&mut inner).await;
        let mut outer = connect_outside(&node, 0).await;
        brokers(&mut outer).await;
        for mut beyond in [node.connect(0).await, connect_outside(&node, 0).await] {
            beyond.send(13, &MetadataRequest::default()).await;
            beyond.is_closed().await;
        }
        assert_eq!(node.snapshot(0).await.connections_refused, 2);
        brokers(&mut node.connect(1).await).await;
    });
}

#[test]
fn other_listeners_at_the_next_start_are_what_is_told_then() {
    on_node(5, two_listeners(), async |node| {
        let (setting, config) = node.stop().await;
        let inner = ListenerConfig { name: "INNER".to_owned(), ..config.listeners[0].clone() };
        let node = crate::node::start(setting, Config { listeners: vec![inner], ..config }).await.unwrap();
        let told = brokers(&mut node.connect(0).await).await;
        assert!(told.iter().map(|(broker, _, port)| (*broker, *port)).eq([(1000, 9092), (1001, 9093)]));
    });
}
