//! `ringlog config`: checks a configuration, explains settings, and reads the configuration of a Kafka broker.

mod check;
mod explain;
mod import;

use clap::Subcommand;

use crate::failure::Failure;

/// What is done with a configuration.
#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read a configuration as `serve` would, and tell all that is wrong with it.
    Check(check::Arguments),
    /// Tell of settings: the value in force, default, range, and what they do.
    Explain(explain::Arguments),
    /// Make a configuration out of the server.properties of a Kafka broker, and tell what becomes of each line.
    Import(import::Arguments),
}

/// Does it.
///
/// # Errors
/// The configuration is wrong, or needs a person.
pub(crate) fn run(command: &ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check(arguments) => check::run(arguments),
        ConfigCommand::Explain(arguments) => explain::run(arguments),
        ConfigCommand::Import(arguments) => import::run(arguments),
    }
}
