//! Where a broker listens, and what it tells clients of that.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use engine_record::ShardId;
use net_server::config::{ConfigError, DEFAULT_PORT, ListenerConfig, split_host_port};
use net_server::node::NodeError;
use rustix::net::{AddressFamily, SocketType, bind, ipproto, socket, sockopt};

/// A host's name has at most so many characters (RFC 1123).
const HOST_MAX: usize = 255;
/// What stands between two dots of it has at most so many.
const LABEL_MAX: usize = 63;
/// How long to wait between two looks at a port.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The settings `listen` and `advertise` of a broker with so many shards.
pub(super) fn listener(
    listen: &str,
    advertise: Option<&str>,
    shards: u16,
) -> Result<ListenerConfig, ConfigError> {
    let (host, port) = split("listen", listen, DEFAULT_PORT)?;
    let address = if host.is_empty() { IpAddr::from([0, 0, 0, 0]) } else { resolve(&host)? };
    check_last_port("listen", listen, (port, shards))?;
    let Some(advertise) = advertise else {
        return Ok(ListenerConfig { address, port, advertised_host: None, advertised_port: None });
    };
    let (host, advertised_port) = split("advertise", advertise, port)?;
    check_reachable(advertise, &host)?;
    // Port 0 may only come from `listen`: there it means any that is free.
    let says_zero = split("advertise", advertise, DEFAULT_PORT)?.1 == 0;
    if says_zero {
        let why = format!("`{advertise}`: clients can't reach port 0; name the one they are to come to");
        return Err(refused("advertise", why));
    }
    check_last_port("advertise", advertise, (advertised_port, shards))?;
    let advertised_port = (advertised_port != 0).then_some(advertised_port);
    Ok(ListenerConfig { address, port, advertised_host: Some(host), advertised_port })
}

/// Sees that each of so many shards has a port.
fn check_last_port(key: &str, said: &str, (first, shards): (u16, u16)) -> Result<(), ConfigError> {
    let highest = u16::MAX - (shards - 1);
    if first <= highest {
        return Ok(());
    }
    let why = format!(
        "`{said}`: each of {shards} shards takes a port, and 65535 is the last; begin at {highest} or below"
    );
    Err(refused(key, why))
}

/// Sees that each shard can listen, as it will itself a moment later. For as long as `patience` it waits for ports to
/// become free: the kernel lets go of what a killed broker had only once its last write and flush are over.
pub(super) fn check_ports(
    listener: &ListenerConfig,
    shards: u16,
    patience: Duration,
) -> Result<(), NodeError> {
    let mut looks_left = patience.as_millis() / LOOK_AGAIN.as_millis();
    for shard in 0..shards {
        let port = if listener.port == 0 { Some(0) } else { listener.port.checked_add(shard) };
        let port = port.ok_or(NodeError::PortsOverflow { port: listener.port, shards })?;
        let address = SocketAddr::new(listener.address, port);
        while let Err(error) = try_bind(address) {
            let kind = error.kind();
            if kind != io::ErrorKind::AddrInUse || looks_left == 0 {
                let why = error.to_string();
                return Err(NodeError::Listen { shard: ShardId(shard), address, why, kind });
            }
            looks_left -= 1;
            wait_a_little();
        }
    }
    Ok(())
}

/// Binds as a shard does, and lets go again. It doesn't listen: no client is to reach what is not a broker yet.
fn try_bind(address: SocketAddr) -> io::Result<()> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let bound = socket(family, SocketType::STREAM, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&bound, true)?;
    Ok(bind(&bound, &address)?)
}

#[expect(clippy::disallowed_methods, reason = "nothing runs yet that this could hold up")]
fn wait_a_little() {
    std::thread::sleep(LOOK_AGAIN);
}

fn refused(key: &str, why: String) -> ConfigError {
    ConfigError::Value { key: key.to_owned(), why }
}

/// A host, empty where it isn't said, and a port.
fn split(key: &str, text: &str, default_port: u16) -> Result<(String, u16), ConfigError> {
    let behind = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(_, behind)| behind);
    if text.is_empty() || behind.is_some_and(|behind| !behind.is_empty() && !behind.starts_with(':')) {
        let why = format!("`{text}` is no address; write HOST:PORT, an IPv6 address as [address]:port");
        return Err(refused(key, why));
    }
    split_host_port(key, text, default_port)
}

fn check_reachable(advertise: &str, host: &str) -> Result<(), ConfigError> {
    let is_reachable =
        host.parse::<IpAddr>().map_or_else(|_| is_host_name(host), |address| !address.is_unspecified());
    if is_reachable {
        return Ok(());
    }
    // What was given may be of any length.
    let shown: String = advertise.chars().take(HOST_MAX).collect();
    let why = format!(
        "clients cannot reach `{shown}`; name a host (up to {HOST_MAX} letters, digits, hyphens and dots) or an address"
    );
    Err(refused("advertise", why))
}

