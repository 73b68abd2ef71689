//! Tests of the crate, in one program.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod catalog;
mod client;
mod clouds;
mod configuration;
mod converse;
mod gemini;
mod interactions;
