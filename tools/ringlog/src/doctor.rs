//! `ringlog doctor`: finds out what is wrong, and says what to change.

mod listeners;
mod verdict;

use clap::Subcommand;

use crate::failure::Failure;

/// What `ringlog doctor` can look at.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum DoctorCommand {
    /// Connect as a client does, first to one address, then to each that the brokers name; say which work from here.
    Listeners(listeners::Arguments),
}

/// Carries out one of them.
///
/// # Errors
/// Something is wrong, or can't be looked at.
pub(crate) fn run(command: &DoctorCommand) -> Result<(), Failure> {
    match command {
        DoctorCommand::Listeners(arguments) => listeners::run(arguments),
    }
}
