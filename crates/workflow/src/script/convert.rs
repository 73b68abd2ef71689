//! Conversion between JSON and the values of the embedded interpreter.

use cachalot_core::text::truncate;
use monty_types::MontyObject;
use serde_json::{Map, Value};

use super::ScriptFailure;
use super::wire::MAX_DEPTH;

/// A value that JSON cannot represent, and its location.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unrepresentable {
    /// Path from the root to the value, innermost step first.
    steps: Vec<String>,
    /// A description of the value, and what to return instead.
    what: String,
}

impl Unrepresentable {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self {
            steps: Vec::new(),
            what: what.into(),
        }
    }

    pub(super) fn within(mut self, step: String) -> Self {
        self.steps.push(step);
        self
    }

    /// Returns the failure of the block; `root` is the expression for the root value in the block.
    pub(super) fn failure(&self, root: &str) -> ScriptFailure {
        let path: String = self.steps.iter().rev().map(String::as_str).collect();
        script_error(format!("{root}{path} is {}", self.what))
    }
}

/// Returns a failure of a block that ended with an invalid result.
pub(super) fn script_error(message: impl Into<String>) -> ScriptFailure {
    ScriptFailure::new("script_error", message, None)
}

/// Converts a JSON value to an interpreter's value.
pub(super) fn into_python(value: Value) -> MontyObject {
    match value {
        Value::Null => MontyObject::None,
        Value::Bool(it) => MontyObject::Bool(it),
        Value::Number(it) => match (it.as_i64(), it.as_u64()) {
            (Some(integer), _) => MontyObject::Int(integer),
            (None, Some(integer)) => MontyObject::BigInt(integer.into()),
            (None, None) => MontyObject::Float(it.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(it) => MontyObject::String(it),
        Value::Array(items) => MontyObject::List(items.into_iter().map(into_python).collect()),
        Value::Object(map) => dict(map),
    }
}

/// Converts a JSON object to a dict.
pub(super) fn dict(map: Map<String, Value>) -> MontyObject {
    let pairs: Vec<_> = map
        .into_iter()
        .map(|(key, value)| (MontyObject::String(key), into_python(value)))
        .collect();
    MontyObject::dict(pairs)
}

/// Converts an interpreter's value to JSON.
///
/// Tuples become lists and int keys become text; no other type changes.
///
/// # Errors
/// The first part that JSON cannot represent.
pub(super) fn from_python(object: MontyObject) -> Result<Value, Unrepresentable> {
    plain(object, MAX_DEPTH)
}

fn plain(object: MontyObject, left: usize) -> Result<Value, Unrepresentable> {
    match object {
        MontyObject::None => Ok(Value::Null),
        MontyObject::Bool(it) => Ok(Value::Bool(it)),
        MontyObject::Int(it) => Ok(Value::from(it)),
        MontyObject::BigInt(it) => u64::try_from(&it).map(Value::from).map_err(|_| {
            Unrepresentable::new("an integer beyond 64 bits, which JSON readers round; return it as text: str(value)")
        }),
        MontyObject::Float(it) => serde_json::Number::from_f64(it).map(Value::Number).ok_or_else(|| {
            Unrepresentable::new(format!("the float {}, which JSON does not have; return None or text instead", monty_types::FormatFloat(it)))
        }),
        MontyObject::String(it) => Ok(Value::String(it)),
        MontyObject::List(items) | MontyObject::Tuple(items) => list(items, left),
        MontyObject::Dict(pairs) => object_of(pairs, left),
        other => Err(unrepresentable(&other)),
    }
}

fn list(items: Vec<MontyObject>, left: usize) -> Result<Value, Unrepresentable> {
    let left = descend(left)?;
    items
        .into_iter()
        .enumerate()
        .map(|(index, item)| {
            plain(item, left)
                .map_err(|unrepresentable| unrepresentable.within(format!("[{index}]")))
        })
        .collect::<Result<Vec<_>, _>>()
        .map(Value::Array)
}

fn object_of(pairs: monty_types::DictPairs, left: usize) -> Result<Value, Unrepresentable> {
    let left = descend(left)?;
    let mut map = Map::with_capacity(pairs.len());
    for (key, value) in pairs {
        let step = format!("[{}]", key.py_repr());
        let key = key_text(&key)?;
        let value = plain(value, left).map_err(|unrepresentable| unrepresentable.within(step))?;
        if map.contains_key(&key) {
            return Err(Unrepresentable::new(format!(
                "a dict with the keys {key} and '{key}', which are the same key in JSON"
            )));
        }
        map.insert(key, value);
    }
    Ok(Value::Object(map))
}

fn key_text(key: &MontyObject) -> Result<String, Unrepresentable> {
    match key {
        MontyObject::String(it) => Ok(it.clone()),
        MontyObject::Int(it) => Ok(it.to_string()),
        MontyObject::BigInt(it) => Ok(it.to_string()),
        other => Err(Unrepresentable::new(format!(
            "a dict with the key {} ({}); keys must be text: str(key)",
            shortened(&other.py_repr()),
            type_name(other)
        ))),
    }
}

fn descend(left: usize) -> Result<usize, Unrepresentable> {
    left.checked_sub(1)
        .ok_or_else(|| Unrepresentable::new(format!("nested more than {MAX_DEPTH} levels deep")))
}

fn unrepresentable(object: &MontyObject) -> Unrepresentable {
    let instead = match object {
        MontyObject::Cycle(..) => "return a copy without the part that contains itself",
        _ => "return text, numbers, lists and dicts",
    };
    Unrepresentable::new(format!(
        "a value of type {}, which JSON does not have; {instead}",
        type_name(object)
    ))
}

/// Returns the name of a value's type in Python.
fn type_name(object: &MontyObject) -> &str {
    match object {
        MontyObject::Cycle(..) => "a container that contains itself",
        _ if is_function(object) => "function",
        other => other.type_name(),
    }
}

fn is_function(object: &MontyObject) -> bool {
    match object {
        MontyObject::BuiltinFunction(_) | MontyObject::Function { .. } => true,
        MontyObject::Repr(text) => text.starts_with("<function "),
        _ => false,
    }
}

fn shortened(text: &str) -> String {
    truncate(text, 60).into_owned()
}

/// Converts the state after a block to JSON.
///
/// # Errors
/// The first field whose name or value JSON cannot represent.
pub(super) fn state(object: MontyObject) -> Result<Map<String, Value>, ScriptFailure> {
    let fields = match object {
        MontyObject::Dict(pairs) => pairs
            .into_iter()
            .map(|(key, value)| Ok((key_text(&key)?, value)))
            .collect::<Result<Vec<_>, _>>(),
        other => Err(unrepresentable(&other)),
    };
    let fields = fields.map_err(|unrepresentable| unrepresentable.failure("state"))?;
    let root = |key: &str| format!("state[{}]", monty_types::StringRepr(key));
    let hint = "the state keeps what a block puts into it";
    converted(fields.into_iter(), root, hint)
}

/// Converts the names that a block without `return` assigned to one JSON object; functions are left out.
///
/// # Errors
/// The first name whose value JSON cannot represent.
pub(super) fn names(object: MontyObject) -> Result<Value, ScriptFailure> {
    let MontyObject::Dict(pairs) = object else {
        return Err(script_error("the block's names are not a dict"));
    };
    let fields = pairs.into_iter().filter_map(|(name, value)| match name {
        MontyObject::String(name) if !is_function(&value) => Some((name, value)),
        _ => None,
    });
    let hint =
        "a name that begins with `_` stays inside the block, and `return` defines its result";
    converted(fields, str::to_owned, hint).map(Value::Object)
}

/// Converts fields to JSON. `root` returns the expression for a field in the block; the message about a
/// value that JSON cannot represent ends with `hint`.
fn converted(
    fields: impl Iterator<Item = (String, MontyObject)>,
    root: impl Fn(&str) -> String,
    hint: &str,
) -> Result<Map<String, Value>, ScriptFailure> {
    let field = |(key, value): (String, MontyObject)| {
        // Each field is one level below the mapping that contains it.
        let value = plain(value, MAX_DEPTH - 1).map_err(|unrepresentable| {
            let failure = unrepresentable.failure(&root(&key));
            script_error(format!("{failure}; {hint}"))
        })?;
        Ok((key, value))
    };
    fields.map(field).collect()
}
