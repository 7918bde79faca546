//! Clients that are programs of their own.

use std::env;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::binary;

/// What installs every client the tests need.
const INSTALL: &str = "run tests/clients/install.sh";

/// A call of kcat.
///
/// # Panics
/// When kcat isn't installed.
#[must_use]
pub fn kcat() -> Command {
    require("kcat", &["-V"]);
    Command::new("kcat")
}

/// A call of a script in `tests/clients`, in the Python that has the clients.
///
/// # Panics
/// When that Python isn't installed.
#[must_use]
pub fn python(script: &str) -> Command {
    let python = env::var_os("RINGLOG_PYTHON").map_or_else(|| installed("venv/bin/python3"), PathBuf::from);
    let mut command = Command::new(require_path(python));
    command.arg(script_path(script));
    command
}

/// A call of a program in `tests/clients/javascript`.
///
/// # Panics
/// When Node or the packages aren't installed.
#[must_use]
pub fn javascript(script: &str) -> Command {
    require("node", &["--version"]);
    let mut command = Command::new("node");
    command.env("RINGLOG_NODE", require_path(installed("javascript")));
    command.arg(script_path("javascript").join(script));
    command
}

/// The libraries of a Java client, as a profile in `tests/clients/java/pom.xml` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JavaLibraries {
    /// The client of Kafka 3.9, the last release that still spoke every old version.
    Clients39,
    /// Broker, tools and client of Kafka 4.3.
    Kafka43,
}

/// A call of a one-file program in `tests/clients/java`, which Java compiles in memory.
///
/// # Panics
/// When Java or the libraries aren't installed.
#[must_use]
pub fn java(libraries: JavaLibraries, program: &str) -> Command {
    let folder = match libraries {
        JavaLibraries::Clients39 => "java/clients-3.9",
        JavaLibraries::Kafka43 => "java/kafka-4.3",
    };
    require("java", &["-version"]);
    let mut command = Command::new("java");
    command.arg("-cp").arg(require_path(installed(folder)).join("*"));
    command.arg(script_path("java").join(program));
    command
}

/// A call of a shell script in `tests/clients`.
#[must_use]
pub fn shell(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.arg(script_path(script));
    command
}

fn script_path(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients").join(script)
}

/// Where `install.sh` puts this.
fn installed(path: &str) -> PathBuf {
    binary::target_folder().join("clients").join(path)
}

fn require_path(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "a client isn't installed ({} is missing): {INSTALL}", path.display());
    path
}

fn require(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} isn't installed: {INSTALL}");
}

/// What a program left.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub output: String,
    /// Its standard error.
    pub errors: String,
}

/// Runs a program to its end, with these bytes as its input, and answers its output.
///
/// # Panics
/// When it can't be started, fails, or isn't done within `wait`.
#[must_use]
pub fn run(command: Command, input: &[u8], wait: Duration) -> String {
    let called = format!("{command:?}");
    let finished = finish(command, input, wait);
    let Finished { status, output, errors } = finished;
    assert!(status.success(), "{called} ended with {status}\n{}\n{errors}", end_of(&output));
    output
}

/// Runs a program to its end, however it ends.
///
/// # Panics
/// When it can't be started, or isn't done within `wait`.
#[must_use]
pub fn finish(mut command: Command, input: &[u8], wait: Duration) -> Finished {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let stdin = child.stdin.take().expect("standard input was piped");
    let stdout = child.stdout.take().expect("standard output was piped");
    let stderr = child.stderr.take().expect("standard error was piped");
    thread::scope(|scope| {
        scope.spawn(move || feed(stdin, input));
        let errors = scope.spawn(move || read_text(stderr));
        let (sender, output) = mpsc::sync_channel(1);
        scope.spawn(move || sender.send(read_text(stdout)));
        let output = output.recv_timeout(wait);
        if output.is_err() {
            child.kill().expect("a child that still runs can be killed");
        }
        let status = child.wait().expect("a child can be waited for");
        let errors = errors.join().expect("reading doesn't panic");
        let output = output.unwrap_or_else(|_| panic!("{command:?} wasn't done after {wait:?}\n{errors}"));
        Finished { status, output, errors }
    })
}

/// A program that ends without reading all its input says why itself.
fn feed(mut stdin: ChildStdin, input: &[u8]) {
    stdin.write_all(input).ok();
}

fn read_text(mut source: impl Read) -> String {
    let mut bytes = Vec::new();
    let result: io::Result<usize> = source.read_to_end(&mut bytes);
    result.expect("a pipe can be read until it is closed");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Enough of a long output to see what went wrong.
fn end_of(output: &str) -> String {
    let skipped = output.chars().count().saturating_sub(4_000);
    output.chars().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_gets_its_input_and_gives_its_output() {
        let input = "line\n".repeat(100_000);
        assert_eq!(run(sh("cat"), input.as_bytes(), Duration::from_secs(20)), input);
        let finished = finish(sh("echo wrong >&2; exit 4"), b"unread", Duration::from_secs(20));
        assert_eq!((finished.status.code(), finished.errors.as_str()), (Some(4), "wrong\n"));
    }

    #[test]
    #[should_panic(expected = "wasn't done after")]
    fn a_program_that_hangs_is_killed() {
        let _ = finish(sh("exec sleep 60"), b"", Duration::from_millis(10));
    }
}
