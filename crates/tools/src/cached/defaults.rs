//! Defaults of arguments: a call with a missing argument equals the call with its default value.

use serde_json::{Map, Value};

use cachalot_operation::Arguments;

/// Adds the schema's defaults for missing arguments, also inside given objects.
pub(super) fn with_defaults(arguments: &Arguments, schema: &Value) -> Arguments {
    let mut filled = arguments.clone();
    fill(&mut filled, schema);
    filled
}

fn fill(arguments: &mut Map<String, Value>, schema: &Value) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    for (name, property) in properties {
        match arguments.get_mut(name) {
            Some(Value::Object(inner)) => fill(inner, property),
            Some(_) => {}
            None => {
                if let Some(default) = property.get("default") {
                    arguments.insert(name.clone(), default.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn omitted_settings_equal_their_defaults() {
        let schema = json!({"type": "object", "properties": {
            "limit": {"type": "integer", "default": 10},
            "path": {"type": "string"},
            "options": {"type": "object", "properties": {"deep": {"type": "boolean", "default": true}}},
        }});
        let fill = |arguments: Value| match arguments {
            Value::Object(arguments) => Value::Object(with_defaults(&arguments, &schema)),
            other => other,
        };
        assert_eq!(fill(json!({})), json!({"limit": 10}));
        assert_eq!(
            fill(json!({"limit": null, "path": "a"})),
            json!({"limit": null, "path": "a"})
        );
        assert_eq!(
            fill(json!({"limit": 1, "options": {}})),
            json!({"limit": 1, "options": {"deep": true}})
        );
        assert_eq!(with_defaults(&Map::new(), &json!(true)), Map::new());
    }
}
