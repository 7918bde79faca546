//! Several listeners: clients are told the endpoints of the one they come by, and `ringlog doctor` finds those that don't work.

use std::process::Command;
use std::time::Duration;

use integration::programs::{self, Finished};
use integration::{Broker, Options, binary};
use serde_json::Value;

const WAIT: Duration = Duration::from_secs(60);

/// Two listeners, each on an address of its own.
const TWO: &str = r#"listeners = "PLAINTEXT://127.0.0.1:0,OUTER://127.0.0.2:0""#;
/// The second tells its clients of ports that nobody listens on.
const WRONG: &str = r#"listeners = "PLAINTEXT://127.0.0.1:0,OUTER://127.0.0.2:0"
advertised.listeners = "OUTER://127.0.0.2:1""#;

fn doctor(from: &str) -> Finished {
    let mut command = Command::new(binary::path());
    command.args(["doctor", "listeners", "--json", "--from", from]);
    programs::finish(command, b"", WAIT)
}

/// Whether each address works, with what else is said of it.
fn addresses(finished: &Finished) -> Vec<(bool, Value)> {
    let told: Value = serde_json::from_str(&finished.output).unwrap_or_else(|_| panic!("{finished:?}"));
    let addresses = told["addresses"].as_array().expect("the addresses are a list").iter();
    let works = |address: &Value| address["works"].as_bool().expect("it works or not");
    addresses.map(|address| (works(address), address.clone())).collect()
}

#[test]
fn a_client_writes_and_reads_through_the_second_listener_and_is_told_of_no_other() {
    let broker = Broker::start_with(&Options::new("listeners").with_listeners(TWO));
    let outer = &broker.ready().listeners[1];
    assert_eq!(outer.name, "OUTER");
    let bootstrap = outer.bound[0].to_string();

    let mut listing = programs::kcat();
    listing.args(["-L", "-J", "-b", &bootstrap]);
    let listed: Value = serde_json::from_str(&programs::run(listing, b"", WAIT)).unwrap();
    let named = listed["brokers"].as_array().unwrap().iter();
    let named: Vec<_> = named.map(|broker| broker["name"].as_str().unwrap().to_owned()).collect();
    let expected: Vec<_> = outer.addresses().iter().map(ToString::to_string).collect();
    assert_eq!(named, expected);

    let mut producer = programs::kcat();
    producer.args(["-P", "-b", &bootstrap, "-t", "t", "-X", "acks=all"]);
    let _ = programs::run(producer, b"one\ntwo\n", WAIT);
    let mut consumer = programs::kcat();
    consumer.args(["-C", "-e", "-q", "-o", "beginning", "-b", &bootstrap, "-t", "t"]);
    assert_eq!(programs::run(consumer, b"", WAIT), "one\ntwo\n");
}

#[test]
fn the_doctor_finds_that_every_listener_works() {
    let broker = Broker::start_with(&Options::new("doctor").with_listeners(TWO));
    for listener in &broker.ready().listeners {
        let finished = doctor(&listener.bound[1].to_string());
        assert_eq!(finished.status.code(), Some(0), "{finished:?}");
        let works: Vec<_> = addresses(&finished).into_iter().map(|(works, _)| works).collect();
        assert_eq!(works, vec![true; listener.addresses().len()]);
    }
}

#[test]
fn the_doctor_finds_the_listener_that_advertises_what_is_not_there() {
    let broker = Broker::start_with(&Options::new("doctor-finds").with_listeners(WRONG));
    let [plain, outer] = &broker.ready().listeners[..] else { panic!("two listeners") };
    assert_eq!(doctor(&plain.bound[0].to_string()).status.code(), Some(0));
    let finished = doctor(&outer.bound[0].to_string());
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    let all = outer.addresses().len();
    assert!(
        finished.errors.contains(&format!("{all} of {all} advertised addresses don't work")),
        "{finished:?}"
    );
    for (works, address) in addresses(&finished) {
        assert!(!works && address["why"].as_str().unwrap().contains("nobody listens"), "{address}");
    }
}

#[test]
fn the_doctor_finds_shards_that_are_mixed_up() {
    // As a translation of addresses does that forwards each port to the other shard.
    let base = integration::ports::free_range(4);
    let lines = format!(
        "listeners = \"A://127.0.0.1:{base}\"\nadvertised.listeners = \"A://127.0.0.1:{},A://127.0.0.1:{base}\"",
        base + 1
    );
    let options = Options::new("doctor-mixed").with_listeners(lines.leak()).with_port_per_shard();
    let broker = Broker::start_with(&options);
    let first = broker.ready().listeners[0].bound[0].to_string();
    integration::topics::create(broker.ready().listeners[0].bound[0], "t", 4);
    let finished = doctor(&first);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    let (works, address) = &addresses(&finished)[0];
    assert!(!works && address["why"].as_str().unwrap().contains("another broker"), "{address}");
}
