//! `ringlog`: the broker and everything that goes with it, in one binary.
//!
//! Each command is a module: its arguments, and a function that runs it. What went wrong is told on standard error with
//! what to do about it, and by the exit code ([`Failure`]).
#![forbid(unsafe_code)]

mod bench;
mod client;
mod consume;
mod failure;
mod format;
mod log_dump;
mod output;
mod produce;
mod serve;
mod topic;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

/// A log broker for low-latency Linux nodes that speaks the Apache Kafka protocol.
#[derive(Parser)]
#[command(name = "ringlog", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a broker.
    Serve(serve::Arguments),
    /// Make an empty folder the data folder of a new cluster.
    Format(format::Arguments),
    /// Create, list, describe and delete topics.
    #[command(subcommand)]
    Topic(topic::TopicCommand),
    /// Send each line of standard input as a record.
    Produce(produce::Arguments),
    /// Print records.
    Consume(consume::Arguments),
    /// Push a load through a broker; say how fast it is and whether it keeps what it promises.
    Bench(bench::Arguments),
    /// Look into log files.
    #[command(subcommand)]
    Log(LogCommand),
}

#[derive(Subcommand)]
enum LogCommand {
    /// Print the batches of a segment file or of all segments in a partition's folder.
    Dump(log_dump::Arguments),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors: clap prints those to standard output and says so by the exit code.
            let _closed_stream = error.print();
            return ExitCode::from(if error.use_stderr() { Failure::USAGE } else { 0 });
        }
    };
    let outcome = match arguments.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Format(arguments) => format::run(&arguments),
        Command::Topic(command) => topic::run(&command),
        Command::Produce(arguments) => produce::run(&arguments),
        Command::Consume(arguments) => consume::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Log(LogCommand::Dump(arguments)) => log_dump::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::tell(format_args!("ringlog: {failure}"));
            ExitCode::from(failure.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// The commands that do something, each with its name as it is typed.
    fn leaves(command: &clap::Command, name: &str) -> Vec<(String, clap::Command)> {
        if !command.has_subcommands() {
            return vec![(name.to_owned(), command.clone())];
        }
        let subcommands = command.get_subcommands();
        subcommands.flat_map(|command| leaves(command, &format!("{name} {}", command.get_name()))).collect()
    }

    #[test]
    fn the_help_of_each_command_ends_with_examples_of_itself_that_are_right() {
        for (name, command) in leaves(&Arguments::command(), "ringlog") {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let mut lines = help.lines();
            assert!(lines.next().is_some_and(|head| head.starts_with("Example")), "{name}: {help}");
            let examples: Vec<_> = lines.collect();
            assert!(!examples.is_empty(), "{name}");
            for example in examples {
                let typed = &example[example.find("ringlog ").unwrap()..];
                assert!(format!("{typed} ").starts_with(&format!("{name} ")), "{name}: {example}");
                assert!(Arguments::try_parse_from(typed.split_whitespace()).is_ok(), "{name}: {example}");
            }
        }
    }
}
