//! A command that is refused leaves everything as it was.

use std::fs;
use std::process::{Command, Stdio};

#[test]
fn a_start_that_is_refused_makes_no_folder() {
    let below = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringlog"));
    // The folder is taken before this file is looked at.
    command.args(["serve", "--data-dir", "made/for/this", "--stats-file", "missing/stats.json"]);
    command.current_dir(below.path()).stdin(Stdio::null()).stdout(Stdio::null());
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--stats-file missing/stats.json: "), "{said}");
    assert_eq!(fs::read_dir(below.path()).unwrap().count(), 0);
}
