//! `ringlog config` as it is typed.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod harness;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Exit code, what was printed and what was complained of.
fn config(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringlog"));
    let command = command.arg("config").args(words).current_dir(folder).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_kafka_brokers_configuration_becomes_one_that_passes_the_check() {
    let folder = harness::folder();
    let source = "# as shipped\nbroker.id=3\nlog.dirs=data\nlog.retention.hours : 168\nlog.retention.bytes=\\\n  1073741824\nzookeeper.connect=z:2181\n";
    fs::write(folder.path().join("server.properties"), source).unwrap();
    let (code, report, complaint) =
        config(folder.path(), &["import", "server.properties", "-o", "ringlog.toml"]);
    assert_eq!((code, &*complaint), (0, ""), "{report}");
    assert!(
        report.contains("server.properties:5: log.retention.bytes=1073741824: carried over\n"),
        "{report}"
    );
    assert!(
        report.contains("server.properties:7: zookeeper.connect: left out: there is no ZooKeeper"),
        "{report}"
    );
    let (code, told, complaint) = config(folder.path(), &["check"]);
    assert_eq!(code, 0, "{complaint}");
    assert!(
        told.starts_with("ok\nnode      3\n") && told.contains("setting   log.retention.bytes = 1073741824"),
        "{told}"
    );
    let (_, told, _) =
        config(folder.path(), &["explain", "retention.bytes", "--config", "ringlog.toml", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["value"], &told["unit"]), (&"1073741824".into(), &"bytes".into()));

    let (code, _, complaint) = config(folder.path(), &["import", "server.properties", "-o", "ringlog.toml"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("it is there already"), "{complaint}");
}

#[test]
fn what_needs_a_person_is_the_exit_code_and_the_result_is_there_all_the_same() {
    let folder = harness::folder();
    let source = "listeners=PLAINTEXT://127.0.0.1:65536,SSL://:9093\nnum.partitions=2\n";
    fs::write(folder.path().join("server.properties"), source).unwrap();
    let (code, told, report) = config(folder.path(), &["import", "server.properties"]);
    assert_eq!(code, 1, "{report}");
    assert!(told.contains("\"num.partitions\" = 2"), "{told}");
    assert!(report.contains("SSL://:9093 is left out"), "{report}");
    assert!(
        report.contains("the result is refused here: configuration ringlog.toml: setting `listeners`"),
        "{report}"
    );
    assert!(report.ends_with("ringlog: 2 things need a person: see the report\n"), "{report}");
    let (code, told, _) = config(folder.path(), &["import", "server.properties", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, &told["settings"][1]["outcome"]), (1, &"carried".into()));
    fs::write(folder.path().join("wrong.properties"), "a=1\nb=\\u00\n").unwrap();
    let (code, _, complaint) = config(folder.path(), &["import", "wrong.properties"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("wrong.properties: line 2: "), "{complaint}");
}

#[test]
fn a_check_tells_every_fault_and_an_explanation_the_nearest_name() {
    let folder = harness::folder();
    fs::write(folder.path().join("ringlog.toml"), "node_id = -1\n[kafka]\nnum.partitions = 0\n").unwrap();
    let (code, told, complaint) = config(folder.path(), &["check"]);
    assert_eq!((code, &*told), (2, ""));
    assert_eq!(complaint.lines().count(), 3, "{complaint}");
    assert!(complaint.ends_with("ringlog: 2 faults in ringlog.toml\n"), "{complaint}");
    let (code, told, _) = config(folder.path(), &["check", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, told["faults"].as_array().unwrap().len()), (2, 2));
    let (code, _, complaint) = config(folder.path(), &["check", "missing.toml"]);
    assert_eq!(code, 2);
    assert!(
        complaint.contains("missing.toml") && complaint.contains("name one that is there"),
        "{complaint}"
    );
    let (code, _, complaint) = config(folder.path(), &["explain", "num.partition"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("did you mean `num.partitions`?"), "{complaint}");
    let (code, told, _) = config(folder.path(), &["explain"]);
    assert_eq!(code, 0);
    assert!(told.starts_with("node_id\n") && told.contains("\n\nsegment.ms\n"), "{told}");
}
