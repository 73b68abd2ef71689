#![allow(clippy::unwrap_used, clippy::expect_used)]
//! Tools, as a turn loop and a user of the crate see them.

mod arguments;
mod files;
mod registry;
mod tool_fixture;
mod workspace;

mod cached;
mod coherence;
mod memory;
mod shell;
mod skills;
mod surface;
mod web;
