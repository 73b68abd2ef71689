//! The built-in actions. Each file has one namespace.

pub mod action_tool;
mod agent;
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

use crate::Registry;

/// Returns the registry of all built-in actions.
#[must_use]
pub fn builtin() -> Registry {
    let mut registry = Registry::default();
    registry.register(agent::Run);
    registry.register(cache::Wrap);
    registry.register(cache::Get);
    registry.register(cache::Invalidate);
    registry.register(csv::Parse);
    registry.register(document::Text);
    registry.register(file::Read);
    registry.register(file::Write);
    registry.register(file::Glob);
    registry.register(http::Request::GET);
    registry.register(http::Request::POST);
    registry.register(json::Parse);
    registry.register(json::Transform);
    registry.register(json::Stringify);
    registry.register(llamaextract::Extract);
    registry.register(llm::LlmAction::CALL);
    registry.register(llm::LlmAction::STREAM);
    registry.register(schema::Merge);
    registry.register(ltm::StoreAction);
    registry.register(ltm::Retrieve);
    registry.register(ltm::Delete);
    registry.register(ltm::Search);
    registry.register(memory::Store);
    registry.register(memory::Retrieve);
    registry.register(memory::Summarize);
    registry.register(reason::Cot);
    registry.register(reason::SelfCorrect);
    registry.register(reason::Decompose);
    registry.register(reason::React);
    registry.register(reflection::LoopAction(&reflection::LOOP));
    registry.register(reflection::LoopAction(&reflection::RETRY));
    registry.register(reflection::Evaluate);
    registry.register(shell::Run);
    registry.register(storage::Hash);
    registry.register(validate::Extraction);
    registry.register(web::Search);
    registry
}
