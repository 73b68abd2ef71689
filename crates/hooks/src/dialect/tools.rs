//! Translates names and arguments of tools to a dialect and back.

use serde_json::{Map, Value};

use super::Dialect;
use super::vocabulary::{Argument, Form, Tool};
use crate::input::{Input, ToolUse};
use crate::shell_word::quote;

/// The names of a tool in a dialect, in addition to our own; the first is used in hook input.
pub(super) fn names(dialect: Dialect, tool: &ToolUse) -> impl Iterator<Item = String> {
    let mcp = tool.mcp.as_ref().into_iter();
    let of_server = mcp.flat_map(move |(server, name)| match dialect {
        Dialect::DockerAgent => vec![format!("{server}_{name}")],
        Dialect::Claude | Dialect::Codex => vec![format!("mcp__{server}__{name}")],
        Dialect::Gemini => vec![format!("mcp_{server}_{name}"), format!("{server}__{name}")],
    });
    let known = alias(dialect, tool).into_iter();
    of_server.chain(known.flat_map(|known| known.theirs.iter().map(|name| (*name).to_owned())))
}

/// The name of a tool in hook input; in our own dialect, our name.
pub(super) fn input_name(dialect: Dialect, tool: &ToolUse) -> String {
    let theirs = (dialect != Dialect::DockerAgent).then(|| names(dialect, tool).next());
    theirs.flatten().unwrap_or_else(|| tool.name.clone())
}

/// The arguments of a tool in hook input.
pub(super) fn input_arguments(
    dialect: Dialect,
    tool: &ToolUse,
    input: &Input,
) -> Map<String, Value> {
    let beside = dialect.vocabulary().arguments_beside;
    let mut told = Map::new();
    for (key, value) in &tool.input {
        let argument = arguments(dialect, tool)
            .iter()
            .find(|known| known.own == key);
        if beside || argument.is_none() {
            told.insert(key.clone(), value.clone());
        }
        if let Some(argument) = argument
            && !(beside && tool.input.contains_key(argument.theirs))
        {
            let value = input_value(argument.form, value, input);
            told.insert(argument.theirs.to_owned(), value);
        }
    }
    told
}

/// The arguments that a handler changed, under our own names.
pub(super) fn changed(
    dialect: Dialect,
    tool: &ToolUse,
    input: &Input,
    updated: &Map<String, Value>,
) -> Map<String, Value> {
    let told = input_arguments(dialect, tool, input);
    let is_changed = |(key, value): &(&String, &Value)| told.get(*key) != Some(*value);
    let mut own = Map::new();
    for (key, value) in updated.iter().filter(is_changed) {
        let known = arguments(dialect, tool).iter();
        let mut known = known.filter(|known| known.theirs == key && known.own != key);
        if let Some(argument) = known.next() {
            own.insert(argument.own.to_owned(), own_value(argument.form, value));
        }
    }
    // If a handler uses both names, our own takes precedence.
    for (key, value) in updated.iter().filter(is_changed) {
        let mut known = arguments(dialect, tool).iter();
        match known.find(|known| known.theirs == key) {
            None => drop(own.insert(key.clone(), value.clone())),
            Some(argument) if argument.own == key => {
                own.insert(key.clone(), own_value(argument.form, value));
            }
            Some(_) => {}
        }
    }
    own
}

/// The arguments that a handler removed by leaving them out, under our own names, if the dialect
/// supports this. An argument that the handler passes under our own name is not removed.
pub(super) fn removed(
    dialect: Dialect,
    tool: &ToolUse,
    input: &Input,
    updated: &Map<String, Value>,
) -> Vec<String> {
    if !dialect.vocabulary().input_is_replaced {
        return Vec::new();
    }
    let told = input_arguments(dialect, tool, input);
    let left_out = told.keys().filter(|key| !updated.contains_key(*key));
    let own = left_out.map(|key| {
        let mut known = arguments(dialect, tool).iter();
        let known = known.find(|known| known.theirs == key);
        known.map_or(key.as_str(), |known| known.own)
    });
    own.filter(|own| !updated.contains_key(*own))
        .map(str::to_owned)
        .collect()
}

fn alias(dialect: Dialect, tool: &ToolUse) -> Option<&'static Tool> {
    let mut known = dialect.vocabulary().tools.iter();
    known.find(|known| known.own == tool.name && tool.mcp.is_none())
}

fn arguments(dialect: Dialect, tool: &ToolUse) -> &'static [Argument] {
    alias(dialect, tool).map_or(&[], |known| known.arguments)
}

fn input_value(form: Form, value: &Value, input: &Input) -> Value {
    match (form, value) {
        (Form::AbsolutePath, Value::String(path)) => {
            Value::from(input.cwd.join(path).to_string_lossy())
        }
        (Form::Milliseconds, Value::Number(seconds)) => match seconds.as_u64() {
            Some(seconds) => Value::from(seconds.saturating_mul(1000)),
            None => seconds
                .as_f64()
                .map_or(value.clone(), |seconds| Value::from(seconds * 1000.0)),
        },
        (Form::Line, Value::Array(words)) => {
            let words = words.iter().map(|word| match word {
                Value::String(word) => quote(word),
                other => quote(&other.to_string()),
            });
            Value::from(words.collect::<Vec<String>>().join(" "))
        }
        _ => value.clone(),
    }
}

fn own_value(form: Form, value: &Value) -> Value {
    match (form, value.as_f64()) {
        (Form::Milliseconds, Some(milliseconds)) => Value::from(milliseconds / 1000.0),
        _ => value.clone(),
    }
}
