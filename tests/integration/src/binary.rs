//! Which broker is tested.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The broker's executable: the one that `RINGLOG_BIN` names, else the one of the workspace, in the profile that the
/// test itself was built in. The latter is built first, so it is never an old one.
///
/// # Panics
/// When `RINGLOG_BIN` names no file, or the build fails.
#[must_use]
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| named().unwrap_or_else(built))
}

/// The folder that cargo builds into, found from the test's own executable (`<target>/<profile>/deps/<test>`).
///
/// # Panics
/// When the test wasn't started by cargo, or from where cargo had put it.
#[must_use]
pub fn target_folder() -> PathBuf {
    let profile = profile_folder();
    profile.parent().expect("a profile's folder lies in the target folder").to_owned()
}

fn named() -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os("RINGLOG_BIN")?);
    assert!(path.is_file(), "RINGLOG_BIN={} is no file", path.display());
    // The broker is started in a folder of its own, where a relative path would lead nowhere.
    Some(path.canonicalize().expect("a file that is there has a path"))
}

fn built() -> PathBuf {
    let folder = profile_folder();
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "ringlog"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if folder.ends_with("release") {
        command.arg("--release");
    }
    let status = command.status().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(status.success(), "{command:?} failed");
    folder.join("ringlog")
}

fn profile_folder() -> PathBuf {
    let test = env::current_exe().expect("a running test has an executable");
    let folder = test.ancestors().nth(2).expect("cargo puts tests in <target>/<profile>/deps");
    folder.to_owned()
}
