use net_server::config::ConfigFile;
use net_server::settings::BrokerSettings;
use proptest::prelude::*;

use super::*;

fn translated(text: &str) -> Translation {
    translate(&properties::parse(text.as_bytes()).unwrap())
}

/// What is told of a property of a file with this text.
fn outcome(text: &str, name: &str) -> Outcome {
    let translation = translated(text);
    let mut told = translation.told.iter().filter(|told| told.name == name);
    let only = told.next().unwrap_or_else(|| panic!("nothing is told of {name}: {translation:#?}"));
    assert_eq!(told.next(), None);
    only.outcome.clone()
}

fn own<'a>(translation: &'a Translation, name: &str) -> Option<&'a str> {
    translation.own.get(name).map(String::as_str)
}

/// The server.properties that the source system shipped with, without its comments.
const SHIPPED: &str = "\
broker.id=0
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kafka-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
";

#[test]
fn the_configuration_that_the_source_system_shipped_needs_nobody_and_its_retention_is_obeyed() {
    let translation = translated(SHIPPED);
    assert_eq!(
        translation.count(|outcome| matches!(outcome, Outcome::NeedsPerson(_))),
        0,
        "{translation:#?}"
    );
    assert_eq!(translation.told.len(), SHIPPED.lines().count());
    let toml = to_toml(&translation, "server.properties");
    let planned = plan_text(Path::new("ringlog.toml"), &toml).unwrap();
    assert_eq!((planned.node, planned.data_folder), (0, "/tmp/kafka-logs".into()));
    let file = ConfigFile::parse(&toml).unwrap();
    let log = BrokerSettings::from_file(&file.kafka).unwrap().topic.log_config();
    assert_eq!(log.retention_age.map(|age| age.as_secs()), Some(168 * 3_600));
    assert_eq!((log.retention_bytes, log.segment_bytes), (Some(1 << 30), 1 << 30));
}

#[test]
fn of_several_units_the_finest_counts_in_the_result_as_in_the_source() {
    for (text, ms) in [
        ("log.retention.ms=5\nlog.retention.minutes=1\nlog.retention.hours=2", 5),
        ("log.retention.hours=2\nlog.retention.minutes=1", 60_000),
        ("log.retention.hours=2", 7_200_000),
    ] {
        let toml = to_toml(&translated(text), "s");
        let file = ConfigFile::parse(&toml).unwrap();
        let settings = BrokerSettings::from_file(&file.kafka).unwrap();
        assert_eq!(settings.topic.retention_age.unwrap().as_millis(), ms, "{text}");
    }
}

#[test]
fn a_setting_that_is_said_twice_counts_as_java_reads_it() {
    let translation = translated("num.partitions=3\nnum.partitions=5\n");
    assert_eq!(translation.kafka["num.partitions"], "5");
    let told: Vec<_> = translation.told.iter().map(|told| told_text(told, "s")).collect();
    assert_eq!(
        told,
        [
            "s:1: num.partitions: left out: line 2 says it again, and that counts",
            "s:2: num.partitions=5: carried over"
        ]
    );
}

#[test]
fn what_ringlog_can_not_carry_out_needs_a_person_who_is_told_the_range() {
    let Outcome::NeedsPerson(why) = outcome("log.segment.bytes=2147483647", "log.segment.bytes") else {
        panic!()
    };
    assert_eq!(
        why,
        "Ringlog takes a number of bytes from 1048576 to 1073741824; it is left at the default, 134217728"
    );
    let Outcome::NeedsPerson(why) = outcome("log.cleanup.policy=compact", "log.cleanup.policy") else {
        panic!()
    };
    assert_eq!(why, "only delete is carried out; it is left at the default, delete");
    for text in [
        "default.replication.factor=3",
        "min.insync.replicas=2",
        "ssl.keystore.location=/k",
        "num.partition=3",
    ] {
        let name = text.split_once('=').unwrap().0;
        assert!(matches!(outcome(text, name), Outcome::NeedsPerson(_)), "{text}");
    }
    assert!(matches!(outcome("compression.type=lz4", "compression.type"), Outcome::LeftOut(_)));
    assert!(matches!(outcome("my.plugin.level=9", "my.plugin.level"), Outcome::LeftOut(_)));
    assert!(matches!(outcome("num.partitions=", "num.partitions"), Outcome::LeftOut(_)));
}

#[test]
fn nothing_that_may_be_a_secret_is_repeated() {
    let text = "ssl.key.password=hidden\nsasl.jaas.config=x password=hidden;\nmy.secret=hidden\n";
    let translation = translated(text);
    let told = report(&translation, "s", &[]);
    let result = to_toml(&translation, "s");
    let json = as_json(&translation, &result, &[]).to_string();
    assert!(!told.contains("hidden") && !result.contains("hidden") && !json.contains("hidden"), "{told}");
}

