//! Actions of workflows: their description and their parameters.

use cachalot_core::config::{Parameter, Row};
use cachalot_workflow::{OperationMetadata, Registry, actions};

use crate::key_table::{Columns, KeyTable};
use crate::markdown::codes;

/// Actions whose parameters others share: these are named only.
const SHARED: [&str; 2] = ["llm.call", "http.get"];

/// Returns all actions, each once.
pub(crate) fn all(registry: &Registry) -> Vec<OperationMetadata> {
    let named = registry.names().filter_map(|name| {
        let metadata = registry.get(name)?.metadata();
        (metadata.name == name).then(|| metadata.clone())
    });
    named.collect()
}

/// Returns the description of an action, a table of its own parameters, and a line that names those that it shares.
pub(crate) fn text(metadata: &OperationMetadata, old: &str) -> String {
    let mut own = metadata.parameters.table().to_vec();
    let mut lines = Vec::new();
    for base in SHARED.into_iter().filter(|base| *base != metadata.name) {
        lines.extend(take_shared(&mut own, base));
    }
    let rows = metadata.parameters.table().iter();
    let rows = rows.filter(|row| own.iter().any(|parameter| parameter.name == row.name));
    let rows: Vec<Row> = rows
        .map(|parameter| Row {
            key: parameter.name.to_owned(),
            parameter,
        })
        .collect();
    let table = if rows.is_empty() {
        String::new()
    } else {
        KeyTable::new(rows, Columns::Type).text(old) + "\n"
    };
    let text = format!(
        "{}\n\n{table}{}",
        metadata.description.trim(),
        lines.join("\n")
    );
    format!("{}\n", text.trim_end())
}

/// Removes the parameters that are those of `base`, if there are several, and returns a line about them: their names, or
/// those of the others of `base` if these are fewer.
fn take_shared(own: &mut Vec<Parameter>, base: &str) -> Option<String> {
    let registry = actions::builtin();
    let known = registry.get(base)?.metadata().parameters.table();
    let is_in = |parameter: &Parameter, table: &[Parameter]| {
        let mut table = table.iter();
        table.any(|other| (other.name, other.doc) == (parameter.name, parameter.doc))
    };
    let (shared, missing): (Vec<_>, Vec<_>) =
        known.iter().partition(|parameter| is_in(parameter, own));
    if shared.len() < 3 {
        return None;
    }
    own.retain(|parameter| !is_in(parameter, known));
    let names =
        |parameters: &[&Parameter]| codes(parameters.iter().map(|parameter| parameter.name));
    let link = format!("[`{base}`](#{})", base.replace('.', ""));
    Some(if missing.is_empty() {
        format!("And all parameters of {link}.\n")
    } else if missing.len() < shared.len() {
        format!(
            "And the parameters of {link}, except {}.\n",
            names(&missing)
        )
    } else {
        format!("And these of {link}: {}.\n", names(&shared))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_parameters_are_named_and_others_have_rows() {
        let registry = actions::builtin();
        let all = all(&registry);
        let post = all.iter().find(|metadata| metadata.name == "http.post");
        let text = post.map(|metadata| text(metadata, "")).unwrap_or_default();
        assert!(text.contains("| `json` | anything | "), "{text}");
        assert!(
            text.contains("\nAnd all parameters of [`http.get`](#httpget).\n"),
            "{text}"
        );
        assert!(!text.contains("| `url` |"), "{text}");
    }
}
