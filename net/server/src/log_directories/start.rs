//! Which log directories are there at a start, and making new ones.

use std::io;
use std::path::{Path, PathBuf};

use engine_io::Io;
use engine_store::format::{self, Format, FormatError};
use engine_store::holds_segments;

use super::registry::{self, Known, Merged, Seen, Unmergeable};
use crate::format::{Identity, foreign_entry};

/// The file in the data folder that remembers the log directories.
pub const REGISTRY: &str = "directories.toml";
/// The largest such file that is read, in bytes.
const REGISTRY_BYTES_MAX: usize = 1 << 20;

/// A log directory that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its folder, absolute.
    pub path: PathBuf,
    /// Why it can't be used, where that is known already.
    pub trouble: Option<String>,
}

impl Named {
    /// One that nothing is known against.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), trouble: None }
    }
}

/// A log directory at a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Its folder.
    pub path: PathBuf,
    /// Why it is offline, where it is.
    pub offline: Option<String>,
}

/// Why a node doesn't start with these log directories, or they aren't formatted.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// One was never used, and isn't formatted.
    #[error(
        "log directory {} is not formatted. If its drive is mounted and it is to hold partitions, run `ringlog format` \
         with the --config, --data-dir and --node-id of this start; otherwise mount the drive, or take it out of log.dirs",
        .0.display()
    )]
    Unformatted(PathBuf),
    /// One was never used by this node, and can't be.
    #[error("log directory {}: {why}. Name another folder in log.dirs, or an empty one and run `ringlog format`", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// One to be formatted holds something else.
    #[error("log directory {} holds `{entry}` and no format.toml: it is not Ringlog's. Choose an empty folder", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// One thing in it.
        entry: String,
    },
    /// One is to be formatted where another was.
    #[error(
        "log directory {} held partitions of this node and isn't there now: nothing was formatted. Mount its drive. If it is \
         lost for good, take its entry out of {}: its partitions are then made anew, empty",
        path.display(), registry.display()
    )]
    KnownHere {
        /// The directory.
        path: PathBuf,
        /// The file that knows it.
        registry: PathBuf,
    },
    /// Two are the same.
    #[error("log directories {} and {} have the same id: one is a copy of the other. Take one out of log.dirs", first.display(), second.display())]
    SameId {
        /// The one.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// One that holds records isn't named any more.
    #[error(
        "log directory {} holds partitions and is not in log.dirs. Name it there, or, with the node stopped, move the folders \
         below its `topics` to the same place in another log directory; or delete the topics first",
        .0.display()
    )]
    LeftOut(PathBuf),
    /// One that may hold records isn't named any more.
    #[error(
        "log directory {} was used before, is not in log.dirs, and can't be looked at ({why}). Name it there: then its \
         partitions are offline until it is back. If it is lost for good, take its entry out of {}: its partitions are \
         then made anew, empty",
        path.display(), registry.display()
    )]
    LeftOutUnseen {
        /// The directory.
        path: PathBuf,
        /// Why it can't be looked at.
        why: String,
        /// The file that knows it.
        registry: PathBuf,
    },
    /// None is left.
    #[error("no log directory can be used. {0}")]
    NoneOnline(String),
    /// The file that remembers them can't be used.
    #[error(
        "{}: {why}. It says which log directories the node has; put it back from a copy. Without it partitions whose \
         directory is missing would be made anew, empty",
        path.display()
    )]
    Registry {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A directory can't be looked at or made.
    #[error("log directory {}: {why}", path.display())]
    Folder {
        /// The directory.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl DirectoryError {
    /// Whether the configuration is to be changed, rather than something about the machine.
    #[must_use]
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::LeftOut(_) | Self::LeftOutUnseen { .. } | Self::SameId { .. } => true,
            Self::Unformatted(_)
            | Self::Unusable { .. }
            | Self::NotEmpty { .. }
            | Self::KnownHere { .. }
            | Self::NoneOnline(_)
            | Self::Registry { .. }
            | Self::Folder { .. } => false,
        }
    }
}

/// Finds out which of the log directories `named` are there, and remembers them. `data_folder` is among them where it is
/// to hold partitions. One that was used before and can't be now is offline; whoever starts with it may use the others.
///
/// # Errors
/// See [`DirectoryError`].
pub async fn prepare<I: Io>(
    io: &I,
    identity: &Identity,
    data_folder: &Path,
    named: &[Named],
) -> Result<Vec<Prepared>, DirectoryError> {
    let own = identity.format();
    let known = read_registry(io, data_folder).await?;
    let seen = look(io, &own, data_folder, named).await;
    let merged = registry::merge(&known, &own, &seen).map_err(unmergeable)?;
    for dropped in &merged.dropped {
        check_dropped(io, data_folder, dropped).await?;
    }
    if named.iter().all(|named| named.path != data_folder) && holds(io, data_folder).await? {
        return Err(DirectoryError::LeftOut(data_folder.to_owned()));
    }
    tell_offline(&merged)?;
    if merged.known != known {
        write_registry(io, data_folder, &merged.known).await?;
    }
    Ok(merged.directories.into_iter().map(|(path, offline)| Prepared { path, offline }).collect())
}