#[test]
fn names_have_older_spellings() {
    assert_eq!(own(&translated("broker.id=7"), "node_id"), Some("7"));
    let both = translated("broker.id=7\nnode.id=8\nlog.dir=/a\nlog.dirs=/b");
    assert_eq!((own(&both, "node_id"), own(&both, "data_dir")), (Some("8"), Some("/b")));
    let span =
        translated("log.message.timestamp.difference.max.ms=1000\nlog.message.timestamp.after.max.ms=5");
    assert_eq!(span.kafka["log.message.timestamp.before.max.ms"], "1000");
    assert_eq!(span.kafka["log.message.timestamp.after.max.ms"], "5");
    let Outcome::Translated(told) =
        outcome("log.message.timestamp.difference.max.ms=1", "log.message.timestamp.difference.max.ms")
    else {
        panic!()
    };
    assert!(told.contains("deprecated"), "{told}");
}

#[test]
fn the_first_folder_becomes_the_data_folder_and_all_hold_logs_where_there_are_several() {
    let one = translated("log.dirs= /a");
    assert_eq!((own(&one, "data_dir"), kafka(&one, "log.dirs")), (Some("/a"), None));
    let several = translated("log.dirs=/a, /b");
    assert_eq!((own(&several, "data_dir"), kafka(&several, "log.dirs")), (Some("/a"), Some("/a,/b")));
    assert!(matches!(several.told[0].outcome, Outcome::Translated(_)));
}

fn kafka<'a>(translation: &'a Translation, name: &str) -> Option<&'a str> {
    translation.kafka.get(name).map(String::as_str)
}

#[test]
fn a_plain_listener_is_carried_over_and_what_hides_it_needs_a_person() {
    let plain = "listeners=PLAINTEXT://:9092,INNER://10.0.0.1:19092\nadvertised.listeners=PLAINTEXT://broker1.example:9092\n\
                 listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT\n";
    let carried = translated(plain);
    assert_eq!(kafka(&carried, "listeners"), Some("PLAINTEXT://:9092,INNER://10.0.0.1:19092"));
    assert_eq!(kafka(&carried, "advertised.listeners"), Some("PLAINTEXT://broker1.example:9092"));
    assert!(carried.told.iter().all(|told| told.outcome == Outcome::Carried) && carried.notes.is_empty());

    let mapped = "listeners=CLIENTS://[::1]:9092,CONTROLLER://:9093\nlistener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
                  controller.listener.names=CONTROLLER\n";
    assert_eq!(kafka(&translated(mapped), "listeners"), Some("CLIENTS://[::1]:9092"));
    assert!(matches!(outcome(mapped, "listeners"), Outcome::Translated(_)));
    assert!(matches!(outcome(mapped, "listener.security.protocol.map"), Outcome::Translated(_)));
    assert_eq!(kafka(&translated(mapped), "listener.security.protocol.map"), Some("CLIENTS:PLAINTEXT"));

    let hidden = "listeners=PLAINTEXT://127.0.0.1:9092,SSL://:9093\nadvertised.listeners=SSL://b1:9093,PLAINTEXT://b1:9092\n";
    assert!(matches!(outcome(hidden, "listeners"), Outcome::NeedsPerson(_)));
    assert_eq!(kafka(&translated(hidden), "listeners"), Some("PLAINTEXT://127.0.0.1:9092"));
    assert_eq!(kafka(&translated(hidden), "advertised.listeners"), Some("PLAINTEXT://b1:9092"));
    for none in [
        "listeners=SASL_SSL://:9092",
        "listeners=:9092",
        "listeners=X://:1\nlistener.security.protocol.map=X:SSL",
    ] {
        assert!(matches!(outcome(none, "listeners"), Outcome::NeedsPerson(_)));
        assert_eq!(kafka(&translated(none), "listeners"), None, "nothing is opened that was closed");
    }
    let implied = translated("advertised.listeners=PLAINTEXT://b1:9092");
    assert_eq!(kafka(&implied, "listeners"), Some("PLAINTEXT://:9092"));
}

