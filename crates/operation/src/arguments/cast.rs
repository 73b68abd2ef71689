//! Casts the values that a model wrote to the types that a schema requires: only if the cast is unambiguous
//! and loses no digit. Values that cannot be cast stay unchanged and are reported by the check.

use std::cell::Cell;

use jsonschema::{JsonType, JsonTypeSet};
use serde_json::{Map, Value};

use super::lossless_value::LosslessValue;
use super::number;
use super::types::{admit, admitted_types, reference_target};

/// Maximum depth of schemas that are followed.
const MAX_DEPTH: usize = 64;

/// Maximum number of branches of alternatives that are tried in one call.
const MAX_TRIALS: u32 = 1_000;

/// A cast by one schema.
pub(super) struct Caster<'a> {
    root: &'a Value,
    trials: Cell<u32>,
}

impl<'a> Caster<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self {
            root,
            trials: Cell::new(MAX_TRIALS),
        }
    }

    pub(super) fn cast(&self, given: LosslessValue) -> LosslessValue {
        self.to_schema(given, self.root, 0)
    }

    fn to_schema(&self, mut given: LosslessValue, schema: &Value, depth: usize) -> LosslessValue {
        let Some(fields) = schema.as_object() else {
            return given;
        };
        if depth > MAX_DEPTH {
            return given;
        }
        let depth = depth + 1;
        if let Some(reference_target) = reference_target(schema, self.root) {
            given = self.to_schema(given, reference_target, depth);
        }
        for part in list(fields, "allOf") {
            given = self.to_schema(given, part, depth);
        }
        for word in ["anyOf", "oneOf"] {
            let branches = list(fields, word);
            if !branches.is_empty() {
                given = self.to_one_of(given, branches, depth);
            }
        }
        given = self.to_types(given, fields, admitted_types(schema, self.root), depth);
        match given {
            LosslessValue::Fields(entries) => {
                LosslessValue::Fields(self.to_properties(entries, fields, depth))
            }
            LosslessValue::List(items) => LosslessValue::List(self.to_items(items, fields, depth)),
            other => other,
        }
    }

    /// Casts by the only alternative that admits the value as it is, or else by the only one that admits it
    /// after a cast.
    fn to_one_of(&self, given: LosslessValue, branches: &[Value], depth: usize) -> LosslessValue {
        let mut fitting = branches
            .iter()
            .filter(|branch| admit(admitted_types(branch, self.root), &given));
        match (fitting.next(), fitting.next()) {
            (Some(only), None) => return self.to_schema(given, only, depth),
            (Some(_), Some(_)) => return given,
            (None, _) => {}
        }
        let mut found: Option<LosslessValue> = None;
        for branch in branches {
            let Some(left) = self.trials.get().checked_sub(1) else {
                return given;
            };
            self.trials.set(left);
            let cast = self.to_schema(given.clone(), branch, depth);
            if !admit(admitted_types(branch, self.root), &cast) {
                continue;
            }
            match &found {
                None => found = Some(cast),
                Some(other) if *other == cast => {}
                Some(_) => return given,
            }
        }
        found.unwrap_or(given)
    }

    /// Casts to the only type among `types` to which a cast is possible.
    fn to_types(
        &self,
        given: LosslessValue,
        fields: &Map<String, Value>,
        types: JsonTypeSet,
        depth: usize,
    ) -> LosslessValue {
        if types == JsonTypeSet::all() || admit(types, &given) || given == LosslessValue::Null {
            return given;
        }
        let mut found = Vec::new();
        if types.contains(JsonType::Boolean) {
            found.extend(to_boolean(&given));
        }
        if types.contains(JsonType::Number) {
            found.extend(to_number(&given));
        } else if types.contains(JsonType::Integer) {
            found.extend(to_integer(&given));
        }
        if types.contains(JsonType::String) {
            found.extend(to_text(&given));
        }
        if types.contains(JsonType::Object) {
            found.extend(to_object(&given));
        }
        if types.contains(JsonType::Array) {
            found.extend(self.to_array(&given, fields, depth));
        }
        match (<[LosslessValue; 1]>::try_from(found), given) {
            (Ok([only]), _) => only,
            (Err(none), LosslessValue::Number(lexeme))
                if none.is_empty() && !number::is_written_as_integer(&lexeme) =>
            {
                LosslessValue::NonInteger(lexeme)
            }
            (Err(_), given) => given,
        }
    }

    /// Parses the JSON text of an array, or wraps the value in a list.
    fn to_array(
        &self,
        given: &LosslessValue,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Option<LosslessValue> {
        if let LosslessValue::Text(text) = given
            && text.trim_start().starts_with('[')
            && let Ok(list @ LosslessValue::List(_)) = LosslessValue::parse(text)
        {
            return Some(list);
        }
        let Some(item) = fields.get("items") else {
            return Some(LosslessValue::List(vec![given.clone()]));
        };
        let types = admitted_types(item, self.root);
        // Wrapping in a list of lists would be an invention, not a cast.
        if !admit(types, given) && types.contains(JsonType::Array) {
            return None;
        }
        let cast = self.to_schema(given.clone(), item, depth);
        admit(types, &cast).then(|| LosslessValue::List(vec![cast]))
    }

    fn to_properties(
        &self,
        entries: Vec<(String, LosslessValue)>,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Vec<(String, LosslessValue)> {
        let properties = fields.get("properties").and_then(Value::as_object);
        let further = fields
            .get("additionalProperties")
            .filter(|schema| schema.is_object() && !fields.contains_key("patternProperties"));
        let required = list(fields, "required");
        let is_required = |name: &str| required.iter().any(|given| given.as_str() == Some(name));
        entries
            .into_iter()
            .filter_map(|(name, given)| {
                let declared = properties.and_then(|properties| properties.get(&name));
                if given == LosslessValue::Null
                    && !is_required(&name)
                    && declared.is_some_and(|schema| {
                        !admitted_types(schema, self.root).contains(JsonType::Null)
                    })
                {
                    // A null for an optional argument means that it is absent.
                    return None;
                }
                let given = match declared.or(further) {
                    Some(schema) => self.to_schema(given, schema, depth),
                    None => given,
                };
                Some((name, given))
            })
            .collect()
    }

    fn to_items(
        &self,
        items: Vec<LosslessValue>,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Vec<LosslessValue> {
        let first = list(fields, "prefixItems");
        let rest = fields.get("items");
        items
            .into_iter()
            .enumerate()
            .map(|(index, item)| match first.get(index).or(rest) {
                Some(schema) => self.to_schema(item, schema, depth),
                None => item,
            })
            .collect()
    }
}

fn list<'a>(fields: &'a Map<String, Value>, word: &str) -> &'a [Value] {
    fields
        .get(word)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn to_boolean(given: &LosslessValue) -> Option<LosslessValue> {
    let word = match given {
        LosslessValue::Text(text) => text.trim().to_ascii_lowercase(),
        LosslessValue::Number(lexeme) => lexeme.clone(),
        _ => return None,
    };
    match word.as_str() {
        "true" | "yes" | "on" | "1" => Some(LosslessValue::Boolean(true)),
        "false" | "no" | "off" | "0" => Some(LosslessValue::Boolean(false)),
        _ => None,
    }
}

fn lexeme(given: &LosslessValue) -> Option<&str> {
    match given {
        LosslessValue::Number(lexeme) | LosslessValue::NonInteger(lexeme) => Some(lexeme),
        LosslessValue::Text(text) => number::number_lexeme(text),
        _ => None,
    }
}

fn to_number(given: &LosslessValue) -> Option<LosslessValue> {
    let lexeme = lexeme(given)?;
    number::number(lexeme).map(|_| LosslessValue::Number(lexeme.to_owned()))
}

fn to_integer(given: &LosslessValue) -> Option<LosslessValue> {
    number::integer(lexeme(given)?).map(|exact| LosslessValue::Number(exact.to_string()))
}

/// Keeps the lexeme of a number: `3.10` is a version, and not `3.1`.
fn to_text(given: &LosslessValue) -> Option<LosslessValue> {
    match given {
        LosslessValue::Number(lexeme) => Some(LosslessValue::Text(lexeme.clone())),
        LosslessValue::Boolean(yes) => Some(LosslessValue::Text(yes.to_string())),
        _ => None,
    }
}

fn to_object(given: &LosslessValue) -> Option<LosslessValue> {
    let LosslessValue::Text(text) = given else {
        return None;
    };
    match text
        .trim_start()
        .starts_with('{')
        .then(|| LosslessValue::parse(text))
    {
        Some(Ok(fields @ LosslessValue::Fields(_))) => Some(fields),
        _ => None,
    }
}
