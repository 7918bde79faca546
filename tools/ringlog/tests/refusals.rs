//! A command that is refused leaves everything as it was.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod harness;

use std::ffi::OsStr;
use std::fs;
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
