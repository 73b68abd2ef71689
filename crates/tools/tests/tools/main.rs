#![allow(clippy::unwrap_used, clippy::expect_used)]
//! Tools, as a turn loop and a user of the crate see them.

mod arguments;
mod files;
mod registry;
mod workspace;

mod background_jobs;
mod cached;
mod coherence;
mod memory;
mod session_tools;
mod shell;
mod skills;
mod surface;
mod web;

use cachalot_test_support::tool_fixture;
