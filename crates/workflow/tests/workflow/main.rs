//! Templates, agent files and the run loop.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod run;
mod templates;
mod world;
mod format;
mod plan;
mod schema;
