//! Tests of the crate, in one program.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod anthropic;
mod chat;
mod conversion;
mod interactions;
mod markers;
mod only_place;
mod responses;
mod sse;
mod terms;
