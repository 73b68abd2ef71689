//! The keys of nodes and steps. Which of them a node may have depends on its work, so that
//! [`Reader`](super::nodes::Reader) reads them one by one.

use std::time::Duration;

use cachalot_core::config::{
    Custom, Parameter, ParameterKind as Kind, Settings, Table, key, no_effect, required,
    unsupported,
};
use cachalot_core::duration::Range;
use cachalot_core::tree::Node;
use serde_json::{Value, json};

use super::agent::ErrorMode;
use super::config::HIDDEN;
use crate::codes;

/// The keys that define the work of a node. A node may use one of them.
pub(super) const WORK_KEYS: &[&str] = &["run", "script", "uses", "steps"];

/// The node types that `type` accepts.
pub(super) const TYPES: &[&str] = &["while_loop", "dynamic_parallel"];

/// The languages that `language` accepts.
pub(super) const LANGUAGES: &[&str] = &["python", "python3", "lua"];

/// The name of a node, resolved when all nodes are known.
pub(super) const NODE_NAME: Kind = Kind::Custom(&Custom::shape(|| Kind::Text.schema(false)));

/// A condition, parsed as a template.
pub(super) const CONDITION: Kind =
    Kind::Custom(&Custom::shape(|| json!({ "type": ["string", "boolean"] })));

/// The keys of a node.
#[rustfmt::skip]
pub(super) static NODE: Table = Table::new(
    "a node",
    "",
    &[
        &[required("name", Kind::Text, "The name; the only one of its kind among nodes.")],
        WORK,
        &[
            key("type", TYPE, "A loop, or a branch per item."),
            key("goto", GOTO, "The next node, or rules that choose it."),
            key("interrupt", INTERRUPT, "`before`: the node runs only if `cachalot run --approve NODE` approves it."),
            key("interrupt_before", Kind::Boolean, "`true` is the same as `interrupt: before`."),
            key("interrupt_after", Kind::Custom(&HIDDEN), ""),
            key("fan_in", FAN_IN, "True where branches meet; for a branch per item, the node where they meet."),
            key("condition", CONDITION, "The condition under which the loop goes on."),
            key("max_iterations", Kind::IntegerIn(1, 1_000), "The maximum number of iterations; to reach it is an error."),
            key("body", STEPS, "The steps that are repeated."),
            key("items", ITEMS, "The items that get a branch each."),
            key("item_var", Kind::Text, "The field that holds the item; `item` by default."),
            key("index_var", Kind::Text, "The field that holds its index, from 0; `index` by default."),
            key("action", ACTION, "The work of each branch."),
            key("subgraph", Kind::Text, "The agent file whose graph each branch runs; relative to this file."),
            key("input", Kind::Object, "The state that a subgraph begins with."),
            key("max_concurrency", Kind::IntegerIn(1, 10_000), "The maximum number of concurrent branches."),
            key("fail_fast", Kind::Boolean, "Starts no further branch after the first failure."),
        ],
        OF_OTHERS,
    ],
);

/// The keys of a step. The reader refuses those that only nodes have.
pub(super) static STEP: Table = Table::new(
    "a step",
    "",
    &[
        &[key("name", Kind::Text, "The name.")],
        WORK,
        &[
            key("type", Kind::Custom(&HIDDEN), ""),
            key("goto", Kind::Custom(&HIDDEN), ""),
            key("interrupt", Kind::Custom(&HIDDEN), ""),
            key("interrupt_before", Kind::Custom(&HIDDEN), ""),
            key("interrupt_after", Kind::Custom(&HIDDEN), ""),
            key("fan_in", Kind::Custom(&HIDDEN), ""),
            key("action", Kind::Custom(&HIDDEN), ""),
        ],
        OF_OTHERS,
    ],
);

/// The keys that define the work of a node or step, and what becomes of its result.
#[rustfmt::skip]
const WORK: &[Parameter] = &[
    key("description", Kind::Text, "What it is for."),
    key("run", RUN, "Inline code; what it returns is merged into the state."),
    key("script", Kind::Text, "The same as `run`."),
    key("language", LANGUAGE, "The language of inline code."),
    key("uses", USES, "The action or tool to call."),
    key("with", WITH, "Its arguments."),
    key("output", OUTPUT, "The field that gets the result, or fields with values made of `result`."),
    key("output_key", Kind::Text, "The same as `output`."),
    key("steps", STEPS, "Steps, one after the other."),
    key("on_error", Kind::Definition("on_error", OnErrorKeys::TABLE), "The handling of a failure."),
];

