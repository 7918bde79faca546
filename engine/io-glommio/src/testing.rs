//! One shard for a unit test.

use core::future::Future;
use std::path::PathBuf;
use std::thread;

use crate::{GlommioIo, ShardSpec, run};

/// Runs `body` on a shard with a folder of its own, on the drive the test's program lies on.
pub(crate) fn on_shard<T, F>(
    body: impl Fn(GlommioIo, PathBuf) -> F + Clone + Send + 'static,
) -> thread::Result<T>
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let program = std::env::current_exe().unwrap();
    let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
    let path = folder.path().to_owned();
    let spec = ShardSpec { name: "test".to_owned(), cpu: None, dedicated: false };
    let running = run(vec![spec], 64 << 10, folder.path(), move |_, io| body(io, path.clone()));
    running.unwrap().join().remove(0)
}
