//! The JSON Schema that an answer must have the shape of: what does not have it is no result.

use jsonschema::Validator;
use serde_json::Value;

/// How many things that are wrong are told.
const TOLD: usize = 3;

/// A schema, ready to check answers.
pub(super) struct Shape(Validator);

impl Shape {
    /// Compiles a schema. Nothing is fetched: what it refers to must be in it.
    ///
    /// # Errors
    /// Why it is no JSON Schema.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        jsonschema::options()
            .offline()
            .build(schema)
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// What is wrong with an answer, with the place; nothing of the answer itself is shown.
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
