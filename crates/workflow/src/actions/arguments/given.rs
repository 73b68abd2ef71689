//! The arguments of one call, read by name.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;

use super::{expected, noun, shown};
use crate::{About, Arguments, Failure, ParameterKind};

/// The checked arguments of one call, read by name. A value that is not of the kind asked for is a
/// failure and not a panic, so that an action that is called unchecked says what is wrong.
pub(in crate::actions) struct Given<'a> {
    action: &'static str,
    arguments: Cow<'a, Arguments>,
}

impl Given<'static> {
    /// The arguments of a call of this action.
    pub(in crate::actions) fn to(about: &About, arguments: Arguments) -> Self {
        Self {
            action: shown(about),
            arguments: Cow::Owned(arguments),
        }
    }
}

impl<'a> Given<'a> {
    /// The same, to be looked at only.
    pub(in crate::actions) fn seen(about: &About, arguments: &'a Arguments) -> Self {
        Self {
            action: shown(about),
            arguments: Cow::Borrowed(arguments),
        }
    }

    /// The name of the action, for messages.
    pub(in crate::actions) fn action(&self) -> &'static str {
        self.action
    }

    /// A `validation_error` about one parameter.
    pub(in crate::actions) fn wrong(&self, name: &str, what: impl std::fmt::Display) -> Failure {
        Failure::new(
            "validation_error",
            format!("{}: parameter `{name}` {what}", self.action),
        )
    }

    /// A failure of another kind, in the name of the action.
    pub(in crate::actions) fn failure(
        &self,
        kind: &'static str,
        what: impl std::fmt::Display,
    ) -> Failure {
        Failure::new(kind, format!("{}: {what}", self.action))
    }

    /// The argument, whatever it is; null too.
    pub(in crate::actions) fn any(&self, name: &str) -> Option<&Value> {
        self.arguments.get(name)
    }

    /// The argument, unless it is null.
    fn some(&self, name: &str) -> Option<&Value> {
        self.arguments.get(name).filter(|value| !value.is_null())
    }

    fn of_kind<'s, T>(
        &'s self,
        name: &str,
        kind: ParameterKind,
        read: impl FnOnce(&'s Value) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.some(name) else {
            return Ok(None);
        };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(self.wrong(
                name,
                format_args!("is {}: expected {}", noun(value), expected(kind)),
            )),
        }
    }

    /// Text that may be left out.
    pub(in crate::actions) fn text(&self, name: &str) -> Result<Option<&str>, Failure> {
        self.of_kind(name, ParameterKind::Text, Value::as_str)
    }

    /// Text that must be there and not be empty.
    pub(in crate::actions) fn required_text(&self, name: &str) -> Result<&str, Failure> {
        match self.text(name)? {
            Some("") => Err(self.wrong(name, "is empty")),
            Some(text) => Ok(text),
            None => Err(self.wrong(name, "is required")),
        }
    }

    /// A boolean, `default` if left out.
    pub(in crate::actions) fn flag(&self, name: &str, default: bool) -> Result<bool, Failure> {
        Ok(self
            .of_kind(name, ParameterKind::Boolean, Value::as_bool)?
            .unwrap_or(default))
    }

    /// A whole number within `range`, `default` if left out.
    pub(in crate::actions) fn count(
        &self,
        name: &str,
        default: u64,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, Failure> {
        let Some(value) = self.some(name) else {
            return Ok(default);
        };
        match value.as_u64() {
            Some(count) if range.contains(&count) => Ok(count),
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

    /// A duration in seconds, `default` if left out; above zero and at most a week.
    pub(in crate::actions) fn seconds(
        &self,
        name: &str,
        default: Duration,
    ) -> Result<Duration, Failure> {
        const LONGEST: f64 = 604_800.0;
        let Some(value) = self.some(name) else {
            return Ok(default);
        };
        value
            .as_f64()
            .filter(|seconds| *seconds > 0.0 && *seconds <= LONGEST)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .filter(|duration| !duration.is_zero())
            .ok_or_else(|| {
                self.wrong(
                    name,
                    format_args!("is {value}: expected seconds, above 0 and at most {LONGEST}"),
                )
            })
    }

    /// A mapping that may be left out.
    pub(in crate::actions) fn object(&self, name: &str) -> Result<Option<&Arguments>, Failure> {
        self.of_kind(name, ParameterKind::Object, Value::as_object)
    }

    /// A list that may be left out.
    pub(in crate::actions) fn list(&self, name: &str) -> Result<Option<&[Value]>, Failure> {
        self.of_kind(name, ParameterKind::List, |value| {
            value.as_array().map(Vec::as_slice)
        })
    }

    /// A scalar inside a list or a mapping, as text; null is `None`.
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
            Value::Array(_) | Value::Object(_) => {
                Err(self.wrong(name, format_args!("holds {}: expected text", noun(value))))
            }
        }
    }
}
