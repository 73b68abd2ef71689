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
/// expanded again. A text with a variable that is not set becomes empty, so that readers report nothing else about it.
pub fn expand(
    node: &Node,
    source: Option<&str>,
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> Node {
    map_texts(node, None, &mut |text, node, key| {
        let mut unset = Vec::new();
        let expanded = expand_text(text, node, source, environment, &mut unset, problems);
        if unset.is_empty() {
            return expanded;
        }
        let unset = unset
            .iter()
            .map(|name| unset_problem(name, node, key, environment));
        problems.extend(unset);
        NodeKind::Null
    })
}

/// Like [`expand`], for parts of a file that may remain unused: a variable that is not set causes a warning,
/// and its text remains. [`unset_variables`] returns its name.
pub fn expand_set(
    node: &Node,
    source: Option<&str>,
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> Node {
    map_texts(node, None, &mut |text, node, key| {
        let mut unset = Vec::new();
        let expanded = expand_text(text, node, source, environment, &mut unset, problems);
        if unset.is_empty() {
            return expanded;
        }
        problems.extend(unset.iter().map(|name| Problem {
            is_warning: true,
            ..unset_problem(name, node, key, environment)
        }));
        NodeKind::Text(text.to_owned())
    })
}

/// Returns the names of the variables that texts of the tree need and that are not set, each once.
#[must_use]
pub fn unset_variables(node: &Node, environment: &BTreeMap<String, String>) -> Vec<String> {
    let mut names = Vec::new();
    map_texts(node, None, &mut |text, node, _| {
        expand_text(text, node, None, environment, &mut names, &mut Vec::new())
    });
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the replacement of a text, of its node and of the key that the text belongs to.
type Replace<'a> = dyn FnMut(&str, &Node, Option<&str>) -> NodeKind + 'a;

/// Returns the tree with each text that contains `${` replaced. `key` is the key that `node` belongs to.
fn map_texts(node: &Node, key: Option<&str>, expanded: &mut Replace<'_>) -> Node {
    let kind = match &node.kind {
        NodeKind::Text(text) if text.contains("${") => expanded(text, node, key),
        NodeKind::List(items) => {
            let items = items.iter();
            NodeKind::List(items.map(|item| map_texts(item, key, expanded)).collect())
        }
        NodeKind::Map(entries) => {
            let entries = entries.iter().map(|entry| MapEntry {
                value: map_texts(&entry.value, Some(&entry.key), expanded),
                ..entry.clone()
            });
            NodeKind::Map(entries.collect())
        }
        other => other.clone(),
    };
    Node {
        place: node.place.clone(),
        kind,
    }
}

/// Expands a text. Names of variables that are not set are added to `unset`.
fn expand_text(
    text: &str,
    node: &Node,
    source: Option<&str>,
    environment: &BTreeMap<String, String>,
    unset: &mut Vec<String>,
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
            Err(name) => unset.push(name.to_owned()),
        }
        rest = after;
    }
    expanded.push_str(rest);
    let is_plain = source.is_some_and(|source| {
        let first = source.as_bytes().get(node.place.start);
        !matches!(first, Some(b'"' | b'\'' | b'|' | b'>'))
    });
    let is_whole = text.starts_with("${") && text.find('}') == Some(text.len() - 1);
    if is_whole && is_plain {
        scalar(&expanded).unwrap_or(NodeKind::Text(expanded))
    } else {
        NodeKind::Text(expanded)
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

fn unset_problem(
    name: &str,
    node: &Node,
    key: Option<&str>,
    environment: &BTreeMap<String, String>,
) -> Problem {
    let near = nearest(name, environment.keys().map(String::as_str));
    let help = match near {
        Some(near) => {
            format!("did you mean `${{{near}}}`? `${{{name}:-default}}` gives it a default")
        }
        None => format!("set it, or give it a default: `${{{name}:-default}}`"),
    };
    let key = key.map_or_else(String::new, |key| format!("`{key}`: "));
    Problem::new(
        "unset-variable",
        format!("{key}the environment variable `{name}` is not set"),
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
