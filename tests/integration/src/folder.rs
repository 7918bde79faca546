//! A folder for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::binary;

/// A folder below cargo's target folder: on a real file system, where direct writes work, unlike in many a `/tmp`.
/// Removed when it goes out of scope, unless the test is failing.
#[derive(Debug)]
pub struct TestFolder {
    path: PathBuf,
}

impl TestFolder {
    /// Makes the folder; `name` says whose it is.
    ///
    /// # Panics
    /// When it can't be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{name}-{}-{number}", process::id());
        let path = binary::target_folder().join("integration").join(name);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
        Self { path }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        if !thread::panicking() {
            // Nothing depends on it being gone, and a failed removal must not hide what the test has to say.
            fs::remove_dir_all(&self.path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_folders_of_one_name_differ_and_both_go() {
        let (first, second) = (TestFolder::new("folder"), TestFolder::new("folder"));
        let paths = [first.path().to_owned(), second.path().to_owned()];
        assert_ne!(paths[0], paths[1]);
        assert!(paths.iter().all(|path| path.is_dir()));
        drop((first, second));
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
