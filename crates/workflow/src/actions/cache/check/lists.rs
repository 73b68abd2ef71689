//! Checks of `tags` and `depends_on`: a list of texts, or one text.

use cachalot_core::Problem;
use cachalot_core::tree::{Node, NodeKind};

use super::literal;

pub(super) fn check(with: &Node, problems: &mut Vec<Problem>) {
    for key in ["tags", "depends_on"] {
        let Some(node) = with.get(key) else {
            continue;
        };
        let items = match &node.kind {
            NodeKind::Null => continue,
            NodeKind::Text(_) => std::slice::from_ref(node),
            NodeKind::List(items) => items,
            _ => {
                problems.push(node.wrong_type(&format!("`{key}`"), "a list of texts"));
                continue;
            }
        };
        for item in items {
            match literal(Some(item)) {
                _ if !matches!(item.kind, NodeKind::Text(_)) => {
                    problems.push(item.wrong_type(&format!("what `{key}` lists"), "text"));
                }
                Some(path) if key == "depends_on" => problems.extend(dependency(item, path)),
                _ => {}
            }
        }
    }
}

/// Checks one dependency: a literal path of a local file or directory, not a pattern.
fn dependency(node: &Node, path: &str) -> Option<Problem> {
    let wrong = |message: String, help: &str| {
        Some(
            Problem::new("bad-value", message)
                .at(&node.place)
                .help(help.to_owned()),
        )
    };
    if path.contains("://") && !path.starts_with("file://") {
        return wrong(
            format!("`depends_on` takes local paths, not `{path}`"),
            "key on the content with `key_strategy: file_content`, or put its hash into `version`",
        );
    }
    if path.contains(['*', '?']) {
        return wrong(
            format!("`depends_on` takes no patterns: `{path}` is taken as a name"),
            "name the directory to depend on its listing, and each file to depend on its content",
        );
    }
    if path.starts_with('~') {
        return wrong(
            format!("`~` is not expanded in `{path}`"),
            "write the path out, or use {{ env.HOME }}",
        );
    }
    None
}
