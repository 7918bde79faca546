//! `ringlog log` on the files of a real broker.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "harness/broker.rs"]
mod broker;
mod harness;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use broker::{Broker, ringlog, serve};

/// Exit code and report.
fn verify(folder: &Path, path: &Path) -> (i32, Value) {
    let output = ringlog(folder).args(["log", "verify", "--json"]).arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), serde_json::from_str(&text).unwrap())
}

/// Fills three segments and a part of the next.
fn fill(broker: &Broker, folder: &Path) {
    let settings = ["--config", "segment.bytes=1048576", "--config", "index.interval.bytes=4096"];
    let mut create = ringlog(folder);
    create.args(["topic", "create", "orders", "--bootstrap", &broker.address]).args(settings);
    assert!(create.output().unwrap().status.success());
    for compression in ["none", "lz4"] {
        let mut produce = ringlog(folder);
        produce.args(["produce", "orders", "--key-separator=:", "--compression", compression]);
        produce.args(["--bootstrap", &broker.address]).stdin(Stdio::piped()).stderr(Stdio::null());
        let mut produce = produce.spawn().unwrap();
        let mut input = produce.stdin.take().unwrap();
        for number in 0..30_000 {
            writeln!(input, "key-{number}:value {number} {:0100}", number * 7).unwrap();
        }
        drop(input);
        assert!(produce.wait().unwrap().success());
    }
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let topic = fs::read_dir(folder.join("ringlog-data/topics")).unwrap().next().unwrap().unwrap().path();
    let files = fs::read_dir(topic.join("0")).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
    segments.sort();
    segments
}

#[test]
fn a_brokers_logs_are_sound_while_it_runs_and_after_and_a_flipped_bit_is_found() {
    let folder = harness::folder();
    let mut broker = serve(folder.path());
    fill(&broker, folder.path());
    let data = folder.path().join("ringlog-data");
    let (code, report) = verify(folder.path(), &data);
    assert_eq!((code, &report["broker_running"]), (0, &true.into()), "{report}");
    kill_process(Pid::from_child(&broker.process), Signal::TERM).unwrap();
    assert!(broker.process.wait().unwrap().success());
    let (code, report) = verify(folder.path(), &data);
    assert_eq!((code, &report["broker_running"]), (0, &false.into()), "{report}");
    assert_eq!(report["records"], 60_000, "{report}");
    assert!(report["segments"].as_u64().unwrap() > 3, "{report}");

    let segments = segments(folder.path());
    let indexes = segments.iter().filter(|path| path.with_extension("index").exists()).count();
    assert!(indexes >= 3, "{indexes} indexes");
    let path = &segments[1];
    let mut bytes = fs::read(path).unwrap();
    bytes[20_000] ^= 4;
    fs::write(path, bytes).unwrap();
    let (code, report) = verify(folder.path(), &data);
    let damages = report["damages"].as_array().unwrap();
    assert_eq!((code, damages.len()), (1, 1), "{report}");
    assert_eq!(damages[0]["file"], path.to_str().unwrap(), "{report}");
    let dump = ringlog(folder.path()).args(["log", "dump", "--records"]).arg(&segments[0]).output().unwrap();
    let text = String::from_utf8(dump.stdout).unwrap();
    assert!(
        text.contains("    0: time ") && text.contains("key \"key-0\", value \"value 0 "),
        "{}",
        &text[..500]
    );
}