const TYPE: Kind = Kind::Custom(&Custom::shape(|| json!({ "enum": TYPES })));
const GOTO: Kind = Kind::Custom(&Custom::shape(|| {
    let rules = json!({ "type": "array", "items": { "$ref": "#/$defs/rule" } });
    json!({ "anyOf": [{ "type": "string" }, rules] })
}));
const INTERRUPT: Kind = Kind::Custom(&Custom::shape(|| json!({ "enum": ["before", "after"] })));
const FAN_IN: Kind = Kind::Custom(&Custom::shape(|| json!({ "type": ["boolean", "string"] })));
const ITEMS: Kind = Kind::Custom(&Custom::shape(|| json!({ "type": ["array", "string"] })));
const ACTION: Kind = Kind::Custom(&Custom::shape(
    || json!({ "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/step" }] }),
));
const STEPS: Kind = Kind::Custom(&Custom::shape(
    || json!({ "type": "array", "items": { "$ref": "#/$defs/step" } }),
));
const LANGUAGE: Kind = Kind::Custom(&Custom::shape(|| json!({ "enum": LANGUAGES })));
/// The schema of all actions is completed with their names.
const USES: Kind = Kind::Custom(&Custom::shape(|| json!({})));
const WITH: Kind = Kind::Custom(&Custom::shape(
    || json!({ "type": ["object", "string", "null"] }),
));
const OUTPUT: Kind = Kind::Custom(&Custom::shape(|| json!({ "type": ["string", "object"] })));
const RUN: Kind = Kind::Custom(&Custom::shape(code));

fn code() -> Value {
    let of = |table: &Table, kind| {
        let mut schema = table.schema(false);
        schema["properties"]["type"] = json!({ "const": kind });
        schema
    };
    json!({ "anyOf": [{ "type": "string" }, of(ExpressionRun::TABLE, "expression"), of(LuaRun::TABLE, "lua")] })
}

/// The handling of a failure.
#[derive(Debug, Clone, PartialEq, Settings)]
#[settings(name = "`on_error`")]
pub struct OnErrorKeys {
    /// How many times the node is tried again; 3 by default. Giving it means `mode: retry`.
    #[setting(range = 0..=1_000)]
    pub(super) max_retries: Option<u32>,
    /// `raise` (default): the failure ends the run. `graceful`: the run goes on. `retry`: the node is tried again.
    pub(super) mode: Option<ErrorMode>,
    /// The pause before the first retry, such as `500ms`; `1s` by default.
    #[setting(kind = Kind::Duration(Range::ANY))]
    pub(super) retry_delay: Option<Duration>,
    /// The factor by which the delay grows with each retry; 2 by default.
    #[setting(range = 1.0..)]
    pub(super) backoff_multiplier: Option<f64>,
    /// The kinds of failure that are tried again.
    pub(super) retryable_errors: Option<Vec<String>>,
    /// The node that comes next when all attempts have failed.
    #[setting(kind = NODE_NAME)]
    pub(super) fallback: Option<Node>,
}

// The value of one Python expression, in place of a block.
#[derive(Settings)]
#[settings(name = "`run`")]
pub(super) struct ExpressionRun {
    #[setting(key = "type")]
    _kind: String,
    /// A Python expression.
    #[setting(kind = Kind::Text)]
    pub(super) value: Node,
    /// The field that gets its value.
    #[setting(default = "result")]
    pub(super) output_key: Option<String>,
}

// A block of Lua, in place of a block of Python.
#[derive(Settings)]
#[settings(name = "`run`")]
pub(super) struct LuaRun {
    #[setting(key = "type")]
    _kind: String,
    /// A block of Lua.
    #[setting(kind = Kind::Text)]
    pub(super) code: Node,
}

/// Keys of other runtimes, and keys that were not read because the work of the node has no use for them.
#[rustfmt::skip]
const OF_OTHERS: &[Parameter] = &[
    unsupported("strategy", codes::UNSUPPORTED),
    unsupported("matrix", codes::UNSUPPORTED),
    unsupported("expression", codes::UNSUPPORTED),
    unsupported("max_workers", codes::UNSUPPORTED),
    unsupported("parallel_config", codes::UNSUPPORTED),
    unsupported("subgraph", codes::UNSUPPORTED),
    unsupported("input", codes::UNSUPPORTED),
    no_effect("condition", "the node runs unconditionally: give an edge `when: …`, or the node before `goto`"),
    no_effect("next", "write `goto: NODE`"),
    no_effect("edges", "`edges` stand in the file, beside `nodes`"),
    no_effect("params", WITH_ARGUMENTS),
    no_effect("inputs", WITH_ARGUMENTS),
    no_effect("prompt", WITH_ARGUMENTS),
    no_effect("outputs", "write `output`"),
    no_effect("paths", "write `goto`, or `edges` in the file"),
    no_effect("_render_items", "it is for those who draw the file"),
    no_effect("streams", "no data goes from node to node but the state"),
    no_effect("checkpoint", "a run does not stop between nodes"),
    no_effect("parallel_strategy", "branches run at the same time in one process"),
];

const WITH_ARGUMENTS: &str = "the arguments of an action stand in `with`";
