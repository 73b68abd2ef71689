//! Reads values of keys that several parts of a hook have.

use std::collections::BTreeMap;

use cachalot_core::Problem;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{Node, NodeKind, Section};

/// Reads and claims `key`, which must be one of `choices`.
pub(super) fn choice<T: Copy>(
    section: &mut Section<'_>,
    key: &'static str,
    choices: &[(&str, T)],
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let node = section.present(key)?;
    let written = section.text(key, problems)?;
    let found = choices.iter().find(|(name, _)| *name == written);
    if found.is_none() {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        problems.push(
            Problem::new("bad-value", format!("`{key}` cannot be `{written}`"))
                .at(&node.place)
                .help(did_you_mean(written, &names)),
        );
    }
    found.map(|(_, value)| *value)
}

/// Reads and claims `key`, which must be a non-blank text.
pub(super) fn required_text<'a>(
    section: &mut Section<'a>,
    key: &'static str,
    problems: &mut Vec<Problem>,
) -> Option<&'a str> {
    let text = section.required_text(key, problems)?;
    if !text.trim().is_empty() {
        return Some(text);
    }
    let problem = Problem::new("missing-key", format!("`{key}` is blank"))
        .help(format!("write a value for `{key}`"));
    problems.push(match section.node(key) {
        Some(node) => problem.at(&node.place),
        None => problem,
    });
    None
}

/// Reads and claims `key`, a mapping of texts. Numbers and booleans are converted to text.
pub(super) fn texts_by_name(
    section: &mut Section<'_>,
    key: &'static str,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for entry in section.map(key, problems).unwrap_or_default() {
        match text_of(&entry.value) {
            Some(text) => drop(texts.insert(entry.key.clone(), text)),
            None => {
                let name = format!("`{}` in `{key}`", entry.key);
                problems.push(entry.value.wrong_type(&name, "text"));
            }
        }
    }
    texts
}

fn text_of(node: &Node) -> Option<String> {
    match &node.kind {
        NodeKind::Text(text) => Some(text.clone()),
        NodeKind::Null => Some(String::new()),
        NodeKind::List(_) | NodeKind::Map(_) => None,
        _ => Some(node.to_value().to_string()),
    }
}
