//! Actions by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use cachalot_core::Problem;
use cachalot_core::suggest::nearest;

use super::Action;
use crate::codes;

/// The prefix of the names of built-in tools that are steps.
pub(crate) const TOOL_PREFIX: &str = "tool.";

/// The prefix of the names of the tools of MCP servers that are steps.
pub(crate) const MCP_PREFIX: &str = "mcp.";

/// True if the text names a tool as an action.
pub(crate) fn is_tool_name(name: &str) -> bool {
    name.starts_with(TOOL_PREFIX) || name.starts_with(MCP_PREFIX)
}

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
        self.names().any(is_tool_name)
    }

    /// Returns help for a name that no action has.
    pub(crate) fn help_for(&self, name: &str) -> String {
        if let Some(name) = name.strip_prefix(MCP_PREFIX) {
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

    /// Returns the problem of a name that no action has.
    pub(crate) fn unknown(&self, name: &str) -> Problem {
        let message = format!("there is no action `{name}`");
        Problem::new(codes::UNKNOWN_ACTION, message).help(self.help_for(name))
    }

    /// Returns all names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.actions.keys().map(String::as_str)
    }
}
