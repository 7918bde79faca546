//! `format.toml`: who a data folder belongs to, and in which version of the format it is.

use std::io;
use std::path::Path;

use engine_io::Io;
use engine_record::NodeId;
use serde::{Deserialize, Serialize};

use crate::error::{DiskError, DiskOperation, disk};
use crate::layout::Layout;

/// The version of the folder's format that this crate writes. It reads no newer one.
pub const FORMAT_VERSION: u32 = 1;

/// The largest `format.toml` that is read, in bytes.
const FORMAT_BYTES_MAX: usize = 64 << 10;

/// Whose the data folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The cluster the folder's data belong to.
    pub cluster_id: u128,
    /// The node that owns the folder.
    pub node: NodeId,
    /// The folder's own identity, so that a copied or swapped folder is noticed.
    pub directory_id: u128,
}

/// Why a folder can't be used or formatted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The folder has no `format.toml`.
    #[error("the folder is not formatted")]
    Missing,
    /// The folder is formatted already.
    #[error("the folder is formatted already")]
    Exists,
    /// The folder was written by a later version.
    #[error(
        "the folder has format version {0}, newer than {FORMAT_VERSION}. Nothing was changed; start the Ringlog that wrote it, or a later one"
    )]
    TooNew(u32),
    /// `format.toml` isn't what this program writes.
    #[error(
        "format.toml cannot be read: {0}. Nothing was changed; restore the whole data folder from a backup"
    )]
    Unreadable(Unreadable),
    /// The system refused an operation.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// What is wrong with a `format.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It isn't UTF-8, isn't TOML, or lacks a setting.
    #[error("it is not TOML with version, cluster_id, node_id and directory_id")]
    Syntax,
    /// An id isn't 32 hexadecimal digits.
    #[error("an id is not 32 hexadecimal digits")]
    Id,
    /// The version is 0.
    #[error("there is no version 0")]
    Version,
}

/// The file as written.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct FormatFile {
    version: u32,
    cluster_id: String,
    node_id: i32,
    directory_id: String,
}

/// Only what every version has: a newer version may have more, and must still be told from rubbish.
#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

impl Format {
    /// Reads what a `format.toml` says.
    ///
    /// # Errors
    /// [`FormatError::TooNew`] or [`FormatError::Unreadable`].
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let syntax = FormatError::Unreadable(Unreadable::Syntax);
        let text = core::str::from_utf8(bytes).map_err(|_| syntax.clone())?;
        let VersionOnly { version } = toml::from_str(text).map_err(|_| syntax.clone())?;
        match version {
            0 => return Err(FormatError::Unreadable(Unreadable::Version)),
            FORMAT_VERSION => {}
            newer => return Err(FormatError::TooNew(newer)),
        }
        let file: FormatFile = toml::from_str(text).map_err(|_| syntax)?;
        Ok(Self {
            cluster_id: parse_id(&file.cluster_id)?,
            node: NodeId(file.node_id),
            directory_id: parse_id(&file.directory_id)?,
        })
    }

    /// What a `format.toml` says, as [`Format::parse`] reads it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let (cluster, node, directory) = (self.cluster_id, self.node, self.directory_id);
        format!(
            "version = {FORMAT_VERSION}\ncluster_id = \"{cluster:032x}\"\nnode_id = {node}\n\
             directory_id = \"{directory:032x}\"\n"
        )
    }
}

fn parse_id(text: &str) -> Result<u128, FormatError> {
    let is_hex = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let id = u128::from_str_radix(text, 16).ok().filter(|_| is_hex);
    id.ok_or(FormatError::Unreadable(Unreadable::Id))
}

/// Reads whose the folder is.
///
/// # Errors
/// [`FormatError::Missing`] where the folder isn't formatted or isn't there; else as the file or the system is.
pub async fn read<I: Io>(io: &I, folder: &Path) -> Result<Format, FormatError> {
    let path = Layout::new(folder).format();
    match io.read_file(&path, FORMAT_BYTES_MAX).await {
        Ok(bytes) => Format::parse(&bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FormatError::Missing),
        Err(error) => Err(DiskError::new(DiskOperation::Read, &path, &error).into()),
    }
}

/// Formats the folder, making it where it isn't there. Once resolved, that is durable.
///
/// # Errors
/// [`FormatError::Exists`] where it is formatted, readable or not; else as the system says.
pub async fn create<I: Io>(io: &I, folder: &Path, format: Format) -> Result<(), FormatError> {
    match read(io, folder).await {
        Err(FormatError::Missing) => {}
        Err(FormatError::Disk(error)) => return Err(error.into()),
        Ok(_) | Err(FormatError::Exists | FormatError::TooNew(_) | FormatError::Unreadable(_)) => {
            return Err(FormatError::Exists);
        }
    }
    io.create_folder(folder).await.map_err(disk(DiskOperation::MakeFolder, folder))?;
    let path = Layout::new(folder).format();
    io.write_file(&path, format.to_text().into_bytes()).await.map_err(disk(DiskOperation::Write, &path))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of version 1, as released. Never edit them: a changed format is a new version and a new fixture.
    const VERSION_1: &str = "version = 1\n\
        cluster_id = \"00112233445566778899aabbccddeeff\"\n\
        node_id = 7\n\
        directory_id = \"f0e0d0c0b0a090807060504030201000\"\n";

    const FORMAT: Format = Format {
        cluster_id: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
        node: NodeId(7),
        directory_id: 0xf0e0_d0c0_b0a0_9080_7060_5040_3020_1000,
    };

    #[test]
    fn version_1_reads_and_writes_as_released() {
        assert_eq!(Format::parse(VERSION_1.as_bytes()), Ok(FORMAT));
        assert_eq!(FORMAT.to_text(), VERSION_1);
    }

    #[test]
    fn a_newer_version_is_refused_whatever_else_it_holds() {
        assert_eq!(Format::parse(b"version = 2\nshape = \"round\""), Err(FormatError::TooNew(2)));
    }

    #[test]
    fn what_is_no_format_is_told_apart() {
        let unreadable = |text: &str| match Format::parse(text.as_bytes()) {
            Err(FormatError::Unreadable(why)) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(unreadable("version = 0"), Unreadable::Version);
        assert_eq!(unreadable("version"), Unreadable::Syntax);
        assert_eq!(unreadable("version = 1"), Unreadable::Syntax);
        assert_eq!(unreadable(&VERSION_1.replace("0011", "+011")), Unreadable::Id);
        assert_eq!(unreadable(&VERSION_1.replace("0011", "")), Unreadable::Id);
        assert_eq!(unreadable(&format!("{VERSION_1}more = 1\n")), Unreadable::Syntax);
    }
}
