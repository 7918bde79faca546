//! Carries out the log's plans on files, for one shard.
#![forbid(unsafe_code)]

mod checkpoint;
mod config;
mod error;
pub mod format;
mod layout;
mod metrics;
mod permits;

pub use checkpoint::CorruptCheckpoint;
pub use config::{ConfigError, FlushScope, StoreConfig};
pub use error::{
    AppendError, Corruption, DiskError, DiskOperation, ReadError, StoreError, StoreFailure, WaitError,
};
pub use metrics::StoreMetrics;
