//! The tests of the hooks, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
