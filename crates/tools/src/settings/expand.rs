//! `${NAME}` and `${env.NAME}` in settings.

use std::collections::BTreeMap;

use cachalot_core::Problem;
use cachalot_core::suggest::nearest;
use cachalot_core::tree::{Entry, Kind, Node};

/// The tree with environment variables in its texts expanded. `${NAME}` and `${env.NAME}` need the
/// variable to be set, `${NAME:-default}` takes the default if it is not set or empty, `$${` is a
/// literal `${`. What is expanded stays text and is not expanded again.
pub(super) fn expand(
    node: &Node,
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> Node {
    let kind = match &node.kind {
        Kind::Text(text) if text.contains("${") => {
            Kind::Text(expand_text(text, node, environment, problems))
        }
        Kind::List(items) => Kind::List(
            items
                .iter()
                .map(|item| expand(item, environment, problems))
                .collect(),
        ),
        Kind::Map(entries) => Kind::Map(
            entries
                .iter()
                .map(|entry| Entry {
                    value: expand(&entry.value, environment, problems),
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
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            // Of `$${` the first character goes.
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
            return expanded;
        };
        match value_of(inside, environment) {
            Ok(value) => expanded.push_str(value),
            Err(name) => problems.push(unset(name, node, environment)),
        }
        rest = after;
    }
    expanded.push_str(rest);
    expanded
}

/// What stands between the braces, or the name that is not set.
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
