//! The tables of keys in the documentation, and the declarations that they must equal.

use cachalot_agent::definition::{AGENT, REVIEW};
use cachalot_core::spec::{Row, Settings as _, Table};
use cachalot_mcp::settings::{BACKGROUND_JOBS, FETCH, FILESYSTEM, SERVER, SHELL, TODO, TOOLSET};
use cachalot_model::{BUDGET, MODEL};
use cachalot_tools::cached::ToolCacheSettings;
use cachalot_workflow::format::{FILE, ON_ERROR, SETTINGS};

/// The declared keys that a section of the documentation lists.
pub(crate) struct ReferenceTable {
    /// The document.
    pub(crate) document: &'static str,
    /// The heading of the section.
    pub(crate) heading: &'static str,
    /// The rows.
    pub(crate) rows: Vec<Row>,
    /// Set when the section also lists keys of hook builtins.
    pub(crate) open: bool,
}

/// Returns the tables of keys in the documentation.
pub(crate) fn reference() -> Vec<ReferenceTable> {
    let yaml = "docs/YAML_REFERENCE.md";
    let table = |document, heading, rows| ReferenceTable {
        document,
        heading,
        rows,
        open: false,
    };
    let agents = "docs/agents.md";
    let tools = "docs/tools.md";
    let of_type = |table: &Table| {
        let mut rows = table.rows("", false);
        rows.retain(|row| TOOLSET.parameter(&row.key).is_none());
        rows
    };
    let providers = "docs/providers.md";
    vec![
        table(yaml, "## The file", FILE.rows("", false)),
        table(yaml, "## Settings", SETTINGS.rows("settings.", true)),
        table(yaml, "### `on_error`", ON_ERROR.rows("", true)),
        table(providers, "## Settings of a model", MODEL.rows("", false)),
        table(providers, "## Budgets", BUDGET.rows("", false)),
        ReferenceTable {
            open: true,
            ..table(agents, "## Keys", AGENT.rows("", false))
        },
        table(tools, "## Toolsets", TOOLSET.rows("", false)),
        table(tools, "### The type `filesystem`", of_type(&FILESYSTEM)),
        table(tools, "### The type `shell`", of_type(&SHELL)),
        table(tools, "### The type `fetch`", of_type(&FETCH)),
        table(tools, "### The type `todo`", of_type(&TODO)),
        table(
            tools,
            "### The type `background_jobs`",
            of_type(&BACKGROUND_JOBS),
        ),
        table(tools, "## MCP servers", SERVER.rows("", false)),
        table(
            tools,
            "## Tool result cache",
            ToolCacheSettings::TABLE.rows("", false),
        ),
        table(agents, "## Background review", REVIEW.rows("", false)),
    ]
}
