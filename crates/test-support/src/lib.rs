//! What the tests of several crates share. No crate uses it outside of tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "all of it is test code"
)]

pub mod bodies;
pub mod conversation;
pub mod fakes;
pub mod program_file;
