//! Casts the values that a model wrote to the types that a schema requires: only if the cast is unambiguous
//! and loses no digit. Values that cannot be cast stay unchanged and are reported by the check.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::given::Given;
use super::number;
use super::types::{Types, target};

/// Maximum depth of schemas that are followed.
const DEEPEST: usize = 64;

/// Maximum number of branches of alternatives that are tried in one call.
const TRIALS: u32 = 1_000;

/// A cast by one schema.
pub(super) struct Casting<'a> {
    root: &'a Value,
    trials: Cell<u32>,
}

impl<'a> Casting<'a> {
    pub(super) fn by(root: &'a Value) -> Self {
        Self {
            root,
            trials: Cell::new(TRIALS),
        }
    }

    pub(super) fn cast(&self, given: Given) -> Given {
        self.to_schema(given, self.root, 0)
    }

    fn to_schema(&self, mut given: Given, schema: &Value, depth: usize) -> Given {
        let Some(fields) = schema.as_object() else {
            return given;
        };
        if depth > DEEPEST {
            return given;
        }
        let depth = depth + 1;
        if let Some(target) = target(schema, self.root) {
            given = self.to_schema(given, target, depth);
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
        given = self.to_types(given, fields, Types::of(schema, self.root), depth);
        match given {
            Given::Fields(entries) => Given::Fields(self.to_properties(entries, fields, depth)),
            Given::List(items) => Given::List(self.to_items(items, fields, depth)),
            other => other,
        }
    }

    /// Casts by the only alternative that admits the value as it is, or else by the only one that admits it
    /// after a cast.
    fn to_one_of(&self, given: Given, branches: &[Value], depth: usize) -> Given {
        let mut fitting = branches
            .iter()
            .filter(|branch| Types::of(branch, self.root).admit(&given));
        match (fitting.next(), fitting.next()) {
            (Some(only), None) => return self.to_schema(given, only, depth),
            (Some(_), Some(_)) => return given,
            (None, _) => {}
        }
        let mut found: Option<Given> = None;
        for branch in branches {
            let Some(left) = self.trials.get().checked_sub(1) else {
                return given;
            };
            self.trials.set(left);
            let cast = self.to_schema(given.clone(), branch, depth);
            if !Types::of(branch, self.root).admit(&cast) {
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
        given: Given,
        fields: &Map<String, Value>,
        types: Types,
        depth: usize,
    ) -> Given {
        if types == Types::ANY || types.admit(&given) || given == Given::Null {
            return given;
        }
        let mut found = Vec::new();
        if types.has(Types::BOOLEAN) {
            found.extend(to_boolean(&given));
        }
        if types.has(Types::NUMBER) {
            found.extend(to_number(&given));
        } else if types.has(Types::INTEGER) {
            found.extend(to_integer(&given));
        }
        if types.has(Types::STRING) {
            found.extend(to_text(&given));
        }
        if types.has(Types::OBJECT) {
            found.extend(to_object(&given));
        }
        if types.has(Types::ARRAY) {
            found.extend(self.to_array(&given, fields, depth));
        }
        match (<[Given; 1]>::try_from(found), given) {
            (Ok([only]), _) => only,
            (Err(none), Given::Number(lexeme))
                if none.is_empty() && !number::is_written_as_integer(&lexeme) =>
            {
                Given::NoInteger(lexeme)
            }
            (Err(_), given) => given,
        }
    }

    /// Parses the JSON text of an array, or wraps the value in a list.
    fn to_array(&self, given: &Given, fields: &Map<String, Value>, depth: usize) -> Option<Given> {
        if let Given::Text(text) = given
            && text.trim_start().starts_with('[')
            && let Ok(list @ Given::List(_)) = Given::parse(text)
        {
            return Some(list);
        }
        let Some(item) = fields.get("items") else {
            return Some(Given::List(vec![given.clone()]));
        };
        let types = Types::of(item, self.root);
        // Wrapping in a list of lists would be an invention, not a cast.
        if !types.admit(given) && types.has(Types::ARRAY) {
            return None;
        }
        let cast = self.to_schema(given.clone(), item, depth);
        types.admit(&cast).then(|| Given::List(vec![cast]))
    }

    fn to_properties(
        &self,
        entries: Vec<(String, Given)>,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Vec<(String, Given)> {
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
                if given == Given::Null
                    && !is_required(&name)
                    && declared.is_some_and(|schema| !Types::of(schema, self.root).has(Types::NULL))
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

    fn to_items(&self, items: Vec<Given>, fields: &Map<String, Value>, depth: usize) -> Vec<Given> {
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

fn to_boolean(given: &Given) -> Option<Given> {
    let word = match given {
        Given::Text(text) => text.trim().to_ascii_lowercase(),
        Given::Number(lexeme) => lexeme.clone(),
        _ => return None,
    };
    match word.as_str() {
        "true" | "yes" | "on" | "1" => Some(Given::Boolean(true)),
        "false" | "no" | "off" | "0" => Some(Given::Boolean(false)),
        _ => None,
    }
}

fn lexeme(given: &Given) -> Option<&str> {
    match given {
        Given::Number(lexeme) | Given::NoInteger(lexeme) => Some(lexeme),
        Given::Text(text) => number::lexeme_of(text),
        _ => None,
    }
}

fn to_number(given: &Given) -> Option<Given> {
    let lexeme = lexeme(given)?;
    number::number(lexeme).map(|_| Given::Number(lexeme.to_owned()))
}

fn to_integer(given: &Given) -> Option<Given> {
    number::integer(lexeme(given)?).map(|exact| Given::Number(exact.to_string()))
}

/// Keeps the lexeme of a number: `3.10` is a version, and not `3.1`.
fn to_text(given: &Given) -> Option<Given> {
    match given {
        Given::Number(lexeme) => Some(Given::Text(lexeme.clone())),
        Given::Boolean(yes) => Some(Given::Text(yes.to_string())),
        _ => None,
    }
}

fn to_object(given: &Given) -> Option<Given> {
    let Given::Text(text) = given else {
        return None;
    };
    match text
        .trim_start()
        .starts_with('{')
        .then(|| Given::parse(text))
    {
        Some(Ok(fields @ Given::Fields(_))) => Some(fields),
        _ => None,
    }
}
