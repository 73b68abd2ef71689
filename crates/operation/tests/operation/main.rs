//! Permission rules over what calls touch.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod attacks;
mod properties;
mod remembering;
mod rules;
mod touched_paths;
mod void_rules;
