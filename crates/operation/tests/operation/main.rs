//! Permission rules over what calls touch.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod touched_paths;
