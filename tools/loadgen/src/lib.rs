//! The load generator behind `ringlog bench`.
#![forbid(unsafe_code)]

pub mod ledger;
pub mod payload;
pub mod plan;
pub mod schedule;
