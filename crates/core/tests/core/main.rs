//! Items of `core` that other crates use: canonical bytes, the JSON scanner and the configuration tree.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod atomic_file;
mod canonical;
mod config;
mod json;
mod settings;
mod tree;