/// Whether it is a name and not, say, an address that lacks a number.
fn is_host_name(host: &str) -> bool {
    let labels = host.strip_suffix('.').unwrap_or(host);
    let is_numbers = labels.contains('.') && labels.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    host.len() <= HOST_MAX && !is_numbers && labels.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    // The standard knows no underscore, but networks of containers do.
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let has_hyphen_at_end = label.starts_with('-') || label.ends_with('-');
    (1..=LABEL_MAX).contains(&label.len()) && label.bytes().all(is_allowed) && !has_hyphen_at_end
}

fn resolve(host: &str) -> Result<IpAddr, ConfigError> {
    let found = (host, 0).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found
        .map(|address| address.ip())
        .ok_or_else(|| refused("listen", format!("`{host}` is no address and no known host")))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn advertised(advertise: &str) -> Result<(String, Option<u16>), String> {
        let listener = listener("127.0.0.1:9092", Some(advertise), 2).map_err(|error| error.to_string())?;
        Ok((listener.advertised_host.unwrap(), listener.advertised_port))
    }

    #[test]
    fn clients_are_told_a_host_with_its_own_or_the_listeners_port() {
        let told = |host: &str, port| Ok((host.to_owned(), Some(port)));
        assert_eq!(advertised("broker-1.example.:19092"), told("broker-1.example.", 19_092));
        assert_eq!(advertised("kafka_1"), told("kafka_1", 9_092));
        assert_eq!(advertised("[::1]:7"), told("::1", 7));
        assert_eq!(advertised("10.0.0.5:65534"), told("10.0.0.5", 65_534));
        let any = listener("127.0.0.1:0", Some("h"), 2).unwrap();
        assert_eq!((any.port, any.advertised_port), (0, None), "the port that was found free is told");
    }

    #[test]
    fn what_no_client_can_reach_is_refused() {
        let long = format!("{}.x", "a.".repeat(127));
        let label = "a".repeat(64);
        for host in ["", "a b:1", "-a", "a-", "a..b", "a/b", "0.0.0.0", "[::]:1", "10.0.0", "1.2.3.400", "ä"]
        {
            assert!(advertised(host).is_err(), "{host}");
        }
        assert!(advertised(&long).is_err() && advertised(&label).is_err());
        let huge = advertised(&"h".repeat(40_000)).unwrap_err();
        assert!(huge.len() < 500 && huge.contains("`advertise`"), "{huge}");
        for port in ["h:0", "h:65536", "h:x", "h:", "[::1]9092"] {
            assert!(advertised(port).is_err(), "{port}");
        }
        let last = advertised("h:65535").unwrap_err();
        assert!(last.contains("each of 2 shards"), "{last}");
    }

    #[test]
    fn ports_past_the_last_are_refused_with_the_highest_that_can_be_the_first() {
        assert_eq!(listener("127.0.0.1:65533", None, 3).unwrap().port, 65_533);
        let refused = listener("127.0.0.1:65534", None, 3).unwrap_err().to_string();
        assert!(refused.contains("`listen`") && refused.ends_with("begin at 65533 or below"), "{refused}");
    }

    #[test]
    fn no_address_to_listen_on_is_not_every_address() {
        assert!(listener("", None, 1).is_err());
        assert!(listener("[::1]7", None, 1).is_err());
        let any = listener(":7", None, 1).unwrap();
        assert_eq!((any.address, any.port), (IpAddr::from([0, 0, 0, 0]), 7));
        assert_eq!(listener("[::1]", None, 1).unwrap().port, DEFAULT_PORT);
    }

    #[test]
    fn a_port_that_becomes_free_in_time_is_waited_for() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let wanted = listener(&format!("127.0.0.1:{port}"), None, 1).unwrap();
        let (waits, is_waiting) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                is_waiting.recv().unwrap();
                drop(taken);
            });
            assert!(check_ports(&wanted, 1, Duration::ZERO).is_err());
            waits.send(()).unwrap();
            check_ports(&wanted, 1, Duration::from_secs(60)).unwrap();
        });
    }

    #[test]
    fn a_port_that_is_taken_or_an_address_of_another_machine_is_found_before_the_start() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let on = |address: &str| check_ports(&listener(address, None, 2).unwrap(), 2, Duration::ZERO);
        let error = on(&format!("127.0.0.1:{port}")).unwrap_err();
        assert!(matches!(error, NodeError::Listen { kind: io::ErrorKind::AddrInUse, .. }), "{error}");
        assert!(on("127.0.0.1:0").is_ok());
        // Kept for documentation: no machine has it.
        let foreign = on("192.0.2.1:7").unwrap_err().to_string();
        assert!(foreign.contains("no network interface") && foreign.contains("--listen"), "{foreign}");
    }
}
