//! A machine or a folder that a broker can't run on is told in one message: what, where, and what to do about it. The
//! exit code is 3.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod harness;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

fn ringlog(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringlog"));
    command.args(words).current_dir(folder).stdin(Stdio::null()).env("RINGLOG_LOG", "error");
    command
}

/// The same from a shell that runs `before` first.
fn from_shell(folder: &Path, before: &str, words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{before} && exec \"$@\""), "sh", env!("CARGO_BIN_EXE_ringlog")]);
    command.args(words).current_dir(folder).stdin(Stdio::null()).env("RINGLOG_LOG", "error");
    command
}

fn first_cpu() -> String {
    tuning::usable_cores(Path::new("/")).unwrap().cpus[0].id.to_string()
}

/// Sees that it is refused, in one line with all these parts.
fn assert_refused(mut command: Command, parts: &[&str]) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!((said.lines().count(), &*output.stdout), (1, &b""[..]), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// A broker that serves.
struct Broker(Child);

impl Broker {
    fn start(folder: &Path, words: &[&str]) -> (Self, String) {
        let mut command =
            ringlog(folder, &["serve", "--json", "--listen", "127.0.0.1:0", "--cpus", &first_cpu()]);
        let mut broker = Self(command.args(words).stdout(Stdio::piped()).spawn().unwrap());
        let mut ready = String::new();
        BufReader::new(broker.0.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains("endpoints"), "{ready}");
        (broker, ready)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _ended_already = self.0.wait();
    }
}

fn serve(folder: &Path) -> Command {
    ringlog(folder, &["serve", "--listen", "127.0.0.1:0", "--cpus", &first_cpu()])
}

/// Answers io_uring's calls as containers do that forbid them: with "operation not permitted". Holds for this thread and
/// for what it starts.
fn forbid_io_uring() {
    let calls = BTreeMap::from([(libc_numbers::IO_URING_SETUP, Vec::new())]);
    let denied = SeccompAction::Errno(libc_numbers::EPERM);
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, denied, arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    apply_filter(&program).unwrap();
}

mod libc_numbers {
    /// The same on every architecture.
    pub(crate) const IO_URING_SETUP: i64 = 425;
    pub(crate) const EPERM: u32 = 1;
}

#[test]
fn io_uring_that_a_seccomp_profile_forbids() {
    let below = harness::folder();
    thread::scope(|scope| {
        let refused = || {
            forbid_io_uring();
            let parts = ["io_uring is forbidden here", "kernel.io_uring_disabled", "seccomp profile"];
            assert_refused(serve(below.path()), &parts);
            assert_refused(ringlog(below.path(), &["format"]), &parts);
            assert_refused(ringlog(below.path(), &["topic", "list"]), &parts);
        };
        scope.spawn(refused).join().unwrap();
    });
    assert!(fs::read_dir(below.path()).unwrap().next().is_none());
}

/// In a namespace of its own that shows another value: the real one is every process's.
#[test]
fn io_uring_that_the_host_forbids() {
    let below = harness::folder();
    let shown = below.path().join("io_uring_disabled");
    fs::write(&shown, "2\n").unwrap();
    let setting = "/proc/sys/kernel/io_uring_disabled";
    let in_namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
            shown.to_str().unwrap(),
            env!("CARGO_BIN_EXE_ringlog"),
        ]);
        command.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(below.path());
        command.stdin(Stdio::null()).env("RINGLOG_LOG", "error");
        command
    };
    let bind = format!("mount --bind \"$1\" {setting}");
    if !in_namespace(&bind).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        // Only a privileged process may mount, and not on every host.
        return;
    }
    let command = in_namespace(&format!("{bind} && shift && exec \"$@\""));
    assert_refused(command, &["io_uring is disabled on this host", "sysctl -w kernel.io_uring_disabled=0"]);
}

#[test]
fn limits_below_what_a_broker_needs() {
    let below = harness::folder();
    let words = ["serve", "--listen", "127.0.0.1:0", "--cpus", &first_cpu()];
    let locked = from_shell(below.path(), "ulimit -l 64", &words);
    assert_refused(
        locked,
        &["only 65536 bytes of memory may be locked", "524288 are needed", "LimitMEMLOCK"],
    );
    let files = from_shell(below.path(), "ulimit -n 128", &words);
    assert_refused(files, &["only 128 files may be open at once", "160 at least", "LimitNOFILE=1048576"]);
    assert!(fs::read_dir(below.path()).unwrap().next().is_none());
}

#[test]
fn a_port_that_another_has() {
    let below = harness::folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let command = ringlog(below.path(), &["serve", "--listen", &address, "--cpus", &first_cpu()]);
    assert_refused(command, &[&address, "--listen"]);
    assert!(fs::read_dir(below.path()).unwrap().next().is_none());
}

