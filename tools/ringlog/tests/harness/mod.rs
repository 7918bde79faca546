//! What the tests of the binary share.

use tempfile::TempDir;

/// A folder below cargo's target folder: on a real file system, where direct writes work, unlike in many a `/tmp`.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}