fn tell_offline(merged: &Merged) -> Result<(), DirectoryError> {
    let offline = merged.directories.iter().filter_map(|(path, why)| Some((path, why.as_ref()?)));
    if merged.directories.iter().all(|(_, why)| why.is_some()) {
        let all: Vec<_> = offline.map(|(path, why)| format!("{}: {why}", path.display())).collect();
        return Err(DirectoryError::NoneOnline(all.join("; ")));
    }
    for (path, why) in offline {
        tracing::error!(
            directory = %path.display(),
            why,
            "a log directory is offline, and so are its partitions. Mount its drive or put it back, and start the node again"
        );
    }
    Ok(())
}

/// Makes log directories of the folders `named` that are none yet; tells of each whether it is new.
///
/// # Errors
/// See [`DirectoryError`]; those before it are made.
pub async fn format<I: Io>(
    io: &I,
    identity: &Identity,
    data_folder: &Path,
    named: &[Named],
) -> Result<Vec<(PathBuf, bool)>, DirectoryError> {
    let own = identity.format();
    let known = read_registry(io, data_folder).await?;
    let seen = look(io, &own, data_folder, named).await;
    let mut made = Vec::with_capacity(seen.len());
    for (path, what) in &seen {
        match what {
            Seen::Formatted(format) if (format.cluster_id, format.node) == (own.cluster_id, own.node) => {
                made.push((path.clone(), false));
                continue;
            }
            Seen::Formatted(_) => {
                let why = "it belongs to another node or cluster".to_owned();
                return Err(DirectoryError::Unusable { path: path.clone(), why });
            }
            Seen::Unreadable(why) => {
                return Err(DirectoryError::Folder { path: path.clone(), why: why.clone() });
            }
            Seen::Unformatted => {}
        }
        if registry::is_known_at(&known, &own, &seen, path) {
            let registry = data_folder.join(REGISTRY);
            return Err(DirectoryError::KnownHere { path: path.clone(), registry });
        }
        create(io, &own, path).await?;
        made.push((path.clone(), true));
    }
    Ok(made)
}

async fn create<I: Io>(io: &I, own: &Format, path: &Path) -> Result<(), DirectoryError> {
    /// What a format that was cut short leaves behind.
    const UNFINISHED: &str = "format.toml.tmp";
    let folder = |why: String| DirectoryError::Folder { path: path.to_owned(), why };
    let foreign = foreign_entry(io, path, UNFINISHED).await.map_err(|error| folder(error.to_string()))?;
    if let Some(entry) = foreign {
        return Err(DirectoryError::NotEmpty { path: path.to_owned(), entry });
    }
    let directory_id = (u128::from(io.random()) << 64) | u128::from(io.random());
    let created = format::create(io, path, Format { directory_id, ..*own }).await;
    created.map_err(|error| folder(error.to_string()))
}

async fn look<I: Io>(io: &I, own: &Format, data_folder: &Path, named: &[Named]) -> Vec<(PathBuf, Seen)> {
    let mut all = Vec::with_capacity(named.len());
    for Named { path, trouble } in named {
        let seen = match trouble {
            _ if path == data_folder => Seen::Formatted(*own),
            Some(why) => Seen::Unreadable(why.clone()),
            None => match format::read(io, path).await {
                Ok(format) => Seen::Formatted(format),
                Err(FormatError::Missing) => Seen::Unformatted,
                Err(error) => Seen::Unreadable(error.to_string()),
            },
        };
        all.push((path.clone(), seen));
    }
    all
}

fn unmergeable(why: Unmergeable) -> DirectoryError {
    match why {
        Unmergeable::SameId(first, second) => DirectoryError::SameId { first, second },
        Unmergeable::New(path) => DirectoryError::Unformatted(path),
        Unmergeable::NewUnusable(path, why) => DirectoryError::Unusable { path, why },
    }
}

/// One that isn't named any more may go where it holds nothing.
async fn check_dropped<I: Io>(io: &I, data_folder: &Path, dropped: &Known) -> Result<(), DirectoryError> {
    let unseen = |why: String| {
        let registry = data_folder.join(REGISTRY);
        DirectoryError::LeftOutUnseen { path: dropped.path.clone(), why, registry }
    };
    match format::read(io, &dropped.path).await {
        Ok(format) if format.directory_id == dropped.id => {}
        Ok(_) => return Err(unseen("another log directory is there".to_owned())),
        Err(error) => return Err(unseen(error.to_string())),
    }
    if holds(io, &dropped.path).await? {
        return Err(DirectoryError::LeftOut(dropped.path.clone()));
    }
    tracing::info!(directory = %dropped.path.display(), "a log directory that holds nothing is used no more");
    Ok(())
}

async fn holds<I: Io>(io: &I, folder: &Path) -> Result<bool, DirectoryError> {
    let holds = holds_segments(io, folder).await;
    holds.map_err(|error| DirectoryError::Folder { path: folder.to_owned(), why: error.to_string() })
}

async fn read_registry<I: Io>(io: &I, data_folder: &Path) -> Result<Vec<Known>, DirectoryError> {
    let path = data_folder.join(REGISTRY);
    let why = match io.read_file(&path, REGISTRY_BYTES_MAX).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => error.to_string(),
        Ok(bytes) => match registry::parse(&bytes) {
            Some(known) => return Ok(known),
            None => "it is damaged, or was written by a newer version".to_owned(),
        },
    };
    Err(DirectoryError::Registry { path, why })
}

async fn write_registry<I: Io>(io: &I, data_folder: &Path, known: &[Known]) -> Result<(), DirectoryError> {
    let path = data_folder.join(REGISTRY);
    let written = io.write_file(&path, registry::to_text(known).into_bytes()).await;
    written.map_err(|error| DirectoryError::Folder { path, why: error.to_string() })
}
