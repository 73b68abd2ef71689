//! Hooks of plugins and extensions.

use std::path::Path;

use super::{Action, Definition};
use crate::Dialect;
use crate::shell_word::quote;

/// The root directory of a plugin: `CLAUDE_PLUGIN_ROOT` for hooks of Claude Code, `extensionPath` for
/// hooks of Gemini CLI.
pub(crate) struct Plugin {
    root: String,
    /// The runtime that the plugin is for; `None` if it is for both.
    pub(crate) dialect: Option<Dialect>,
}

impl Plugin {
    /// Returns the plugin or extension whose `hooks/hooks.json` or manifest is `file`.
    pub(crate) fn from_file(file: &Path) -> Option<Self> {
        let file = std::path::absolute(file).ok()?;
        let is_one =
            file.ends_with("hooks/hooks.json") || file.ends_with(".claude-plugin/plugin.json");
        let root = file.parent().filter(|_| is_one)?.parent()?;
        let dialect = match (
            root.join(".claude-plugin/plugin.json").is_file(),
            root.join("gemini-extension.json").is_file(),
        ) {
            (true, true) => None,
            (true, false) => Some(Dialect::Claude),
            (false, true) => Some(Dialect::Gemini),
            (false, false) => return None,
        };
        let root = root.to_string_lossy().into_owned();
        Some(Self { root, dialect })
    }

    /// Passes the root directory to a hook: in its command line and its environment.
    pub(super) fn apply_to(&self, definition: &mut Definition, dialect: Dialect) {
        let variable = match dialect {
            Dialect::Gemini => "extensionPath",
            _ => "CLAUDE_PLUGIN_ROOT",
        };
        if let Action::Command { line } = &mut definition.action {
            if quote(&self.root) == self.root {
                // Expanded here because a shell would not expand it within single quotes. A path that
                // needs quoting is left to the shell.
                *line = line.replace(&format!("${{{variable}}}"), &self.root);
            }
            if dialect == Dialect::Gemini {
                // Gemini CLI expands these before a shell parses the line.
                *line = line
                    .replace("${/}", std::path::MAIN_SEPARATOR_STR)
                    .replace("${pathSeparator}", std::path::MAIN_SEPARATOR_STR)
                    .replace("${workspacePath}", "${GEMINI_PROJECT_DIR}");
            }
        }
        let root = (variable.to_owned(), self.root.clone());
        definition.env.extend([root]);
    }
}
