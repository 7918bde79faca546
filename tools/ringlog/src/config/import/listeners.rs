//! Where a Kafka broker listens: which of it is plain text and for clients, and so can be carried over.

use super::properties::Property;
use super::translate::{Outcome, Properties, Translation};

const LISTENERS: &str = "listeners";
const ADVERTISED: &str = "advertised.listeners";
const PROTOCOLS: &str = "listener.security.protocol.map";

/// The properties that say it: those of today, and those before there was more than one listener.
pub(super) const NAMES: [&str; 7] =
    [LISTENERS, ADVERTISED, PROTOCOLS, "host.name", "port", "advertised.host.name", "advertised.port"];

const PLAINTEXT: &str = "PLAINTEXT";

/// Adds the listeners, and what is to be told of the properties.
pub(super) fn translate(all: &Properties<'_>, translation: &mut Translation) {
    let names = Names::of(all);
    match said(all, LISTENERS) {
        Some(property) => serve(property, &names, translation),
        None => older(["host.name", "port"], LISTENERS, all, translation),
    }
    if let Some(property) = said(all, PROTOCOLS) {
        map_protocols(property, translation);
    }
    match said(all, ADVERTISED) {
        Some(property) => advertise(property, said(all, LISTENERS).is_some(), translation),
        None => older(["advertised.host.name", "advertised.port"], ADVERTISED, all, translation),
    }
    tell_passed_over(all, translation);
    if !NAMES.iter().any(|name| said(all, name).is_some()) {
        translation.notes.push(
            "Kafka listens on every address unless told otherwise, and Ringlog on 127.0.0.1:9092 only: set `listen` to be \
             reached by others"
                .to_owned(),
        );
    }
}

fn said<'a>(all: &Properties<'a>, name: &str) -> Option<&'a Property> {
    all.get(name).copied().filter(|property| !property.value.trim().is_empty())
}

/// What the file says of listeners by their names, which are the same in any case, as protocols are.
struct Names {
    /// Names of listeners and their protocols. Without a map there are only names that are a protocol's.
    protocols: Vec<(String, String)>,
    /// The listeners that are the quorum's.
    controllers: Vec<String>,
}

impl Names {
    fn of(all: &Properties<'_>) -> Self {
        let map = said(all, PROTOCOLS).map_or("PLAINTEXT:PLAINTEXT", |property| &property.value);
        let pairs = map.split(',').filter_map(|pair| pair.split_once(':'));
        let controllers = said(all, "controller.listener.names").map_or("CONTROLLER", |names| &names.value);
        Self {
            protocols: pairs.map(|(name, protocol)| (normalized(name), normalized(protocol))).collect(),
            controllers: controllers.split(',').map(normalized).collect(),
        }
    }

    fn is_of_clients(&self, listener: &str) -> bool {
        name_of(listener).is_some_and(|name| !self.controllers.contains(&name))
    }

    /// Whether it is certainly plain text: what isn't must not be opened to everybody.
    fn is_plain(&self, listener: &str) -> bool {
        let mapped = |name: &str| {
            let mut protocols =
                self.protocols.iter().filter(|(of, _)| of == name).map(|(_, protocol)| protocol);
            // One that is mapped twice is nothing for certain.
            protocols.next().is_some_and(|first| first == PLAINTEXT) && protocols.next().is_none()
        };
        name_of(listener).is_some_and(|name| mapped(&name))
    }
}

fn normalized(text: &str) -> String {
    text.trim().to_uppercase()
}

/// The name in `NAME://HOST:PORT`.
fn name_of(listener: &str) -> Option<String> {
    listener.split_once("://").map(|(name, _)| normalized(name))
}

fn entries(property: &Property) -> Vec<&str> {
    property.value.split(',').map(str::trim).collect()
}

