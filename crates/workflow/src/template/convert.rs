//! Conversion between values of the state and values of the template engine.
//!
//! Values enter the engine lazily: a mapping or list of the state becomes an object that looks up its
//! items on access, without copying. Values leave the engine by a full copy, so that lazy values are
//! evaluated here.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr, Serde, ValueKind};
use serde_json::{Map, Number, Value as Json};

use super::error::invalid;
use super::step::Step;
use super::{bounds, printing};

/// The maximum nesting depth of a result.
const MAX_DEPTH: usize = 128;

/// Returns the field `key` of a shared mapping; `None` if it has no such field.
pub(super) fn field(fields: &Arc<Map<String, Json>>, key: &str) -> Option<Value> {
    field_of_state(fields, &Arc::default(), key)
}

/// Returns the field `key` of the state of a branch that has set `fields` and sees `inherited`; `None` if the
/// branch has not set it.
pub(super) fn field_of_state(
    fields: &Arc<Map<String, Json>>,
    inherited: &Arc<Map<String, Json>>,
    key: &str,
) -> Option<Value> {
    scalar(fields.get(key)?).or_else(|| {
        let lazy = LazyValue {
            fields: Arc::clone(fields),
            inherited: Arc::clone(inherited),
            key: Arc::from(key),
            path: Vec::new(),
        };
        Some(Value::from_object(lazy))
    })
}

/// A mapping or list inside a field of a shared mapping. Resolves its path on every access.
#[derive(Clone)]
struct LazyValue {
    fields: Arc<Map<String, Json>>,
    /// The fields that a state sees besides `fields`.
    inherited: Arc<Map<String, Json>>,
    key: Arc<str>,
    path: Vec<Step>,
}

impl LazyValue {
    fn json(&self) -> Option<&Json> {
        let mut path = self.path.iter();
        path.try_fold(self.fields.get(&*self.key)?, |json, step| step.follow(json))
    }

    /// Returns the value `json` at `step` from here.
    fn at(&self, json: &Json, step: Step) -> Value {
        scalar(json).unwrap_or_else(|| {
            let path = self.path.iter().cloned().chain([step]).collect();
            Value::from_object(Self {
                path,
                ..self.clone()
            })
        })
    }

    /// Returns a field that a branch result inherits from its state, or a branch state from the fields
    /// that the branch saw.
    fn from_branch(self: &Arc<Self>, json: &Map<String, Json>, key: &str) -> Option<Value> {
        if &*self.key != RESULTS {
            return None;
        }
        match self.path.as_slice() {
            [Step::Index(_)] if json.contains_key("branch") && json.contains_key("success") => {
                let state = json.get("state").filter(|state| state.is_object())?;
                let state = self.at(state, Step::Key(Arc::from("state")));
                let found = state.get_attr(key).ok()?;
                (!found.is_undefined()).then_some(found)
            }
            [Step::Index(index), Step::Key(state)] if &**state == "state" && key != RESULTS => {
                // The state of a failed branch contains only its item and index, without inherited fields.
                let result = self.fields.get(RESULTS)?.get(*index)?;
                result
                    .get("success")?
                    .as_bool()
                    .filter(|ended_well| *ended_well)?;
                // A subgraph saw nothing but its own state.
                if result.get("subgraph").is_some() {
                    return None;
                }
                field(&self.fields, key).or_else(|| field(&self.inherited, key))
            }
            _ => None,
        }
    }
}

/// The field of the state that contains the results of branches.
const RESULTS: &str = "parallel_results";

impl fmt::Debug for LazyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lazy({})", self.key)
    }
}

impl Object for LazyValue {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        match self.json() {
            Some(Json::Array(_)) => ObjectRepr::Seq,
            _ => ObjectRepr::Map,
        }
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match self.json()? {
            Json::Object(fields) => {
                let key = key.as_str()?;
                match fields.get(key) {
                    Some(json) => Some(self.at(json, Step::Key(Arc::from(key)))),
                    None => self.from_branch(fields, key),
                }
            }
            Json::Array(items) => {
                let index = key.as_usize()?;
                Some(self.at(items.get(index)?, Step::Index(index)))
            }
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match self.json() {
            Some(Json::Array(items)) => Enumerator::Seq(items.len()),
            Some(Json::Object(fields)) => keys(fields.keys()),
            _ => Enumerator::Empty,
        }
    }
}

