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
