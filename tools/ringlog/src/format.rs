//! `ringlog format`: makes an empty folder the data folder of a new cluster, and others its log directories.

use std::path::PathBuf;

use clap::Args;
use net_server::config::NODE_ID_MAX;
use net_server::format::Unformatted;

use crate::failure::Failure;
use crate::numbers::number;
use crate::output::print;
use crate::serve::{DataFolder, FileIo, FormatOptions, Formatted, format, format_options};

/// What `ringlog format` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  ringlog format --data-dir /var/lib/ringlog")]
pub(crate) struct Arguments {
    /// Read the folder, the node's number and log.dirs from this file (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The folder; it must be empty or not be there [default: ./ringlog-data].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The node's number, 0 to 2147482 [default: 1].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(0..=NODE_ID_MAX))]
    node_id: Option<i32>,
    /// For development on a file system without direct I/O: go through the page cache. NOT DURABLE.
    #[arg(long)]
    buffered_dev: bool,
}

/// Formats folders. Those that are formatted already are left as they are.
///
/// # Errors
/// The folder can't be used.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let FormatOptions { node, data_folder, log_dirs } =
        format_options(arguments.config.as_deref(), arguments.data_dir.clone(), arguments.node_id)?;
    let folder = DataFolder::take(&data_folder, Unformatted::Create)?;
    let Formatted { identity, is_new, log_directories } =
        format(&folder, &log_dirs, node, FileIo::of(arguments.buffered_dev))?;
    let state = if is_new { "is now the data folder of the NEW" } else { "already belongs to" };
    let (folder, cluster, node) = (folder.path.display(), identity.cluster, identity.node);
    let mut lines = vec![format!("{folder} {state} cluster {cluster}, node {node}")];
    lines.extend(log_directories.into_iter().map(|(path, is_new)| {
        let state = if is_new { "is now" } else { "already was" };
        format!("{} {state} a log directory of it", path.display())
    }));
    print(lines.join("\n"))
}
