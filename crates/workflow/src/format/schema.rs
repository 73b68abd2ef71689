//! JSON Schema of agent files, generated from the parameter tables of the actions, for completion and
//! checks in editors. It describes shapes. [`super::load`] checks the rest: node names, templates, and the
//! actions' own checks.

use cachalot_agent::definition::{AGENT, REVIEW};
use cachalot_core::spec::{Row, Table, arguments_schema};
use cachalot_mcp::settings::{
    BACKGROUND_JOBS, FETCH, FILESYSTEM, SERVER, SHELL, TODO, TOOLSET, toolset_schema,
};
use cachalot_model::{BUDGET, MODEL, PROVIDER};
use cachalot_tools::cached::TOOL_CACHE;
use serde_json::{Map, Value, json};

use super::config::CONFIG;
use super::file_keys::FILE;
use super::flow::RULE;
use super::llm_settings::LLM;
use super::node_keys::{NODE, ON_ERROR, STEP};
use super::settings::SETTINGS;
use crate::{OperationMetadata, Registry};

/// Returns the JSON Schema (2020-12) of agent files that may use the actions of `registry`.
#[must_use]
pub fn schema(registry: &Registry) -> Value {
    let mut schema = FILE.schema(false);
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Cachalot agent file".into();
    schema["$defs"] = definitions(registry);
    schema
}

/// The declared keys that a section of the documentation lists.
pub struct ReferenceTable {
    /// The document.
    pub document: &'static str,
    /// The heading of the section.
    pub heading: &'static str,
    /// The rows.
    pub rows: Vec<Row>,
    /// Set when the section also lists keys of hook builtins.
    pub open: bool,
}

/// Returns the tables of keys in the documentation.
#[must_use]
pub fn reference() -> Vec<ReferenceTable> {
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
        table(tools, "## Tool result cache", TOOL_CACHE.rows("", false)),
        table(agents, "## Background review", REVIEW.rows("", false)),
    ]
}

fn definitions(registry: &Registry) -> Value {
    let actions: Vec<&OperationMetadata> =
        registry.actions().map(|action| action.metadata()).collect();
    let mut agent = AGENT.schema(false);
    // Sections of builtins are added by the command line.
    agent["additionalProperties"] = false.into();
    let tables = [
        ("node", node(&NODE, &actions)),
        ("step", node(&STEP, &actions)),
        ("rule", RULE.schema(false)),
        ("on_error", ON_ERROR.schema(false)),
        ("config", CONFIG.schema(false)),
        ("model", model()),
        ("llm_settings", LLM.schema(true)),
        ("provider", PROVIDER.schema(true)),
        ("agent", agent),
        ("toolset", toolset_schema()),
        ("server", SERVER.schema(true)),
    ];
    let mut definitions: Map<String, Value> = tables
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), schema))
        .collect();
    for about in actions {
        let arguments = arguments_schema(&about.description, about.parameters.table());
        definitions.insert(definition_of(about), arguments);
    }
    Value::Object(definitions)
}

/// Schema of a model: it has a name, or candidates.
fn model() -> Value {
    let mut model = MODEL.schema(true);
    model["anyOf"] = json!([{ "required": ["model"] }, { "required": ["first_available"] }]);
    model
}

fn definition_of(about: &OperationMetadata) -> String {
    format!("with.{}", about.name)
}

/// Schema of a node, or of a step, whose calls name one of these actions.
fn node(keys: &Table, actions: &[&OperationMetadata]) -> Value {
    let mut node = keys.schema(false);
    node["properties"]["uses"]["anyOf"] = json!([
        { "enum": names(actions) },
        { "type": "string", "pattern": r"^(tool\.[a-z_]+|mcp\..+\..+)$" },
    ]);
    node["allOf"] = calls(actions).into();
    node
}

fn names<'a>(actions: &[&'a OperationMetadata]) -> Vec<&'a str> {
    actions.iter().flat_map(|about| about.names()).collect()
}

/// Returns one schema condition per action: if `uses` names the action, `with` has the action's arguments.
fn calls(actions: &[&OperationMetadata]) -> Vec<Value> {
    let call = |about: &&OperationMetadata| {
        let arguments = json!([{ "$ref": format!("#/$defs/{}", definition_of(about)) }, { "type": ["string", "null"] }]);
        json!({
            "if": { "required": ["uses"], "properties": { "uses": { "enum": about.names().collect::<Vec<_>>() } } },
            "then": { "properties": { "with": { "anyOf": arguments } } },
        })
    };
    actions.iter().map(call).collect()
}
