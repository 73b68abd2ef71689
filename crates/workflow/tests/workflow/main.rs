//! Templates, agent files and the run loop.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod branches;
mod conditions;
mod failures;
mod format;
mod plan;
mod rendering;
mod run;
mod schema;
mod templates;
mod world;
