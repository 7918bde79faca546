//! A data folder's identity: made once, checked at every start.

use std::path::Path;

use engine_io::Io;
use engine_record::NodeId;
use engine_store::format::{self, Format, FormatError};
use replication::metadata::genesis;
use replication::metadata::image::ClusterId;

use crate::control::files::{self, FilesError};

/// Who a data folder belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    /// The folder itself: drawn at random when it was formatted.
    pub directory_id: u128,
}

impl Identity {
    /// What the data folder's format file says.
    pub(crate) fn format(&self) -> Format {
        let cluster_id = u128::from_be_bytes(self.cluster.0);
        Format { cluster_id, node: self.node, directory_id: self.directory_id }
    }
}

/// What to do with a folder that is not formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unformatted {
    /// Make it a new cluster of one node.
    Create,
    /// Refuse it: it may be a drive that isn't mounted.
    Refuse,
}

/// Why a folder can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The format file.
    #[error("data folder {}: {error}", folder.display())]
    Format {
        /// The folder.
        folder: std::path::PathBuf,
        /// Why.
        error: FormatError,
    },
    /// The folder belongs to another node.
    #[error("data folder {} belongs to node {found}, not {wanted}; start with --node-id {found}, or choose another folder", folder.display())]
    OtherNode {
        /// The folder.
        folder: std::path::PathBuf,
        /// Whose it is.
        found: NodeId,
        /// Who wants it.
        wanted: NodeId,
    },
    /// Nothing may be created here.
    #[error(
        "data folder {} is not formatted. If its drive is mounted and it is to be a new cluster, run `ringlog format` with the --config, --data-dir and --node-id of this start; otherwise mount the drive",
        .0.display()
    )]
    Unformatted(std::path::PathBuf),
    /// The folder holds something else.
    #[error("data folder {} holds `{entry}` and no format.toml: it is not Ringlog's. Choose an empty folder", folder.display())]
    NotEmpty {
        /// The folder.
        folder: std::path::PathBuf,
        /// One thing in it.
        entry: String,
    },
    /// The folder can't be listed.
    #[error("data folder {}: {error}", folder.display())]
    Folder {
        /// The folder.
        folder: std::path::PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The metadata can't be written.
    #[error("metadata: {0}")]
    Metadata(String),
}

impl From<FilesError> for PrepareError {
    fn from(error: FilesError) -> Self {
        Self::Metadata(error.to_string())
    }
}

/// Names in a data folder that don't speak against making it a cluster.
const IGNORED: [&str; 2] = ["lost+found", "ringlog.lock"];

/// Finds out whose `folder` is, and makes it a new cluster's where that is wanted. The second value tells whether it is
/// new.
///
/// # Errors
/// See [`PrepareError`].
pub async fn prepare<I: Io>(
    io: &I,
    folder: &Path,
    node: NodeId,
    unformatted: Unformatted,
) -> Result<(Identity, bool), PrepareError> {
    match format::read(io, folder).await {
        Ok(found) if found.node == node => Ok((identity(&found), false)),
        Ok(found) => {
            Err(PrepareError::OtherNode { folder: folder.to_owned(), found: found.node, wanted: node })
        }
        Err(FormatError::Missing) if unformatted == Unformatted::Create => {
            Ok((create(io, folder, node).await?, true))
        }
        Err(FormatError::Missing) => Err(PrepareError::Unformatted(folder.to_owned())),
        Err(error) => Err(PrepareError::Format { folder: folder.to_owned(), error }),
    }
}

/// Makes `folder` a new cluster of one node. The format file comes last: a folder without it is not a cluster yet, and
/// what a crash left in it is written again.
async fn create<I: Io>(io: &I, folder: &Path, node: NodeId) -> Result<Identity, PrepareError> {
    check_empty(io, folder).await?;
    io.create_folder(folder)
        .await
        .map_err(|error| PrepareError::Folder { folder: folder.to_owned(), error })?;
    let random = || (u128::from(io.random()) << 64) | u128::from(io.random());
    let format = Format { cluster_id: random(), node, directory_id: random() };
    let identity = identity(&format);
    let genesis = genesis::alone(identity.cluster, node);
    files::create(io, folder, &genesis.snapshot, &genesis.frame).await?;
    format::create(io, folder, format)
        .await
        .map_err(|error| PrepareError::Format { folder: folder.to_owned(), error })?;
    Ok(identity)
}

async fn check_empty<I: Io>(io: &I, folder: &Path) -> Result<(), PrepareError> {
    // `metadata` is what a format that was cut short leaves behind.
    match foreign_entry(io, folder, "metadata").await {
        Ok(Some(entry)) => Err(PrepareError::NotEmpty { folder: folder.to_owned(), entry }),
        Ok(None) => Ok(()),
        Err(error) => Err(PrepareError::Folder { folder: folder.to_owned(), error }),
    }
}

/// One thing in a folder that speaks against formatting it, besides `unfinished`; none where it isn't there.
pub(crate) async fn foreign_entry<I: Io>(
    io: &I,
    folder: &Path,
    unfinished: &str,
) -> std::io::Result<Option<String>> {
    let names = match io.list_folder(folder).await {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        names => names?,
    };
    let mut names = names.iter().map(|name| name.to_string_lossy());
    Ok(names.find(|name| name != unfinished && !IGNORED.contains(&&**name)).map(|name| name.into_owned()))
}

fn identity(format: &Format) -> Identity {
    Identity {
        cluster: ClusterId(format.cluster_id.to_be_bytes()),
        node: format.node,
        directory_id: format.directory_id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_to_format_names_all_that_says_which_node_it_is() {
        let said = PrepareError::Unformatted("n7".into()).to_string();
        assert!(said.starts_with("data folder n7 is not formatted"), "{said}");
        assert!(["--config", "--data-dir", "--node-id"].iter().all(|option| said.contains(option)), "{said}");
    }
}
