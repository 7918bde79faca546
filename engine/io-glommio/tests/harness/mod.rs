//! Runs a test's body on one shard, with a folder of its own on a real drive.

use std::future::Future;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

use engine_io_glommio::{GlommioIo, ShardSpec, run};
use tempfile::TempDir;

/// The least the runtime takes.
pub(crate) const IO_MEMORY_BYTES: usize = 64 << 10;

/// A shard that the system places.
pub(crate) fn spec(name: &str) -> ShardSpec {
    ShardSpec { name: name.to_owned(), cpu: None, dedicated: false }
}

/// A folder beside the test's program: build folders lie on a drive, `/tmp` may not.
pub(crate) fn folder() -> TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.parent().unwrap()).unwrap()
}

/// Runs `body` on a shard, in `folder`. Its panic is the test's.
pub(crate) fn on_shard_in<T, F>(
    folder: &Path,
    body: impl Fn(GlommioIo, PathBuf) -> F + Clone + Send + 'static,
) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let owned = folder.to_owned();
    let make = move |_, io| body(io, owned.clone());
    let running = run(vec![spec("test")], IO_MEMORY_BYTES, folder, make).unwrap();
    running.join().remove(0).unwrap_or_else(|panic| resume_unwind(panic))
}

/// As [`on_shard_in`], in a folder of its own.
#[allow(dead_code, reason = "not every test program uses it")]
pub(crate) fn on_shard<T, F>(body: impl Fn(GlommioIo, PathBuf) -> F + Clone + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let folder = folder();
    on_shard_in(folder.path(), body)
}

/// Bytes that differ from block to block and within a block.
#[allow(dead_code, reason = "not every test program uses it")]
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| u8::try_from((at / 4096 * 31 + at * 7) % 251).unwrap()).collect()
}