#[test]
fn nothing_is_carried_over_that_is_not_plain_text_for_certain() {
    for (listeners, map) in [
        ("CLIENTS://:9092", "CLIENTS: SSL"),
        ("CLIENTS://:9092", "CLIENTS:ssl"),
        ("CLIENTS://:9092", "CLIENTS:PLAINTEXT,CLIENTS:SSL"),
        ("CLIENTS://:9092", "OTHERS:PLAINTEXT"),
        ("CLIENTS://:9092", "CLIENTS=PLAINTEXT"),
        ("clients://:9092", "CLIENTS:SSL"),
        ("PLAINTEXT://:9092", "PLAINTEXT:SASL_SSL"),
        ("CLIENTS://:9092", ""),
        ("ssl://:9092", ""),
        ("plaintext_of_old://:9092", ""),
    ] {
        let text = format!("listeners={listeners}\nlistener.security.protocol.map={map}\n");
        assert!(matches!(outcome(&text, "listeners"), Outcome::NeedsPerson(_)), "{text}");
        assert_eq!(kafka(&translated(&text), "listeners"), None, "{text}");
    }
    for (listeners, map) in [
        ("clients://:9092", " CLIENTS : plaintext "),
        ("Plaintext://:9092", ""),
        ("SSL://:9092", "SSL:PLAINTEXT"),
    ] {
        let text = format!("listeners={listeners}\nlistener.security.protocol.map={map}\n");
        let translation = translated(&text);
        assert_eq!(kafka(&translation, "listeners"), Some(listeners), "{text}");
        let planned = plan_text(Path::new("ringlog.toml"), &to_toml(&translation, "server.properties"));
        assert!(planned.is_ok(), "{text}: {planned:?}");
    }
}

#[test]
fn names_of_listeners_are_the_same_in_any_case() {
    let text = "listeners=Plaintext://:9092,Quorum://:9093\ncontroller.listener.names=QUORUM\n\
                advertised.listeners=PLAINTEXT://b1:9092\n";
    let translation = translated(text);
    assert_eq!(kafka(&translation, "listeners"), Some("Plaintext://:9092"));
    assert_eq!(kafka(&translation, "advertised.listeners"), Some("PLAINTEXT://b1:9092"));
}

/// What a broker without ZooKeeper has in its server.properties, where nobody changed it.
const COMBINED: &str = "\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
security.inter.broker.protocol=PLAINTEXT
";

#[test]
fn the_configuration_of_a_broker_without_zookeeper_needs_nobody() {
    let translation = translated(COMBINED);
    let needs = |told: &&Told| matches!(told.outcome, Outcome::NeedsPerson(_));
    assert_eq!(translation.told.iter().find(needs), None);
    let planned = plan_text(Path::new("ringlog.toml"), &to_toml(&translation, "server.properties")).unwrap();
    assert_eq!(planned.addresses[0], ["PLAINTEXT://0.0.0.0:9092"]);
    assert!(matches!(
        outcome("security.inter.broker.protocol=SSL", "security.inter.broker.protocol"),
        Outcome::NeedsPerson(_)
    ));
}

#[test]
fn hosts_and_ports_of_the_oldest_versions_are_listeners_too() {
    let old = translated("port=9095\nhost.name=10.0.0.1\nadvertised.host.name=b1\n");
    assert_eq!(kafka(&old, "listeners"), Some("PLAINTEXT://10.0.0.1:9095"));
    assert_eq!(kafka(&old, "advertised.listeners"), Some("PLAINTEXT://b1:9095"));
    assert_eq!(kafka(&translated("port=9095"), "listeners"), Some("PLAINTEXT://:9095"));
    assert!(matches!(outcome("advertised.port=1", "advertised.port"), Outcome::NeedsPerson(_)));
    let newer = "listeners=PLAINTEXT://h:1\nport=2\n";
    assert_eq!(outcome(newer, "port"), Outcome::LeftOut("listeners counts".to_owned()));
    assert_eq!(translated("num.partitions=1").notes.len(), 1, "it would be reached by nobody else");
}

proptest! {
    /// Whatever stands in a file: each line is told once, the result is TOML and says only what Ringlog knows.
    #[test]
    fn the_result_of_any_file_is_a_configuration(
        pairs in proptest::collection::vec(("[a-z.]{0,12}|num.partitions|log.dirs|listeners|log.retention.ms|node.id", "[ -~\u{e4}\n]{0,20}"), 0..12),
    ) {
        let all: Vec<_> = pairs.into_iter().enumerate().map(|(index, (key, value))| {
            properties::Property { line: index + 1, key, value }
        }).collect();
        let translation = translate(&all);
        prop_assert_eq!(translation.told.len(), all.len());
        let toml = to_toml(&translation, "server.properties");
        let (file, refused) = ConfigFile::read(&toml).unwrap();
        // Ringlog's own settings are judged on the machine.
        prop_assert!(refused.iter().all(|error| error.to_string().contains("node_id")), "{refused:?} {toml}");
        prop_assert!(BrokerSettings::from_file(&file.kafka).is_ok(), "{}", toml);
    }
}
