//! The schema of a tool's arguments, compiled once.

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use super::cast::Caster;
use super::lossless_value::LosslessValue;
use super::violations;
use crate::Arguments;

/// Maximum number of times that JSON text may be nested as a string in JSON text.
const MAX_UNWRAPS: usize = 3;

/// The schema of a tool's arguments.
pub struct Schema {
    schema: Value,
    /// `None` if a foreign schema cannot be compiled; the server then checks the arguments.
    validator: Option<Validator>,
}

impl Schema {
    /// Compiles a schema. Fails with the reason if it is not the schema of an object. If `lenient`, a schema
    /// that cannot be compiled is used for casting only.
    pub fn compile(schema: &Value, lenient: bool) -> Result<Self, String> {
        match schema.get("type") {
            Some(Value::String(name)) if name == "object" => {}
            None if schema.is_object() => {}
            _ => return Err("it is not a schema of an object".to_owned()),
        }
        let validator = match jsonschema::options().offline().build(schema) {
            Ok(validator) => Some(validator),
            Err(_) if lenient => None,
            Err(error) => return Err(error.to_string()),
        };
        Ok(Self {
            schema: schema.clone(),
            validator,
        })
    }

    /// Returns the fault of a foreign schema for which providers would refuse it. References to other
    /// documents are not a fault.
    pub fn find_fault(schema: &Value) -> Option<String> {
        if let Err(why) = Self::compile(schema, true) {
            return Some(why);
        }
        match jsonschema::options().offline().build(schema) {
            Err(error) if !matches!(error.kind(), ValidationErrorKind::Referencing(_)) => {
                Some(error.to_string())
            }
            _ => None,
        }
    }

    /// Parses, casts and checks the text of a model. The error describes the problem, its place, the
    /// expectation and the given value, for the model.
    pub fn parse_arguments(&self, text: &str) -> Result<Arguments, String> {
        let given = self.read(text)?;
        let cast = Caster::new(&self.schema).cast(LosslessValue::Fields(given));
        let arguments = match cast.into_value("") {
            Ok(Value::Object(arguments)) => Value::Object(arguments),
            // The cast of an object is an object.
            Ok(_) => Value::Object(Map::new()),
            Err(inexact) => return Err(format!("An argument is wrong: {inexact}")),
        };
        if let Some(validator) = &self.validator {
            let wrong = violations::describe_violations(validator, &self.schema, &arguments);
            match wrong.as_slice() {
                [] => {}
                [only] => return Err(format!("An argument is wrong: {only}")),
                several => {
                    return Err(format!(
                        "Some arguments are wrong:\n- {}",
                        several.join("\n- ")
                    ));
                }
            }
        }
        match arguments {
            Value::Object(arguments) => Ok(arguments),
            _ => Ok(Map::new()),
        }
    }

    fn read(&self, text: &str) -> Result<Vec<(String, LosslessValue)>, String> {
        let mut text = text.to_owned();
        for _ in 0..=MAX_UNWRAPS {
            if text.trim().is_empty() {
                return Ok(Vec::new());
            }
            match LosslessValue::parse(&text) {
                Ok(LosslessValue::Null) => return Ok(Vec::new()),
                Ok(LosslessValue::Fields(fields)) => return Ok(self.unwrap(fields)),
                Ok(LosslessValue::Text(inner)) => text = inner,
                Ok(other) => {
                    return Err(format!(
                        "Its arguments must be a JSON object, not {}",
                        other.kind()
                    ));
                }
                Err(wrong) => return Err(format!("Its arguments are not valid JSON: {wrong}")),
            }
        }
        Err("Its arguments must be a JSON object, not text within text".to_owned())
    }

    /// Unwraps `{"arguments": {…}}` if the tool has arguments, but none of that name.
    fn unwrap(&self, fields: Vec<(String, LosslessValue)>) -> Vec<(String, LosslessValue)> {
        let has_others = |name: &str| {
            self.schema
                .get("properties")
                .and_then(Value::as_object)
                .is_some_and(|properties| !properties.is_empty() && !properties.contains_key(name))
        };
        match <[(String, LosslessValue); 1]>::try_from(fields) {
            Ok([(name, inner)]) if name == "arguments" && has_others(&name) => match inner {
                LosslessValue::Fields(inner) => inner,
                LosslessValue::Text(text) => match LosslessValue::parse(&text) {
                    Ok(LosslessValue::Fields(inner)) => inner,
                    _ => vec![(name, LosslessValue::Text(text))],
                },
                LosslessValue::Null => Vec::new(),
                other => vec![(name, other)],
            },
            Ok(other) => other.into(),
            Err(fields) => fields,
        }
    }
}
