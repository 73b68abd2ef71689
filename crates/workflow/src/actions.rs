//! The built-in actions. Each file registers one namespace.

pub mod action_tool;
mod agent;
mod argument_checker;
mod arguments;
pub mod cache;
mod check_arguments;
mod csv;
mod document;
mod file;
mod http;
mod http_response;
mod json;
mod json_object;
mod llamaextract;
mod llm;
mod location;
mod ltm;
mod memory;
mod model_calls;
mod model_error;
mod order;
mod reason;
pub(crate) mod reflection;
mod run_settings;
mod schema;
mod shell;
mod storage;
pub(crate) mod tool;
pub(crate) mod truthiness;
pub(crate) mod validate;
mod web;

pub(crate) use check_arguments::check_arguments;
pub(crate) use model_calls::unknown_programs;
pub use model_calls::{RequestedEffort, requested_efforts};
pub(crate) use run_settings::WAITING;

use crate::Registry;

/// Returns the registry of all built-in actions.
#[must_use]
pub fn builtin() -> Registry {
    let mut registry = Registry::default();
    agent::register(&mut registry);
    cache::register(&mut registry);
    csv::register(&mut registry);
    document::register(&mut registry);
    file::register(&mut registry);
    http::register(&mut registry);
    json::register(&mut registry);
    llamaextract::register(&mut registry);
    llm::register(&mut registry);
    schema::register(&mut registry);
    ltm::register(&mut registry);
    memory::register(&mut registry);
    reason::register(&mut registry);
    reflection::register(&mut registry);
    shell::register(&mut registry);
    storage::register(&mut registry);
    validate::register(&mut registry);
    web::register(&mut registry);
    registry
}
