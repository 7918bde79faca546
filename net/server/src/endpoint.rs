//! Endpoints: what clients are told of where a shard can be reached.
//!
//! A client opens a connection to the broker that leads a partition. Each shard is such a broker, with an address of
//! its own on each listener, so a client's batches go straight to the core that owns the partition. A client is told the
//! endpoints of the listener that it came by, and no other: those it can reach.

use std::net::{IpAddr, SocketAddr};

use engine_record::{NodeId, ShardId};
use net_wire::messages::NodeEndpoint;
use replication::metadata::commands::ListenerEndpoint;
use replication::metadata::image::{Image, broker_id};

use crate::config::{Advertised, ListenerConfig};

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

/// What a node registers for a shard that one of its listeners has bound to `bound`.
pub(crate) fn register(listener: &ListenerConfig, shard: ShardId, bound: SocketAddr) -> ListenerEndpoint {
    let (host, port) = match &listener.advertised {
        Advertised::AsReached => (bound.ip().to_string(), bound.port()),
        Advertised::Host { host, port } => {
            let port = port.map_or_else(|| bound.port(), |base| base.saturating_add(shard.0));
            (host.clone(), port)
        }
        Advertised::Each(endpoints) => {
            endpoints.get(usize::from(shard.0)).cloned().expect("each shard is advertised")
        }
    };
    ListenerEndpoint { listener: listener.name.clone(), shard, host, port }
}

/// All endpoints of the cluster, as a client is told that reached `reached` through `listener` on node `here`.
///
/// Where the node here advertises no host, the client is told the address it reached, which certainly works for it; an
/// unspecified address (`0.0.0.0`), which another node may have registered, is never told.
pub(crate) fn told(image: &Image, listener: &ListenerConfig, here: NodeId, reached: IpAddr) -> Vec<Endpoint> {
    let as_reached = reached.to_canonical().to_string();
    let mut endpoints = Vec::new();
    for node in image.nodes() {
        let is_as_reached = node.id == here && listener.advertised == Advertised::AsReached;
        for shard in (0..node.shards).map(ShardId) {
            let Some(registered) = node.endpoint(&listener.name, shard) else { continue };
            let host = if is_as_reached { &as_reached } else { &registered.host };
            if host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified()) {
                continue;
            }
            endpoints.push(Endpoint {
                broker: broker_id(node.id, shard),
                host: host.clone(),
                port: registered.port,
            });
        }
    }
    endpoints
}

