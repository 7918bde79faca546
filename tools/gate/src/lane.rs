//! One check, its run, and its line in the report.

use std::io::{self, Read};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::GateError;
use crate::workspace::Workspace;
use crate::{tidy, tree};

/// One check.
pub(crate) struct Lane {
    pub(crate) name: &'static str,
    pub(crate) job: Job,
    /// What to do when it fails.
    pub(crate) advice: &'static str,
}

pub(crate) enum Job {
    /// Passes when each of these succeeds.
    Commands(Vec<Command>),
    /// Our own look at the tree.
    Tidy,
    /// Can't run here, and why.
    Skipped(&'static str),
}

/// What a lane said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    Skipped,
}

impl Lane {
    /// Runs the check and prints its line, and its output if it failed.
    pub(crate) fn run(self, workspace: &Workspace) -> Result<Outcome, GateError> {
        let start = now();
        let output = match self.job {
            Job::Commands(commands) => first_failure(commands)?,
            Job::Tidy => refusals(workspace)?,
            Job::Skipped(reason) => {
                println!("--  {}: {reason}", self.name);
                return Ok(Outcome::Skipped);
            }
        };
        Ok(print(self.name, self.advice, output.as_deref(), start.elapsed()))
    }
}

fn print(name: &str, advice: &str, failure: Option<&str>, took: Duration) -> Outcome {
    let seconds = took.as_secs_f64();
    match failure {
        None => {
            println!("ok  {name:<8} {seconds:>6.1} s");
            Outcome::Passed
        }
        Some(output) => {
            println!("{}\nNO  {name:<8} {seconds:>6.1} s  {advice}", output.trim_end());
            Outcome::Failed
        }
    }
}

/// The output of the first command that fails.
fn first_failure(commands: Vec<Command>) -> Result<Option<String>, GateError> {
    for command in commands {
        let program = format!("{command:?}");
        let failure = run_to_end(command).map_err(|source| GateError::Run { program, source })?;
        if failure.is_some() {
            return Ok(failure);
        }
    }
    Ok(None)
}

/// The output, both streams as they came, when the command fails.
fn run_to_end(mut command: Command) -> io::Result<Option<String>> {
    let (mut reader, writer) = io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds our ends for writing: with them open, the output would never end.
    drop(command);
    let mut output = Vec::new();
    reader.read_to_end(&mut output)?;
    let status = child.wait()?;
    Ok((!status.success()).then(|| String::from_utf8_lossy(&output).into_owned()))
}

fn refusals(workspace: &Workspace) -> Result<Option<String>, GateError> {
    let refusals = tidy::check(workspace, &tree::read(&workspace.root)?);
    let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    Ok((!lines.is_empty()).then(|| lines.join("\n")))
}

#[expect(clippy::disallowed_methods, reason = "the gate times real commands for a person")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_command_that_fails_shows_both_streams_in_order() {
        let failure = run_to_end(shell("echo one; echo two >&2; echo three; exit 3")).unwrap();
        assert_eq!(failure.as_deref(), Some("one\ntwo\nthree\n"));
    }

    #[test]
    fn a_command_that_succeeds_is_silent() {
        assert_eq!(run_to_end(shell("echo noise")).unwrap(), None);
    }

    #[test]
    fn the_first_failure_ends_a_lane() {
        let commands = vec![shell("true"), shell("echo first; false"), shell("echo second; false")];
        assert_eq!(first_failure(commands).unwrap().as_deref(), Some("first\n"));
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error_of_the_gate() {
        let error = first_failure(vec![Command::new("no-such-program-anywhere")]).unwrap_err();
        assert!(matches!(error, GateError::Run { .. }), "{error}");
    }
}
