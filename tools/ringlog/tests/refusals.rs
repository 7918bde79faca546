//! A command that is refused leaves everything as it was.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod harness;

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn ringlog(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringlog"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// The exit code, and what was said.
fn refusal(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    end_of(&mut ringlog(folder, arguments))
}

fn end_of(command: &mut Command) -> (Option<i32>, String) {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn a_start_that_is_refused_makes_no_folder() {
    let below = harness::folder();
    // The folder is taken before this file is looked at.
    let arguments = ["serve", "--data-dir", "made/for/this", "--stats-file", "missing/stats.json"];
    let (code, said) = refusal(below.path(), &arguments);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--stats-file missing/stats.json: "), "{said}");
    assert!(is_empty(below.path()));
}

/// A server that resets every connection but those that begin with a handshake of TLS, as common libraries do.
fn begin_to_speak_tls() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let speak = move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut begun = [0];
            if stream.read_exact(&mut begun).is_ok() && begun == [0x16] {
                stream.write_all(b"\x15\x03\x03\x00\x02\x02\x28").unwrap();
            }
        }
    };
    std::thread::Builder::new().spawn(speak).unwrap();
    address
}

#[test]
fn the_doctor_names_tls_where_it_is_spoken() {
    let below = harness::folder();
    let address = begin_to_speak_tls().to_string();
    let (code, said) = refusal(below.path(), &["doctor", "listeners", "--from", &address]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("no broker answers at {address}: TLS is spoken there")), "{said}");
}

#[test]
fn ports_past_the_last_are_wrong_usage_wherever_they_are_said() {
    let below = harness::folder();
    let cpu = tuning::usable_cores(Path::new("/")).unwrap().cpus[0].id;
    let cpus = format!("{cpu},{cpu}");
    for (flag, address) in [("--listen", "127.0.0.1:65535"), ("--advertise", "h:65535")] {
        let (code, said) = refusal(below.path(), &["serve", "--cpus", &cpus, flag, address]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(&format!("{flag}: `{address}`: each of 2 shards takes a port")), "{said}");
        assert!(is_empty(below.path()));
    }
}

#[test]
fn listeners_that_can_not_be_served_are_refused_with_what_to_do() {
    let below = harness::folder();
    let cpu = tuning::usable_cores(Path::new("/")).unwrap().cpus[0].id;
    let cpus = format!("{cpu},{cpu}");
    let configuration = below.path().join("ringlog.toml");
    for (lines, expected) in [
        ("listeners = \"SSL://:9093\"", "not served yet; meanwhile listen with PLAINTEXT"),
        ("listeners = \"SASL_SSL://:9093\"", "not served yet; meanwhile"),
        ("listener.security.protocol.map = \"PLAINTEXT:SASL_PLAINTEXT\"", "not served yet; meanwhile"),
        ("listeners = \"A://127.0.0.1:9092,B://0.0.0.0:9093\"", "take the same ports"),
        ("listeners = \"A://127.0.0.1:65535\"", "each of 2 shards takes a port"),
        ("listeners = \"A://no-such-host.invalid:1\"", "no address and no known host"),
        ("advertised.listeners = \"PLAINTEXT://0.0.0.0:9092\"", "clients cannot reach"),
        ("advertised.listeners = \"OTHER://h:9092\"", "there is no listener OTHER"),
    ] {
        fs::write(&configuration, format!("[kafka]\n{lines}\n")).unwrap();
        let arguments = ["serve", "--cpus", &cpus, "--config", configuration.to_str().unwrap()];
        let (code, said) = refusal(below.path(), &arguments);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("configuration ") && said.contains(expected), "{lines}: {said}");
    }
    fs::write(&configuration, "listen = \":1\"\n[kafka]\nlisteners = \"A://:1\"\n").unwrap();
    let (code, said) = refusal(below.path(), &["serve", "--config", configuration.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("`listen` is given too"), "{said}");
    fs::remove_file(&configuration).unwrap();
    assert!(is_empty(below.path()));
}

#[test]
fn a_log_level_that_is_none_is_refused_with_those_there_are() {
    let below = harness::folder();
    for (level, shown) in
        [(&b"loud"[..], "`loud`"), (b"debug,net=trace", "`debug,net=trace`"), (b"\xff", "`\u{fffd}`")]
    {
        let mut command = ringlog(below.path(), &["serve", "--listen", "127.0.0.1:0"]);
        let (code, said) = end_of(command.env("RINGLOG_LOG", OsStr::from_bytes(level)));
        assert_eq!(code, Some(2), "{said}");
        let expected = format!("RINGLOG_LOG: {shown} is no level; use error, warn, info, debug or trace");
        assert!(said.contains(&expected), "{said}");
        assert!(is_empty(below.path()));
    }
}

