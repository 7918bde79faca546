//! Where a broker listens, and what it tells clients of that.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use engine_record::ShardId;
use net_server::config::{Advertised, Config, ConfigError, DEFAULT_PORT, ListenerConfig, split_host_port};
use net_server::node::NodeError;
use net_server::settings::{LISTENERS_DEFAULT, ListenerSettings};
use rustix::net::{AddressFamily, SocketType, bind, ipproto, socket, sockopt};

use super::listeners::{ADVERTISED, Entry, LISTENERS, advertised, parse_advertised, parse_listeners};

/// A host's name has at most so many characters (RFC 1123).
const HOST_MAX: usize = 255;
/// What stands between two dots of it has at most so many.
const LABEL_MAX: usize = 63;
/// Where to listen unless told otherwise.
const LISTEN: &str = "127.0.0.1";
/// Every address.
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
/// How long to wait between two looks at a port.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What was said of where to listen, in Ringlog's own form and in Kafka's.
pub(super) struct Said<'a> {
    pub(super) listen: Option<&'a str>,
    pub(super) advertise: Option<&'a str>,
    pub(super) kafka: &'a ListenerSettings,
}

/// The listeners of a broker with so many shards: one by the short form, or those of Kafka's settings. Looks names up.
pub(super) fn listeners(said: &Said<'_>, shards: u16) -> Result<Vec<ListenerConfig>, ConfigError> {
    let ListenerSettings { listeners, advertised, protocols } = said.kafka;
    let is_short = said.listen.is_some() || said.advertise.is_some();
    let in_full = listeners.as_ref().map(|_| LISTENERS).or_else(|| advertised.as_ref().map(|_| ADVERTISED));
    match in_full {
        Some(key) if is_short => Err(given_twice(key, said)),
        None if is_short => {
            parse_listeners(LISTENERS_DEFAULT, protocols.as_deref())?;
            let listen = said.listen.unwrap_or(LISTEN);
            Ok(vec![short_form(listen, said.advertise, shards)?])
        }
        Some(_) | None => in_kafkas_form(said.kafka, shards),
    }
}

/// The same is said in both forms.
fn given_twice(key: &str, said: &Said<'_>) -> ConfigError {
    let short = if said.listen.is_some() { "listen" } else { "advertise" };
    let why = format!(
        "`{short}` is given too, which is the short form for one listener; say all in one form: leave out one of the two"
    );
    refused(key, why)
}

fn in_kafkas_form(kafka: &ListenerSettings, shards: u16) -> Result<Vec<ListenerConfig>, ConfigError> {
    let text = kafka.listeners.as_deref().unwrap_or(LISTENERS_DEFAULT);
    let entries = parse_listeners(text, kafka.protocols.as_deref())?;
    let told = kafka.advertised.as_deref().map(|text| parse_advertised(text, &entries)).transpose()?;
    let told = told.unwrap_or_default();
    let listener = |entry: &Entry| -> Result<ListenerConfig, ConfigError> {
        let address = if entry.host.is_empty() { ANY } else { resolve(LISTENERS, &entry.host)? };
        check_last_port(LISTENERS, &entry.to_string(), (entry.port, shards))?;
        let advertised = advertised(&entry.name, &told, shards)?;
        Ok(ListenerConfig { name: entry.name.clone(), address, port: entry.port, advertised })
    };
    let listeners = entries.iter().map(listener).collect::<Result<Vec<_>, _>>()?;
    check_apart(&listeners, shards)?;
    Ok(listeners)
}

/// Sees that no two listeners take the same port of the same address.
fn check_apart(listeners: &[ListenerConfig], shards: u16) -> Result<(), ConfigError> {
    for (at, listener) in listeners.iter().enumerate() {
        if let Some(other) = listeners[..at].iter().find(|other| share_ports(listener, other, shards)) {
            let why = format!(
                "listeners {} ({}) and {} ({}) take the same ports: each of {shards} shards takes one from the first on; \
                 put {shards} between them at least",
                other.name,
                place(other),
                listener.name,
                place(listener),
            );
            return Err(refused(LISTENERS, why));
        }
    }
    Ok(())
}

fn place(listener: &ListenerConfig) -> SocketAddr {
    SocketAddr::new(listener.address, listener.port)
}

