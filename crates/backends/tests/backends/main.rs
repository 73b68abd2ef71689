//! The stores of other engines, against real servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    missing_docs
)]

mod postgres;
mod redis;
