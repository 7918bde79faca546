//! Kafka's settings of listeners, from their text to names, hosts and ports. Nothing here looks a name up or binds a
//! port.
//!
//! ```text
//! listeners                       PLAINTEXT://0.0.0.0:9092,INNER://10.0.0.1:19092     shard i at the port i above
//! advertised.listeners            PLAINTEXT://broker1.example:9092                    the same, or one for each shard
//! listener.security.protocol.map  PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT
//! ```

use std::fmt;

use net_server::config::{Advertised, ConfigError};

use super::listener::{check_last_port, check_reachable, refused, split};

pub(super) const LISTENERS: &str = "listeners";
pub(super) const ADVERTISED: &str = "advertised.listeners";
const PROTOCOLS: &str = "listener.security.protocol.map";

/// The most listeners that a node has.
const LISTENERS_MAX: usize = 16;
/// A listener's name has at most so many characters.
const NAME_MAX: usize = 64;
/// So much is shown of what is refused, in characters: it may be of any length.
const SHOWN_MAX: usize = 255;

/// One `NAME://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// In capitals.
    pub(super) name: String,
    /// Empty where it isn't said.
    pub(super) host: String,
    pub(super) port: u16,
}

/// As it would be written, or the front of it: a host may be said of any length.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, host, port } = self;
        let host = shown(host);
        if host.contains(':') {
            write!(f, "{name}://[{host}]:{port}")
        } else {
            write!(f, "{name}://{host}:{port}")
        }
    }
}

/// The protocols that Kafka has for listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Plaintext,
    Ssl,
    SaslPlaintext,
    SaslSsl,
}

impl Protocol {
    fn named(name: &str) -> Option<Self> {
        match name {
            "PLAINTEXT" => Some(Self::Plaintext),
            "SSL" => Some(Self::Ssl),
            "SASL_PLAINTEXT" => Some(Self::SaslPlaintext),
            "SASL_SSL" => Some(Self::SaslSsl),
            _ => None,
        }
    }

    /// What to do where it isn't served; `None` where it is.
    fn instead(self) -> Option<&'static str> {
        match self {
            Self::Plaintext => None,
            Self::Ssl => Some("meanwhile listen with PLAINTEXT on loopback, behind a proxy that ends TLS"),
            Self::SaslPlaintext => {
                Some("meanwhile listen with PLAINTEXT where only clients you trust can reach the port")
            }
            Self::SaslSsl => Some(
                "meanwhile listen with PLAINTEXT on loopback, behind a proxy that ends TLS and lets only clients you trust in",
            ),
        }
    }
}

/// The entries of `listeners`: each name once, and each with a protocol that is served.
pub(super) fn parse_listeners(text: &str, protocols: Option<&str>) -> Result<Vec<Entry>, ConfigError> {
    let entries = parse_entries(LISTENERS, text)?;
    if entries.len() > LISTENERS_MAX {
        return Err(refused(LISTENERS, format!("{} listeners, more than {LISTENERS_MAX}", entries.len())));
    }
    for (at, entry) in entries.iter().enumerate() {
        if entries.iter().take(at).any(|other| other.name == entry.name) {
            let why = format!("listener {} is named twice; give each a name of its own", entry.name);
            return Err(refused(LISTENERS, why));
        }
    }
    let protocols = protocols.map(parse_protocols).transpose()?;
    for entry in &entries {
        check_protocol(&entry.name, protocols.as_deref())?;
    }
    Ok(entries)
}

/// The name and the protocol of each entry of the map.
fn parse_protocols(text: &str) -> Result<Vec<(String, Protocol)>, ConfigError> {
    let mut protocols: Vec<(String, Protocol)> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let malformed = || refused(PROTOCOLS, format!("`{}` is not NAME:PROTOCOL", shown(part)));
        let (name, protocol) = part.split_once(':').ok_or_else(malformed)?;
        let name = parse_name(PROTOCOLS, name.trim())?;
        let protocol = Protocol::named(&protocol.trim().to_ascii_uppercase()).ok_or_else(|| {
            let why = format!(
                "`{}`: no such protocol; Kafka has PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL",
                shown(part)
            );
            refused(PROTOCOLS, why)
        })?;
        if protocols.iter().any(|(known, _)| *known == name) {
            return Err(refused(PROTOCOLS, format!("listener {name} is named twice")));
        }
        protocols.push((name, protocol));
    }
    Ok(protocols)
}

