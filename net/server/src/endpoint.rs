//! Endpoints: what clients are told of where a shard can be reached.
//!
//! A client opens a connection to the broker that leads a partition. Each shard is such a broker, with an address of
//! its own, so a client's batches go straight to the core that owns the partition.

use std::net::{IpAddr, SocketAddr};

use engine_record::{NodeId, ShardId};
use net_wire::messages::NodeEndpoint;
use replication::metadata::commands::ListenerEndpoint;
use replication::metadata::image::{Image, broker_id};

use crate::config::ListenerConfig;

/// The name of the clients' listener in the metadata.
pub(crate) const LISTENER: &str = "PLAINTEXT";

/// Where clients reach one shard, and the id they know it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Broker id.
    pub broker: i32,
    /// A host name or address.
    pub host: String,
    /// A port.
    pub port: u16,
}

impl Endpoint {
    /// As answers name it beside a leader's id.
    pub(crate) fn on_wire(&self) -> NodeEndpoint<'_> {
        NodeEndpoint { node_id: self.broker, host: &self.host, port: i32::from(self.port), rack: None }
    }
}

/// What a node registers for a shard bound to `bound`.
pub(crate) fn register(listener: &ListenerConfig, shard: ShardId, bound: SocketAddr) -> ListenerEndpoint {
    ListenerEndpoint {
        listener: LISTENER.to_owned(),
        shard,
        host: listener.advertised_host.clone().unwrap_or_else(|| bound.ip().to_string()),
        port: listener.advertised_port.map_or_else(|| bound.port(), |base| base.saturating_add(shard.0)),
    }
}

/// All endpoints of the cluster, as a client is told that reached `reached` on node `here`.
///
/// Where the node here advertises no host, the client is told the address it reached, which certainly works for it; an
/// unspecified address (`0.0.0.0`) is never told.
pub(crate) fn told(image: &Image, listener: &ListenerConfig, here: NodeId, reached: IpAddr) -> Vec<Endpoint> {
    let as_reached = reached.to_canonical().to_string();
    let mut endpoints = Vec::new();
    for node in image.nodes() {
        let override_host = node.id == here && listener.advertised_host.is_none();
        for shard in (0..node.shards).map(ShardId) {
            let Some(registered) = node.endpoint(LISTENER, shard) else { continue };
            let host = if override_host { &as_reached } else { &registered.host };
            endpoints.push(Endpoint {
                broker: broker_id(node.id, shard),
                host: host.clone(),
                port: registered.port,
            });
        }
    }
    endpoints
}

/// What an answer takes, at most, that says as much: an estimate in bytes.
pub(crate) fn told_bytes(image: &Image) -> u64 {
    /// An endpoint as it is found, put into an answer and encoded, but for its host's name.
    const ENDPOINT_BYTES: usize = 256;
    /// Everything else.
    const ANSWER_BYTES: usize = 512;
    let host = |endpoint: &ListenerEndpoint| ENDPOINT_BYTES + 4 * endpoint.host.len();
    let endpoints = image.nodes().flat_map(|node| &node.endpoints).map(host);
    (ANSWER_BYTES + endpoints.sum::<usize>()) as u64
}

#[cfg(test)]
mod tests {
    use replication::metadata::commands::{Command, Incarnation, RegisterNode};
    use replication::metadata::image::ClusterId;

    use super::*;

    fn listener(host: Option<&str>, port: Option<u16>) -> ListenerConfig {
        ListenerConfig {
            address: "0.0.0.0".parse().unwrap(),
            port: 9092,
            advertised_host: host.map(str::to_owned),
            advertised_port: port,
        }
    }

    /// What a client on `reached` is told by node 3 with two shards.
    fn told_to(listener: &ListenerConfig, reached: &str) -> Vec<Endpoint> {
        let bound = |shard: u16| SocketAddr::new(listener.address, 9092 + shard);
        let endpoints = (0..2).map(|shard| register(listener, ShardId(shard), bound(shard))).collect();
        let mut image = Image::new(ClusterId([1; 16]));
        image.apply(
            1,
            &Command::RegisterNode(RegisterNode {
                node: NodeId(3),
                directory_id: 1,
                incarnation: Incarnation(1),
                shards: 2,
                endpoints,
                clean_start: true,
            }),
        );
        told(&image, listener, NodeId(3), reached.parse().unwrap())
    }

    #[test]
    fn a_client_is_told_the_address_it_reached_and_each_shards_port() {
        let told = told_to(&listener(None, None), "127.0.0.1");
        let expected = |broker, port| Endpoint { broker, host: "127.0.0.1".to_owned(), port };
        assert_eq!(told, [expected(3000, 9092), expected(3001, 9093)]);
    }

    #[test]
    fn a_client_is_told_the_advertised_address_where_there_is_one() {
        let told = told_to(&listener(Some("kafka.example"), Some(19092)), "127.0.0.1");
        let expected = |broker, port| Endpoint { broker, host: "kafka.example".to_owned(), port };
        assert_eq!(told, [expected(3000, 19092), expected(3001, 19093)]);
    }

    #[test]
    fn an_ipv4_address_seen_through_an_ipv6_socket_is_told_as_ipv4() {
        assert_eq!(told_to(&listener(None, None), "::ffff:127.0.0.1")[0].host, "127.0.0.1");
    }
}
