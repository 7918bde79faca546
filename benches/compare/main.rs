//! Ringlog against the tools that know the machine's limits, in one run.
//!
//! ```text
//! append   the store, on one shard, waiting for the flush   against   fio: direct writes, each flushed   append, fio
//! fetch    a broker that sends what it has in memory        against   iperf3: the same bytes a send      fetch, iperf
//! cpu      the shard's CPU time for a GiB: produce, and fetch by each path                               cpu
//! ```
//!
//! A round measures every row once, one after the other; what counts is the median of the rounds, and the ratio of two
//! medians of one run. The host may be busy with other things: a time of its own means little, so none is printed
//! without the one it stands beside.

#![forbid(unsafe_code)]

mod append;
mod broker;
mod client;
mod clock;
mod cpu;
mod error;
mod fetch;
mod fio;
mod iperf;
mod load;
mod machine;
mod processors;
mod report;
mod rounds;
mod writes;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use crate::error::CompareError;
use crate::report::Section;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Durable appends of the store, beside fio.
    Append,
    /// Fetches of what is in memory, beside iperf3.
    Fetch,
    /// The shard's CPU time for a GiB.
    Cpu,
}

const SUBJECTS: [Subject; 3] = [Subject::Append, Subject::Fetch, Subject::Cpu];

impl Subject {
    fn compare(self, arguments: &Arguments, folder: &Path) -> Result<Section, CompareError> {
        match self {
            Self::Append => append::compare(arguments, folder),
            Self::Fetch => fetch::compare(arguments, folder),
            Self::Cpu => cpu::compare(arguments, folder),
        }
    }
}

/// Compares Ringlog with fio and iperf3 on this machine, and writes what it found to a file.
#[derive(Clone, Debug, Parser)]
// `run.sh` names folders and files, and whoever calls it may name others.
#[command(args_override_self = true)]
struct Arguments {
    /// What to compare; all of it if nothing is named.
    subjects: Vec<Subject>,
    /// How often everything is measured.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long one measurement takes, in seconds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Where data are written, on the device that is to be measured. What this run makes there it removes.
    #[arg(long, default_value = "target/compare")]
    folder: PathBuf,
    /// The broker.
    #[arg(long, default_value = "target/release/ringlog")]
    broker: PathBuf,
    /// Where the results go, the newest first.
    #[arg(long)]
    results: Option<PathBuf>,
}

impl Arguments {
    fn wants(&self, subject: Subject) -> bool {
        self.subjects.is_empty() || self.subjects.contains(&subject)
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), CompareError> {
    let folder = machine::Scratch::make(&arguments.folder)?;
    let before = machine::Busy::now()?;
    let mut sections: Vec<Section> = Vec::new();
    let mut outcome = Ok(());
    for subject in SUBJECTS.into_iter().filter(|subject| arguments.wants(*subject)) {
        // What the others found, which took minutes, is kept.
        match subject.compare(arguments, folder.path()) {
            Ok(section) => sections.push(section),
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    let machine = machine::describe(folder.path(), &before)?;
    let text = report::run(arguments, &machine, &sections);
    report::show(&text);
    if let Some(path) = &arguments.results {
        report::keep(path, &text)?;
    }
    outcome
}
