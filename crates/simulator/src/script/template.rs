//! Texts with placeholders.

use std::collections::HashMap;

use regex::Regex;
use serde_json::Value;

use crate::dialogue::Dialogue;

/// The placeholders that have a value in every step.
pub(super) const BUILT_IN_PLACEHOLDERS: [&str; 4] = ["user", "model", "step", "last_result"];

/// Values of the placeholders.
#[derive(Debug, Clone, Default)]
pub(super) struct PlaceholderValues(HashMap<String, String>);

/// Replaces the placeholders of a text by their values. `{{ name }}` is a placeholder; other braces are
/// literal.
pub(super) fn fill(text: &str, value_of: &mut dyn FnMut(&str) -> String) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, name, after)) = next_placeholder(rest) {
        filled.push_str(before);
        filled.push_str(&value_of(name));
        rest = after;
    }
    filled + rest
}

/// Replaces the placeholders in all texts of a value.
pub(super) fn fill_value(value: &Value, value_of: &mut dyn FnMut(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::from(fill(text, value_of)),
        Value::Array(items) => items
            .iter()
            .map(|item| fill_value(item, value_of))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, field)| (key.clone(), fill_value(field, value_of)))
            .collect(),
        other => other.clone(),
    }
}

/// Returns the text before the first placeholder, its name, and the text after it.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let open = from + text.get(from..)?.find("{{")?;
        let inside = open + 2;
        let close = inside + text[inside..].find("}}")?;
        let name = text[inside..close].trim();
        let is_name = |character: char| character.is_alphanumeric() || character == '_';
        if !name.is_empty() && name.chars().all(is_name) {
            return Some((&text[..open], name, &text[close + 2..]));
        }
        from = inside;
    }
}

impl PlaceholderValues {
    pub(super) fn new(dialogue: &Dialogue) -> Self {
        let last = dialogue.results.last();
        let values = [
            dialogue.user_text(),
            dialogue.model.clone(),
            dialogue.step.to_string(),
            last.map(|result| result.text.clone()).unwrap_or_default(),
        ];
        Self(
            BUILT_IN_PLACEHOLDERS
                .map(str::to_owned)
                .into_iter()
                .zip(values)
                .collect(),
        )
    }

    /// Returns the value of a placeholder; an empty text if it has none.
    pub(super) fn value(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// Takes the groups of the first text that `pattern` matches; `None` if it matches none.
    pub(super) fn take_groups<'t>(
        &mut self,
        pattern: &Regex,
        texts: impl IntoIterator<Item = &'t String>,
    ) -> Option<()> {
        let captures = texts.into_iter().find_map(|text| pattern.captures(text))?;
        for (at, name) in pattern.capture_names().enumerate() {
            let group = captures.get(at).map_or("", |group| group.as_str());
            self.0.insert(at.to_string(), group.to_owned());
            if let Some(name) = name {
                self.0.insert(name.to_owned(), group.to_owned());
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_other_braces_kept() {
        let values = PlaceholderValues(HashMap::from([("a".to_owned(), "x".to_owned())]));
        let fill = |text: &str| fill(text, &mut |name| values.value(name));
        assert_eq!(fill("<{{a}}{{ a }}>"), "<xx>");
        assert_eq!(
            fill("{ {{a} }} {{}} {{not a name}} {{a}}"),
            "{ {{a} }} {{}} {{not a name}} x"
        );
        assert_eq!(fill("{{a"), "{{a");
        assert_eq!(fill("{{missing}}"), "");
        assert_eq!(fill("ä{{a}}ö"), "äxö");
    }
}
