//! What is to be done where the process must leave at once: from another thread than the one that holds the broker.

use std::io;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustix::process::Signal;

use super::{BenchFolder, STOP_POLL, signal, sleep};
use crate::failure::Failure;
use crate::output::tell;

/// How long a killed broker may take to let go of its folder.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// What must not outlive the process. Clones share it.
///
/// It is there before any of it is, and knows of each thing from the moment it exists: a signal finds everything,
/// however early it comes, and nothing new begins once one has come.
#[derive(Clone, Debug, Default)]
pub(in crate::bench) struct Emergency {
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    folder: Option<BenchFolder>,
    process: Option<u32>,
}

impl Emergency {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("nobody panics while holding it")
    }

    /// Makes the folder.
    pub(in crate::bench) fn make_folder(
        &self,
        make: impl FnOnce() -> Result<BenchFolder, Failure>,
    ) -> Result<BenchFolder, Failure> {
        let mut held = self.held();
        let folder = make()?;
        held.folder = Some(folder.clone());
        Ok(folder)
    }

    /// Starts the broker.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let mut held = self.held();
        let child = command.spawn()?;
        held.process = Some(child.id());
        Ok(child)
    }

    /// The broker is about to be waited for: its number may be another's then.
    pub(super) fn forget_process(&self) {
        self.held().process = None;
    }

    /// Ends the broker, removes the folder, and calls `leave`, which ends the process: until then nothing else begins.
    pub(in crate::bench) fn act(&self, leave: impl FnOnce()) {
        let held = self.held();
        if let Some(Err(error)) = held.process.map(|process| signal(process, Signal::KILL)) {
            tell(format_args!("ringlog: the embedded broker can't be ended: {error}"));
        }
        if let Some(folder) = &held.folder {
            // The broker writes into it until it is gone.
            let mut waited = Duration::ZERO;
            while folder.clean_up().is_err() && waited < CLEAN_UP_TIMEOUT {
                sleep(STOP_POLL);
                waited += STOP_POLL;
            }
        }
        leave();
        drop(held);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::super::Keep;
    use super::*;

    #[test]
    fn whatever_there_is_goes_however_early_the_signal_comes() {
        let below = tempfile::tempdir().unwrap();
        let make = || BenchFolder::create(below.path(), Keep::No);
        Emergency::default().act(|| {});
        let emergency = Emergency::default();
        let folder = emergency.make_folder(make).unwrap();
        emergency.act(|| assert!(!folder.path().exists()));

        let emergency = Emergency::default();
        let folder = emergency.make_folder(make).unwrap();
        let mut child = emergency.spawn(Command::new("cat").stdin(Stdio::piped())).unwrap();
        emergency.act(|| assert!(!folder.path().exists()));
        assert!(!child.wait().unwrap().success(), "it was killed");
    }
}
