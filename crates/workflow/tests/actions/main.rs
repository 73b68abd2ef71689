//! The actions, run as the engine runs them: arguments checked, then carried out for real.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fixture;

mod agent;
mod csv;
mod document;
mod file;
mod file_dependencies;
mod glob;
mod http;
mod json;
mod llamaextract;
mod llm;
mod load_problems;
mod ltm;
mod order;
mod reflection;
mod schema;
mod shell;
mod storage;
mod table;
mod validate;
mod web;

use cachalot_test_support::{fakes, program_file};
