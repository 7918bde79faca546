//! The folders that `log.dirs` names: told apart, and locked against other processes.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use net_server::log_directories::Named;

use super::folder::{DataFolder, FORMAT, lock};
use crate::failure::Failure;

/// What `log.dirs` names, or the data folder where it names nothing. Those that are formatted are this process's while this
/// lives.
pub(crate) struct LogFolders {
    pub(crate) named: Vec<Named>,
    _locks: Vec<File>,
}

impl LogFolders {
    /// Takes the folders for this process, as far as they are formatted: what isn't there can't be taken.
    pub(crate) fn take(data: &DataFolder, log_dirs: &[PathBuf]) -> Result<Self, Failure> {
        let (mut named, mut locks) = (Vec::new(), Vec::new());
        for path in paths(&data.path, log_dirs)? {
            let mut folder = Named::new(&path);
            if path != data.path && path.join(FORMAT).exists() {
                match lock(&path) {
                    Ok(lock) => locks.push(lock),
                    Err(TryLockError::WouldBlock) => return Err(in_use(&path)),
                    Err(TryLockError::Error(error)) => folder.trouble = Some(error.to_string()),
                }
            }
            named.push(folder);
        }
        Ok(Self { named, _locks: locks })
    }
}

fn in_use(path: &Path) -> Failure {
    Failure::machine(format!(
        "log directory {} is in use by another process; stop that one, or name another folder in log.dirs",
        path.display()
    ))
}

/// Where the log directories are: absolute, and the data folder as it is known already.
pub(crate) fn paths(data: &Path, log_dirs: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    if log_dirs.is_empty() {
        return Ok(vec![data.to_owned()]);
    }
    let mut paths: Vec<Folder> = Vec::with_capacity(log_dirs.len());
    for path in log_dirs {
        let folder = Folder::new(path)?;
        for other in &paths {
            folder.check_apart(other)?;
        }
        paths.push(folder);
    }
    let data = Folder::new(data)?;
    let is_data = |folder: &Folder| folder.is_same(&data);
    for folder in paths.iter().filter(|folder| !is_data(folder)) {
        folder.check_not_within(&data)?;
        data.check_not_within(folder)?;
    }
    let path = |folder: Folder| if is_data(&folder) { data.said.clone() } else { folder.said };
    Ok(paths.into_iter().map(path).collect())
}

/// A folder, by its name and by what the system knows of it.
struct Folder {
    /// Absolute, and as it was named: a drive that isn't mounted is known by it.
    said: PathBuf,
    /// Without symbolic links, where it is there.
    real: PathBuf,
    /// What tells it from all others, where it is there.
    identity: Option<(u64, u64)>,
}

impl Folder {
    fn new(path: &Path) -> Result<Self, Failure> {
        let said = std::path::absolute(path)
            .map_err(|error| Failure::machine(format!("log directory {}: {error}", path.display())))?;
        let real = said.canonicalize().unwrap_or_else(|_| said.clone());
        let identity = fs::metadata(&said).ok().map(|found| (found.dev(), found.ino()));
        Ok(Self { said, real, identity })
    }

    fn is_same(&self, other: &Self) -> bool {
        self.real == other.real || (self.identity.is_some() && self.identity == other.identity)
    }

    fn check_apart(&self, other: &Self) -> Result<(), Failure> {
        if self.is_same(other) {
            let (one, two) = (other.said.display(), self.said.display());
            return Err(Failure::usage(format!(
                "log.dirs names a folder twice: {one} and {two} are the same; leave one of them out"
            )));
        }
        self.check_not_within(other)?;
        other.check_not_within(self)
    }

    fn check_not_within(&self, outer: &Self) -> Result<(), Failure> {
        if !self.real.starts_with(&outer.real) {
            return Ok(());
        }
        let (inner, outer) = (self.said.display(), outer.said.display());
        Err(Failure::usage(format!(
            "log.dirs: {inner} lies within {outer}; each log directory, and the data folder, must be a folder of its own"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(data: &Path, log_dirs: &[PathBuf]) -> String {
        let failure = paths(data, log_dirs).unwrap_err();
        assert_eq!(failure.code(), Failure::USAGE);
        failure.to_string()
    }

    #[test]
    fn the_data_folder_is_the_log_directory_where_none_is_named() {
        assert_eq!(paths(Path::new("/data"), &[]).unwrap(), [Path::new("/data")]);
    }

    #[test]
    fn folders_are_absolute_and_need_not_be_there() {
        let all = paths(Path::new("/data"), &["/no/such".into(), "relative".into()]).unwrap();
        assert_eq!(all[0], Path::new("/no/such"));
        assert!(all[1].is_absolute() && all[1].ends_with("relative"));
    }

    #[test]
    fn a_folder_that_is_named_twice_is_refused_by_whatever_name() {
        let below = tempfile::tempdir().unwrap();
        let (one, link) = (below.path().join("one"), below.path().join("link"));
        fs::create_dir(&one).unwrap();
        std::os::unix::fs::symlink(&one, &link).unwrap();
        let data = below.path().join("data");
        for twice in [[one.clone(), one.clone()], [one.clone(), link], [one.clone(), one.join(".")]] {
            assert!(refused(&data, &twice).contains("names a folder twice"));
        }
        let missing: PathBuf = below.path().join("missing");
        assert!(refused(&data, &[missing.clone(), missing]).contains("names a folder twice"));
    }

    #[test]
    fn a_folder_within_another_is_refused_and_the_data_folder_counts() {
        let below = tempfile::tempdir().unwrap();
        let (data, one) = (below.path().join("data"), below.path().join("one"));
        for pair in [[one.clone(), one.join("two")], [one.join("two"), one.clone()]] {
            assert!(refused(&data, &pair).contains("lies within"));
        }
        assert!(refused(&data, &[data.join("logs")]).contains("lies within"));
        assert!(refused(&data, &[below.path().to_owned()]).contains("lies within"));
        assert_eq!(paths(&data, &[one.clone(), data.clone()]).unwrap(), [one, data]);
        let beside = [below.path().join("dat"), below.path().join("data2")];
        assert!(paths(&below.path().join("data"), &beside).is_ok(), "a part of a name is no folder");
    }
}
