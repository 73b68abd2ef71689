//! `reason.*`: patterns of several model calls. All calls go through `llm.call`.

mod calls;
mod cot;
mod decompose;
mod react;
mod self_correct;
mod tools;

use serde_json::{Map, Value};

use crate::OperationMetadata;
use crate::exact_json::as_text;

pub(super) use cot::Cot;
pub(super) use decompose::Decompose;
pub(super) use react::React;
pub(super) use self_correct::SelfCorrect;

/// The actions of this namespace.
pub(super) static ALL_ABOUT: [&OperationMetadata; 4] = [
    &cot::ABOUT,
    &self_correct::ABOUT,
    &decompose::ABOUT,
    &react::ABOUT,
];

/// The instruction before the description of an answer's fields.
const ONE_OBJECT: &str = "Answer with one JSON object and nothing else:";

/// Removes a field; null counts as absent.
fn take(fields: &mut Map<String, Value>, name: &str) -> Option<Value> {
    fields.shift_remove(name).filter(|value| !value.is_null())
}

/// Removes a field and returns it as text; a missing one is the empty text.
fn take_text(fields: &mut Map<String, Value>, name: &str) -> String {
    take(fields, name).map_or_else(String::new, |value| as_text(&value))
}

/// Removes a list; anything else counts as an empty list.
fn take_list(fields: &mut Map<String, Value>, name: &str) -> Value {
    let list = take(fields, name).filter(Value::is_array);
    list.unwrap_or_else(|| Value::Array(Vec::new()))
}
