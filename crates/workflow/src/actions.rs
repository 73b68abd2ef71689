//! The action registry. Each file registers one namespace.

mod agent;
mod argument_checker;
mod arguments;
pub mod cache;
mod csv;
mod document;
mod exact_json;
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

pub(crate) use llm::unknown_programs;
pub use llm::{RequestedEffort, requested_efforts};

use std::collections::BTreeMap;
use std::sync::Arc;

use cachalot_core::suggest::nearest;

use crate::Action;

/// Actions by name.
#[derive(Default, Clone)]
pub struct Registry {
    actions: BTreeMap<String, Arc<dyn Action>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.actions.keys()).finish()
    }
}

impl Registry {
    /// Registers an action under all its names. A later action replaces an earlier one of the same name.
    pub fn register(&mut self, action: impl Action + 'static) {
        let action: Arc<dyn Action> = Arc::new(action);
        for name in action.metadata().names() {
            self.actions.insert(name.to_owned(), Arc::clone(&action));
        }
    }

    /// Returns the action called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Action>> {
        self.actions.get(name)
    }

    /// Returns all actions, each once, by their first names.
    pub fn actions(&self) -> impl Iterator<Item = &Arc<dyn Action>> {
        self.actions
            .iter()
            .filter(|(name, action)| action.metadata().name == **name)
            .map(|(_, action)| action)
    }

    /// True if it has tools that are steps.
    #[must_use]
    pub fn has_tools(&self) -> bool {
        self.names().any(tool::is_tool_name)
    }

    /// Returns help for a name that no action has.
    pub(crate) fn help_for(&self, name: &str) -> String {
        if let Some(name) = name.strip_prefix("mcp.") {
            let server = name.split('.').next().unwrap_or_default();
            return format!(
                "define the server `{server}` under `mcps`; a tool is named `mcp.SERVER.TOOL`"
            );
        }
        match nearest(name, self.names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`cachalot schema` lists all actions".to_owned(),
        }
    }

    /// Returns all names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.actions.keys().map(String::as_str)
    }
}

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
