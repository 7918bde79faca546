//! A small drive for one test: an ext4 file system in a file, mounted by a loop device. Takes root.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::programs;

/// How long making, mounting or unmounting one may take.
const WAIT: Duration = Duration::from_secs(30);

/// A mounted drive. Unmounted when it goes out of scope; whoever uses it has ended before.
#[derive(Debug)]
pub struct Drive {
    at: PathBuf,
}

impl Drive {
    /// Makes a drive of so many bytes in the file `image`, and mounts it at the folder `at`.
    ///
    /// # Panics
    /// When that can't be done.
    #[must_use]
    pub fn mount(image: &Path, at: &Path, bytes: u64) -> Self {
        let file = File::create(image).expect("a file can be made in the test's folder");
        file.set_len(bytes).expect("a file can be sparse");
        fs::create_dir_all(at).expect("a folder can be made in the test's folder");
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(image));
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(at));
        Self { at: at.to_owned() }
    }

    /// Takes all the space but so many bytes, by a file.
    ///
    /// # Panics
    /// When it can't be taken.
    #[must_use]
    pub fn fill(&self, leave: u64) -> Filler {
        let space = rustix::fs::statvfs(&self.at).expect("a mounted drive tells its space");
        let free = space.f_bavail * space.f_frsize;
        let path = self.at.join("filler");
        run(Command::new("fallocate").args(["--length", &free.saturating_sub(leave).to_string()]).arg(&path));
        Filler(path)
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        // Lazily, so that a failing test leaves no mount behind, whatever still holds it.
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.at).status();
        let is_done = unmounted.is_ok_and(|status| status.success());
        assert!(is_done || std::thread::panicking(), "{} stays mounted", self.at.display());
    }
}

/// Space that is taken until this goes.
#[derive(Debug)]
pub struct Filler(PathBuf);

impl Drop for Filler {
    fn drop(&mut self) {
        // A drive that is gone has nothing to free.
        fs::remove_file(&self.0).ok();
    }
}

fn run(command: &Command) {
    let mut owned = Command::new(command.get_program());
    owned.args(command.get_args());
    let _ = programs::run(owned, b"", WAIT);
}
