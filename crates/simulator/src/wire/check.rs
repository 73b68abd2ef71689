//! Checks that all providers share.

use serde_json::Value;

/// Returns true if a tool name is valid: `^[a-zA-Z0-9_-]{1,64}$`.
pub(super) fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Returns the first duplicate name.
pub(super) fn first_duplicate<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = std::collections::HashSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

/// The reason why a schema cannot be enforced strictly, and its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StrictnessViolation {
    pub(super) path: Vec<String>,
    pub(super) why: ViolationKind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ViolationKind {
    /// An object without `additionalProperties: false`.
    Open,
    /// A property that is not required.
    Optional(String),
}

/// Checks that `schema` can be enforced strictly: every object must be closed and, if `all_required`,
/// require all its properties.
pub(super) fn strict(schema: &Value, all_required: bool) -> Result<(), StrictnessViolation> {
    walk(schema, all_required, 0)
}

fn walk(schema: &Value, all_required: bool, depth: usize) -> Result<(), StrictnessViolation> {
    let Some(map) = schema.as_object().filter(|_| depth < 64) else {
        return Ok(());
    };
    let properties = map.get("properties").and_then(Value::as_object);
    let is_object = match map.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => properties.is_some(),
    };
    let refuse = |why| {
        let path = Vec::new();
        Err(StrictnessViolation { path, why })
    };
    let descend = |schema: &Value, steps: &[&str]| {
        walk(schema, all_required, depth + 1).map_err(|mut found| {
            let steps = steps.iter().map(|step| (*step).to_owned());
            found.path.splice(0..0, steps);
            found
        })
    };
    if is_object && map.get("additionalProperties") != Some(&Value::Bool(false)) {
        return refuse(ViolationKind::Open);
    }
    let required = map.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    for (name, property) in properties.into_iter().flatten() {
        if all_required && !is_required(name) {
            return refuse(ViolationKind::Optional(name.clone()));
        }
        descend(property, &["properties", name])?;
    }
    for definitions in ["$defs", "definitions"] {
        let inner = map.get(definitions).and_then(Value::as_object);
        for (name, definition) in inner.into_iter().flatten() {
            descend(definition, &[definitions, name])?;
        }
    }
    if let Some(items) = map.get("items") {
        descend(items, &["items"])?;
    }
    for list in ["anyOf", "oneOf", "allOf"] {
        let inner = map.get(list).and_then(Value::as_array);
        for (at, option) in inner.into_iter().flatten().enumerate() {
            descend(option, &[list, &at.to_string()])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tool_names_and_duplicates_are_checked() {
        assert!(is_tool_name("get_weather-2") && !is_tool_name("") && !is_tool_name("a b"));
        assert!(is_tool_name(&"x".repeat(64)) && !is_tool_name(&"x".repeat(65)));
        assert_eq!(first_duplicate(["a", "b", "a"]), Some("a"));
        assert_eq!(first_duplicate(["a", "b"]), None);
    }

    #[test]
    fn strict_schema_is_closed_at_every_level() {
        let inner = |extra: serde_json::Value| {
            json!({"type": "object", "additionalProperties": false, "required": ["list"], "properties":
                {"list": {"type": "array", "items": extra}}})
        };
        let open = inner(json!({"type": "object", "properties": {}}));
        let found = strict(&open, true);
        let path = ["properties", "list", "items"].map(str::to_owned).to_vec();
        assert_eq!(
            found,
            Err(StrictnessViolation {
                path,
                why: ViolationKind::Open
            })
        );
        let closed =
            json!({"type": "object", "additionalProperties": false, "properties": {"a": {}}});
        assert!(strict(&inner(closed.clone()), false).is_ok());
        assert!(matches!(
            strict(&inner(closed), true),
            Err(StrictnessViolation { why: ViolationKind::Optional(name), .. }) if name == "a"
        ));
    }
}
