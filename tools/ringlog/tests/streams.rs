//! Whoever reads what a command says may go away; the command goes on, or ends quietly.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod harness;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

fn ringlog(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringlog"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

/// A pipe that nobody reads.
fn unread() -> Stdio {
    let (reading, writing) = std::io::pipe().unwrap();
    drop(reading);
    writing.into()
}

fn unheard(arguments: &[&str], folder: &Path) -> Output {
    ringlog(arguments, folder).stdout(unread()).stderr(Stdio::piped()).output().unwrap()
}

#[test]
fn a_command_that_nobody_listens_to_does_its_work_and_ends_quietly() {
    let folder = harness::folder();
    fs::write(folder.path().join("0.log"), [0; 4_096]).unwrap();
    for arguments in [&["format", "--data-dir", "data"][..], &["log", "dump", "0.log"], &["log", "dump", "."]]
    {
        let Output { status, stderr, .. } = unheard(arguments, folder.path());
        assert_eq!((status.code(), &*String::from_utf8_lossy(&stderr)), (Some(0), ""), "{arguments:?}");
    }
    assert!(folder.path().join("data/format.toml").exists());
}

#[test]
fn a_failure_that_nobody_hears_has_its_exit_code_all_the_same() {
    let folder = harness::folder();
    let mut command = ringlog(&["log", "dump", "missing.log"], folder.path());
    let status = command.stdout(unread()).stderr(unread()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

/// Ends with the test, however that ends.
struct Broker(Child);

impl Drop for Broker {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _ended_already = self.0.wait();
    }
}

#[test]
fn a_broker_whose_log_nobody_reads_any_more_serves_on_and_stops_in_order() {
    let folder = harness::folder();
    let arguments = ["serve", "--json", "--listen", "127.0.0.1:0", "--cpus", &first_cpu()];
    let mut command = ringlog(&arguments, folder.path());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut broker = Broker(command.spawn().unwrap());
    let mut ready = String::new();
    BufReader::new(broker.0.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.contains("endpoints"), "{ready}");
    drop(broker.0.stderr.take());
    // It says that it is stopping.
    kill_process(Pid::from_child(&broker.0), Signal::TERM).unwrap();
    assert_eq!(broker.0.wait().unwrap().code(), Some(0));
}

fn first_cpu() -> String {
    tuning::usable_cores(Path::new("/")).unwrap().cpus[0].id.to_string()
}
