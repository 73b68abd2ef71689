//! Charging by the published rules, against the providers' own examples.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod anthropic;
mod charge;
mod openai;
mod properties;

/// When the tests' clocks begin.
pub(crate) const START: i64 = 1_800_000_000_000;
