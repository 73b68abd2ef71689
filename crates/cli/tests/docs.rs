//! What the house says of itself is true: the arrows between the crates, every YAML and every command
//! in the documentation, every example.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(
    clippy::print_stdout,
    reason = "what was counted and what was left out is told"
)]

mod arrows;

#[path = "docs/blocks.rs"]
mod blocks;
#[path = "docs/commands.rs"]
mod commands;
#[path = "docs/coverage.rs"]
mod coverage;
#[path = "docs/examples.rs"]
mod examples;
#[path = "docs/files.rs"]
mod files;
#[path = "docs/home.rs"]
mod home;
#[path = "docs/hooks.rs"]
mod hooks;
#[path = "docs/transcript.rs"]
mod transcript;
#[path = "docs/yaml.rs"]
mod yaml;
