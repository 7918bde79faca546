//! Waits for a descriptor where what was begun can't be refused any more, and giving up would end the store.

use core::time::Duration;
use std::path::Path;

use engine_io::Io;

use crate::error::{DiskError, DiskOperation, StoreError, disk};
use crate::shard::Shard;

/// How long after an attempt the next one comes: at first, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// How long a store that is being closed waits. What it owes is acknowledged to nobody.
const PATIENCE_CLOSING: Duration = Duration::from_secs(10);

/// An error that may say that there is no descriptor.
pub(crate) trait MayLackDescriptor: core::fmt::Display {
    fn is_no_descriptor(&self) -> bool;
}

impl MayLackDescriptor for DiskError {
    fn is_no_descriptor(&self) -> bool {
        Self::is_no_descriptor(self)
    }
}

impl MayLackDescriptor for StoreError {
    fn is_no_descriptor(&self) -> bool {
        matches!(self, Self::Disk(error) if error.is_no_descriptor())
    }
}

impl<I: Io> Shard<I> {
    /// Makes the folder's entries durable, and waits where there is no descriptor for it: the flush wasn't tried then.
    pub(crate) async fn flush_folder(&self, folder: &Path) -> Result<(), DiskError> {
        let flush = async || self.io.flush_folder(folder).await.map_err(disk(DiskOperation::Flush, folder));
        self.with_descriptor(flush).await
    }

    /// Carries out `attempt`, again and again for as long as there is no descriptor for it.
    pub(crate) async fn with_descriptor<E: MayLackDescriptor>(
        &self,
        attempt: impl AsyncFn() -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut pause, mut patience) = (PAUSE_MIN, PATIENCE_CLOSING);
        loop {
            let error = match attempt().await {
                Err(error) if error.is_no_descriptor() && !self.failure.has_happened() => error,
                done => {
                    if done.is_ok() && self.want_of_descriptors.given() {
                        tracing::info!("there are descriptors for files again");
                    }
                    return done;
                }
            };
            if self.is_closing() {
                patience = patience.saturating_sub(pause);
                if patience.is_zero() {
                    return Err(error);
                }
            }
            if self.want_of_descriptors.refused(self.io.now()) {
                tracing::warn!(%error, "waiting for a descriptor; nothing is acknowledged meanwhile");
            }
            let _one_less = self.descriptors.close_oldest();
            self.io.sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
