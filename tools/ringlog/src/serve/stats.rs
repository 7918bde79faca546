//! The counters of a running broker as a file.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use net_server::{ShardSnapshot, Stage};
use serde_json::{Value, json};

/// How often the file is replaced.
pub(super) const INTERVAL: Duration = Duration::from_millis(200);

/// Replaces the file at once: a reader sees the old counters or the new ones.
pub(super) fn write(path: &Path, shards: &[ShardSnapshot]) -> io::Result<()> {
    let shards: Vec<Value> = shards.iter().map(shard).collect();
    let unnamed = path.with_extension("tmp");
    fs::write(&unnamed, json!({ "shards": shards }).to_string())?;
    fs::rename(&unnamed, path)
}

fn shard(snapshot: &ShardSnapshot) -> Value {
    let latencies: serde_json::Map<String, Value> = Stage::ALL
        .iter()
        .zip(&snapshot.latencies)
        .map(|(stage, histogram)| {
            let microseconds = |quantile| histogram.value_at_quantile(quantile) / 1_000;
            let value = json!({
                "count": histogram.len(),
                "p50_us": microseconds(0.5),
                "p99_us": microseconds(0.99),
                "p999_us": microseconds(0.999),
                "max_us": histogram.max() / 1_000,
            });
            (format!("{stage:?}"), value)
        })
        .collect();
    let store = &snapshot.store;
    json!({
        "shard": snapshot.shard.0,
        "connections": snapshot.connections,
        "connections_accepted": snapshot.connections_accepted,
        "connections_refused": snapshot.connections_refused,
        "wrong_shard": snapshot.wrong_shard,
        "request_bytes": snapshot.request_bytes,
        "mailbox_messages": snapshot.mailbox_messages,
        "questions": snapshot.questions,
        "latencies": latencies,
        "store": store,
    })
}
