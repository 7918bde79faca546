//! Reading small text files beneath the root of a host's tree.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fs, io};

use crate::TuningError;

/// The whole file as bytes; `None` when it doesn't exist.
pub(crate) fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, TuningError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(source) => Err(TuningError::Read { path: path.to_path_buf(), source }),
    }
}

/// A folder on the way may be a file on hosts we don't know: that too means "not there".
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The whole file as text without surrounding white space; `None` when it doesn't exist.
pub(crate) fn read(path: &Path) -> Result<Option<String>, TuningError> {
    let bytes = read_bytes(path)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()))
}

/// Like [`read`], for a file that every supported kernel has.
pub(crate) fn read_required(path: &Path) -> Result<String, TuningError> {
    read(path)?.ok_or_else(|| TuningError::Missing { path: path.to_path_buf() })
}

/// A file that holds one number; `None` when it doesn't exist.
pub(crate) fn read_number<N: FromStr>(path: &Path) -> Result<Option<N>, TuningError> {
    read(path)?.map(|text| text.parse().map_err(|_| unexpected(path, "a number"))).transpose()
}

/// A file that holds `0` or `1`; `None` when it doesn't exist.
pub(crate) fn read_flag(path: &Path) -> Result<Option<bool>, TuningError> {
    read(path)?
        .map(|text| match text.as_str() {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(unexpected(path, "0 or 1")),
        })
        .transpose()
}

/// The error for a file that says something else than `wanted`.
pub(crate) fn unexpected(path: &Path, wanted: &'static str) -> TuningError {
    TuningError::Unexpected { path: PathBuf::from(path), wanted }
}