/// What holds no data for long has no direct I/O either.
#[test]
fn a_drive_without_direct_io_is_left_as_it_was_found() {
    let shared_memory = Path::new("/dev/shm");
    let below = tempfile::tempdir_in(shared_memory).unwrap();
    let made = below.path().join("made/for/this");
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data-dir", made.to_str().unwrap()];
    for arguments in [&arguments[..], &["format", "--data-dir", made.to_str().unwrap()]] {
        let (code, said) = refusal(below.path(), arguments);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("has no direct I/O"), "{said}");
        assert!(is_empty(below.path()), "{arguments:?}");
    }
}

/// A configuration with these log directories.
fn configure(folder: &Path, log_dirs: &str) {
    let text = format!("data_dir = \"data\"\nlisten = \"127.0.0.1:0\"\n[kafka]\nlog.dirs = \"{log_dirs}\"\n");
    fs::write(folder.join("ringlog.toml"), text).unwrap();
}

const FORMAT: [&str; 3] = ["format", "--config", "ringlog.toml"];
const SERVE: [&str; 3] = ["serve", "--config", "ringlog.toml"];

fn formatted(folder: &Path, log_dirs: &str) {
    configure(folder, log_dirs);
    let (code, said) = refusal(folder, &FORMAT);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn log_directories_that_are_one_or_none_are_wrong_usage() {
    let below = harness::folder();
    for (log_dirs, expected) in [
        ("d1,d2,d1", "names a folder twice"),
        ("d1,./d1", "names a folder twice"),
        ("d1/x,d1", "lies within"),
        ("d1,data/x", "lies within"),
        (".,d1", "lies within"),
        ("d1,,d2", "none of them empty"),
        ("", "none of them empty"),
    ] {
        configure(below.path(), log_dirs);
        let (code, said) = refusal(below.path(), &FORMAT);
        assert_eq!(code, Some(2), "{log_dirs}: {said}");
        assert!(said.contains(expected), "{said}");
        assert_eq!(fs::read_dir(below.path()).unwrap().count(), 1, "{log_dirs}: nothing but the file");
    }
}

#[test]
fn a_new_log_directory_is_used_once_it_is_formatted_and_only_an_empty_one_is() {
    let below = harness::folder();
    formatted(below.path(), "d1");
    configure(below.path(), "d1,d2");
    for make in [false, true] {
        if make {
            fs::create_dir(below.path().join("d2")).unwrap();
        }
        let (code, said) = refusal(below.path(), &SERVE);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("d2 is not formatted") && said.contains("ringlog format"), "{said}");
    }
    fs::write(below.path().join("d2/photo.jpg"), "x").unwrap();
    let (code, said) = refusal(below.path(), &FORMAT);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("d2 holds `photo.jpg`"), "{said}");
    assert!(!below.path().join("d2/format.toml").exists());
}

#[test]
fn a_log_directory_of_another_cluster_is_refused() {
    let below = harness::folder();
    let (code, said) = refusal(below.path(), &["format", "--data-dir", "other"]);
    assert_eq!(code, Some(0), "{said}");
    formatted(below.path(), "d1");
    configure(below.path(), "d1,other");
    for arguments in [FORMAT, SERVE] {
        let (code, said) = refusal(below.path(), &arguments);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("other: it belongs to"), "{said}");
    }
}

/// What a partition with records leaves in a directory.
fn put_records(directory: &Path) {
    let partition = directory.join("topics/yMjIyMjIyMjIyMjIyMjIyA/0");
    fs::create_dir_all(&partition).unwrap();
    fs::write(partition.join("00000000000000000000.log"), "records").unwrap();
}

#[test]
fn a_folder_with_records_that_is_left_out_is_wrong_usage_and_keeps_them() {
    let below = harness::folder();
    formatted(below.path(), "data,d1,d2");
    put_records(&below.path().join("data"));
    configure(below.path(), "d1,d2");
    let (code, said) = refusal(below.path(), &SERVE);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("data holds partitions and is not in log.dirs"), "{said}");
    assert!(said.contains("move the folders"), "the way out is told: {said}");
    assert!(below.path().join("data/topics/yMjIyMjIyMjIyMjIyMjIyA/0/00000000000000000000.log").exists());
}
