//! Runs whole servers in the simulator, a run a seed, and checks what their clients were answered.
//!
//! ```text
//! cargo run --release -p sim -- --seed 17          one run; prints its trace's hash
//! cargo run --release -p sim -- --seeds 200        many; the first that fails ends it and names its seed
//! cargo run --release -p sim -- --seeds 100000 --first 1000 --minutes 30
//! ```
//!
//! Exits with 1 where a run fails, with 2 where the arguments make no sense.
#![forbid(unsafe_code)]

mod runs;

use std::env;
use std::io::{self, Write};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser;

use crate::runs::Report;

/// Runs whole servers in a simulated world and checks what their clients were answered.
#[derive(Parser)]
#[command(name = "sim", after_help = "Example: cargo run --release -p sim -- --seeds 200")]
struct Arguments {
    /// The seed of the one run to make
    #[arg(long, conflicts_with = "seeds", required_unless_present = "seeds")]
    seed: Option<u64>,
    /// How many seeds to run
    #[arg(long)]
    seeds: Option<u64>,
    /// The first of many seeds
    #[arg(long, default_value_t = 1, requires = "seeds")]
    first: u64,
    /// Begin no further run after so many minutes
    #[arg(long, requires = "seeds")]
    minutes: Option<u64>,
    /// Run all seeds in this process, and say nothing where all pass
    #[arg(long, requires = "seeds", hide = true)]
    one_process: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let passed = match (arguments.seed, arguments.seeds) {
        (Some(seed), _) => run_one(seed),
        (None, count) => run_many(&arguments, count.unwrap_or_default()),
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        // Without anybody to read it, a report fails too.
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

fn run_one(seed: u64) -> io::Result<bool> {
    let report = runs::run(seed);
    let mut out = io::stdout().lock();
    writeln!(out, "seed {seed}: {}", report.summary)?;
    writeln!(out, "trace {:016x}", report.trace_hash)?;
    tell_failures(&mut out, seed, &report)?;
    Ok(report.failures.is_empty())
}

/// Runs many seeds, a few in each of one process after the other: a crash in the simulated world leaves behind what the
/// crashed server's parts hold of each other, and only a process that ends gives that back.
#[expect(clippy::disallowed_methods, reason = "it bounds how long the machine works, not what a run does")]
fn run_many(arguments: &Arguments, count: u64) -> io::Result<bool> {
    const SEEDS_A_PROCESS: u64 = 20;
    if arguments.one_process {
        return run_few(arguments.first, count);
    }
    let begun_at = Instant::now();
    let longest = arguments.minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60)));
    let mut done = 0;
    while done < count && longest.is_none_or(|longest| begun_at.elapsed() < longest) {
        let few = SEEDS_A_PROCESS.min(count - done);
        let (first, few_text) = (arguments.first.saturating_add(done).to_string(), few.to_string());
        let mut process = Command::new(env::current_exe()?);
        process.args(["--one-process", "--first", &first, "--seeds", &few_text]);
        if !process.status()?.success() {
            return Ok(false);
        }
        done += few;
    }
    writeln!(io::stdout(), "{done} seeds from {} on passed in {:.0?}", arguments.first, begun_at.elapsed())?;
    Ok(true)
}

fn run_few(first: u64, count: u64) -> io::Result<bool> {
    for seed in (first..).take(usize::try_from(count).unwrap_or(usize::MAX)) {
        let report = runs::run(seed);
        if !report.failures.is_empty() {
            tell_failures(&mut io::stdout().lock(), seed, &report)?;
            return Ok(false);
        }
    }
    Ok(true)
}

fn tell_failures(out: &mut impl Write, seed: u64, report: &Report) -> io::Result<()> {
    /// More of the same helps nobody.
    const TOLD_MAX: usize = 20;
    for failure in report.failures.iter().take(TOLD_MAX) {
        writeln!(out, "seed {seed} failed: {failure}")?;
    }
    if !report.failures.is_empty() {
        writeln!(out, "to replay: cargo run --release -p sim -- --seed {seed}")?;
    }
    Ok(())
}
