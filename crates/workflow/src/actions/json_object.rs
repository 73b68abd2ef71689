//! JSON in the answers of models.

use crate::exact_json;
use serde_json::{Map, Value};

/// Returns the JSON object in a model's answer: the object that the answer consists of, in a fenced block
/// or with text around it. `None` if there is none.
pub(super) fn find_object(text: &str) -> Option<Map<String, Value>> {
    let block = text.split("```").nth(1);
    [Some(text), block]
        .into_iter()
        .flatten()
        .find_map(|text| between_braces(text).and_then(parse_object))
}

/// Returns the text from the first opening to the last closing brace.
fn between_braces(text: &str) -> Option<&str> {
    text.get(text.find('{')?..=text.rfind('}')?)
}

fn parse_object(text: &str) -> Option<Map<String, Value>> {
    match exact_json::parse(text) {
        Ok(Value::Object(fields)) => Some(fields),
        _ => None,
    }
}

#[cfg(test)]
#[path = "../../tests/unit/actions/json_object.rs"]
mod tests;
