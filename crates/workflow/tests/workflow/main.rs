//! Templates, agent files and the run loop.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod format;
mod plan;
mod run;
mod schema;
mod templates;
mod world;
