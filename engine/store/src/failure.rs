//! The store's end: the first failed write or flush ends everything, once and for good.

use core::cell::RefCell;

use engine_io::{Signal, Wait};

use crate::error::{DiskError, StoreFailure};

/// Whether the store has failed, and why first.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    first: RefCell<Option<StoreFailure>>,
    happened: Signal,
}

impl Failure {
    /// Notes a failure; `false` where there was one already.
    pub(crate) fn set(&self, error: DiskError) -> bool {
        let is_first = {
            let mut first = self.first.borrow_mut();
            let is_first = first.is_none();
            first.get_or_insert(StoreFailure(error));
            is_first
        };
        if is_first {
            self.happened.notify();
        }
        is_first
    }

    pub(crate) fn get(&self) -> Option<StoreFailure> {
        self.first.borrow().clone()
    }

    pub(crate) fn has_happened(&self) -> bool {
        self.first.borrow().is_some()
    }

    pub(crate) fn happening(&self) -> Wait {
        self.happened.wait()
    }

    /// Resolves with the failure, if there ever is one.
    pub(crate) async fn wait(&self) -> StoreFailure {
        loop {
            let happening = self.happening();
            if let Some(failure) = self.get() {
                return failure;
            }
            happening.await;
        }
    }
}