/// Sees that a listener's protocol is served. Without a map it is what the name says, and plain text for other names.
fn check_protocol(name: &str, protocols: Option<&[(String, Protocol)]>) -> Result<(), ConfigError> {
    let protocol = match protocols {
        None => Protocol::named(name).unwrap_or(Protocol::Plaintext),
        Some(protocols) => {
            let mapped = protocols.iter().find(|(known, _)| known == name);
            mapped.map(|(_, protocol)| *protocol).ok_or_else(|| {
                refused(PROTOCOLS, format!("it doesn't name listener {name}; add {name}:PLAINTEXT"))
            })?
        }
    };
    match protocol.instead() {
        None => Ok(()),
        Some(instead) => {
            let why = format!("listener {name}: TLS and authentication are not served yet; {instead}");
            Err(refused(LISTENERS, why))
        }
    }
}

/// What the listener `name` advertises, whose shards have so many ports.
pub(super) fn advertised(name: &str, entries: &[Entry], ports: u16) -> Result<Advertised, ConfigError> {
    let mut of_listener: Vec<_> = entries.iter().filter(|entry| entry.name == name).collect();
    match (of_listener.pop(), of_listener.len()) {
        (None, _) => Ok(Advertised::AsReached),
        (Some(base), 0) => {
            check_last_port(ADVERTISED, &base.to_string(), (base.port, ports))?;
            Ok(Advertised::Host { host: base.host.clone(), port: Some(base.port) })
        }
        (Some(last), _) => {
            of_listener.push(last);
            each(name, &of_listener, ports)
        }
    }
}

fn each(name: &str, entries: &[&Entry], ports: u16) -> Result<Advertised, ConfigError> {
    if entries.len() != usize::from(ports) {
        let why = format!(
            "{} addresses of listener {name}; give one, from whose port each shard takes the next, or one for each of {ports}",
            entries.len()
        );
        return Err(refused(ADVERTISED, why));
    }
    let endpoints: Vec<_> = entries.iter().map(|entry| (entry.host.clone(), entry.port)).collect();
    for (at, entry) in endpoints.iter().enumerate() {
        if endpoints[..at].contains(entry) {
            let why = format!("`{}` stands for two shards; give each its own", entries[at]);
            return Err(refused(ADVERTISED, why));
        }
    }
    Ok(Advertised::Each(endpoints))
}

/// The entries of `advertised.listeners`, each of a listener that there is and a place that clients can come to.
pub(super) fn parse_advertised(text: &str, listeners: &[Entry]) -> Result<Vec<Entry>, ConfigError> {
    let entries = parse_entries(ADVERTISED, text)?;
    for entry in &entries {
        if listeners.iter().all(|listener| listener.name != entry.name) {
            let known: Vec<_> = listeners.iter().map(|listener| &*listener.name).collect();
            let why = format!("there is no listener {}; there are {}", entry.name, known.join(", "));
            return Err(refused(ADVERTISED, why));
        }
        let said = entry.to_string();
        check_reachable(ADVERTISED, &said, &entry.host)?;
        if entry.port == 0 {
            let why = format!("`{said}`: clients can't reach port 0; name the one they are to come to");
            return Err(refused(ADVERTISED, why));
        }
    }
    Ok(entries)
}

fn parse_entries(key: &str, text: &str) -> Result<Vec<Entry>, ConfigError> {
    text.split(',').map(|part| parse_entry(key, part.trim())).collect()
}

fn parse_entry(key: &str, text: &str) -> Result<Entry, ConfigError> {
    let malformed = || {
        let why = format!("`{}` is not NAME://HOST:PORT (an IPv6 address as [address])", shown(text));
        refused(key, why)
    };
    let (name, place) = text.split_once("://").ok_or_else(malformed)?;
    let name = parse_name(key, name)?;
    // Whatever stands there as the port, one that isn't said comes out as the two that are assumed.
    let [(host, port), (_, other)] =
        [1, 2].map(|assumed| split(key, place, assumed)).map(|found| found.unwrap_or_default());
    if port != other || split(key, place, 1).is_err() {
        return Err(malformed());
    }
    Ok(Entry { name, host, port })
}

/// Names of listeners are the same in any case.
fn parse_name(key: &str, name: &str) -> Result<String, ConfigError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(name.to_ascii_uppercase());
    }
    let why = format!(
        "`{}` is no listener's name: 1 to {NAME_MAX} letters, digits, hyphens, underscores and dots",
        shown(name)
    );
    Err(refused(key, why))
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests;
