//! Between the values of state and those of the template engine.
//!
//! Into the engine nothing is copied before it is looked at: a mapping or list of the state is an
//! object that finds its items when asked. Out of the engine everything is copied at once, so that
//! what is lazy there is settled here.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};
use serde_json::{Map, Number, Value as Json};

/// How deeply a result may be nested.
const DEEPEST: usize = 128;

/// The field `key` of a mapping that is shared; `None` if it has none.
pub(super) fn field(fields: &Arc<Map<String, Json>>, key: &str) -> Option<Value> {
    field_of_state(fields, &Arc::default(), key)
}

/// The field `key` of the state of a branch that has set `fields` and sees `below`; `None` if it has
/// not set one.
pub(super) fn field_of_state(
    fields: &Arc<Map<String, Json>>,
    below: &Arc<Map<String, Json>>,
    key: &str,
) -> Option<Value> {
    scalar(fields.get(key)?).or_else(|| {
        let lazy = Lazy {
            fields: Arc::clone(fields),
            below: Arc::clone(below),
            key: Arc::from(key),
            path: Vec::new(),
        };
        Some(Value::from_object(lazy))
    })
}

/// One step from a mapping or list to something in it.
#[derive(Clone)]
enum Step {
    Key(Arc<str>),
    Index(usize),
}

/// A mapping or list somewhere inside a field of a mapping that is shared, found anew at each look.
#[derive(Clone)]
struct Lazy {
    fields: Arc<Map<String, Json>>,
    /// What a state has besides `fields`.
    below: Arc<Map<String, Json>>,
    key: Arc<str>,
    path: Vec<Step>,
}

impl Lazy {
    fn json(&self) -> Option<&Json> {
        self.path
            .iter()
            .try_fold(self.fields.get(&*self.key)?, |json, step| match step {
                Step::Key(key) => json.get(&**key),
                Step::Index(index) => json.get(*index),
            })
    }

    /// What stands at `step` from here.
    fn at(&self, json: &Json, step: Step) -> Value {
        scalar(json).unwrap_or_else(|| {
            let path = self.path.iter().cloned().chain([step]).collect();
            Value::from_object(Self {
                path,
                ..self.clone()
            })
        })
    }

    /// A field that the result of a branch has from its state, or its state from what the branch saw.
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
                // Of a branch that failed, only its item is known.
                let result = self.fields.get(RESULTS)?.get(*index)?;
                result
                    .get("success")?
                    .as_bool()
                    .filter(|ended_well| *ended_well)?;
                field(&self.fields, key).or_else(|| field(&self.below, key))
            }
            _ => None,
        }
    }
}

/// The field of the state that holds the results of branches.
const RESULTS: &str = "parallel_results";

impl fmt::Debug for Lazy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lazy({})", self.key)
    }
}

impl Object for Lazy {
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

/// An enumeration of keys.
pub(super) fn keys<'a>(keys: impl Iterator<Item = &'a String>) -> Enumerator {
    Enumerator::Values(keys.map(|key| Value::from(key.as_str())).collect())
}

/// A value that is no mapping and no list.
fn scalar(json: &Json) -> Option<Value> {
    Some(match json {
        Json::Null => Value::from(()),
        Json::Bool(truth) => Value::from(*truth),
        Json::Number(number) => number_in(number),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(_) | Json::Object(_) => return None,
    })
}

/// A whole value, copied.
pub(super) fn copied(json: &Json) -> Value {
    match json {
        Json::Array(items) => items.iter().map(copied).collect(),
        Json::Object(fields) => Value::from_pairs(
            fields
                .iter()
                .map(|(key, field)| (key.as_str(), copied(field))),
        ),
        other => scalar(other).unwrap_or_default(),
    }
}

fn number_in(number: &Number) -> Value {
    if let Some(integer) = number.as_i64() {
        Value::from(integer)
    } else if let Some(integer) = number.as_u64() {
        Value::from(integer)
    } else {
        Value::from(number.as_f64().unwrap_or(f64::NAN))
    }
}

/// What the engine made, as a value. What is undefined, also inside a list or mapping, is null.
///
/// # Errors
/// For what a value cannot hold: bytes, whole numbers beyond 64 bits, NaN and the infinities,
/// functions, keys that are mappings or lists, two keys with one text, nesting deeper than 128.
pub(super) fn settled(value: &Value) -> Result<Json, String> {
    settle(value, DEEPEST)
}

fn settle(value: &Value, depth: usize) -> Result<Json, String> {
    if depth == 0 {
        return Err(format!("the result is nested more than {DEEPEST} deep"));
    }
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => Ok(Json::Null),
        ValueKind::Bool => Ok(Json::Bool(value.is_true())),
        ValueKind::Number => number_out(value).map(Json::Number),
        ValueKind::String => Ok(Json::String(value.as_str().unwrap_or_default().to_owned())),
        ValueKind::Bytes => Err("the result is bytes: turn them into text first".to_owned()),
        ValueKind::Seq | ValueKind::Iterable => items(value)?
            .map(|item| settle(&item, depth - 1))
            .collect::<Result<_, _>>()
            .map(Json::Array),
        ValueKind::Map => settle_fields(value, depth),
        // An invalid value carries the error that made it one.
        ValueKind::Invalid => Err(value.to_string()),
        _ => Err(format!(
            "the result is a {}, which is no value",
            value.kind()
        )),
    }
}

fn items(value: &Value) -> Result<impl Iterator<Item = Value>, String> {
    value.try_iter().map_err(|error| error.to_string())
}

fn settle_fields(value: &Value, depth: usize) -> Result<Json, String> {
    let mut fields = Map::new();
    for key in items(value)? {
        let field = value.get_item(&key).map_err(|error| error.to_string())?;
        let name = key_text(&key)?;
        if fields.contains_key(&name) {
            return Err(format!("the result has two keys `{name}`"));
        }
        fields.insert(name, settle(&field, depth - 1)?);
    }
    Ok(Json::Object(fields))
}

/// A key as JSON writes it: text as it is, everything else as its JSON text.
fn key_text(key: &Value) -> Result<String, String> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        ValueKind::Bool => Ok(key.is_true().to_string()),
        ValueKind::Number => number_out(key).map(|number| number.to_string()),
        kind => Err(format!("a key of the result is a {kind}: keys are text")),
    }
}

fn number_out(value: &Value) -> Result<Number, String> {
    if !value.is_integer() {
        let float = f64::try_from(value.clone()).unwrap_or(f64::NAN);
        return Number::from_f64(float)
            .ok_or_else(|| format!("the result is {value}, which is no finite number"));
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
            format!("the result is {value}, a whole number beyond 64 bits: make it text")
        })
}
