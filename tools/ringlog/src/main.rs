//! `ringlog`: the broker and everything that goes with it, in one binary.
//!
//! Each command is a module: its arguments, and a function that runs it. What went wrong is told on standard error with
//! what to do about it, and by the exit code ([`Failure`]).
#![forbid(unsafe_code)]

mod bench;
mod client;
mod config;
mod consume;
mod doctor;
mod escapes;
mod failure;
mod format;
mod json_record;
mod log_dump;
mod log_files;
mod log_verify;
mod numbers;
mod output;
mod produce;
mod serve;
mod shell;
mod times;
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
    /// Create, list, describe, alter and delete topics.
    #[command(subcommand)]
    Topic(topic::TopicCommand),
    /// Send each line of standard input, or each file, as a record.
    Produce(produce::Arguments),
    /// Print records.
    Consume(consume::Arguments),
    /// Push a load through a broker; say how fast it is and whether it keeps what it promises.
    Bench(bench::Arguments),
    /// Check a configuration, explain settings, read a Kafka broker's configuration.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Look into log files.
    #[command(subcommand)]
    Log(LogCommand),
    /// Find out what is wrong, and what to change.
    #[command(subcommand)]
    Doctor(doctor::DoctorCommand),
    /// Print the script with which a shell completes commands.
    ///
    /// Keep it in ~/.local/share/bash-completion/completions/ringlog, in a file _ringlog on zsh's fpath, or in
    /// ~/.config/fish/completions/ringlog.fish.
    Completions(shell::CompletionsArguments),
    /// Print or write the pages of the manual.
    Man(shell::ManArguments),
}

#[derive(Subcommand)]
enum LogCommand {
    /// Print the batches of a segment file or of all segments in a partition's folder.
    Dump(log_dump::Arguments),
    /// Check every batch, record and index entry of segments, partitions, topics or a whole data folder.
    Verify(log_verify::Arguments),
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
        Command::Config(command) => config::run(&command),
        Command::Log(LogCommand::Dump(arguments)) => log_dump::run(&arguments),
        Command::Log(LogCommand::Verify(arguments)) => log_verify::run(&arguments),
        Command::Completions(arguments) => shell::completions(&arguments),
        Command::Man(arguments) => shell::man(&arguments),
        Command::Doctor(command) => doctor::run(&command),
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
    use std::any::TypeId;

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

    /// The numbers that `help` states with `to` between them.
    fn stated_range(help: &str) -> Option<(i128, i128)> {
        let number = |word: &str| word.trim_matches(|letter: char| !letter.is_ascii_digit()).parse().ok();
        let words: Vec<_> = help.split_whitespace().collect();
        let mut ranges = words.windows(3).filter(|words| words[1] == "to");
        ranges.find_map(|words| number(words[0]).zip(number(words[2])))
    }

    fn is_number(flag: &clap::Arg) -> bool {
        let kind = flag.get_value_parser().type_id();
        let kinds = [TypeId::of::<i32>(), TypeId::of::<i64>(), TypeId::of::<u32>(), TypeId::of::<u64>()];
        kinds.iter().any(|number| kind == *number)
    }

    #[test]
    fn each_number_is_one_of_the_range_that_the_help_states_and_any_other_is_refused_with_that() {
        let mut numbers = 0;
        for (name, command) in leaves(&Arguments::command(), "ringlog") {
            for flag in command.get_arguments().filter(|flag| is_number(flag) && !flag.is_hide_set()) {
                numbers += 1;
                let flag_name = flag.get_long().unwrap();
                let help = flag.get_help().unwrap().to_string();
                let (first, last) =
                    stated_range(&help).unwrap_or_else(|| panic!("{name} --{flag_name}: {help}"));
                let operands = command.get_positionals().map(|_| "operand".to_owned());
                let operands: Vec<_> = operands.collect();
                let parse = |value: i128| {
                    let words = name.split_whitespace().map(str::to_owned).chain(operands.clone());
                    let said = [format!("--{flag_name}"), value.to_string()];
                    Arguments::try_parse_from(words.chain(said)).map(drop)
                };
                for allowed in [first, last] {
                    assert!(parse(allowed).is_ok(), "{name} --{flag_name} {allowed}");
                }
                for beyond in [first - 1, last + 1, -1, i128::from(u64::MAX) + 1] {
                    let refused = parse(beyond).unwrap_err().to_string();
                    let range =
                        format!("'--{flag_name} <N>': it takes a whole number from {first} to {last}");
                    assert!(refused.contains(&range), "{name} --{flag_name} {beyond}: {refused}");
                }
            }
        }
        assert!(numbers > 10, "{numbers}");
    }
}
