//! The generated parts of the documents.

use cachalot_agent::definition::{AGENT, REVIEW};
use cachalot_core::config::{Row, Settings as _, Table};
use cachalot_mcp::settings::{BACKGROUND_JOBS, FETCH, FILESYSTEM, SERVER, SHELL, TODO, TOOLSET};
use cachalot_model::{Budget, ModelSettings};
use cachalot_tools::cached::ToolCacheSettings;
use cachalot_workflow::format::{self, FILE, OnErrorKeys};

use crate::key_table::KeyTable;

/// A generated part.
pub(crate) struct Part {
    /// The document, in `docs`.
    pub(crate) document: &'static str,
    /// The name in the comment that begins it.
    pub(crate) name: &'static str,
    pub(crate) table: KeyTable,
}

/// Returns the documents with generated parts.
pub(crate) fn documents() -> Vec<&'static str> {
    let mut documents: Vec<_> = all().iter().map(|part| part.document).collect();
    documents.dedup();
    documents
}

/// Returns the parts of a document.
pub(crate) fn of_document(name: &str) -> Vec<Part> {
    let mut parts = all();
    parts.retain(|part| part.document == name);
    parts
}

fn all() -> Vec<Part> {
    let yaml = "YAML_REFERENCE.md";
    let (agents, tools) = ("agents.md", "tools.md");
    let providers = "providers.md";
    vec![
        part(yaml, "keys of the file", FILE.rows("", false)),
        part(
            yaml,
            "settings",
            format::Settings::TABLE.rows("settings.", true),
        ),
        part(yaml, "on_error", OnErrorKeys::TABLE.rows("", true)),
        part(providers, "model", ModelSettings::TABLE.rows("", false)),
        part(providers, "budget", Budget::TABLE.rows("", false)),
        with_defaults(agents, "agent", AGENT.rows("", false)),
        with_defaults(agents, "review", REVIEW.rows("", false)),
        with_defaults(tools, "toolset", TOOLSET.rows("", false)),
        with_defaults(tools, "filesystem", of_type(&FILESYSTEM)),
        with_defaults(tools, "shell", of_type(&SHELL)),
        with_defaults(tools, "fetch", of_type(&FETCH)),
        with_defaults(tools, "todo", of_type(&TODO)),
        with_defaults(tools, "background_jobs", of_type(&BACKGROUND_JOBS)),
        with_defaults(tools, "MCP server", SERVER.rows("", false)),
        with_defaults(
            tools,
            "tool cache",
            ToolCacheSettings::TABLE.rows("", false),
        ),
        part("gateway.md", "keys", cachalot_gateway::keys()),
    ]
}

/// Returns the keys of a toolset that only its type has.
fn of_type(table: &Table) -> Vec<Row> {
    let mut rows = table.rows("", false);
    rows.retain(|row| TOOLSET.parameter(&row.key).is_none());
    rows
}

fn part(document: &'static str, name: &'static str, rows: Vec<Row>) -> Part {
    Part {
        document,
        name,
        table: KeyTable {
            rows,
            has_defaults: false,
        },
    }
}

fn with_defaults(document: &'static str, name: &'static str, rows: Vec<Row>) -> Part {
    let mut part = part(document, name, rows);
    part.table.has_defaults = true;
    part
}