#[test]
fn a_folder_that_another_process_uses() {
    let below = harness::folder();
    let (_broker, _) = Broker::start(below.path(), &[]);
    let parts = ["ringlog-data is in use by another process", "stop that one, or choose another folder"];
    assert_refused(serve(below.path()), &parts);
    assert_refused(ringlog(below.path(), &["format"]), &parts);
}

#[test]
fn an_unformatted_folder_for_a_configured_broker() {
    let below = harness::folder();
    fs::write(below.path().join("ringlog.toml"), "data_dir = \"data\"\n").unwrap();
    let mut command = serve(below.path());
    command.args(["--config", "ringlog.toml"]);
    assert_refused(
        command,
        &["data folder data is not formatted", "run `ringlog format`", "mount the drive"],
    );
    assert!(!below.path().join("data").exists());
}

/// A folder that was formatted, as `change` leaves it.
fn assert_folder_refused(change: impl FnOnce(&Path), parts: &[&str]) {
    let below = harness::folder();
    assert!(ringlog(below.path(), &["format"]).stdout(Stdio::null()).status().unwrap().success());
    let data = below.path().join("ringlog-data");
    change(&data);
    assert_refused(serve(below.path()), &[parts, &["Nothing was changed"]].concat());
}

#[test]
fn a_folder_of_a_later_version_or_with_a_format_that_is_none() {
    let change = |from: &str, to: &str| {
        let (from, to) = (from.to_owned(), to.to_owned());
        move |data: &Path| {
            let path = data.join("format.toml");
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(&from), "{text}");
            fs::write(&path, text.replace(&from, &to)).unwrap();
        }
    };
    let newer =
        ["ringlog-data: the folder has format version 9, newer than 1", "start the Ringlog that wrote it"];
    assert_folder_refused(change("version = 1\n", "version = 9\n"), &newer);
    let damaged = ["ringlog-data: format.toml cannot be read", "from a backup"];
    assert_folder_refused(change("cluster_id", "cluster"), &damaged);
}

/// The only file in the folder of the metadata that ends so.
fn metadata_file(data: &Path, extension: &str) -> std::path::PathBuf {
    let entries = fs::read_dir(data.join("metadata")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn metadata_that_is_damaged_or_gone() {
    for (extension, part) in [("snapshot", ".snapshot: "), ("wal", ".wal: ")] {
        let damage = |data: &Path| {
            let path = metadata_file(data, extension);
            let mut bytes = fs::read(&path).unwrap();
            bytes[30..33].copy_from_slice(&[0x55, 0x66, 0x77]);
            fs::write(&path, bytes).unwrap();
        };
        assert_folder_refused(damage, &[part, "restore the whole data folder from a backup"]);
    }
    let gone = |data: &Path| fs::remove_file(metadata_file(data, "snapshot")).unwrap();
    assert_folder_refused(gone, &[".snapshot is gone", "restore the whole data folder from a backup"]);
}

#[test]
fn a_drive_without_direct_io_serves_for_development_and_says_so() {
    let Ok(below) = tempfile::tempdir_in("/dev/shm") else { return };
    let data = below.path().join("data");
    let folder = ["--data-dir", data.to_str().unwrap()];
    let mut command = serve(below.path());
    assert_refused(
        {
            command.args(folder);
            command
        },
        &["has no direct I/O", "--buffered-dev goes without it; nothing is durable"],
    );
    assert!(!data.exists());
    for _start in 0..2 {
        let (_broker, ready) = Broker::start(below.path(), &[&folder[..], &["--buffered-dev"]].concat());
        let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
        assert_eq!(ready["durable"], false);
        let address = ready["endpoints"][0]["address"].as_str().unwrap();
        let at = ["--bootstrap", address];
        let mut produce = ringlog(below.path(), &[&["produce", "t", "--key", "k"], &at[..]].concat());
        let lines = fs::File::open("/proc/self/limits").unwrap();
        assert!(produce.stdin(lines).stderr(Stdio::null()).status().unwrap().success());
        let consume = ["consume", "t", "--from", "earliest", "--until-end"];
        let read = ringlog(below.path(), &[&consume[..], &at].concat()).output().unwrap();
        assert!(String::from_utf8_lossy(&read.stdout).contains("Max locked memory"), "{read:?}");
    }
}

/// What it says to people and to the log.
#[test]
fn that_nothing_is_durable_is_said_loudly() {
    let Ok(below) = tempfile::tempdir_in("/dev/shm") else { return };
    let mut command = ringlog(
        below.path(),
        &["serve", "--listen", "127.0.0.1:0", "--cpus", &first_cpu(), "--buffered-dev"],
    );
    command.env("RINGLOG_LOG", "warn").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut broker = Broker(command.spawn().unwrap());
    let lines = BufReader::new(broker.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let banner: Vec<_> = lines.take(3).collect();
    assert!(banner[1].starts_with("NOT DURABLE: --buffered-dev"), "{banner:?}");
    let mut log = BufReader::new(broker.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(log.any(|line| line.contains("NOT DURABLE: --buffered-dev")));
}
