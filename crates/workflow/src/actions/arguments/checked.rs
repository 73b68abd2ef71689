//! Arguments of one call, read by name.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;

use super::{UP_TO_A_WEEK, expected, kind_name};
use crate::{Arguments, Failure, OperationMetadata, ParameterKind};

/// Checked arguments of one call, read by name. A value of another kind than requested is a failure, not
/// a panic, so that an action that is called without the check reports the error.
pub(in crate::actions) struct CheckedArguments<'a> {
    action: &'static str,
    arguments: Cow<'a, Arguments>,
}

impl CheckedArguments<'static> {
    /// Takes the arguments of a call of this action.
    pub(in crate::actions) fn new(about: &'static OperationMetadata, arguments: Arguments) -> Self {
        Self {
            action: &about.name,
            arguments: Cow::Owned(arguments),
        }
    }
}

impl<'a> CheckedArguments<'a> {
    /// Borrows the arguments of a call of this action.
    pub(in crate::actions) fn borrowed(
        about: &'static OperationMetadata,
        arguments: &'a Arguments,
    ) -> Self {
        Self {
            action: &about.name,
            arguments: Cow::Borrowed(arguments),
        }
    }

    /// Returns the action's name, for messages.
    pub(in crate::actions) fn action(&self) -> &'static str {
        self.action
    }

    /// Returns a `validation_error` about one parameter.
    pub(in crate::actions) fn wrong(&self, name: &str, what: impl std::fmt::Display) -> Failure {
        Failure::new(
            "validation_error",
            format!("{}: parameter `{name}` {what}", self.action),
        )
    }

    /// Returns a failure of the given kind that names the action.
    pub(in crate::actions) fn failure(
        &self,
        kind: &'static str,
        what: impl std::fmt::Display,
    ) -> Failure {
        Failure::new(kind, format!("{}: {what}", self.action))
    }

    /// Returns a failure like [`failure`](Self::failure) that a retry may help.
    pub(in crate::actions) fn transient(
        &self,
        kind: &'static str,
        what: impl std::fmt::Display,
    ) -> Failure {
        Failure::transient(kind, format!("{}: {what}", self.action))
    }

    /// Returns the argument, of any kind and including null.
    pub(in crate::actions) fn value_of(&self, name: &str) -> Option<&Value> {
        self.arguments.get(name)
    }

    /// Returns a required argument, of any kind and including null.
    pub(in crate::actions) fn required(&self, name: &str) -> Result<&Value, Failure> {
        let value = self.value_of(name);
        value.ok_or_else(|| self.wrong(name, "is required"))
    }

    /// Returns the argument, unless it is null.
    fn non_null(&self, name: &str) -> Option<&Value> {
        self.arguments.get(name).filter(|value| !value.is_null())
    }

    fn typed<'s, T>(
        &'s self,
        name: &str,
        kind: ParameterKind,
        read: impl FnOnce(&'s Value) -> Option<T>,
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
    pub(in crate::actions) fn text(&self, name: &str) -> Result<Option<&str>, Failure> {
        self.typed(name, ParameterKind::Text, Value::as_str)
    }

    /// Returns an optional text; the empty text counts as left out.
    pub(in crate::actions) fn non_empty_text(&self, name: &str) -> Result<Option<&str>, Failure> {
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
    pub(in crate::actions) fn required_text(&self, name: &str) -> Result<&str, Failure> {
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

    /// Returns a whole number within `range`.
    pub(in crate::actions) fn count(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, Failure> {
        let Some(value) = self.non_null(name) else {
            return Ok(None);
        };
        match value.as_u64() {
            Some(count) if range.contains(&count) => Ok(Some(count)),
            _ => Err(self.wrong(
                name,
                format_args!(
                    "is {value}: expected a whole number from {} to {}",
                    range.start(),
                    range.end()
                ),
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
    pub(in crate::actions) fn object(&self, name: &str) -> Result<Option<&Arguments>, Failure> {
        self.typed(name, ParameterKind::Object, Value::as_object)
    }

    /// Returns an optional list.
    pub(in crate::actions) fn list(&self, name: &str) -> Result<Option<&[Value]>, Failure> {
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
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Parameter;

    static METADATA: OperationMetadata = OperationMetadata::declared(
        "test.act",
        &[],
        "Tests.",
        &[Parameter::required("path", ParameterKind::Text, "Text.")],
    );

    #[test]
    fn unchecked_argument_is_a_failure_without_panic() {
        let given = CheckedArguments::new(
            &METADATA,
            json!({"path": 5, "ratio": -1}).as_object().unwrap().clone(),
        );
        assert!(given.required_text("path").is_err());
        assert!(given.duration("ratio").is_err());
        assert!(given.count("ratio", 1..=2).is_err());
        assert_eq!(given.text("none").unwrap(), None);
    }
}
