//! JSON Schema of agent files, generated from the parameter tables of the actions, for completion and
//! checks in editors. It describes shapes. [`super::load`] checks the rest: node names, templates, and the
//! actions' own checks.

use cachalot_agent::definition::AGENT;
use cachalot_core::config::{Settings as _, Table, arguments_schema};
use cachalot_mcp::settings::{SERVER, toolset_schema};
use cachalot_model::{ModelSettings, PROVIDER};
use serde_json::{Map, Value, json};

use super::config::CONFIG;
use super::file_keys::FILE;
use super::flow::RuleKeys;
use super::llm_settings::LLM;
use super::node_keys::{NODE, OnErrorKeys, STEP};
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

fn definitions(registry: &Registry) -> Value {
    let actions: Vec<&OperationMetadata> =
        registry.actions().map(|action| action.metadata()).collect();
    let mut agent = AGENT.schema(false);
    // Sections of builtins are added by the command line.
    agent["additionalProperties"] = false.into();
    let tables = [
        ("node", node(&NODE, &actions)),
        ("step", node(&STEP, &actions)),
        ("rule", RuleKeys::TABLE.schema(false)),
        ("on_error", OnErrorKeys::TABLE.schema(false)),
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
    let mut model = ModelSettings::TABLE.schema(true);
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
