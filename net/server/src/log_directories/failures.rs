//! What the shards of a node tell each other of log directories that have failed.

use std::sync::{Arc, OnceLock};

use engine_io::{Receiver, Sender, mailbox};
use engine_store::StoreFailure;

use super::placement::DirectoryIndex;

/// A shard's share of that. A failure is said once and stays; a bell tells that there is another.
pub(crate) struct DirectoryFailures {
    /// The first failure of each directory, on whichever shard.
    first: Arc<[OnceLock<StoreFailure>]>,
    bells: Arc<[Sender<()>]>,
    bell: Receiver<()>,
}

/// One share for each shard.
pub(crate) fn failures(directories: usize, shards: u16) -> Vec<DirectoryFailures> {
    let first: Arc<[_]> = (0..directories).map(|_| OnceLock::new()).collect();
    let (bells, heard): (Vec<_>, Vec<_>) = (0..shards).map(|_| mailbox(1)).unzip();
    let bells: Arc<[_]> = bells.into();
    let share = |bell| DirectoryFailures { first: Arc::clone(&first), bells: Arc::clone(&bells), bell };
    heard.into_iter().map(share).collect()
}

impl DirectoryFailures {
    /// Says that a directory has failed; `false` where that was said before.
    pub(crate) fn report(&self, directory: DirectoryIndex, failure: StoreFailure) -> bool {
        let is_first = self.first[directory.0].set(failure).is_ok();
        if is_first {
            // A bell that is full rings already, and a shard that has ended needs none.
            self.bells.iter().for_each(|bell| drop(bell.try_send(())));
        }
        is_first
    }

    /// The directories that have failed, and why first.
    pub(crate) fn all(&self) -> Vec<(DirectoryIndex, StoreFailure)> {
        let failed = self.first.iter().enumerate();
        failed.filter_map(|(index, failure)| Some((DirectoryIndex(index), failure.get()?.clone()))).collect()
    }

    /// Resolves when something was said since the last time.
    pub(crate) async fn next(&self) {
        if self.bell.receive().await.is_err() {
            // The shard has a bell of its own: it is never closed before.
            core::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use engine_store::{DiskError, DiskOperation};
    use futures_lite::future::{block_on, poll_once};

    use super::*;

    fn failure(code: i32) -> StoreFailure {
        let kind = std::io::ErrorKind::Other;
        StoreFailure(DiskError { operation: DiskOperation::Write, path: "d".into(), kind, code: Some(code) })
    }

    #[test]
    fn every_shard_hears_of_a_failure_and_the_first_one_stays() {
        let shards = failures(3, 2);
        assert!(block_on(poll_once(shards[1].next())).is_none());
        assert!(shards[0].report(DirectoryIndex(2), failure(1)));
        assert!(!shards[1].report(DirectoryIndex(2), failure(2)));
        assert!(shards[1].report(DirectoryIndex(0), failure(3)), "a bell that rings already is fine");
        for shard in &shards {
            assert!(block_on(poll_once(shard.next())).is_some());
            let all = [(DirectoryIndex(0), failure(3)), (DirectoryIndex(2), failure(1))];
            assert_eq!(shard.all(), all);
        }
    }
}
