//! Texts with placeholders.

use std::collections::HashMap;

use regex::Regex;
use serde_json::{Map, Value};

use crate::dialogue::Dialogue;

/// The placeholders that have a value in every step.
pub(super) const BUILT_IN_PLACEHOLDERS: [&str; 4] = ["user", "model", "step", "last_result"];

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<TemplatePart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Placeholder(String),
}

/// A JSON value whose texts have placeholders.
#[derive(Debug, Clone)]
pub(super) enum TemplateValue {
    Text(Template),
    List(Vec<TemplateValue>),
    Map(Vec<(String, TemplateValue)>),
    Other(Value),
}

/// Values of the placeholders.
#[derive(Debug, Clone, Default)]
pub(super) struct PlaceholderValues(HashMap<String, String>);

impl Template {
    /// Parses a text. `{{ name }}` is a placeholder; other braces are literal.
    pub(super) fn read(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, name, after)) = next_placeholder(rest) {
            plain.push_str(before);
            if !plain.is_empty() {
                pieces.push(TemplatePart::Text(std::mem::take(&mut plain)));
            }
            pieces.push(TemplatePart::Placeholder(name.to_owned()));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(TemplatePart::Text(plain));
        }
        Self(pieces)
    }

    pub(super) fn placeholders(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            TemplatePart::Placeholder(name) => Some(name.as_str()),
            TemplatePart::Text(_) => None,
        })
    }

    pub(super) fn fill(&self, values: &PlaceholderValues) -> String {
        let text = |piece: &TemplatePart| match piece {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Placeholder(name) => values.0.get(name).cloned().unwrap_or_default(),
        };
        self.0.iter().map(text).collect()
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

impl TemplateValue {
    pub(super) fn read(value: Value) -> Self {
        match value {
            Value::String(text) => Self::Text(Template::read(&text)),
            Value::Array(items) => Self::List(items.into_iter().map(Self::read).collect()),
            Value::Object(fields) => Self::Map(
                fields
                    .into_iter()
                    .map(|(key, value)| (key, Self::read(value)))
                    .collect(),
            ),
            other => Self::Other(other),
        }
    }

    /// Calls `each` with every placeholder.
    pub(super) fn placeholders(&self, each: &mut impl FnMut(&str)) {
        match self {
            Self::Text(template) => template.placeholders().for_each(each),
            Self::List(items) => items.iter().for_each(|item| item.placeholders(each)),
            Self::Map(fields) => fields
                .iter()
                .for_each(|(_, field)| field.placeholders(each)),
            Self::Other(_) => {}
        }
    }

    pub(super) fn fill(&self, values: &PlaceholderValues) -> Value {
        match self {
            Self::Text(template) => Value::from(template.fill(values)),
            Self::List(items) => items.iter().map(|item| item.fill(values)).collect(),
            Self::Map(fields) => fields
                .iter()
                .map(|(key, field)| (key.clone(), field.fill(values)))
                .collect::<Map<_, _>>()
                .into(),
            Self::Other(value) => value.clone(),
        }
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
        let fill = |text: &str| Template::read(text).fill(&values);
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
