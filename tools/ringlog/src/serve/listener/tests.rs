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
        assert!(refused.contains("listeners A (") && refused.contains("take the same ports"), "{refused}");
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
    let kafka =
        ListenerSettings { advertised: Some("PLAINTEXT://h:1".to_owned()), ..ListenerSettings::default() };
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
    for host in ["", "a b:1", "-a", "a-", "a..b", "a/b", "0.0.0.0", "[::]:1", "10.0.0", "1.2.3.400", "ä"] {
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
