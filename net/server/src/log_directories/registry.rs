//! Which log directories a node has ever used: a directory that isn't there is noticed by what isn't found.
//!
//! ```text
//! version = 1
//!
//! [[directory]]
//! id = "f0e0d0c0b0a090807060504030201000"
//! path = "/d1"
//! ```
//!
//! The data folder isn't among them: it is there, or the node doesn't start.

use std::path::{Path, PathBuf};

use engine_record::NodeId;
use engine_store::format::Format;
use serde::{Deserialize, Serialize};

/// The version of the file that this program writes. It reads no newer one.
const VERSION: u32 = 1;

/// A log directory that was used before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) id: u128,
    /// Where it was the last time.
    pub(super) path: PathBuf,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    directory: Vec<Entry>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    path: PathBuf,
}

/// Reads the file; `None` where it isn't what this program writes.
pub(super) fn parse(bytes: &[u8]) -> Option<Vec<Known>> {
    let file: File = toml::from_str(core::str::from_utf8(bytes).ok()?).ok()?;
    let known = |entry: Entry| {
        let is_hex = entry.id.len() == 32 && entry.id.bytes().all(|digit| digit.is_ascii_hexdigit());
        let id = u128::from_str_radix(&entry.id, 16).ok().filter(|_| is_hex)?;
        Some(Known { id, path: entry.path })
    };
    let known = file.directory.into_iter().map(known);
    if file.version == VERSION { known.collect() } else { None }
}

/// The file's text, as [`parse`] reads it.
pub(super) fn to_text(known: &[Known]) -> String {
    let entry = |known: &Known| Entry { id: format!("{:032x}", known.id), path: known.path.clone() };
    let file = File { version: VERSION, directory: known.iter().map(entry).collect() };
    toml::to_string(&file).expect("paths that are named in a configuration are text")
}

/// What was seen of a directory that is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It says whose it is.
    Formatted(Format),
    /// It doesn't, or isn't there.
    Unformatted,
    /// It can't be read, and why.
    Unreadable(String),
}

/// What is made of the directories named and of those known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Merged {
    /// All that are named or known, in the order of the names; why, where one is offline.
    pub(super) directories: Vec<(PathBuf, Option<String>)>,
    /// Known ones that aren't named any more.
    pub(super) dropped: Vec<Known>,
    /// What is to be known from now on, without those dropped.
    pub(super) known: Vec<Known>,
}

/// Why the directories can't be merged.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unmergeable {
    /// Two have the same id.
    SameId(PathBuf, PathBuf),
    /// One was never used, and isn't formatted.
    New(PathBuf),
    /// One was never used, and is another's or can't be read.
    NewUnusable(PathBuf, String),
}

/// Matches what is named with what is known. `own` is the format of the data folder: who we are.
pub(super) fn merge(known: &[Known], own: &Format, named: &[(PathBuf, Seen)]) -> Result<Merged, Unmergeable> {
    let online = online(own, named)?;
    let mut merged = Merged::default();
    for (path, seen) in named {
        if let Some(id) = online.iter().find(|(online, _)| *online == path).map(|(_, id)| *id) {
            merged.directories.push((path.clone(), None));
            if id != own.directory_id {
                merged.known.push(Known { id, path: path.clone() });
            }
            continue;
        }
        let why = why_offline(own, seen);
        let was_here = |known: &&Known| known.path == *path && online.iter().all(|(_, id)| *id != known.id);
        if !known.iter().any(|known| was_here(&known)) {
            return Err(match why {
                None => Unmergeable::New(path.clone()),
                Some(why) => Unmergeable::NewUnusable(path.clone(), why),
            });
        }
        let why = why.unwrap_or_else(|| "it is not formatted: perhaps its drive isn't mounted".to_owned());
        merged.directories.push((path.clone(), Some(why)));
    }
    for missing in known.iter().filter(|known| online.iter().all(|(_, id)| *id != known.id)) {
        let at_its_path = named.iter().any(|(path, _)| *path == missing.path);
        if !at_its_path {
            merged.dropped.push(missing.clone());
            continue;
        }
        merged.known.push(missing.clone());
        if let Some((path, _)) = online.iter().find(|(path, _)| **path == missing.path) {
            let why = format!("another log directory is there than {:032x}, which was", missing.id);
            merged.directories.push(((*path).clone(), Some(why)));
        }
    }
    Ok(merged)
}

/// Those named that are ours, with their ids.
fn online<'n>(own: &Format, named: &'n [(PathBuf, Seen)]) -> Result<Vec<(&'n PathBuf, u128)>, Unmergeable> {
    let mut online: Vec<(&PathBuf, u128)> = Vec::new();
    for (path, seen) in named {
        let Seen::Formatted(format) = seen else { continue };
        if !is_ours(own, format) {
            continue;
        }
        if let Some((other, _)) = online.iter().find(|(_, id)| *id == format.directory_id) {
            return Err(Unmergeable::SameId((*other).clone(), path.clone()));
        }
        online.push((path, format.directory_id));
    }
    Ok(online)
}

fn is_ours(own: &Format, format: &Format) -> bool {
    (format.cluster_id, format.node) == (own.cluster_id, own.node)
}

/// Why one that isn't online can't be used; `None` where it isn't formatted.
fn why_offline(own: &Format, seen: &Seen) -> Option<String> {
    match seen {
        Seen::Unformatted => None,
        Seen::Unreadable(why) => Some(why.clone()),
        Seen::Formatted(format) => {
            let (NodeId(node), cluster) = (format.node, format.cluster_id);
            Some(format!(
                "it belongs to node {node} of cluster {cluster:032x}, and this is node {} of {:032x}",
                own.node.0, own.cluster_id
            ))
        }
    }
}

/// Whether a known directory was at this path the last time, and isn't at another of those named.
pub(super) fn is_known_at(known: &[Known], own: &Format, named: &[(PathBuf, Seen)], path: &Path) -> bool {
    let is_elsewhere = |id| {
        let mut formats = named.iter().filter_map(|(_, seen)| match seen {
            Seen::Formatted(format) => Some(format),
            Seen::Unformatted | Seen::Unreadable(_) => None,
        });
        formats.any(|format| is_ours(own, format) && format.directory_id == id)
    };
    known.iter().any(|known| known.path == path && !is_elsewhere(known.id))
}

#[cfg(test)]
mod tests;