/// Carries over what is plain text and for clients.
fn serve(property: &Property, names: &Names, translation: &mut Translation) {
    let all = entries(property);
    if all.iter().any(|listener| name_of(listener).is_none()) {
        let why = "write each listener as NAME://HOST:PORT; nothing of it is carried over";
        return translation.tell(property, Outcome::NeedsPerson(why.to_owned()));
    }
    let of_clients = all.iter().copied().filter(|listener| names.is_of_clients(listener));
    let (plain, closed): (Vec<_>, Vec<_>) = of_clients.partition(|listener| names.is_plain(listener));
    if !plain.is_empty() {
        translation.kafka.insert(LISTENERS.to_owned(), plain.join(","));
    }
    let carried = plain.join(",");
    translation.tell(property, match (closed.is_empty(), plain.is_empty()) {
        (true, false) if plain.len() == all.len() => Outcome::Carried,
        (true, _) => Outcome::Translated(format!("listeners = {carried}; there are none of controllers")),
        (false, true) => Outcome::NeedsPerson(
            "no listener of it is known to be plain text, and TLS and authentication aren't served yet: nothing is opened that \
             was closed; set `listen` where nobody else can reach it, or put a proxy in front"
                .to_owned(),
        ),
        (false, false) => Outcome::NeedsPerson(format!(
            "listeners = {carried}; not known to be plain text, and TLS and authentication aren't served yet: {} is left out",
            closed.join(", ")
        )),
    });
}

/// Carries over what the map says of the listeners that are: that they are plain text.
fn map_protocols(property: &Property, translation: &mut Translation) {
    let listeners = translation.kafka.get(LISTENERS).map_or("", String::as_str);
    let mapped: Vec<_> =
        listeners.split(',').filter_map(name_of).map(|name| format!("{name}:{PLAINTEXT}")).collect();
    if mapped.is_empty() {
        let why = "none of its listeners is carried over";
        return translation.tell(property, Outcome::LeftOut(why.to_owned()));
    }
    let mapped = mapped.join(",");
    translation.kafka.insert(PROTOCOLS.to_owned(), mapped.clone());
    translation.tell(
        property,
        match property.value == mapped {
            true => Outcome::Carried,
            false => Outcome::Translated(format!("{PROTOCOLS} = {mapped}, of the listeners there are")),
        },
    );
}

/// Carries over what is told of listeners that are there. Without `listeners` Kafka has one, on every address.
fn advertise(property: &Property, are_listeners_said: bool, translation: &mut Translation) {
    if !are_listeners_said && !translation.kafka.contains_key(LISTENERS) {
        translation.kafka.insert(LISTENERS.to_owned(), "PLAINTEXT://:9092".to_owned());
        translation
            .notes
            .push("listeners = PLAINTEXT://:9092, which Kafka has unless told otherwise".to_owned());
    }
    let listeners = translation.kafka.get(LISTENERS).cloned().unwrap_or_default();
    let is_there = |entry: &&str| listeners.split(',').any(|listener| name_of(listener) == name_of(entry));
    let all = entries(property);
    let told: Vec<_> = all.iter().copied().filter(is_there).collect();
    if !told.is_empty() {
        translation.kafka.insert(ADVERTISED.to_owned(), told.join(","));
    }
    translation.tell(
        property,
        match told.len() {
            count if count == all.len() => Outcome::Carried,
            0 => Outcome::LeftOut("none of its listeners is carried over".to_owned()),
            _ => Outcome::Translated(format!(
                "advertised.listeners = {}, of the listeners there are",
                told.join(",")
            )),
        },
    );
}

/// The two properties that said it before there were `listeners`: a host and a port.
fn older(names: [&str; 2], newer: &str, all: &Properties<'_>, translation: &mut Translation) {
    let written: Vec<_> = names.into_iter().filter_map(|name| said(all, name)).collect();
    if written.is_empty() {
        return;
    }
    // What is advertised is what it listens on, as far as nothing else is said.
    let value = |name: &str, fallback: &str| {
        said(all, name).or_else(|| said(all, fallback)).map(|property| property.value.trim())
    };
    let (host, port) = (value(names[0], "host.name"), value(names[1], "port").unwrap_or("9092"));
    let outcome = if newer == ADVERTISED && host.is_none() {
        let why = "a port without a host: set `advertised.listeners` to what clients are to be told";
        Outcome::NeedsPerson(why.to_owned())
    } else {
        let listener = format!("PLAINTEXT://{}:{port}", bracketed(host.unwrap_or_default()));
        let names = names.join(" and ");
        let told = format!("{newer} = {listener} ({names} are its older spelling, gone since Kafka 3)");
        translation.kafka.insert(newer.to_owned(), listener);
        Outcome::Translated(told)
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
    let pairs =
        [(LISTENERS, ["host.name", "port"]), (ADVERTISED, ["advertised.host.name", "advertised.port"])];
    for (newer, older) in pairs.into_iter().filter(|(newer, _)| said(all, newer).is_some()) {
        for property in older.into_iter().filter_map(|name| said(all, name)) {
            translation.tell(property, Outcome::LeftOut(format!("{newer} counts")));
        }
    }
}