/// The broker id under which clients know a shard: its own, or the node's where all shards have one address, which is
/// the first one's.
pub(crate) fn broker_of(image: &Image, node: NodeId, shard: ShardId) -> i32 {
    let is_one = image.node(node).is_some_and(|node| node.has_one_address());
    broker_id(node, if is_one { ShardId(0) } else { shard })
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

    fn listener(name: &str, advertised: Advertised) -> ListenerConfig {
        let address = "0.0.0.0".parse().unwrap();
        ListenerConfig { name: name.to_owned(), address, port: 9092, advertised }
    }

    fn on_host(host: &str, port: Option<u16>) -> Advertised {
        Advertised::Host { host: host.to_owned(), port }
    }

    /// The metadata once nodes with these listeners and two shards each have registered.
    fn image(nodes: &[(i32, &[&ListenerConfig])]) -> Image {
        let mut image = Image::new(ClusterId([1; 16]));
        for (index, (node, listeners)) in nodes.iter().enumerate() {
            let bound = |shard: u16| SocketAddr::from(([0, 0, 0, 0], 9092 + shard));
            let of_shard = |shard: u16| {
                listeners.iter().map(move |listener| register(listener, ShardId(shard), bound(shard)))
            };
            let registration = RegisterNode {
                node: NodeId(*node),
                directory_id: 1,
                incarnation: Incarnation(1),
                shards: 2,
                endpoints: (0..2).flat_map(of_shard).collect(),
                clean_start: true,
            };
            image.apply(index as u64 + 1, &Command::RegisterNode(registration));
        }
        image
    }

    /// What a client that reached `reached` through `listener` is told by node 3, which is alone.
    fn told_to(listener: &ListenerConfig, reached: &str) -> Vec<Endpoint> {
        told(&image(&[(3, &[listener])]), listener, NodeId(3), reached.parse().unwrap())
    }

    fn endpoint(broker: i32, host: &str, port: u16) -> Endpoint {
        Endpoint { broker, host: host.to_owned(), port }
    }

    #[test]
    fn a_client_is_told_the_address_it_reached_and_each_shards_port() {
        let told = told_to(&listener("PLAINTEXT", Advertised::AsReached), "127.0.0.1");
        assert_eq!(told, [endpoint(3000, "127.0.0.1", 9092), endpoint(3001, "127.0.0.1", 9093)]);
    }

    #[test]
    fn a_client_is_told_the_advertised_address_where_there_is_one() {
        let base = on_host("kafka.example", Some(19_092));
        let told = told_to(&listener("PLAINTEXT", base), "127.0.0.1");
        assert_eq!(told, [endpoint(3000, "kafka.example", 19_092), endpoint(3001, "kafka.example", 19_093)]);
        let own_ports = told_to(&listener("PLAINTEXT", on_host("h", None)), "127.0.0.1");
        assert_eq!(own_ports, [endpoint(3000, "h", 9092), endpoint(3001, "h", 9093)]);
    }

    #[test]
    fn each_shard_may_be_advertised_by_itself() {
        let each = Advertised::Each(vec![("a".to_owned(), 7), ("b".to_owned(), 5)]);
        let told = told_to(&listener("PLAINTEXT", each), "127.0.0.1");
        assert_eq!(told, [endpoint(3000, "a", 7), endpoint(3001, "b", 5)]);
    }

    #[test]
    fn a_client_is_told_the_endpoints_of_the_listener_it_came_by_on_every_node() {
        let (inner, outer) =
            (listener("INNER", on_host("in", Some(1))), listener("OUTER", on_host("out", Some(11))));
        let other = listener("OUTER", on_host("other", Some(21)));
        let image = image(&[(3, &[&inner, &outer]), (4, &[&other])]);
        let told = |listener| told(&image, listener, NodeId(3), "127.0.0.1".parse().unwrap());
        assert_eq!(told(&inner), [endpoint(3000, "in", 1), endpoint(3001, "in", 2)]);
        let expected = [(3000, "out", 11), (3001, "out", 12), (4000, "other", 21), (4001, "other", 22)];
        assert_eq!(told(&outer), expected.map(|(broker, host, port)| endpoint(broker, host, port)));
    }

    #[test]
    fn an_unspecified_address_is_never_told() {
        let reached = listener("PLAINTEXT", Advertised::AsReached);
        let image = image(&[(3, &[&reached]), (4, &[&reached])]);
        let told = told(&image, &reached, NodeId(3), "10.0.0.7".parse().unwrap());
        assert_eq!(told, [endpoint(3000, "10.0.0.7", 9092), endpoint(3001, "10.0.0.7", 9093)]);
    }

    #[test]
    fn a_shard_is_known_by_the_nodes_id_where_all_have_one_address() {
        let listener = listener("PLAINTEXT", Advertised::AsReached);
        let with = |shards: u16| {
            let bound = SocketAddr::from(([0, 0, 0, 0], 9092));
            let endpoint = |shard| register(&listener, ShardId(shard), bound);
            let mut image = Image::new(ClusterId([1; 16]));
            let registration = RegisterNode {
                node: NodeId(3),
                directory_id: 1,
                incarnation: Incarnation(1),
                shards: 2,
                endpoints: (0..shards).map(endpoint).collect(),
                clean_start: true,
            };
            image.apply(1, &Command::RegisterNode(registration));
            image
        };
        assert_eq!(broker_of(&with(2), NodeId(3), ShardId(1)), 3001);
        assert_eq!(broker_of(&with(1), NodeId(3), ShardId(1)), 3000);
        let told = told(&with(1), &listener, NodeId(3), "10.0.0.7".parse().unwrap());
        assert_eq!(told, [endpoint(3000, "10.0.0.7", 9092)]);
    }

    #[test]
    fn an_ipv4_address_seen_through_an_ipv6_socket_is_told_as_ipv4() {
        let listener = listener("PLAINTEXT", Advertised::AsReached);
        assert_eq!(told_to(&listener, "::ffff:127.0.0.1")[0].host, "127.0.0.1");
    }
}