fn share_ports(one: &ListenerConfig, other: &ListenerConfig, shards: u16) -> bool {
    let (one_ip, other_ip) = (one.address.to_canonical(), other.address.to_canonical());
    let is_same_place = one_ip == other_ip || covers(one_ip, other_ip) || covers(other_ip, one_ip);
    let is_chosen = one.port != 0 && other.port != 0;
    is_chosen && is_same_place && one.port.abs_diff(other.port) < shards
}

/// Whether who listens on the first address takes the ports of the second as well. The unspecified IPv6 address takes IPv4's.
fn covers(unspecified: IpAddr, other: IpAddr) -> bool {
    unspecified.is_unspecified() && (unspecified.is_ipv6() || other.is_ipv4())
}

/// The settings as one value of `listeners`, for who asks the broker.
pub(super) fn as_setting(listeners: &[ListenerConfig]) -> String {
    let written: Vec<_> =
        listeners.iter().map(|listener| format!("{}://{}", listener.name, place(listener))).collect();
    written.join(",")
}

/// The settings `listen` and `advertise` of a broker with so many shards.
fn short_form(listen: &str, advertise: Option<&str>, shards: u16) -> Result<ListenerConfig, ConfigError> {
    let (host, port) = split("listen", listen, DEFAULT_PORT)?;
    let address = if host.is_empty() { ANY } else { resolve("listen", &host)? };
    check_last_port("listen", listen, (port, shards))?;
    let plaintext = ListenerConfig::plaintext(address, port);
    let Some(advertise) = advertise else { return Ok(plaintext) };
    let (host, advertised_port) = split("advertise", advertise, port)?;
    check_reachable("advertise", advertise, &host)?;
    // Port 0 may only come from `listen`: there it means any that is free.
    let says_zero = split("advertise", advertise, DEFAULT_PORT)?.1 == 0;
    if says_zero {
        let why = format!("`{advertise}`: clients can't reach port 0; name the one they are to come to");
        return Err(refused("advertise", why));
    }
    check_last_port("advertise", advertise, (advertised_port, shards))?;
    let port = (advertised_port != 0).then_some(advertised_port);
    Ok(ListenerConfig { advertised: Advertised::Host { host, port }, ..plaintext })
}

/// Sees that each of so many shards has a port.
pub(super) fn check_last_port(key: &str, said: &str, (first, shards): (u16, u16)) -> Result<(), ConfigError> {
    let highest = u16::MAX - (shards - 1);
    if first <= highest {
        return Ok(());
    }
    let why = format!(
        "`{said}`: each of {shards} shards takes a port, and 65535 is the last; begin at {highest} or below"
    );
    Err(refused(key, why))
}

/// Sees that each shard can listen, as it will itself a moment later, and that nobody else does. For as long as `patience`
/// it waits for ports to become free: the kernel lets go of what a killed broker had only once its last write and flush are
/// over.
pub(super) fn check_ports(config: &Config, patience: Duration) -> Result<(), NodeError> {
    let mut looks_left = patience.as_millis() / LOOK_AGAIN.as_millis();
    let ports = config.routing.ports(config.shards);
    for listener in &config.listeners {
        for shard in (0..ports).map(ShardId) {
            let overflow = NodeError::PortsOverflow { port: listener.port, shards: config.shards };
            let port = listener.port_of(shard, config.routing).ok_or(overflow)?;
            check_port(listener, shard, port, &mut looks_left)?;
        }
    }
    Ok(())
}

