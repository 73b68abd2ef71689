//! What the rest of Cachalot relies on in `core`: canonical bytes, the JSON scanner and the configuration tree.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod atomic_file;
mod canonical;
mod json;
mod spec;
mod tree;
