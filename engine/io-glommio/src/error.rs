//! What the runtime says, as what the system said.

use std::io;

use glommio::GlommioError;

/// Keeps the system's error number, which the runtime's own conversion loses (and with it the kind's exact meaning).
pub(crate) fn system<T>(error: GlommioError<T>) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::from(error), io::Error::from_raw_os_error)
}
