//! The documentation is correct: the dependencies between the crates, every YAML and every command
//! in the documentation, every example.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(clippy::print_stdout, reason = "the tests report counts and omissions")]

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
#[path = "docs/links.rs"]
mod links;
#[path = "docs/picture.rs"]
mod picture;
#[path = "docs/scripts.rs"]
mod scripts;
#[path = "docs/transcript.rs"]
mod transcript;
#[path = "docs/yaml.rs"]
mod yaml;

use cachalot_test_support::program_file;