/// Enumerates keys.
pub(super) fn keys<'a>(keys: impl Iterator<Item = &'a String>) -> Enumerator {
    Enumerator::Values(keys.map(|key| Value::from(key.as_str())).collect())
}

/// Converts a value that is neither a mapping nor a list; `None` for those.
fn scalar(json: &Json) -> Option<Value> {
    let is_scalar = !json.is_array() && !json.is_object();
    is_scalar.then(|| copied(json))
}

/// Copies a whole value.
pub(super) fn copied(json: &Json) -> Value {
    Value::from(Serde(json))
}

/// Returns the text that a template prints for a value.
pub(crate) fn printed(json: &Json) -> String {
    printing::text(&copied(json))
}

/// The reason why JSON cannot hold a value of the engine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotJson(String);

impl NotJson {
    fn new(reason: &str) -> Self {
        Self(reason.to_owned())
    }
}

impl From<NotJson> for minijinja::Error {
    fn from(error: NotJson) -> Self {
        invalid(error.0)
    }
}

/// Converts a value of the engine to JSON. Undefined values become null, also inside lists and mappings.
///
/// # Errors
/// Returned for a value that JSON cannot hold: bytes, integers beyond 64 bits, NaN and infinities, functions,
/// keys that are mappings or lists, two keys with the same text, nesting deeper than 128, more than 64 MiB.
pub(super) fn to_json(value: &Value) -> Result<Json, NotJson> {
    bounds::check(value).map_err(|error| NotJson::new(error.detail().unwrap_or_default()))?;
    settle(value, MAX_DEPTH)
}

fn settle(value: &Value, depth: usize) -> Result<Json, NotJson> {
    if depth == 0 {
        return Err(NotJson(format!(
            "the result is nested more than {MAX_DEPTH} deep"
        )));
    }
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => Ok(Json::Null),
        ValueKind::Bool => Ok(Json::Bool(value.is_true())),
        ValueKind::Number => number_out(value).map(Json::Number),
        ValueKind::String => Ok(Json::String(value.as_str().unwrap_or_default().to_owned())),
        ValueKind::Bytes => Err(NotJson::new(
            "the result is bytes: turn them into text first",
        )),
        ValueKind::Seq | ValueKind::Iterable => items(value)?
            .map(|item| settle(&item, depth - 1))
            .collect::<Result<_, _>>()
            .map(Json::Array),
        ValueKind::Map => settle_fields(value, depth),
        // An invalid value contains the error that produced it.
        ValueKind::Invalid => Err(NotJson(value.to_string())),
        _ => Err(NotJson(format!(
            "the result is a {}, which is no value",
            value.kind()
        ))),
    }
}

fn items(value: &Value) -> Result<impl Iterator<Item = Value>, NotJson> {
    value.try_iter().map_err(|error| NotJson(error.to_string()))
}

fn settle_fields(value: &Value, depth: usize) -> Result<Json, NotJson> {
    let mut fields = Map::new();
    for key in items(value)? {
        let field = value
            .get_item(&key)
            .map_err(|error| NotJson(error.to_string()))?;
        let name = key_text(&key)?;
        if fields.contains_key(&name) {
            return Err(NotJson(format!("the result has two keys `{name}`")));
        }
        fields.insert(name, settle(&field, depth - 1)?);
    }
    Ok(Json::Object(fields))
}

/// Returns a key as JSON writes it: text unchanged, other keys as their JSON text.
fn key_text(key: &Value) -> Result<String, NotJson> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        ValueKind::Bool => Ok(key.is_true().to_string()),
        ValueKind::Number => number_out(key).map(|number| number.to_string()),
        kind => Err(NotJson(format!(
            "a key of the result is a {kind}: keys are text"
        ))),
    }
}

fn number_out(value: &Value) -> Result<Number, NotJson> {
    if !value.is_integer() {
        let float = f64::try_from(value.clone()).unwrap_or(f64::NAN);
        return Number::from_f64(float)
            .ok_or_else(|| NotJson(format!("the result is {value}, which is no finite number")));
    }
    let integer = i128::try_from(value.clone()).ok();
    integer
        .and_then(|integer| {
            let signed = i64::try_from(integer).map(Number::from);
            signed
                .or_else(|_| u64::try_from(integer).map(Number::from))
                .ok()
        })
        .ok_or_else(|| {
            NotJson(format!(
                "the result is {value}, a whole number beyond 64 bits: make it text"
            ))
        })
}
