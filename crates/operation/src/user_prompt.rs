//! Questions that a tool asks the user, and their answers.

use async_trait::async_trait;
use jsonschema::ValidationError;
use serde_json::{Map, Value};

use crate::SchemaError;
use crate::arguments::compile;

/// A question to the user.
#[derive(Debug, Clone)]
pub struct UserQuestion<'a> {
    /// A heading.
    pub title: Option<&'a str>,
    /// The question.
    pub message: &'a str,
    /// The values to ask for, one after the other; at least one.
    pub fields: &'a [AnswerField],
}

/// The answer to a [`UserQuestion`].
#[derive(Debug, Clone, PartialEq)]
pub enum UserAnswer {
    /// The user answered: the values by the names of their fields.
    Accept(Map<String, Value>),
    /// The user refused to answer.
    Decline,
    /// The question was withdrawn, or the user cannot be asked; with the reason, if it helps the model.
    Cancel(Option<String>),
}

/// Asks the user questions.
#[async_trait]
pub trait UserPrompter: Send + Sync {
    /// Asks a question. Questions are asked one at a time, never beside a request for approval. Input from
    /// before the question appears is not an answer. Dropping the future withdraws the question.
    async fn ask(&self, question: &UserQuestion<'_>) -> UserAnswer;
}

/// A value that the user is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerField {
    /// The name in the answer.
    pub name: String,
    /// The name for the user, if it is another one.
    pub title: Option<String>,
    /// Explains the value.
    pub description: Option<String>,
    /// The kind of value.
    pub kind: AnswerKind,
    /// The names of the values of a list for the user, in the same order; empty if they have none.
    pub choice_titles: Vec<String>,
    /// True if the field cannot be left empty.
    pub required: bool,
    /// The value of an empty answer.
    pub default: Option<Value>,
    /// The JSON Schema that a value must match.
    schema: Value,
}

/// The reason why a question cannot be asked, for the model.
#[derive(Debug, thiserror::Error)]
pub enum QuestionError {
    /// The properties of the schema are not an object.
    #[error("`properties` of `schema` must be an object")]
    Properties,
    /// The schema of a field is invalid.
    #[error("the schema of `{name}` is invalid: {source}")]
    Schema {
        /// The field.
        name: String,
        /// The problem of its schema.
        source: SchemaError,
    },
}

/// The reason why an answer is not accepted, for the user.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The field may not be left empty.
    #[error("an answer is required")]
    Required,
    /// The field has values of another kind.
    #[error("`{text}` is not accepted: enter {hint}")]
    Kind {
        /// The answer.
        text: String,
        /// The accepted answers.
        hint: String,
    },
    /// The value does not match the schema.
    #[error("not accepted: {0}")]
    Violation(Box<ValidationError<'static>>),
    /// The schema is invalid.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// The name of the only field of a question without a schema.
const TEXT_FIELD: &str = "response";

/// The name of the only field of a question with the schema of a single value.
const VALUE_FIELD: &str = "value";

impl AnswerField {
    /// Returns the fields of a question: one per property of the JSON Schema of an object, one for the schema
    /// of a single value, and one for any text without a schema.
    ///
    /// # Errors
    /// The schema is invalid.
    pub fn from_schema(schema: Option<&Value>) -> Result<Vec<Self>, QuestionError> {
        let text = || Ok(vec![Self::new(TEXT_FIELD, &Value::Bool(true), true)?]);
        let Some(schema) = schema else {
            return text();
        };
        let Some(properties) = schema.get("properties") else {
            return match schema.get("type").and_then(Value::as_str) {
                None | Some("object") if schema.get("enum").is_none() => text(),
                _ => Ok(vec![Self::new(VALUE_FIELD, schema, true)?]),
            };
        };
        let properties = properties.as_object().ok_or(QuestionError::Properties)?;
        if properties.is_empty() {
            return text();
        }
        let listed = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| {
            let mut listed = listed.into_iter().flatten();
            listed.any(|required| required == name)
        };
        properties
            .iter()
            .map(|(name, schema)| Self::new(name, schema, is_required(name)))
            .collect()
    }

    fn new(name: &str, schema: &Value, required: bool) -> Result<Self, QuestionError> {
        compile(schema).map_err(|source| QuestionError::Schema {
            name: name.to_owned(),
            source,
        })?;
        let text = |key: &str| schema.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            name: name.to_owned(),
            title: text("title"),
            description: text("description"),
            kind: AnswerKind::from_schema(schema),
            choice_titles: choice_titles(schema),
            required,
            default: schema.get("default").cloned(),
            schema: schema.clone(),
        })
    }

    /// Reads the text of an answer. `None` for an empty answer to a field that may be left empty.
    ///
    /// # Errors
    /// The answer does not fit the field.
    pub fn parse(&self, text: &str) -> Result<Option<Value>, AnswerError> {
        if text.is_empty() {
            return match (&self.default, self.required) {
                (Some(default), _) => Ok(Some(default.clone())),
                (None, false) => Ok(None),
                (None, true) => Err(AnswerError::Required),
            };
        }
        let value = self.kind.parse(text)?;
        let validator = compile(&self.schema)?;
        let violation = validator.iter_errors(&value).next();
        match violation {
            None => Ok(Some(value)),
            Some(error) => Err(AnswerError::Violation(Box::new(error.to_owned()))),
        }
    }
}

