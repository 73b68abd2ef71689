//! The selection of records as conditions of SQL.

use std::borrow::Cow;

use crate::LabelMatch;
use crate::text::after_prefix;

/// A statement with conditions that are joined by `AND`.
pub trait Conditions<'a> {
    /// Appends text.
    fn push(&mut self, text: &str);

    /// Appends a value, as a placeholder with its argument or as a literal.
    fn push_value(&mut self, value: Cow<'a, str>);

    /// Appends a comparison of an expression with a value.
    fn and(&mut self, expression: &str, operator: &str, value: impl Into<Cow<'a, str>>) {
        for text in [" AND ", expression, " ", operator, " "] {
            self.push(text);
        }
        self.push_value(value.into());
    }

    /// Appends the condition that an expression begins with `prefix` and comes after `after`.
    fn and_in_range(&mut self, expression: &str, prefix: &'a str, after: Option<&'a str>) {
        if !prefix.is_empty() {
            self.and(expression, ">=", prefix);
            if let Some(end) = after_prefix(prefix) {
                self.and(expression, "<", end);
            }
        }
        if let Some(after) = after {
            self.and(expression, ">", after);
        }
    }

    /// Appends the condition that expressions are the name and the value of a label that can match: of a pattern, only the
    /// text at its beginning is compared.
    fn and_label(&mut self, name: &str, value: &str, label: &LabelMatch<'a>) {
        let (of_name, prefix) = label.range();
        self.and(name, "=", of_name);
        match label {
            LabelMatch::Is { .. } => self.and(value, "=", prefix),
            LabelMatch::Starts { .. } | LabelMatch::Glob { .. } => {
                self.and_in_range(value, prefix, None);
            }
        }
    }
}

/// Returns the place of the criterion by which records are found first: the first one that requires a label exactly, or
/// else the first one.
pub fn leading_label(labels: &[LabelMatch<'_>]) -> Option<usize> {
    let is_exact = |label: &LabelMatch<'_>| matches!(label, LabelMatch::Is { .. });
    let exact = labels.iter().position(is_exact);
    exact.or((!labels.is_empty()).then_some(0))
}
