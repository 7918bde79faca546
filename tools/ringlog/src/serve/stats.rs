//! The counters of a running broker as a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use net_server::log_directories::LogDirectoryView;
use net_server::{ShardSnapshot, Stage};
use serde_json::{Value, json};

use crate::failure::Failure;

/// How often the file is replaced.
pub(super) const INTERVAL: Duration = Duration::from_millis(200);

/// The file, and whether it could be written the last time.
pub(super) struct StatsFile {
    path: PathBuf,
    is_failing: bool,
}

impl StatsFile {
    /// Sees that the file can be written, before anyone relies on it.
    pub(super) fn check(path: &Path) -> Result<Self, Failure> {
        let file = Self { path: path.to_owned(), is_failing: false };
        let unnamed = file.unnamed();
        let checked = fs::write(&unnamed, "").and_then(|()| fs::remove_file(&unnamed));
        let checked = if path.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { checked };
        checked.map_err(|error| {
            Failure::usage(format!(
                "--stats-file {}: {error}; name a file in a folder that is there and can be written",
                path.display()
            ))
        })?;
        Ok(file)
    }

    /// Replaces it at once: a reader sees the old counters or the new ones. A broker goes on without them.
    pub(super) fn replace(&mut self, shards: &[ShardSnapshot]) {
        let shards: Vec<Value> = shards.iter().map(shard).collect();
        let unnamed = self.unnamed();
        let written = fs::write(&unnamed, json!({ "shards": shards }).to_string())
            .and_then(|()| fs::rename(&unnamed, &self.path));
        if let Err(error) = written.as_ref().map_err(ToString::to_string)
            && !self.is_failing
        {
            tracing::warn!(path = %self.path.display(), error, "the counters can't be written");
        }
        self.is_failing = written.is_err();
    }

    fn unnamed(&self) -> PathBuf {
        self.path.with_extension("tmp")
    }
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
        "fetch_sessions": snapshot.fetch_sessions,
        "wrong_shard": snapshot.wrong_shard,
        "low_space_refusals": snapshot.low_space_refusals,
        "request_bytes": snapshot.request_bytes,
        "reply_bytes": snapshot.reply_bytes,
        "mailbox_messages": snapshot.mailbox_messages,
        "questions": snapshot.questions,
        "latencies": latencies,
        "store": store,
        "log_directories": snapshot.log_directories.iter().map(directory).collect::<Vec<_>>(),
    })
}

fn directory(view: &LogDirectoryView) -> Value {
    json!({ "path": view.path, "online": view.is_online, "partitions": view.partitions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_can_not_be_written_is_refused_by_name_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().join("missing/x"), folder.path().to_owned()] {
            let failure = StatsFile::check(&path).err().unwrap();
            assert_eq!(failure.code(), Failure::USAGE);
            assert!(failure.to_string().contains(&*path.to_string_lossy()), "{failure}");
        }
        let path = folder.path().join("stats.json");
        let mut file = StatsFile::check(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "checking leaves nothing");
        file.replace(&[]);
        assert_eq!(fs::read_to_string(&path).unwrap(), json!({ "shards": [] }).to_string());
        fs::remove_dir_all(folder.path()).unwrap();
        file.replace(&[]);
        assert!(file.is_failing && !path.exists());
    }
}
