//! Validates answers against a JSON Schema; an answer that does not match is not a result.

use jsonschema::{ValidationError, Validator};
use serde_json::Value;

/// The maximum number of validation errors in a message.
const MAX_SHOWN_ERRORS: usize = 3;

/// The validation errors of an answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct SchemaMismatch(String);

/// A compiled schema.
pub(super) struct AnswerSchema(Validator);

impl AnswerSchema {
    /// Compiles a schema. Nothing is fetched: references must resolve within it.
    ///
    /// # Errors
    /// The reason why it is not a JSON Schema.
    pub(super) fn compile(schema: &Value) -> Result<Self, ValidationError<'static>> {
        jsonschema::options().offline().build(schema).map(Self)
    }

    /// Returns the validation errors of an answer with their places; values of the answer are masked.
    pub(super) fn check(&self, answer: &Value) -> Result<(), SchemaMismatch> {
        let errors: Vec<String> = self
            .0
            .iter_errors(answer)
            .take(MAX_SHOWN_ERRORS)
            .map(|error| {
                let place = match error.instance_path().as_str() {
                    "" => "the answer".to_owned(),
                    path => path.to_owned(),
                };
                format!("{place}: {}", error.masked())
            })
            .collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(SchemaMismatch(errors.join("; ")))
        }
    }
}
