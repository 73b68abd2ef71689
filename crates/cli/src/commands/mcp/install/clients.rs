//! The clients whose configuration can be written: where it is, and what an entry looks like.
//!
//! | client | user | project | entry | checked |
//! |---|---|---|---|---|
//! | Claude Code | `~/.claude.json`, or `.claude.json` in `CLAUDE_CONFIG_DIR` | `.mcp.json` | `mcpServers.NAME`: `type`, `command`, `args`, `env` | `claude mcp add` of 2.1.197, 2026-12-01 |
//! | Codex | `~/.codex/config.toml`, or in `CODEX_HOME` | `.codex/config.toml` | `[mcp_servers.NAME]`: `command`, `args`; `env_vars` (by its documentation) | `codex mcp add` and `list` of 0.171.0, 2026-12-01 |
//! | Cursor | `~/.cursor/mcp.json` | `.cursor/mcp.json` | `mcpServers.NAME`: `type`, `command`, `args` | its documentation as known in 2026; the program was not run |
//! | VS Code | `Code/User/mcp.json` in the configuration folder of the platform | `.vscode/mcp.json` | `servers.NAME`: `type`, `command`, `args` | its documentation as known in 2026; the program was not run |

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::arguments::McpClient;

/// The syntax of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// JSON, in which comments are kept; the name of the member with the servers.
    Json(&'static str),
    /// TOML with a table for each server.
    Toml,
}

impl McpClient {
    /// The name of the client in messages.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
        }
    }

    pub(super) fn syntax(self) -> Syntax {
        match self {
            Self::ClaudeCode | Self::Cursor => Syntax::Json("mcpServers"),
            Self::Vscode => Syntax::Json("servers"),
            Self::Codex => Syntax::Toml,
        }
    }

    /// Returns the file of the project in `directory`.
    pub(super) fn file_of_project(self, directory: &Path) -> PathBuf {
        directory.join(match self {
            Self::ClaudeCode => ".mcp.json",
            Self::Codex => ".codex/config.toml",
            Self::Cursor => ".cursor/mcp.json",
            Self::Vscode => ".vscode/mcp.json",
        })
    }

    /// Returns the file of the user; `None` if the environment does not name the folder.
    pub(super) fn file_of_user(self, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
        let folder = |name: &str| {
            let path = environment.get(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let home = || folder(if cfg!(windows) { "USERPROFILE" } else { "HOME" });
        match self {
            Self::ClaudeCode => {
                let folder = folder("CLAUDE_CONFIG_DIR").or_else(home)?;
                Some(folder.join(".claude.json"))
            }
            Self::Codex => {
                let own = || Some(home()?.join(".codex"));
                Some(folder("CODEX_HOME").or_else(own)?.join("config.toml"))
            }
            Self::Cursor => Some(home()?.join(".cursor/mcp.json")),
            Self::Vscode => {
                let configuration = if cfg!(windows) {
                    folder("APPDATA")
                } else if cfg!(target_os = "macos") {
                    home().map(|home| home.join("Library/Application Support"))
                } else {
                    folder("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")))
                };
                Some(configuration?.join("Code/User/mcp.json"))
            }
        }
    }

    /// Returns the entry that starts a program, which reads variables.
    pub(super) fn entry(self, program: &str, arguments: &[String], variables: &[String]) -> Value {
        match self {
            Self::ClaudeCode => {
                json!({ "type": "stdio", "command": program, "args": arguments, "env": {} })
            }
            Self::Codex => {
                let mut entry = json!({ "command": program, "args": arguments });
                // Others pass all variables on.
                if !variables.is_empty() {
                    entry["env_vars"] = json!(variables);
                }
                entry
            }
            Self::Cursor | Self::Vscode => {
                json!({ "type": "stdio", "command": program, "args": arguments })
            }
        }
    }
}
