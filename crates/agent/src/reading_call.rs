//! Calls that read a file or a directory for a message of the user.

use std::sync::Arc;

use cachalot_operation::{PermissionDecision, Permissions};
use cachalot_tools::builtin::files::files;
use cachalot_tools::workspace::PathKind;
use cachalot_tools::{Registry, ToolCall, Toolbox, Workspace};
use serde_json::json;

use crate::turn::access_request;
use crate::{Error, ErrorKind};

const READ_FILE: &str = "read_file";
const LIST_DIR: &str = "list_dir";

/// A call of `read_file` or `list_dir` that the user makes.
pub(crate) struct ReadingCall {
    /// The agent's own tools, whose results are cached; others if it has none of these.
    pub(crate) toolbox: Arc<dyn Toolbox>,
    pub(crate) call: ToolCall,
}

impl ReadingCall {
    /// Creates the call that reads a path.
    ///
    /// # Errors
    /// The path cannot be resolved within the workspace.
    pub(crate) fn new(
        path: &str,
        toolbox: &Arc<dyn Toolbox>,
        workspace: &Workspace,
    ) -> Result<Self, Error> {
        let resolved = workspace.resolved(path);
        let resolved = resolved.map_err(|error| Error::new(ErrorKind::Input, error.to_string()))?;
        match resolved.found {
            PathKind::Directory => Self::with_tool(LIST_DIR, path, toolbox),
            _ => Self::of_file(path, toolbox),
        }
    }

    /// Creates the call that reads a file, which may be outside of the workspace: to judge the call, not to make it.
    ///
    /// # Errors
    /// The tool cannot be initialized.
    pub(crate) fn of_file(path: &str, toolbox: &Arc<dyn Toolbox>) -> Result<Self, Error> {
        Self::with_tool(READ_FILE, path, toolbox)
    }

    fn with_tool(tool: &str, path: &str, toolbox: &Arc<dyn Toolbox>) -> Result<Self, Error> {
        let definitions = toolbox.definitions();
        let toolbox = if definitions.iter().any(|known| known.name == tool) {
            Arc::clone(toolbox)
        } else {
            let tools = files().into_iter();
            let tools = tools.filter(|known| known.metadata().name == tool);
            let registry = Registry::new(tools.collect());
            Arc::new(registry.map_err(|error| Error::new(ErrorKind::Tools, error.to_string()))?)
        };
        Ok(Self {
            toolbox,
            call: ToolCall {
                id: "attachment".to_owned(),
                name: tool.to_owned(),
                arguments: json!({ "path": path }).to_string(),
            },
        })
    }

    /// Returns the rule that denies the call.
    pub(crate) fn denying_rule(
        &self,
        permissions: &Permissions,
        workspace: &Workspace,
    ) -> Option<String> {
        let prepared = self.toolbox.prepare(self.call.clone());
        match permissions.judge(&access_request(prepared.ready()?), workspace) {
            PermissionDecision::Deny(rule) => Some(rule),
            PermissionDecision::Unclear { .. }
            | PermissionDecision::Ask(_)
            | PermissionDecision::Allow => None,
        }
    }
}
