//! Where a Kafka broker listens, as one listener of Ringlog's.

use std::collections::BTreeMap;

use super::properties::Property;
use super::translate::{Outcome, Properties, Translation};

/// The properties that say it: those of today, and those before there was more than one listener.
pub(super) const NAMES: [&str; 7] = [
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "host.name",
    "port",
    "advertised.host.name",
    "advertised.port",
];

/// `NAME://HOST:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listener<'a> {
    name: &'a str,
    address: &'a str,
}

fn parse(text: &str) -> Option<Listener<'_>> {
    let (name, address) = text.trim().split_once("://")?;
    Some(Listener { name, address })
}

/// What of `listeners` is for clients and can be served.
struct Served<'a> {
    listener: Listener<'a>,
    outcome: Outcome,
}

/// Adds `listen` and `advertise`, and what is to be told of the properties.
pub(super) fn translate(all: &Properties<'_>, translation: &mut Translation) {
    let said = |name: &str| all.get(name).copied().filter(|property| !property.value.trim().is_empty());
    let protocols = protocols(said("listener.security.protocol.map"));
    let mut name = "PLAINTEXT";
    match said("listeners") {
        Some(property) => match serve(property, &protocols, controllers(all)) {
            Ok(Served { listener, outcome }) => {
                name = listener.name;
                translation.own.insert("listen", listener.address.to_owned());
                translation.tell(property, outcome);
            }
            Err(why) => translation.tell(property, Outcome::NeedsPerson(why)),
        },
        None => older(["host.name", "port"], "listen", all, translation),
    }
    match said("advertised.listeners") {
        Some(property) => advertise(property, name, translation),
        None => older(["advertised.host.name", "advertised.port"], "advertise", all, translation),
    }
    tell_passed_over(all, translation);
    if let Some(property) = said("listener.security.protocol.map") {
        let outcome = match protocols.values().find(|protocol| **protocol != "PLAINTEXT") {
            None => {
                Outcome::LeftOut("each listener of it is PLAINTEXT, as every listener here is".to_owned())
            }
            Some(other) => {
                Outcome::LeftOut(format!("what it says counted for `listeners`; {other} isn't served yet"))
            }
        };
        translation.tell(property, outcome);
    }
    if !translation.own.contains_key("listen") && said("listeners").is_none() {
        translation.notes.push(
            "Kafka listens on every address unless told otherwise, and Ringlog on 127.0.0.1:9092 only: set `listen` to be \
             reached by others"
                .to_owned(),
        );
    }
}

/// The protocol by a listener's name, where the map says it.
fn protocols(map: Option<&Property>) -> BTreeMap<&str, &str> {
    let pairs = map.into_iter().flat_map(|map| map.value.split(','));
    pairs.filter_map(|pair| pair.trim().split_once(':')).collect()
}

/// The names of the listeners that are the quorum's.
fn controllers<'a>(all: &Properties<'a>) -> Vec<&'a str> {
    let named = all.get("controller.listener.names").map_or("CONTROLLER", |property| property.value.as_str());
    named.split(',').map(str::trim).collect()
}

fn serve<'a>(
    property: &'a Property,
    protocols: &BTreeMap<&str, &str>,
    controllers: Vec<&str>,
) -> Result<Served<'a>, String> {
    let all: Option<Vec<_>> = property.value.split(',').map(parse).collect();
    let all = all.ok_or("write each listener as NAME://HOST:PORT; nothing of it is carried over")?;
    let of_clients = all.into_iter().filter(|listener| !controllers.contains(&listener.name));
    let (plain, other): (Vec<_>, Vec<_>) = of_clients
        .partition(|listener| protocols.get(listener.name).unwrap_or(&listener.name) == &"PLAINTEXT");
    let Some((first, more)) = plain.split_first() else {
        return Err("no listener of it is PLAINTEXT, and TLS and authentication aren't served yet: set `listen` where nobody \
                    else can reach it, or put a proxy in front"
            .to_owned());
    };
    let left: Vec<_> = more.iter().chain(&other).map(|listener| listener.name).collect();
    let listen = format!("listen = {}; shard i listens on the port i above", first.address);
    let outcome = if left.is_empty() {
        Outcome::Translated(listen)
    } else {
        let left = left.join(", ");
        Outcome::NeedsPerson(format!(
            "{listen}. A node has one listener, without TLS or authentication: {left} is left out"
        ))
    };
    Ok(Served { listener: *first, outcome })
}

fn advertise(property: &Property, name: &str, translation: &mut Translation) {
    let mut all = property.value.split(',').filter_map(parse);
    let outcome = match all.find(|listener| listener.name == name) {
        Some(listener) => {
            translation.own.insert("advertise", listener.address.to_owned());
            Outcome::Translated(format!(
                "advertise = {}; shard i is told as the port i above",
                listener.address
            ))
        }
        None => Outcome::NeedsPerson(format!(
            "it says nothing of the listener {name}: clients are told the address that they reached; set `advertise` where \
             that isn't right"
        )),
    };
    translation.tell(property, outcome);
}

/// The two properties that said it before there were `listeners`: a host and a port.
fn older(names: [&str; 2], own: &'static str, all: &Properties<'_>, translation: &mut Translation) {
    let said = |name: &str| all.get(name).copied().filter(|property| !property.value.trim().is_empty());
    let written: Vec<_> = names.into_iter().filter_map(said).collect();
    // What is advertised is what it listens on, as far as nothing else is said.
    let value = |name: &str, fallback: &str| {
        said(name).or_else(|| said(fallback)).map(|property| property.value.trim())
    };
    let (host, port) = (value(names[0], "host.name"), value(names[1], "port").unwrap_or("9092"));
    if written.is_empty() {
        return;
    }
    let outcome = if own == "advertise" && host.is_none() {
        Outcome::NeedsPerson(
            "a port without a host: set `advertise` to what clients are to be told".to_owned(),
        )
    } else {
        let address = format!("{}:{port}", bracketed(host.unwrap_or_default()));
        translation.own.insert(own, address.clone());
        let names = names.join(" and ");
        Outcome::Translated(format!("{own} = {address} ({names} are an older spelling, gone since Kafka 3)"))
    };
    for property in written {
        translation.tell(property, outcome.clone());
    }
}

/// An IPv6 address as it stands before a port.
fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() }
}

/// The older properties where the newer count.
fn tell_passed_over(all: &Properties<'_>, translation: &mut Translation) {
    for (newer, older) in [
        ("listeners", ["host.name", "port"]),
        ("advertised.listeners", ["advertised.host.name", "advertised.port"]),
    ] {
        let is_said =
            |name: &str| all.get(name).copied().filter(|property| !property.value.trim().is_empty());
        if is_said(newer).is_none() {
            continue;
        }
        for property in older.into_iter().filter_map(is_said) {
            translation.tell(property, Outcome::LeftOut(format!("{newer} counts")));
        }
    }
}
