//! Tests of the crate, in one program.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod anthropic;
mod catalog;
mod chat;
mod client;
mod clouds;
mod configuration;
mod converse;
mod gemini;
mod markers;
mod responses;
mod sse;
