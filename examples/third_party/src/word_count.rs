//! An action.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use cachalot_workflow::{
    Action, Arguments, Failure, Operation, OperationMetadata, Parameter, ParameterKind, Runtime,
};
use serde_json::{Value, json};

/// The largest text that is counted.
const LARGEST: u64 = 16 << 20;

static ABOUT: OperationMetadata = OperationMetadata::declared(
    "words.count",
    &["actions.words_count"],
    "Counts the words of a text file.",
    &[
        Parameter::required("path", ParameterKind::Text, "The file, or a URI."),
        Parameter::optional(
            "at_least",
            ParameterKind::Integer,
            "Counts only words of so many letters; 1 by default.",
        ),
    ],
);

/// `words.count`: counts the words of a text file.
#[derive(Default)]
pub struct WordCount {
    /// How often it was done.
    done: Arc<AtomicU32>,
}

impl WordCount {
    /// The action, and the number of times that it was done.
    #[must_use]
    pub fn counted() -> (Self, Arc<AtomicU32>) {
        let action = Self::default();
        let done = Arc::clone(&action.done);
        (action, done)
    }
}

#[async_trait]
impl Operation for WordCount {
    type Context = Runtime;
    type Output = Result<Value, Failure>;

    fn metadata(&self) -> &OperationMetadata {
        &ABOUT
    }

    /// A relative path means another file in another directory. Under the name of the argument, so
    /// that `key_strategy: file_content` leaves it out together with the path.
    fn implicit_inputs(&self, _arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        Ok(json!({ "path": { "relative_to": runtime.directory.to_string_lossy() } }))
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let path = arguments
            .get("path")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let at_least = arguments
            .get("at_least")
            .and_then(Value::as_u64)
            .unwrap_or(1);
        let bytes = runtime
            .storage
            .read(path, LARGEST)
            .await
            .map_err(|error| Failure {
                retryable: error.is_retryable(),
                ..Failure::new("file_error", error.to_string())
            })?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| Failure::new("validation_error", format!("{path} is not UTF-8 text")))?;
        self.done.fetch_add(1, Ordering::SeqCst);
        let letters = |word: &str| {
            word.chars()
                .filter(|letter| letter.is_alphanumeric())
                .count() as u64
        };
        let words = text
            .split_whitespace()
            .filter(|word| letters(word) >= at_least)
            .count();
        Ok(json!({ "success": true, "path": path, "words": words }))
    }
}

impl Action for WordCount {}
