//! `ringlog topic` against a broker of its own.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "harness/broker.rs"]
mod broker;
mod harness;

use std::path::Path;

use serde_json::{Value, json};

use broker::{Broker, ringlog, serve, serve_with};

/// Exit code, what was printed and what was complained of.
fn topic(broker: &Broker, folder: &Path, words: &[&str]) -> (i32, String, String) {
    let mut command = ringlog(folder);
    let output = command.arg("topic").args(words).args(["--bootstrap", &broker.address]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_topics_settings_are_altered_and_shown() {
    let folder = harness::folder();
    let broker = serve(folder.path());
    let topic = |words: &[&str]| topic(&broker, folder.path(), words);
    let configs = || {
        let (code, told, complaint) = topic(&["describe", "orders", "--json"]);
        assert_eq!(code, 0, "{complaint}");
        serde_json::from_str::<Value>(&told).unwrap()["configs"].clone()
    };
    assert_eq!(topic(&["create", "orders", "--config", "segment.ms=60000"]).0, 0);
    assert_eq!(configs(), json!({ "segment.ms": "60000" }));
    let (code, told, _) =
        topic(&["alter", "orders", "--config", "retention.ms=1000", "--delete-config", "segment.ms"]);
    assert_eq!(code, 0);
    assert_eq!(told, "altered topic orders: retention.ms=1000, segment.ms as the broker has it\n");
    assert_eq!(configs(), json!({ "retention.ms": "1000" }));
    let (_, told, _) = topic(&["describe", "orders"]);
    assert!(told.contains("settings of its own: retention.ms=1000\n"), "{told}");
    let refused = [
        (&["alter", "orders", "--config", "retention.m=1"][..], 1, "did you mean `retention.ms`"),
        (&["alter", "orders", "--config", "retention.ms=soon"], 1, "`soon` is not a number"),
        (&["alter", "orders", "--delete-config", "x"], 1, "unknown setting `x`"),
        (&["alter", "missing", "--config", "retention.ms=1"], 1, "the topic does not exist"),
        (&["alter", "orders"], 2, "--config"),
        (&["alter", "orders", "--config", "a=1", "--config", "a=2"], 2, "named twice"),
    ];
    for (words, expected, part) in refused {
        let (code, _, complaint) = topic(words);
        assert_eq!(code, expected, "{words:?}: {complaint}");
        assert!(complaint.contains(part), "{words:?}: {complaint}");
    }
    assert_eq!(configs(), json!({ "retention.ms": "1000" }));
}

#[test]
fn a_topic_gets_more_partitions() {
    let folder = harness::folder();
    let broker = serve(folder.path());
    let topic = |words: &[&str]| topic(&broker, folder.path(), words);
    assert_eq!(topic(&["create", "orders", "--partitions", "2"]).0, 0);
    let (code, told, complaint) = topic(&["alter", "orders", "--partitions", "5"]);
    assert_eq!((code, &*told), (0, "altered topic orders: 5 partitions\n"), "{complaint}");
    let (_, told, _) = topic(&["alter", "orders", "--partitions", "6", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), json!({ "name": "orders", "partitions": 6 }));
    let (_, told, _) = topic(&["describe", "orders", "--json"]);
    let described: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(described["partitions"].as_array().unwrap().len(), 6);
    let refused = [("orders", "6", "has 6 partitions already"), ("missing", "2", "the topic does not exist")];
    for (name, count, part) in refused {
        let (code, _, complaint) = topic(&["alter", name, "--partitions", count]);
        assert_eq!(code, 1, "{complaint}");
        assert!(complaint.contains(part), "{complaint}");
    }
}

#[test]
fn what_a_topics_logs_take_is_told_by_partition() {
    let folder = harness::folder();
    let broker = serve(folder.path());
    let topic = |words: &[&str]| topic(&broker, folder.path(), words);
    assert_eq!(topic(&["create", "orders", "--partitions", "2"]).0, 0);
    let mut produce = ringlog(folder.path());
    produce.args(["produce", "orders", "--partition", "1", "--file"]).arg("/proc/self/limits");
    let produced = produce.args(["--bootstrap", &broker.address]).output().unwrap();
    assert!(produced.status.success(), "{produced:?}");
    let (code, told, complaint) = topic(&["describe", "orders", "--json"]);
    assert_eq!(code, 0, "{complaint}");
    let told: Value = serde_json::from_str(&told).unwrap();
    let number = |partition: usize, key: &str| told["partitions"][partition][key].as_u64().unwrap();
    assert_eq!((number(0, "log_bytes"), number(0, "segment_count")), (0, 1));
    assert!(number(1, "log_bytes") > 500, "{told}");
    assert_eq!(number(1, "segment_count"), 1);
}

#[test]
fn segments_are_counted_also_where_all_shards_share_a_port() {
    let folder = harness::folder();
    let broker = serve_with(folder.path(), 2, &["--routing", "node"]);
    let topic = |words: &[&str]| topic(&broker, folder.path(), words);
    let small = ["create", "orders", "--partitions", "4", "--config", "segment.bytes=1048576"];
    assert_eq!(topic(&small).0, 0);
    std::fs::write(folder.path().join("record"), vec![b'x'; 700_000]).unwrap();
    for _ in 0..3 {
        let mut produce = ringlog(folder.path());
        produce.args(["produce", "orders", "--partition", "1", "--file", "record"]);
        let produced = produce.args(["--bootstrap", &broker.address]).output().unwrap();
        assert!(produced.status.success(), "{produced:?}");
    }
    let (code, told, complaint) = topic(&["describe", "orders", "--json"]);
    assert_eq!(code, 0, "{complaint}");
    let told: Value = serde_json::from_str(&told).unwrap();
    let counts = told["partitions"].as_array().unwrap().iter().map(|told| told["segment_count"].as_u64());
    assert!(counts.eq([Some(1), Some(3), Some(1), Some(1)]), "{told}");
    let shards = told["partitions"].as_array().unwrap().iter().map(|told| told["shard"].as_u64().unwrap());
    let mut shards: Vec<_> = shards.collect();
    shards.sort_unstable();
    assert_eq!(shards, [0, 0, 1, 1], "they are level over the shards");
    let (_, told, _) = topic(&["describe", "orders"]);
    let last = |line: &str| line.split_whitespace().last().map(str::to_owned);
    let shown: Vec<_> = told.lines().skip(2).filter_map(last).collect();
    assert_eq!(shown, ["SEGMENTS", "1", "3", "1", "1"], "{told}");
}
