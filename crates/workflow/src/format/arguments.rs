//! Arguments as written, checked against an action's table before any template is rendered.

use cachalot_core::tree::{Kind, Node};
use cachalot_core::{Place, Problem, suggest};

use crate::action::{About, Parameter, ParameterKind};

/// Everything that is wrong with the mapping of arguments `with` of an action, as far as it can be
/// told without rendering: unknown and missing parameters, literals of the wrong kind. `place` is
/// where to report what is missing if there is no mapping.
#[must_use]
pub fn check_arguments(about: &About, with: Option<&Node>, place: &Place) -> Vec<Problem> {
    let name = about.names.first().copied().unwrap_or("action");
    let mut problems = Vec::new();
    let entries = match with.map(|node| (&node.kind, node)) {
        None | Some((Kind::Null, _)) => &[][..],
        Some((Kind::Map(entries), _)) => entries,
        // One template may give the whole mapping.
        Some((Kind::Text(text), _)) if is_template(text) => return problems,
        Some((_, node)) => {
            problems.push(node.wrong_type("the arguments", "a mapping"));
            return problems;
        }
    };
    let known: Vec<&str> = about.parameters.iter().map(|parameter| parameter.name).collect();
    for entry in entries {
        match about.parameters.iter().find(|parameter| parameter.name == entry.key) {
            None => problems.push(
                Problem::new("unknown-key", format!("`{name}` has no parameter `{}`", entry.key))
                    .at(&entry.key_place)
                    .help(suggest::did_you_mean(&entry.key, &known)),
            ),
            Some(parameter) => problems.extend(check_literal(name, parameter, &entry.value)),
        }
    }
    let place = with.map_or(place, |node| &node.place);
    for parameter in about.parameters.iter().filter(|parameter| parameter.required) {
        let given = entries.iter().find(|entry| entry.key == parameter.name);
        if given.is_none_or(|entry| entry.value.is_null() && parameter.kind != ParameterKind::Any) {
            problems.push(
                Problem::new("missing-key", format!("`{name}` needs `{}`", parameter.name))
                    .at(place)
                    .help(parameter.doc.to_owned()),
            );
        }
    }
    problems
}

fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

fn check_literal(action: &str, parameter: &Parameter, value: &Node) -> Option<Problem> {
    let takes = match (parameter.kind, &value.kind) {
        (_, Kind::Null) | (ParameterKind::Any, _) => return None,
        (_, Kind::Text(text)) if is_template(text) => return None,
        (ParameterKind::Text, Kind::Map(_) | Kind::List(_)) => "text",
        (ParameterKind::Text, _) => return None,
        (ParameterKind::Integer, Kind::Integer(_) | Kind::Unsigned(_)) => return None,
        (ParameterKind::Integer, Kind::Text(text)) if text.trim().parse::<i64>().is_ok() => return None,
        (ParameterKind::Integer, _) => "a whole number",
        (ParameterKind::Number, Kind::Integer(_) | Kind::Unsigned(_) | Kind::Float(_)) => return None,
        (ParameterKind::Number, Kind::Text(text)) if text.trim().parse::<f64>().is_ok() => return None,
        (ParameterKind::Number, _) => "a number",
        (ParameterKind::Boolean, Kind::Boolean(_)) => return None,
        (ParameterKind::Boolean, Kind::Text(text))
            if ["true", "false"].contains(&text.trim().to_lowercase().as_str()) =>
        {
            return None;
        }
        (ParameterKind::Boolean, _) => "true or false",
        (ParameterKind::Object, Kind::Map(_)) | (ParameterKind::List, Kind::List(_)) => return None,
        (ParameterKind::Object, _) => "a mapping",
        (ParameterKind::List, _) => "a list",
    };
    let what = format!("parameter `{}` of `{action}`", parameter.name);
    Some(value.wrong_type(&what, takes))
}
