//! The one line that `serve --json` prints.

use std::net::SocketAddr;
use std::path::PathBuf;

/// What a broker says once it serves.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct Ready {
    /// The cluster's id.
    pub cluster_id: String,
    /// Whether the broker made a new cluster of an empty folder.
    pub new: bool,
    /// The node's id.
    pub node_id: u32,
    /// Where clients of the first listener find it, by shard.
    pub endpoints: Vec<Endpoint>,
    /// Its listeners, in the order of the configuration.
    pub listeners: Vec<Listener>,
    /// Where its partitions lie.
    pub log_directories: Vec<LogDirectory>,
    /// What it found in its folder.
    pub recovery: Recovery,
}

/// A listener.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct Listener {
    /// Its name.
    pub name: String,
    /// Where each shard has bound it; the same address for all that share one port.
    pub bound: Vec<SocketAddr>,
}

impl Listener {
    /// Each address that it has, once: so many brokers are behind it.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses = self.bound.clone();
        addresses.dedup();
        addresses
    }
}

/// A shard as a client is told of it.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct Endpoint {
    /// Broker id that clients know it by.
    pub broker_id: i32,
    /// The shard's number, from 0.
    pub shard: u32,
    /// The CPU it runs on.
    pub cpu: u32,
    /// Address and port.
    pub address: SocketAddr,
}

/// A log directory.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct LogDirectory {
    /// Its folder.
    pub path: PathBuf,
    /// Whether it is in use.
    pub online: bool,
    /// Partitions that are known to lie in it.
    pub partitions: u64,
}

/// What opening the folder took.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct Recovery {
    /// Whether the last stop was in order.
    pub clean: bool,
    /// Partitions opened.
    pub partitions: u64,
    /// Partitions that could not be opened.
    pub offline: u64,
    /// Bytes read and checked.
    pub scanned_bytes: u64,
    /// Milliseconds it took.
    pub ms: u64,
}

impl Ready {
    /// Every address, for a client that wants a list.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        let addresses: Vec<_> = self.endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect();
        addresses.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_reads_as_documented() {
        let line = r#"{"cluster_id":"c","new":true,"node_id":1,"endpoints":[
            {"broker_id":1000,"shard":0,"cpu":0,"address":"127.0.0.1:9092"},
            {"broker_id":1001,"shard":1,"cpu":1,"address":"127.0.0.1:9093"}],
            "listeners":[{"name":"PLAINTEXT","protocol":"PLAINTEXT","bound":["0.0.0.0:9092","0.0.0.0:9093"],"endpoints":[]}],
            "log_directories":[{"path":"/data","online":true,"partitions":3}],
            "recovery":{"clean":true,"partitions":0,"offline":0,"scanned_bytes":0,"ms":12}}"#;
        let ready: Ready = serde_json::from_str(line).unwrap();
        assert_eq!(ready.bootstrap(), "127.0.0.1:9092,127.0.0.1:9093");
        assert_eq!(ready.endpoints[1].broker_id, 1001);
        assert!(ready.log_directories[0].online && ready.log_directories[0].partitions == 3);
        assert_eq!((&*ready.listeners[0].name, ready.listeners[0].bound[1].port()), ("PLAINTEXT", 9093));
    }

    #[test]
    fn shards_that_share_a_port_are_behind_one_address() {
        let bound = |ports: [u16; 2]| ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port))).to_vec();
        let addresses = |ports| Listener { name: String::new(), bound: bound(ports) }.addresses();
        assert_eq!(addresses([9092, 9092]), bound([9092, 9092])[..1]);
        assert_eq!(addresses([9092, 9093]), bound([9092, 9093]));
    }
}
