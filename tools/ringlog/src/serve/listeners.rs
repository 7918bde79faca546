//! Kafka's settings of listeners, from their text to names, hosts and ports. Nothing here looks a name up or binds a port.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(name: &str, host: &str, port: u16) -> Entry {
        Entry { name: name.to_owned(), host: host.to_owned(), port }
    }

    fn parsed(text: &str) -> Result<Vec<Entry>, String> {
        parse_listeners(text, None).map_err(|error| error.to_string())
    }

    /// What a listener A with three ports advertises.
    fn told(text: &str) -> Result<Advertised, String> {
        let listeners = parse_listeners("A://:1,B://:9", None).unwrap();
        let entries = parse_advertised(text, &listeners);
        entries.and_then(|entries| advertised("A", &entries, 3)).map_err(|error| error.to_string())
    }

    #[test]
    fn listeners_are_names_with_hosts_and_ports() {
        let expected = [entry("PLAINTEXT", "0.0.0.0", 9092), entry("IN", "fe80::1", 1), entry("X", "", 0)];
        assert_eq!(parsed("PLAINTEXT://0.0.0.0:9092, in://[fe80::1]:1,X://:0"), Ok(expected.to_vec()));
    }

    #[test]
    fn what_is_no_listener_is_refused_with_how_one_is_written() {
        for text in [
            "",
            "A",
            "A://",
            "A://h",
            "A://h:",
            "A://h:x",
            "A://h:65536",
            "A://::1:9",
            "A://:1,",
            "://h:1",
            "ä://h:1",
        ] {
            let refused = parsed(text).unwrap_err();
            assert!(refused.starts_with("setting `listeners`: "), "{text}: {refused}");
        }
        let long = parsed(&format!("A://{}", "h".repeat(100_000))).unwrap_err();
        assert!(long.len() < 500, "{long}");
        let twice = parsed("A://:1,a://:2").unwrap_err();
        assert!(twice.contains("listener A is named twice"), "{twice}");
        let many: Vec<_> = (0..17).map(|n| format!("L{n}://:0")).collect();
        assert!(parsed(&many.join(",")).unwrap_err().contains("17 listeners, more than 16"));
    }

    #[test]
    fn a_protocol_that_is_not_served_is_refused_with_what_to_do_meanwhile() {
        for name in ["SSL", "SASL_PLAINTEXT", "sasl_ssl"] {
            let refused = parsed(&format!("{name}://:1")).unwrap_err();
            assert!(refused.contains("not served yet; meanwhile listen with PLAINTEXT"), "{refused}");
        }
        let mapped = |map| parse_listeners("IN://:1", Some(map)).map_err(|error| error.to_string());
        assert!(mapped("in:plaintext").is_ok());
        assert!(mapped("IN:PLAINTEXT,SSL:SSL").is_ok(), "what no listener uses is of no matter");
        assert!(mapped("IN:SSL").unwrap_err().contains("listener IN: TLS"));
        assert!(mapped("SSL:SSL").unwrap_err().contains("add IN:PLAINTEXT"));
        for map in ["", "IN", "IN:TLS", "IN:PLAINTEXT,in:PLAINTEXT", "a b:SSL"] {
            let refused = mapped(map).unwrap_err();
            assert!(refused.starts_with("setting `listener.security.protocol.map`: "), "{map}: {refused}");
        }
        let plain = parse_listeners("SSL://:1", Some("SSL:PLAINTEXT"));
        assert!(plain.is_ok(), "the map says what it is, not the name");
    }

    #[test]
    fn an_advertised_address_is_the_first_shards_or_there_is_one_for_each() {
        assert_eq!(told("B://h:7"), Ok(Advertised::AsReached));
        assert_eq!(told("a://h:7"), Ok(Advertised::Host { host: "h".to_owned(), port: Some(7) }));
        let each = [("h", 7), ("h", 5), ("::1", 7)].map(|(host, port)| (host.to_owned(), port));
        assert_eq!(told("A://h:7,A://h:5,B://x:1,A://[::1]:7"), Ok(Advertised::Each(each.to_vec())));
    }

    #[test]
    fn what_can_not_be_advertised_is_refused() {
        for (text, why) in [
            ("A://h:7,A://h:5", "2 addresses of listener A; give one"),
            ("A://h:7,A://h:5,A://h:7", "`A://h:7` stands for two shards"),
            ("C://h:7", "there is no listener C; there are A, B"),
            ("A://0.0.0.0:7", "clients cannot reach `A://0.0.0.0:7`"),
            ("A://[::]:7", "clients cannot reach"),
            ("A://:7", "clients cannot reach"),
            ("A://h:0", "clients can't reach port 0"),
            ("A://h:65534", "begin at 65533 or below"),
        ] {
            let refused = told(text).unwrap_err();
            assert!(refused.starts_with("setting `advertised.listeners`: "), "{refused}");
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn no_text_ends_the_process(listeners in "\\PC{0,40}", map in "\\PC{0,40}") {
            let _parsed = parse_listeners(&listeners, None);
            let _mapped = parse_listeners("A://:1", Some(&map));
            let _advertised = parse_advertised(&listeners, &[entry("A", "", 1)]);
        }

        #[test]
        fn text_made_of_the_right_pieces_ends_no_process_either(text in "([A-C:/,\\[\\]. ]|://|[0-9]{1,6}){0,16}") {
            let entries = parse_advertised(&text, &[entry("A", "", 1)]);
            let _told = entries.map(|entries| advertised("A", &entries, 2));
            let _parsed = parse_listeners(&text, Some(&text));
        }

        #[test]
        fn what_is_written_is_read_as_it_was(name in "[A-Z][A-Z0-9_.-]{0,20}", port in 0_u16.., host in "[a-z0-9.-]{0,20}") {
            let entry = entry(&name, &host, port);
            prop_assert_eq!(parse_entries("k", &entry.to_string()).ok(), Some(vec![entry]));
        }
    }
}
