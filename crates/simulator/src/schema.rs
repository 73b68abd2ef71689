//! Generates a minimal instance of a JSON schema: the simulator's answer to a request that requires a
//! schema.

use serde_json::{Map, Number, Value};

/// Maximum depth; ends recursive schemas.
const MAX_DEPTH: usize = 20;

/// Returns a minimal value that `schema` allows, for the common keywords: `const`, `enum`, `$ref` within
/// the schema, `anyOf`, `oneOf`, `allOf`, `type`, `required`, `minItems`, `minLength`, `maxLength`,
/// `minimum`, `exclusiveMinimum`, `maximum`, `multipleOf`, `format` of dates.
pub(crate) fn instance(schema: &Value) -> Value {
    instance_at(schema, schema, 0)
}

fn instance_at(schema: &Value, root: &Value, depth: usize) -> Value {
    let Some(map) = schema.as_object().filter(|_| depth < MAX_DEPTH) else {
        return Value::Null;
    };
    if let Some(fixed) = map.get("const") {
        return fixed.clone();
    }
    for list in ["enum", "examples"] {
        if let Some(first) = map
            .get(list)
            .and_then(Value::as_array)
            .and_then(|all| all.first())
        {
            return first.clone();
        }
    }
    if let Some(default) = map.get("default") {
        return default.clone();
    }
    if let Some(target) = map.get("$ref").and_then(Value::as_str) {
        let target = target.strip_prefix('#').and_then(|at| root.pointer(at));
        return target.map_or(Value::Null, |target| instance_at(target, root, depth + 1));
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(options) = map.get(choice).and_then(Value::as_array) {
            return instance_at(simplest(options), root, depth + 1);
        }
    }
    if let Some(parts) = map.get("allOf").and_then(Value::as_array) {
        return all_of(map, parts, root, depth);
    }
    match kind(map) {
        "object" => object(map, root, depth),
        "array" => array(map, root, depth),
        "string" => Value::from(string(map)),
        "integer" | "number" => number(map, kind(map) == "integer"),
        "boolean" => Value::Bool(false),
        _ => Value::Null,
    }
}

/// Returns an option without nesting if there is one, so that recursive schemas terminate.
fn simplest(options: &[Value]) -> &Value {
    let is_flat = |option: &&Value| {
        option.as_object().is_some_and(|map| {
            !map.contains_key("$ref") && !matches!(kind(map), "object" | "array")
        })
    };
    let found = options.iter().find(is_flat).or(options.first());
    found.unwrap_or(&Value::Null)
}

fn kind(map: &Map<String, Value>) -> &str {
    let named = match map.get("type") {
        Some(Value::String(name)) => Some(name.as_str()),
        Some(Value::Array(names)) => {
            let mut names = names.iter().filter_map(Value::as_str);
            names
                .clone()
                .find(|name| *name != "null")
                .or(names.next_back())
        }
        _ => None,
    };
    named.unwrap_or(if map.contains_key("properties") {
        "object"
    } else if map.contains_key("items") {
        "array"
    } else {
        "null"
    })
}

fn object(map: &Map<String, Value>, root: &Value, depth: usize) -> Value {
    let empty = Map::new();
    let properties = map
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let required = map.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let value = |name: &str| {
        let property = properties.get(name).unwrap_or(&Value::Null);
        (name.to_owned(), instance_at(property, root, depth + 1))
    };
    Value::Object(names.map(value).collect())
}

fn array(map: &Map<String, Value>, root: &Value, depth: usize) -> Value {
    let minimum = map.get("minItems").and_then(Value::as_u64).unwrap_or(0);
    let item = map.get("items").unwrap_or(&Value::Null);
    (0..minimum.min(100))
        .map(|_| instance_at(item, root, depth + 1))
        .collect()
}

fn string(map: &Map<String, Value>) -> String {
    let length = |key: &str| {
        let length = map.get(key).and_then(Value::as_u64)?;
        usize::try_from(length.min(100_000)).ok()
    };
    let text = match map.get("format").and_then(Value::as_str) {
        Some("date") => "2026-01-01",
        Some("time") => "12:00:00Z",
        Some("date-time") => "2026-01-01T12:00:00Z",
        Some("email") => "simulated@example.com",
        Some("uri" | "url") => "https://example.com/",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        _ => "simulated",
    };
    let mut text = text.to_owned();
    while text.len() < length("minLength").unwrap_or(0) {
        text.push('.');
    }
    text.truncate(length("maxLength").unwrap_or(usize::MAX));
    text
}

fn number(map: &Map<String, Value>, is_whole: bool) -> Value {
    let bound = |key: &str| map.get(key).and_then(Value::as_f64);
    let step = bound("multipleOf").filter(|step| *step > 0.0);
    let step_or_one = step.unwrap_or(1.0);
    let mut minimum = bound("minimum").unwrap_or(0.0);
    if let Some(above) = bound("exclusiveMinimum") {
        minimum = minimum.max(above + step_or_one);
    }
    if let Some(maximum) = bound("maximum") {
        minimum = minimum.min(maximum);
    }
    if let Some(step) = step {
        minimum = (minimum / step).ceil() * step;
    }
    if is_whole {
        return Value::from(minimum.ceil() as i64);
    }
    Number::from_f64(minimum).map_or(Value::Null, Value::Number)
}

fn all_of(map: &Map<String, Value>, parts: &[Value], root: &Value, depth: usize) -> Value {
    let mut whole = Map::new();
    let base = object(map, root, depth);
    let values = parts.iter().map(|part| instance_at(part, root, depth + 1));
    for value in std::iter::once(base).chain(values) {
        match value {
            Value::Object(fields) => whole.extend(fields),
            Value::Null => {}
            other => return other,
        }
    }
    Value::Object(whole)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::instance;

    #[test]
    fn instance_has_every_required_property_with_its_type() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 12},
                "age": {"type": "integer", "exclusiveMinimum": 17},
                "ratio": {"type": "number", "minimum": 0.5},
                "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2},
                "nested": {"$ref": "#/$defs/nested"},
                "choice": {"anyOf": [{"$ref": "#/$defs/nested"}, {"type": "null"}]},
                "optional": {"type": "string"},
                "nullable": {"type": ["null", "boolean"]},
                "both": {"allOf": [{"$ref": "#/$defs/nested"}, {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}]}
            },
            "required": ["name", "age", "ratio", "tags", "nested", "choice", "nullable", "both"],
            "$defs": {"nested": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}}
        });
        assert_eq!(
            instance(&schema),
            json!({
                "name": "simulated...", "age": 18, "ratio": 0.5, "tags": ["a", "a"],
                "nested": {"ok": false}, "choice": null, "nullable": false,
                "both": {"ok": false, "x": 0}
            })
        );
    }

    #[test]
    fn instance_of_a_recursive_schema_terminates() {
        let schema = json!({
            "type": "object",
            "properties": {"next": {"$ref": "#"}},
            "required": ["next"]
        });
        assert!(instance(&schema).get("next").is_some());
        let list = json!({"$defs": {"node": {"type": "object", "required": ["next"], "properties":
            {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}}, "$ref": "#/$defs/node"});
        assert_eq!(instance(&list), json!({"next": null}));
    }
}
