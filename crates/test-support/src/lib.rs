//! What the tests of several crates share. No crate uses it outside of tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::new_without_default,
    missing_docs,
    reason = "all of it is test code"
)]

pub mod bodies;
pub mod cache_fixture;
pub mod conversation;
pub mod fakes;
pub mod program_file;
pub mod tool_fixture;
