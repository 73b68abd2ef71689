//! Validates answers against a JSON Schema; an answer that does not match is not a result.

use jsonschema::Validator;
use serde_json::Value;

/// The maximum number of validation errors in a message.
const TOLD: usize = 3;

/// A compiled schema.
pub(super) struct Shape(Validator);

impl Shape {
    /// Compiles a schema. Nothing is fetched: references must resolve within it.
    ///
    /// # Errors
    /// The reason why it is not a JSON Schema.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        jsonschema::options()
            .offline()
            .build(schema)
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// Returns the validation errors of an answer with their places; values of the answer are masked.
    pub(super) fn check(&self, answer: &Value) -> Result<(), String> {
        let wrong: Vec<String> = self
            .0
            .iter_errors(answer)
            .take(TOLD)
            .map(|error| {
                let place = match error.instance_path().as_str() {
                    "" => "the answer".to_owned(),
                    path => path.to_owned(),
                };
                format!("{place}: {}", error.masked())
            })
            .collect();
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong.join("; ")),
        }
    }
}
