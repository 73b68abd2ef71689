//! Arguments of one call, read by name.

use std::time::Duration;

use serde_json::Value;

use super::{UP_TO_A_WEEK, expected, kind_name};
use crate::{Arguments, Failure, OperationMetadata, ParameterKind};

/// Checked arguments of one call, read by name. A value of another kind than requested is a failure, not
/// a panic, so that an action that is called without the check reports the error.
pub(in crate::actions) struct CheckedArguments<'a> {
    about: &'static OperationMetadata,
    arguments: &'a Arguments,
}

impl<'a> CheckedArguments<'a> {
    /// Takes the arguments of a call of this action.
    pub(in crate::actions) fn new(
        about: &'static OperationMetadata,
        arguments: &'a Arguments,
    ) -> Self {
        Self { about, arguments }
    }

    /// Returns the action's name, for messages.
    pub(in crate::actions) fn action(&self) -> &'static str {
        &self.about.name
    }

    /// Returns a `validation_error` about one parameter.
    pub(in crate::actions) fn wrong(&self, name: &str, what: impl std::fmt::Display) -> Failure {
        Failure::new(
            "validation_error",
            format!("{}: parameter `{name}` {what}", self.about.name),
        )
    }

    /// Returns a failure of the given kind that names the action.
    pub(in crate::actions) fn failure(
        &self,
        kind: &'static str,
        what: impl std::fmt::Display,
    ) -> Failure {
        Failure::new(kind, format!("{}: {what}", self.about.name))
    }

    /// Returns a failure like [`failure`](Self::failure) that a retry may help.
    pub(in crate::actions) fn transient(
        &self,
        kind: &'static str,
        what: impl std::fmt::Display,
    ) -> Failure {
        Failure::transient(kind, format!("{}: {what}", self.about.name))
    }

    /// Returns the argument, of any kind and including null.
    pub(in crate::actions) fn value_of(&self, name: &str) -> Option<&'a Value> {
        self.arguments.get(name)
    }

    /// Returns a required argument, of any kind and including null.
    pub(in crate::actions) fn required(&self, name: &str) -> Result<&'a Value, Failure> {
        let value = self.value_of(name);
        value.ok_or_else(|| self.wrong(name, "is required"))
    }

    /// Returns the argument, unless it is null.
    fn non_null(&self, name: &str) -> Option<&'a Value> {
        self.arguments.get(name).filter(|value| !value.is_null())
    }

    fn typed<T>(
        &self,
        name: &str,
        kind: ParameterKind,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.non_null(name) else {
            return Ok(None);
        };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(self.wrong(
                name,
                format_args!("is {}: expected {}", kind_name(value), expected(kind)),
            )),
        }
    }

    /// Returns an optional text.
    pub(in crate::actions) fn text(&self, name: &str) -> Result<Option<&'a str>, Failure> {
        self.typed(name, ParameterKind::Text, Value::as_str)
    }

    /// Returns an optional text; the empty text counts as left out.
    pub(in crate::actions) fn non_empty_text(
        &self,
        name: &str,
    ) -> Result<Option<&'a str>, Failure> {
        Ok(self.text(name)?.filter(|text| !text.is_empty()))
    }

    /// Returns an optional list of texts; `what` is the phrase for an item of another kind.
    pub(in crate::actions) fn texts(
        &self,
        name: &str,
        what: &str,
    ) -> Result<Option<Vec<String>>, Failure> {
        let Some(items) = self.list(name)? else {
            return Ok(None);
        };
        let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
        match texts.collect::<Option<Vec<_>>>() {
            Some(texts) => Ok(Some(texts)),
            None => Err(self.wrong(name, what)),
        }
    }

    /// Returns a required, non-empty text.
    pub(in crate::actions) fn required_text(&self, name: &str) -> Result<&'a str, Failure> {
        match self.text(name)? {
            Some("") => Err(self.wrong(name, "is empty")),
            Some(text) => Ok(text),
            None => Err(self.wrong(name, "is required")),
        }
    }

    /// Returns a boolean, or `default` if it is left out.
    pub(in crate::actions) fn flag(&self, name: &str, default: bool) -> Result<bool, Failure> {
        Ok(self
            .typed(name, ParameterKind::Boolean, Value::as_bool)?
            .unwrap_or(default))
    }

    /// Returns a whole number within the declared bounds; without any, it must be above 0.
    pub(in crate::actions) fn count(&self, name: &str) -> Result<Option<u64>, Failure> {
        let Some(value) = self.non_null(name) else {
            return Ok(None);
        };
        let (minimum, maximum) = match self.about.parameter(name).map(|parameter| parameter.kind) {
            Some(ParameterKind::IntegerIn(minimum, maximum)) => (minimum, maximum),
            _ => (1, u64::MAX),
        };
        match value.as_u64() {
            Some(count) if (minimum..=maximum).contains(&count) => Ok(Some(count)),
            _ => Err(self.wrong(
                name,
                format_args!("is {value}: expected a whole number from {minimum} to {maximum}"),
            )),
        }
    }

    /// Returns a duration above zero and up to a week.
    pub(in crate::actions) fn duration(&self, name: &str) -> Result<Option<Duration>, Failure> {
        let Some(value) = self.non_null(name) else {
            return Ok(None);
        };
        match UP_TO_A_WEEK.read_json(value) {
            Ok(duration) => Ok(Some(duration)),
            Err(refusal) => {
                Err(self.wrong(name, format_args!("{}: {}", refusal.cause, refusal.remedy)))
            }
        }
    }

    /// Returns an optional mapping.
    pub(in crate::actions) fn object(&self, name: &str) -> Result<Option<&'a Arguments>, Failure> {
        self.typed(name, ParameterKind::Object, Value::as_object)
    }

    /// Returns an optional list.
    pub(in crate::actions) fn list(&self, name: &str) -> Result<Option<&'a [Value]>, Failure> {
        self.typed(name, ParameterKind::List, |value| {
            value.as_array().map(Vec::as_slice)
        })
    }

    /// Converts a scalar inside a list or a mapping to text; null is `None`.
    pub(in crate::actions) fn scalar(
        &self,
        name: &str,
        value: &Value,
    ) -> Result<Option<String>, Failure> {
        match value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            Value::Number(number) => Ok(Some(number.to_string())),
            Value::Bool(flag) => Ok(Some(flag.to_string())),
            Value::Array(_) | Value::Object(_) => Err(self.wrong(
                name,
                format_args!("holds {}: expected text", kind_name(value)),
            )),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../../tests/unit/actions/arguments/checked.rs"]
mod tests;
