//! `ringlog serve`: runs a broker until it is told to stop.

mod banner;
mod checked;
mod config_file;
mod descriptors;
mod folder;
mod listener;
mod listeners;
mod log_directories;
mod log_folders;
mod memory;
mod options;
mod run;
mod stats;

use std::path::PathBuf;

use clap::Args;
use net_server::config::NODE_ID_MAX;

use crate::failure::Failure;
use crate::numbers::number;

pub(crate) use checked::{Planned, plan, plan_text};
pub(crate) use config_file::read_file;
pub(crate) use folder::{DataFolder, FileIo, Formatted, format};
pub(crate) use options::{FormatOptions, format_options};

/// What `ringlog serve` is told.
#[derive(Args, Clone, Debug, Default)]
#[command(
    after_help = "Example:\n  ringlog serve --data-dir /var/lib/ringlog --listen 0.0.0.0:9092 --cpus 2-5"
)]
pub(crate) struct Arguments {
    /// Read settings from this file (TOML). What is said here wins over it.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Keep the data in this folder [default: ./ringlog-data].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Listen for clients here, or see `listeners` in the configuration; shard i listens on PORT + i, with port 0 on any free port [default: 127.0.0.1:9092].
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// Tell clients to come here instead of to the address they reached.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) advertise: Option<String>,
    /// Run one shard on each of these CPUs, such as 0,2-5; a CPU named twice runs two [default: one on each core].
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub(crate) cpus: Option<String>,
    /// How clients reach partitions: `shard`, each shard is a broker with a port of its own, or `node`, all are one broker
    /// with one port [default: shard].
    #[arg(long, value_name = "ROUTING", value_parser = ["shard", "node"], hide_possible_values = true)]
    pub(crate) routing: Option<String>,
    /// This node's number, 0 to 2147482 [default: 1].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(0..=NODE_ID_MAX))]
    pub(crate) node_id: Option<i32>,
    /// For development on a file system without direct I/O, such as tmpfs: go through the page cache. NOT DURABLE.
    #[arg(long)]
    pub(crate) buffered_dev: bool,
    /// When ready, print one line of JSON instead of the description.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write counters to this file about five times a second, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) stats_file: Option<PathBuf>,
    /// End with this process, whatever ends it; it must be the one that started the broker.
    #[arg(long, value_name = "PID", hide = true, allow_negative_numbers = true, value_parser = number(1..=i32::MAX))]
    pub(crate) parent: Option<i32>,
}

/// Runs a broker until SIGTERM or SIGINT.
///
/// # Errors
/// Why it didn't start, or ended otherwise.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    run::run(arguments)
}
