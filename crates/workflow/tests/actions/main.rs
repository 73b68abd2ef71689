//! The actions, run as the engine runs them: arguments checked, then carried out for real.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../fakes/mod.rs"]
mod fakes;
mod fixture;
#[path = "../../../process/tests/process/program_file.rs"]
mod program_file;

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
