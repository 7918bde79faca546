//! Tests of the crate as a whole, over every message and every version.

mod differential;
mod encoding;
mod family;
mod fast_paths;
mod golden;
mod hostile;
mod primitives;
pub(crate) mod reserved;
pub(crate) mod sample;
mod tree;
mod vectors;
