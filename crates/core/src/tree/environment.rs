//! Environment variables in configuration: `${NAME}` and `${NAME:-default}`.

use std::collections::BTreeMap;

use super::{MapEntry, Node, NodeKind, parse};
use crate::Problem;
use crate::suggest::nearest;

/// Expands environment variables in the texts of a tree.
///
/// - `${NAME}` (or `${env.NAME}`) requires the variable to be set.
/// - `${NAME:-default}` uses the default if the variable is not set or empty.
/// - `$${` is a literal `${`.
///
/// The result is text, with one exception: a text that is exactly one `${…}` and not quoted in `source` (the
/// text of the file) becomes a number or boolean if the expanded text is one in YAML. Expanded values are not
/// expanded again.
pub fn expand(
    node: &Node,
    source: Option<&str>,
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> Node {
    let kind = match &node.kind {
        NodeKind::Text(text) if text.contains("${") => {
            expand_text(text, node, source, environment, problems)
        }
        NodeKind::List(items) => NodeKind::List(
            items
                .iter()
                .map(|item| expand(item, source, environment, problems))
                .collect(),
        ),
        NodeKind::Map(entries) => NodeKind::Map(
            entries
                .iter()
                .map(|entry| MapEntry {
                    value: expand(&entry.value, source, environment, problems),
                    ..entry.clone()
                })
                .collect(),
        ),
        other => other.clone(),
    };
    Node {
        place: node.place.clone(),
        kind,
    }
}

fn expand_text(
    text: &str,
    node: &Node,
    source: Option<&str>,
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> NodeKind {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            expanded.push_str(&rest[..at]);
            expanded.push('{');
            rest = &rest[at + 2..];
            continue;
        }
        expanded.push_str(&rest[..at]);
        let Some((inside, after)) = rest[at + 2..].split_once('}') else {
            problems.push(
                Problem::new("bad-value", "`${` is not closed")
                    .at(&node.place)
                    .help("write `${NAME}`, or `$${` for the characters themselves"),
            );
            return NodeKind::Text(expanded);
        };
        match value_of(inside, environment) {
            Ok(value) => expanded.push_str(value),
            Err(name) => problems.push(unset(name, node, environment)),
        }
        rest = after;
    }
    expanded.push_str(rest);
    let is_plain = source.is_some_and(|source| {
        let first = source.as_bytes().get(node.place.start);
        !matches!(first, Some(b'"' | b'\'' | b'|' | b'>'))
    });
    let is_whole = text.starts_with("${") && text.find('}') == Some(text.len() - 1);
    match is_whole && is_plain {
        true => scalar(&expanded).unwrap_or(NodeKind::Text(expanded)),
        false => NodeKind::Text(expanded),
    }
}

/// Returns the value for the text between the braces, or the name that is not set.
fn value_of<'a>(
    inside: &'a str,
    environment: &'a BTreeMap<String, String>,
) -> Result<&'a str, &'a str> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let name = name.trim();
    let name = name.strip_prefix("env.").unwrap_or(name);
    let set = environment.get(name).map(String::as_str);
    match default {
        Some(default) => Ok(set.filter(|value| !value.is_empty()).unwrap_or(default)),
        None => set.ok_or(name),
    }
}

fn unset(name: &str, node: &Node, environment: &BTreeMap<String, String>) -> Problem {
    let near = nearest(name, environment.keys().map(String::as_str));
    let help = match near {
        Some(near) => {
            format!("did you mean `${{{near}}}`? `${{{name}:-default}}` gives it a default")
        }
        None => format!("set it, or give it a default: `${{{name}:-default}}`"),
    };
    Problem::new(
        "unset-variable",
        format!("the environment variable `{name}` is not set"),
    )
    .at(&node.place)
    .help(help)
}

/// Resolves the text as a YAML number or boolean; `None` if it is neither.
fn scalar(text: &str) -> Option<NodeKind> {
    let kind = parse("", text).ok()?.kind;
    matches!(
        kind,
        NodeKind::Boolean(_) | NodeKind::Integer(_) | NodeKind::Unsigned(_) | NodeKind::Float(_)
    )
    .then_some(kind)
}
