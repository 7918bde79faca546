//! Which partitions a path leads to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::log_files::unreadable;

/// The segments of one partition, by offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) segments: Vec<PathBuf>,
    /// Whether these are all there are, so that the last of them is the partition's last.
    pub(crate) is_whole: bool,
}

/// The partitions of a data folder, a topic's folder or a partition's; or one segment of one.
pub(super) fn partitions(path: &Path) -> Result<Vec<Partition>, Failure> {
    let failed = |error: io::Error| unreadable(path, &error);
    let metadata = fs::metadata(path).map_err(failed)?;
    if metadata.is_file() {
        return Ok(vec![Partition { segments: vec![path.to_owned()], is_whole: false }]);
    }
    if !metadata.is_dir() {
        return Err(nothing(path));
    }
    if path.join("topics").is_dir() {
        return of_topics(&path.join("topics"));
    }
    if let Some(partition) = of_folder(path).map_err(failed)? {
        return Ok(vec![partition]);
    }
    let found = of_topic(path)?;
    let found = if found.is_empty() { of_topics(path)? } else { found };
    if found.is_empty() { Err(nothing(path)) } else { Ok(found) }
}

fn nothing(path: &Path) -> Failure {
    Failure::failed(format!(
        "{} holds no segments: name a data folder, a topic's or a partition's folder in it, or a segment (.log)",
        path.display()
    ))
}

fn of_topics(folder: &Path) -> Result<Vec<Partition>, Failure> {
    let mut all = Vec::new();
    for topic in folders(folder).map_err(|error| unreadable(folder, &error))? {
        all.extend(of_topic(&topic)?);
    }
    Ok(all)
}

/// Folders whose names are numbers are partitions.
fn of_topic(folder: &Path) -> Result<Vec<Partition>, Failure> {
    let failed = |error: io::Error| unreadable(folder, &error);
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut numbered: Vec<_> = folders(folder)
        .map_err(failed)?
        .into_iter()
        .filter_map(|path| Some((number(&path)?, path)))
        .collect();
    numbered.sort_unstable();
    let found = numbered.into_iter().map(|(_, path)| of_folder(&path).map_err(failed));
    Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let mut paths: Vec<_> =
        entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    paths.sort();
    Ok(paths)
}

/// The partition in this folder; `None` where no segment is in it.
fn of_folder(folder: &Path) -> io::Result<Option<Partition>> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let mut segments: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    segments.sort();
    Ok((!segments.is_empty()).then_some(Partition { segments, is_whole: true }))
}
