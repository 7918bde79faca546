//! Which control groups this process is in: the folders whose limits hold for it.

use std::path::{Component, Path, PathBuf};

use crate::TuningError;
use crate::host;

/// Where control groups are mounted.
const MOUNT: &str = "sys/fs/cgroup";

/// The folders of this process's group in the unified hierarchy (version 2), from its own up to the top. Empty where there
/// is none, or where its path climbs (`/../x`), as that of a namespace below does: nothing to see up there.
pub(crate) fn unified(root: &Path) -> Result<Vec<PathBuf>, TuningError> {
    // The line of the unified hierarchy is the one numbered 0 without controllers.
    folders(root, &unified_tree(root), |line| line.strip_prefix("0::"))
}

/// The same in the old hierarchy (version 1) of this controller, which knows the namespace's top as its own root: a path
/// that isn't there is that of the host, and the top's limit holds.
pub(crate) fn of_controller(root: &Path, controller: &str) -> Result<Vec<PathBuf>, TuningError> {
    folders(root, &root.join(MOUNT).join(controller), |line| {
        let (_number, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|named| named == controller).then_some(path)
    })
}

fn folders(
    root: &Path,
    tree: &Path,
    path_in: impl Fn(&str) -> Option<&str>,
) -> Result<Vec<PathBuf>, TuningError> {
    let groups = host::read(&root.join("proc/self/cgroup"))?.unwrap_or_default();
    let Some(group) = groups.lines().find_map(path_in).and_then(|path| path.strip_prefix('/')) else {
        return Ok(Vec::new());
    };
    if Path::new(group).components().any(|part| part == Component::ParentDir) {
        return Ok(Vec::new());
    }
    Ok(Path::new(group).ancestors().map(|folder| tree.join(folder)).collect())
}

/// Where the unified hierarchy is mounted: beside the old one on hosts that run both.
fn unified_tree(root: &Path) -> PathBuf {
    let beside_the_old = root.join(MOUNT).join("unified");
    if beside_the_old.is_dir() { beside_the_old } else { root.join(MOUNT) }
}
