//! The schema of a tool's arguments, compiled once.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

use super::cast::Caster;
use super::lossless_value::{LosslessValue, MalformedJson};
use super::violations;
use crate::Arguments;

/// Maximum number of times that JSON text may be nested as a string in JSON text.
const MAX_UNWRAPS: usize = 3;

/// The reason why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// It does not describe an object.
    #[error("it is not a schema of an object")]
    NotAnObject,
    /// It cannot be compiled.
    #[error(transparent)]
    Invalid(Box<ValidationError<'static>>),
}

/// The reason why the arguments of a call are refused, for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsError {
    /// The text is not JSON.
    #[error("Its arguments are not valid JSON: {0}")]
    Malformed(MalformedJson),
    /// The text is JSON of another kind than an object.
    #[error("Its arguments must be a JSON object, not {0}")]
    NotAnObject(&'static str),
    /// The problem, its place, the expectation and the given value of each argument that does not fit the schema.
    #[error("{}", describe_wrong(.0))]
    Wrong(Vec<String>),
}

fn describe_wrong(wrong: &[String]) -> String {
    match wrong {
        [only] => format!("An argument is wrong: {only}"),
        several => format!("Some arguments are wrong:\n- {}", several.join("\n- ")),
    }
}

/// Compiles a schema without references to other documents.
pub(crate) fn compile(schema: &Value) -> Result<Validator, SchemaError> {
    let compiled = jsonschema::options().offline().build(schema);
    compiled.map_err(|error| SchemaError::Invalid(Box::new(error)))
}

/// The schema of a tool's arguments.
pub struct Schema {
    schema: Value,
    /// `None` if a foreign schema cannot be compiled; the server then checks the arguments.
    validator: Option<Validator>,
}

impl Schema {
    /// Compiles a schema. If `lenient`, a schema that cannot be compiled is used for casting only.
    ///
    /// # Errors
    /// It is not the schema of an object, or cannot be compiled.
    pub fn compile(schema: &Value, lenient: bool) -> Result<Self, SchemaError> {
        match schema.get("type") {
            Some(Value::String(name)) if name == "object" => {}
            None if schema.is_object() => {}
            _ => return Err(SchemaError::NotAnObject),
        }
        let validator = match compile(schema) {
            Ok(validator) => Some(validator),
            Err(_) if lenient => None,
            Err(error) => return Err(error),
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
            return Some(why.to_string());
        }
        match jsonschema::options().offline().build(schema) {
            Err(error) if !matches!(error.kind(), ValidationErrorKind::Referencing(_)) => {
                Some(error.to_string())
            }
            _ => None,
        }
    }

    /// Parses, casts and checks the text of a model.
    ///
    /// # Errors
    /// The text is not JSON, or does not fit the schema.
    pub fn parse_arguments(&self, text: &str) -> Result<Arguments, ArgumentsError> {
        self.cast(self.read(text)?)
    }

    /// Casts and checks arguments that are parsed already.
    ///
    /// # Errors
    /// They do not fit the schema.
    pub fn check_arguments(&self, arguments: Arguments) -> Result<Arguments, ArgumentsError> {
        let fields = arguments.into_iter();
        let given = fields.map(|(name, value)| (name, LosslessValue::from(value)));
        self.cast(self.unwrap(given.collect()))
    }

    fn cast(&self, given: Vec<(String, LosslessValue)>) -> Result<Arguments, ArgumentsError> {
        let cast = Caster::new(&self.schema).cast(LosslessValue::Fields(given));
        let arguments = match cast.into_value("") {
            Ok(Value::Object(arguments)) => Value::Object(arguments),
            // The cast of an object is an object.
            Ok(_) => Value::Object(Map::new()),
            Err(inexact) => return Err(ArgumentsError::Wrong(vec![inexact.to_string()])),
        };
        if let Some(validator) = &self.validator {
            let wrong = violations::describe_violations(validator, &self.schema, &arguments);
            if !wrong.is_empty() {
                return Err(ArgumentsError::Wrong(wrong));
            }
        }
        match arguments {
            Value::Object(arguments) => Ok(arguments),
            _ => Ok(Map::new()),
        }
    }

    fn read(&self, text: &str) -> Result<Vec<(String, LosslessValue)>, ArgumentsError> {
        let mut text = text.to_owned();
        for _ in 0..=MAX_UNWRAPS {
            if text.trim().is_empty() {
                return Ok(Vec::new());
            }
            match LosslessValue::parse(&text) {
                Ok(LosslessValue::Null) => return Ok(Vec::new()),
                Ok(LosslessValue::Fields(fields)) => return Ok(self.unwrap(fields)),
                Ok(LosslessValue::Text(inner)) => text = inner,
                Ok(other) => return Err(ArgumentsError::NotAnObject(other.kind())),
                Err(malformed) => return Err(ArgumentsError::Malformed(malformed)),
            }
        }
        Err(ArgumentsError::NotAnObject("text within text"))
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
