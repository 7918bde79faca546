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
mod tests;
