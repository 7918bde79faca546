//! `cargo gate fast` before each commit, `cargo gate full` before each merge.
//!
//! The gate runs every check the project has, as *lanes*: most are a command whose output is shown
//! only when it fails, one ([`tidy`]) is our own and covers what neither the compiler nor clippy
//! can say. It changes no file that git knows: it never formats, fixes or updates anything.
//!
//! ```text
//! fast   fmt  tidy  clippy  test  sim (20 seeds)
//! full   fmt  tidy  clippy  test  sim (200 seeds)  clients  doctest  docs  deny  fuzz  bench  release
//! ```
//!
//! A lane that can't run here (a tool isn't installed, a part isn't written yet) says so in a line
//! of its own. All lanes run, whatever the ones before them said. The exit code is 0 when none
//! failed, 1 when one did, and 2 when the gate was called wrongly or couldn't look at the tree.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the report on standard output is what the gate is for")]

mod error;
mod lane;
mod lanes;
mod tidy;
mod tree;
mod workspace;

use std::process::ExitCode;

use crate::error::GateError;
use crate::lane::Outcome;
use crate::lanes::Depth;
use crate::workspace::Workspace;

const USAGE: &str = "usage: cargo gate fast [LANE..]   before each commit
       cargo gate full [LANE..]   before each merge
With the names of lanes, only those run: cargo gate fast tidy";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (depth, names) = match arguments.split_first() {
        Some((depth, names)) if depth == "fast" => (Depth::Fast, names),
        Some((depth, names)) if depth == "full" => (Depth::Full, names),
        Some((help, [])) if help == "--help" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some(_) | None => {
            println!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(depth, names) {
        Ok(failed) => report(&failed),
        Err(error) => {
            println!("gate: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the lanes one after the other, or those named, and answers the names of those that failed.
fn run(depth: Depth, names: &[String]) -> Result<Vec<&'static str>, GateError> {
    let workspace = Workspace::load()?;
    let mut failed = Vec::new();
    for lane in lanes::named(lanes::of(depth, &workspace), names)? {
        let name = lane.name;
        if let Outcome::Failed = lane.run(&workspace)? {
            failed.push(name);
        }
    }
    Ok(failed)
}

fn report(failed: &[&str]) -> ExitCode {
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("gate: failed: {}", failed.join(", "));
    ExitCode::FAILURE
}
