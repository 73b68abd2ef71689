//! Templates, agent files and the run loop.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod branches;
mod conditions;
mod destinations;
mod failures;
mod fixture;
mod format;
mod jinja2;
mod models;
mod plan;
mod reason;
mod rendering;
mod run;
mod schema;
mod session;
mod subgraphs;
mod templates;

use cachalot_test_support::fakes;
