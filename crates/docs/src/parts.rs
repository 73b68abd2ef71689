//! The generated parts of the documents.

use cachalot_agent::definition::{AGENT, REVIEW};
use cachalot_core::config::{Row, Settings as _, Table};
use cachalot_mcp::settings::{BACKGROUND_JOBS, FETCH, FILESYSTEM, SERVER, SHELL, TODO, TOOLSET};
use cachalot_model::{Budget, ModelSettings};
use cachalot_tools::builtin::rag::{EmbeddingSearch, RAG_SOURCE, WordSearch};
use cachalot_tools::cached::ToolCacheSettings;
use cachalot_workflow::format::{self, FILE, OnErrorKeys};
use cachalot_workflow::{actions, template};

use crate::action;
use crate::catalogs;
use crate::commands::CommandReference;
use crate::hooks;
use crate::key_table::{Columns, KeyTable};

/// A generated part.
pub(crate) struct Part {
    /// The document, in `docs`.
    pub(crate) document: &'static str,
    /// The name in the comment that begins it.
    pub(crate) name: String,
    /// Returns the text for the old one.
    pub(crate) text: Box<dyn Fn(&str) -> String>,
}

/// Returns the documents with generated parts.
pub(crate) fn documents() -> Vec<&'static str> {
    let mut documents: Vec<_> = all().iter().map(|part| part.document).collect();
    documents.sort_unstable();
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
    let (backends, hooks) = ("backends.md", "HOOKS.md");
    let providers = "providers.md";
    let mut parts = vec![
        table(yaml, "keys of the file", FILE.rows("", false)),
        table(
            yaml,
            "settings",
            format::Settings::TABLE.rows("settings.", true),
        ),
        table(yaml, "on_error", OnErrorKeys::TABLE.rows("", true)),
        fixed(yaml, "filters", catalogs::words(template::FILTERS)),
        fixed(yaml, "tests", catalogs::words(template::TESTS)),
        fixed(yaml, "problems", catalogs::problems()),
        table(providers, "model", ModelSettings::TABLE.rows("", false)),
        table(providers, "budget", Budget::TABLE.rows("", false)),
        with_defaults(agents, "agent", AGENT.rows("", false)),
        with_defaults(agents, "review", REVIEW.rows("", false)),
        with_defaults(tools, "toolset", TOOLSET.rows("", false)),
        with_defaults(tools, "filesystem", of_type(&FILESYSTEM)),
        with_defaults(tools, "shell", of_type(&SHELL)),
        with_defaults(tools, "fetch", of_type(&FETCH)),
        with_defaults(tools, "todo", of_type(&TODO)),
        with_defaults(tools, "background_jobs", of_type(&BACKGROUND_JOBS)),
        with_defaults(tools, "rag source", RAG_SOURCE.rows("", false)),
        with_defaults(
            tools,
            "rag chunked-embeddings",
            EmbeddingSearch::TABLE.rows("", true),
        ),
        with_defaults(tools, "rag bm25", WordSearch::TABLE.rows("", true)),
        with_defaults(tools, "MCP server", SERVER.rows("", false)),
        with_defaults(
            tools,
            "tool cache",
            ToolCacheSettings::TABLE.rows("", false),
        ),
        table("gateway.md", "keys", cachalot_gateway::keys()),
        table(
            "mcp.md",
            "policy",
            cachalot_mcp::proxy_policy::policy_keys(),
        ),
        fixed(backends, "backends", catalogs::backends()),
        fixed("prompt-cache.md", "causes", catalogs::causes()),
        fixed(hooks, "keys", hooks::key_tables()),
        fixed(hooks, "tables", hooks::tables()),
        fixed(hooks, "builtins", hooks::builtins()),
    ];
    let registry = actions::builtin();
    for metadata in action::all(&registry) {
        let name = metadata.name.to_string();
        let text = move |old: &str| action::text(&metadata, old);
        parts.push(part(yaml, name, text));
    }
    let reference = CommandReference::new(cachalot_cli::command());
    for (name, text) in reference.parts() {
        parts.push(fixed("cli.md", name, text));
    }
    parts
}

/// Returns the keys of a toolset that only its type has.
fn of_type(table: &Table) -> Vec<Row> {
    let mut rows = table.rows("", false);
    rows.retain(|row| TOOLSET.parameter(&row.key).is_none());
    rows
}

fn part(
    document: &'static str,
    name: impl Into<String>,
    text: impl Fn(&str) -> String + 'static,
) -> Part {
    Part {
        document,
        name: name.into(),
        text: Box::new(text),
    }
}

fn fixed(document: &'static str, name: impl Into<String>, text: String) -> Part {
    part(document, name, move |_| text.clone())
}

fn table(document: &'static str, name: &str, rows: Vec<Row>) -> Part {
    let columns = Columns::Meaning;
    part(document, name, move |old| {
        KeyTable::new(rows.clone(), columns).text(old)
    })
}

fn with_defaults(document: &'static str, name: &str, rows: Vec<Row>) -> Part {
    let columns = Columns::Default;
    part(document, name, move |old| {
        KeyTable::new(rows.clone(), columns).text(old)
    })
}