fn check_port(
    listener: &ListenerConfig,
    shard: ShardId,
    port: u16,
    looks_left: &mut u128,
) -> Result<(), NodeError> {
    let address = SocketAddr::new(listener.address, port);
    while let Err(error) = try_bind(address) {
        let kind = error.kind();
        if kind != io::ErrorKind::AddrInUse || *looks_left == 0 {
            let (listener, why) = (listener.name.clone(), error.to_string());
            return Err(NodeError::Listen { shard, listener, address, why, kind });
        }
        *looks_left -= 1;
        wait_a_little();
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

pub(super) fn refused(key: &str, why: String) -> ConfigError {
    ConfigError::Value { key: key.to_owned(), why }
}

/// A host, empty where it isn't said, and a port.
pub(super) fn split(key: &str, text: &str, default_port: u16) -> Result<(String, u16), ConfigError> {
    let behind = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(_, behind)| behind);
    if text.is_empty() || behind.is_some_and(|behind| !behind.is_empty() && !behind.starts_with(':')) {
        let why = format!("`{text}` is no address; write HOST:PORT, an IPv6 address as [address]:port");
        return Err(refused(key, why));
    }
    split_host_port(key, text, default_port)
}

/// Sees that clients may come to what is said, of which `host` is the host.
pub(super) fn check_reachable(key: &str, said: &str, host: &str) -> Result<(), ConfigError> {
    let is_reachable =
        host.parse::<IpAddr>().map_or_else(|_| is_host_name(host), |address| !address.is_unspecified());
    if is_reachable {
        return Ok(());
    }
    // What was given may be of any length.
    let shown: String = said.chars().take(HOST_MAX).collect();
    let why = format!(
        "clients cannot reach `{shown}`; name a host (up to {HOST_MAX} letters, digits, hyphens and dots) or an address"
    );
    Err(refused(key, why))
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

fn resolve(key: &str, host: &str) -> Result<IpAddr, ConfigError> {
    let found = (host, 0).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.map(|address| address.ip()).ok_or_else(|| {
        let shown: String = host.chars().take(HOST_MAX).collect();
        refused(key, format!("`{shown}` is no address and no known host"))
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::path::PathBuf;

    use engine_record::NodeId;
    use net_server::Watermarks;
    use net_server::config::{Limits, Routing};
    use net_server::settings::BrokerSettings;

    use super::*;

    fn listener(listen: &str, advertise: Option<&str>, shards: u16) -> Result<ListenerConfig, ConfigError> {
        let said = Said { listen: Some(listen), advertise, kafka: &ListenerSettings::default() };
        listeners(&said, shards).map(|mut listeners| listeners.remove(0))
    }

    fn advertised(advertise: &str) -> Result<(String, Option<u16>), String> {
        let listener = listener("127.0.0.1:9092", Some(advertise), 2).map_err(|error| error.to_string())?;
        match listener.advertised {
            Advertised::Host { host, port } => Ok((host, port)),
            other @ (Advertised::AsReached | Advertised::Each(_)) => panic!("{other:?}"),
        }
    }

    /// A broker with so many shards and one listener.
    fn config(listener: ListenerConfig, shards: u16) -> Config {
        Config {
            node: NodeId(1),
            data_folder: PathBuf::new(),
            listeners: vec![listener],
            routing: Routing::Shard,
            shards,
            broker: BrokerSettings::default(),
            limits: Limits::default(),
            watermarks: Watermarks::default(),
        }
    }

    fn in_full(listeners: &str, advertised: Option<&str>) -> ListenerSettings {
        let advertised = advertised.map(str::to_owned);
        ListenerSettings { listeners: Some(listeners.to_owned()), advertised, protocols: None }
    }

    /// The listeners of a broker with three shards by Kafka's settings.
    fn of(listeners_text: &str, advertised: Option<&str>) -> Result<Vec<ListenerConfig>, String> {
        let said = Said { listen: None, advertise: None, kafka: &in_full(listeners_text, advertised) };
        listeners(&said, 3).map_err(|error| error.to_string())
    }

    #[test]
    fn a_broker_may_have_several_listeners_each_with_what_it_tells() {
        let listeners = of("A://127.0.0.1:9092,B://localhost:0,C://:9095", Some("C://h:1")).unwrap();
        assert_eq!(
            listeners[0],
            ListenerConfig {
                name: "A".to_owned(),
                ..ListenerConfig::plaintext(Ipv4Addr::LOCALHOST.into(), 9092)
            }
        );
        assert!(listeners[1].address.is_loopback() && listeners[1].port == 0);
        assert_eq!(listeners[2].address, ANY);
        assert_eq!(listeners[2].advertised, Advertised::Host { host: "h".to_owned(), port: Some(1) });
        assert_eq!(as_setting(&listeners[..1]), "A://127.0.0.1:9092");
        assert!(of("A://no-such-host.invalid:1", None).unwrap_err().contains("no known host"));
        assert!(of("A://:65534", None).unwrap_err().contains("begin at 65533"));
    }

    #[test]
    fn ports_that_two_listeners_would_take_are_refused() {
        for apart in [
            "A://127.0.0.1:1,B://127.0.0.1:4",
            "A://127.0.0.1:1,B://127.0.0.2:1",
            "A://0.0.0.0:1,B://[::1]:1",
            "A://0.0.0.0:0,B://0.0.0.0:0",
        ] {
            assert!(of(apart, None).is_ok(), "{apart}");
        }
        for overlapping in [
            "A://127.0.0.1:1,B://127.0.0.1:3",
            "A://127.0.0.1:3,B://127.0.0.1:1",
            "A://0.0.0.0:1,B://127.0.0.1:1",
            "A://127.0.0.1:1,B://[::]:2",
            "A://127.0.0.1:1,B://[::ffff:127.0.0.1]:1",
        ] {
            let refused = of(overlapping, None).unwrap_err();
            assert!(
                refused.contains("listeners A (") && refused.contains("take the same ports"),
                "{refused}"
            );
        }
    }

    #[test]
    fn both_forms_at_once_are_refused() {
        let refused = |listen, advertise, kafka| {
            listeners(&Said { listen, advertise, kafka: &kafka }, 1).unwrap_err().to_string()
        };
        let told = refused(Some("h"), None, in_full("A://:1", None));
        assert!(told.starts_with("setting `listeners`: `listen` is given too"), "{told}");
        let told = refused(None, Some("h"), in_full("A://:1", Some("A://h:1")));
        assert!(told.starts_with("setting `listeners`: `advertise` is given too"), "{told}");
        let advertised = ListenerSettings { listeners: None, ..in_full("", Some("PLAINTEXT://h:1")) };
        let told = refused(Some("h"), None, advertised);
        assert!(told.starts_with("setting `advertised.listeners`: `listen` is given too"), "{told}");
    }

    #[test]
    fn what_is_advertised_and_the_map_may_stand_alone() {
        let kafka = ListenerSettings {
            advertised: Some("PLAINTEXT://h:1".to_owned()),
            ..ListenerSettings::default()
        };
        let by_default = listeners(&Said { listen: None, advertise: None, kafka: &kafka }, 1).unwrap();
        assert_eq!((by_default[0].address.is_loopback(), by_default[0].port), (true, DEFAULT_PORT));
        let mapped = |map: &str| {
            let kafka = ListenerSettings { protocols: Some(map.to_owned()), ..ListenerSettings::default() };
            listeners(&Said { listen: Some(":0"), advertise: None, kafka: &kafka }, 1).is_ok()
        };
        assert!(mapped("PLAINTEXT:PLAINTEXT") && !mapped("PLAINTEXT:SSL"));
    }

    #[test]
    fn clients_are_told_a_host_with_its_own_or_the_listeners_port() {
        let told = |host: &str, port| Ok((host.to_owned(), Some(port)));
        assert_eq!(advertised("broker-1.example.:19092"), told("broker-1.example.", 19_092));
        assert_eq!(advertised("kafka_1"), told("kafka_1", 9_092));
        assert_eq!(advertised("[::1]:7"), told("::1", 7));
        assert_eq!(advertised("10.0.0.5:65534"), told("10.0.0.5", 65_534));
        let any = listener("127.0.0.1:0", Some("h"), 2).unwrap();
        let told = Advertised::Host { host: "h".to_owned(), port: None };
        assert_eq!((any.port, any.advertised), (0, told), "the port that was found free is told");
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
        let wanted = config(listener(&format!("127.0.0.1:{port}"), None, 1).unwrap(), 1);
        let (waits, is_waiting) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                is_waiting.recv().unwrap();
                drop(taken);
            });
            assert!(check_ports(&wanted, Duration::ZERO).is_err());
            waits.send(()).unwrap();
            check_ports(&wanted, Duration::from_secs(60)).unwrap();
        });
    }

    #[test]
    fn a_port_that_is_taken_or_an_address_of_another_machine_is_found_before_the_start() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let on = |address: &str| check_ports(&config(listener(address, None, 2).unwrap(), 2), Duration::ZERO);
        let error = on(&format!("127.0.0.1:{port}")).unwrap_err();
        assert!(matches!(error, NodeError::Listen { kind: io::ErrorKind::AddrInUse, .. }), "{error}");
        assert!(on("127.0.0.1:0").is_ok());
        // Kept for documentation: no machine has it.
        let foreign = on("192.0.2.1:7").unwrap_err().to_string();
        assert!(foreign.contains("no network interface") && foreign.contains("--listen"), "{foreign}");
    }
}