/// The values that a field accepts.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerKind {
    /// Any text.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// Yes or no.
    Boolean,
    /// One of these values.
    Choice(Vec<Value>),
    /// A value in JSON.
    Json,
}

impl AnswerKind {
    /// Returns the kind of value that a JSON Schema describes.
    fn from_schema(schema: &Value) -> Self {
        let list = |key: &str| schema.get(key).and_then(Value::as_array);
        if let Some(values) = list("enum").filter(|values| !values.is_empty()) {
            return Self::Choice(values.clone());
        }
        let constants = list("oneOf").or(list("anyOf")).and_then(|choices| {
            let constants = choices.iter().map(|choice| choice.get("const").cloned());
            constants.collect::<Option<Vec<Value>>>()
        });
        if let Some(values) = constants.filter(|values| !values.is_empty()) {
            return Self::Choice(values);
        }
        let name = match schema.get("type") {
            Some(Value::Array(names)) => names.iter().find(|name| *name != "null"),
            name => name,
        };
        match name.and_then(Value::as_str) {
            Some("integer") => Self::Integer,
            Some("number") => Self::Number,
            Some("boolean") => Self::Boolean,
            Some("array" | "object") => Self::Json,
            _ => Self::Text,
        }
    }

    /// Describes the accepted answers; `None` for any text.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Text => return None,
            Self::Integer => "a whole number".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Boolean => "yes or no".to_owned(),
            Self::Choice(values) => {
                let count = values.len();
                format!("a number from 1 to {count}, or a value")
            }
            Self::Json => "JSON".to_owned(),
        })
    }

    /// Reads the text of an answer.
    fn parse(&self, text: &str) -> Result<Value, AnswerError> {
        let parsed = match self {
            Self::Text => Some(Value::from(text)),
            Self::Integer => text.parse::<i64>().ok().map(Value::from),
            Self::Number => text
                .parse::<f64>()
                .ok()
                .and_then(serde_json::Number::from_f64)
                .map(Value::from),
            Self::Boolean => match text.to_lowercase().as_str() {
                "y" | "yes" | "true" => Some(Value::Bool(true)),
                "n" | "no" | "false" => Some(Value::Bool(false)),
                _ => None,
            },
            Self::Choice(values) => choice(values, text),
            Self::Json => serde_json::from_str(text).ok(),
        };
        parsed.ok_or_else(|| AnswerError::Kind {
            text: text.to_owned(),
            hint: self.hint().unwrap_or_default(),
        })
    }
}

/// Returns the names of the values of a list: the titles of `oneOf` or `anyOf`, or `enumNames`. Empty if one is missing.
fn choice_titles(schema: &Value) -> Vec<String> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let titles: Option<Vec<String>> = match (list("enum"), list("oneOf").or(list("anyOf"))) {
        (Some(values), _) => list("enumNames")
            .filter(|names| names.len() == values.len())
            .and_then(|names| names.iter().map(text).collect()),
        (None, Some(choices)) => {
            let titles = choices.iter().map(|choice| text(choice.get("title")?));
            titles.collect()
        }
        (None, None) => None,
    };
    titles.unwrap_or_default()
}

/// Returns the value that a text names: by its own text, or by its number in the list, from 1.
fn choice(values: &[Value], text: &str) -> Option<Value> {
    let is_named = |value: &&Value| choice_label(value) == text;
    let by_number = || {
        let number: usize = text.parse().ok()?;
        values.get(number.checked_sub(1)?)
    };
    values.iter().find(is_named).or_else(by_number).cloned()
}

/// Returns the text of a value of a list.
#[must_use]
pub fn choice_label(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../tests/unit/user_prompt.rs"]
mod tests;
