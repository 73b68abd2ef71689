//! The keys of an agent file, which are read one by one, because some of them depend on others.

use cachalot_core::config::{
    Custom, Parameter, ParameterKind as Kind, Settings as _, Table, key, no_effect, required,
    unsupported,
};
use cachalot_model::Budget;
use cachalot_operation::Permissions;
use cachalot_tools::builtin::rag::RAG_SOURCE;
use cachalot_tools::cached::ToolCacheSettings;
use serde_json::{Value, json};

use super::config::{CONFIG, HIDDEN, INTERRUPT_BEFORE};
use super::flow::EdgeKeys;
use super::settings::Settings;
use crate::actions::validate::Schema;
use crate::codes;

/// The keys of an agent file.
#[rustfmt::skip]
pub static FILE: Table = Table::new(
    "an agent file",
    "",
    &[
        &[
            key("name", Kind::Text, "The agent's name."),
            key("description", Kind::Text, "For people."),
            key("version", Kind::Any, "For people."),
            key("variables", Kind::Object, "A mapping of constants: `{{ variables.NAME }}`, and `${NAME}` in the arguments of actions."),
            key("settings", Kind::Custom(&Custom::shape(|| Settings::TABLE.schema(true))), "Settings of the run."),
            key("state_schema", Kind::Any, "For people: it is not checked."),
            key("config", Kind::Definition("config", &CONFIG), "How other runtimes compile the file."),
            INTERRUPT_BEFORE,
            key("interrupt", Kind::Custom(&HIDDEN), ""),
            key("interrupt_after", Kind::Custom(&HIDDEN), ""),
            key("initial_state", Kind::Object, "What the state holds before the first node."),
            key("extraction_schema", Kind::Custom(&Custom::shape(extraction_schema)), "Requirements of entities and relationships, for `validate.extraction`."),
            required("nodes", NODES, "The nodes."),
            key("edges", EDGES, "What comes after what, where that is not the order of the file."),
            key("models", MODELS, "Models by the names that they have in this file."),
            key("providers", Kind::Custom(&Custom::shape(|| each(&json!({ "$ref": "#/$defs/provider" })))), "Providers of your own, or more about those that are known."),
            key("agents", Kind::Custom(&Custom::shape(|| each(&json!({ "$ref": "#/$defs/agent" })))), "Agents by name."),
            key("budget", Kind::Custom(&Custom::shape(|| Budget::TABLE.schema(false))), "The maximum that a run may spend on models: `max_cost`, `max_tokens`, `max_time`."),
            key("permissions", Kind::Custom(&Custom::shape(|| Permissions::TABLE.schema(false))), "The tools that agents may call, as rules `TOOL` or `TOOL:ARGUMENT=PATTERN`."),
            key("mcps", Kind::Custom(&Custom::shape(|| each(&json!({ "$ref": "#/$defs/server" })))), "MCP servers by name, whose tools agents may have."),
            key("tools", Kind::Custom(&Custom::shape(|| ToolCacheSettings::TABLE.schema(true))), "The tool result cache of the agents."),
            key("toolsets", Kind::Custom(&Custom::shape(|| each(&json!({ "$ref": "#/$defs/toolset" })))), "Toolsets by name, for `use_toolsets` of agents."),
            key("commands", Kind::Custom(&Custom::shape(|| each(&json!({ "type": "object" })))), "Groups of commands by name, for `use_commands` of agents."),
            key("skills", Kind::Custom(&Custom::shape(|| each(&json!({ "type": ["array", "boolean"] })))), "Groups of skills by name, for `use_skills` of agents."),
            key("rag", Kind::Custom(&Custom::shape(|| each(&RAG_SOURCE.schema(true)))), "Documents by name, which agents may search."),
        ],
        OF_OTHERS,
    ],
);

const NODES: Kind = Kind::Custom(&Custom::shape(
    || json!({ "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/node" } }),
));
const EDGES: Kind = Kind::Custom(&Custom::shape(
    || json!({ "type": "array", "items": EdgeKeys::TABLE.schema(false) }),
));
const MODELS: Kind = Kind::Custom(&Custom::shape(|| {
    each(&json!({ "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/model" }] }))
}));

/// Returns the schema of a mapping with any keys and values of one schema.
fn each(value: &Value) -> Value {
    json!({ "type": "object", "additionalProperties": value })
}

/// Schema of `extraction_schema`. A file that does not use `validate.extraction` may have any keys.
fn extraction_schema() -> Value {
    json!({ "anyOf": [Schema::TABLE.schema(false), { "type": "object" }] })
}

/// Help text for the sections of an action that no node uses.
const VALIDATION_HELP: &str = "no node uses `validate.extraction`";

/// Sections that other runtimes support, and this one refuses or ignores.
#[rustfmt::skip]
const OF_OTHERS: &[Parameter] = &[
    unsupported("imports", codes::UNSUPPORTED_SECTION),
    unsupported("data", codes::UNSUPPORTED_SECTION),
    unsupported("input_schema", codes::UNSUPPORTED_SECTION),
    unsupported("output_schema", codes::UNSUPPORTED_SECTION),
    unsupported("extends", codes::UNSUPPORTED_SECTION),
    unsupported("overlay", codes::UNSUPPORTED_SECTION),
    unsupported("rag", codes::UNSUPPORTED_SECTION),
    unsupported("runtime", codes::UNSUPPORTED_SECTION),
    no_effect("endpoint", "a file is run by `cachalot run`"),
    no_effect("observability", "`cachalot run --ndjson` writes the events of a run"),
    no_effect("extraction_schema", VALIDATION_HELP),
    no_effect("validation_constraints", VALIDATION_HELP),
    no_effect("semantic_probes", VALIDATION_HELP),
    no_effect("validation_logging", VALIDATION_HELP),
    no_effect("checkpoint", "a run that ended begins anew"),
];
