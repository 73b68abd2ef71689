//! Load-time check of an action's arguments against its parameter table.

use cachalot_core::suggest::{did_you_mean, nearest};
use cachalot_core::tree::{MapEntry, Node, NodeKind};
use cachalot_core::{Problem, SourceSpan};
use cachalot_operation::arguments::duplicate_argument;
use serde_json::Value;

use crate::template::is_literal;
use crate::{OperationMetadata, Parameter, ParameterKind, Parameters, codes};

/// Returns the problems of `arguments` as arguments of the action: unknown arguments, missing required
/// arguments, and literals of the wrong kind. Values of templates are unknown at load time; they are
/// checked after rendering. `place` is the place for missing arguments if there are no arguments at all.
pub(crate) fn check_arguments(
    about: &OperationMetadata,
    arguments: Option<&Node>,
    place: &SourceSpan,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let entries = match arguments.map(|node| (node, &node.kind)) {
        None | Some((_, NodeKind::Null)) => &[][..],
        Some((_, NodeKind::Map(entries))) => entries.as_slice(),
        // A single template may render to the whole mapping.
        Some((_, NodeKind::Text(text))) if !is_literal(text) => return problems,
        Some((node, _)) => {
            let shown = format!("the arguments of `{}`", about.name);
            problems.push(node.wrong_type(&shown, "a mapping"));
            return problems;
        }
    };
    let given = arguments.filter(|node| !node.is_null());
    let place = given.map_or_else(|| place.clone(), Node::head);
    if let Parameters::Schema(schema) = &about.parameters {
        check_by_schema(about, schema, entries, &place, &mut problems);
        return problems;
    }
    for (index, entry) in entries.iter().enumerate() {
        let Some(parameter) = about.parameter(&entry.key) else {
            problems.push(unknown(about, entry, &names(about)));
            continue;
        };
        problems.extend(wrong_kind(
            about,
            parameter.name,
            parameter.kind,
            &entry.value,
        ));
        if entries[..index]
            .iter()
            .any(|earlier| parameter.has_name(&earlier.key))
        {
            let problem = Problem::new(codes::CONFLICTING_KEYS, duplicate_argument(parameter))
                .at(&entry.key_place);
            problems.push(problem.help("take one of them out"));
        }
    }
    let is_given = |parameter: &Parameter| {
        let given = entries.iter().find(|entry| parameter.has_name(&entry.key));
        given.is_some_and(|entry| parameter.kind == ParameterKind::Any || !entry.value.is_null())
    };
    for parameter in about
        .parameters
        .table()
        .iter()
        .filter(|parameter| parameter.required && !is_given(parameter))
    {
        problems.push(missing(about, parameter.name, parameter.doc, &place));
    }
    remove_misspelled(&mut problems, entries, &names(about), &place);
    problems
}

/// Removes the reports of missing arguments that unknown ones are misspellings of.
fn remove_misspelled(
    problems: &mut Vec<Problem>,
    entries: &[MapEntry],
    known: &[&str],
    place: &SourceSpan,
) {
    let unknown = entries.iter().filter(|entry| !known.contains(&&*entry.key));
    for entry in unknown {
        if let Some(key) = nearest(&entry.key, known.iter().copied()) {
            Problem::remove_missing_key(problems, key, place);
        }
    }
}

/// Checks the top level of arguments by a JSON Schema; the call checks the rest.
fn check_by_schema(
    about: &OperationMetadata,
    schema: &Value,
    entries: &[MapEntry],
    place: &SourceSpan,
    problems: &mut Vec<Problem>,
) {
    let declared = schema.get("properties").and_then(Value::as_object);
    let known: Vec<&str> = declared
        .into_iter()
        .flat_map(|declared| declared.keys().map(String::as_str))
        .collect();
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    for entry in entries {
        match declared.and_then(|declared| declared.get(&entry.key)) {
            Some(property) => {
                let kind = kind_of(property);
                problems.extend(wrong_kind(about, &entry.key, kind, &entry.value));
            }
            None if is_closed => problems.push(unknown(about, entry, &known)),
            None => {}
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !entries.iter().any(|entry| entry.key == name) {
            let property = declared.and_then(|declared| declared.get(name));
            let doc = property.and_then(|property| property.get("description")?.as_str());
            problems.push(missing(
                about,
                name,
                doc.unwrap_or("the tool needs it"),
                place,
            ));
        }
    }
    // An open schema accepts a misspelled argument, so that only the missing one is reported.
    if is_closed {
        remove_misspelled(problems, entries, &known, place);
    }
}

/// Returns the kind that a JSON Schema requires; any kind if it is not a single type.
fn kind_of(schema: &Value) -> ParameterKind {
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => ParameterKind::Text,
        Some("integer") => ParameterKind::Integer,
        Some("number") => ParameterKind::Number,
        Some("boolean") => ParameterKind::Boolean,
        Some("object") => ParameterKind::Object,
        _ => ParameterKind::Any,
    }
}

fn missing(about: &OperationMetadata, name: &str, doc: &str, place: &SourceSpan) -> Problem {
    let message = format!("`{}` needs `{name}`", about.name);
    Problem::new(codes::MISSING_KEY, message)
        .at(place)
        .help(format!("add `{name}: …`: {}", doc.trim_end_matches('.')))
}

fn names(about: &OperationMetadata) -> Vec<&'static str> {
    let parameters = about.parameters.table().iter();
    parameters.flat_map(Parameter::spellings).collect()
}

fn unknown(about: &OperationMetadata, entry: &MapEntry, known: &[&str]) -> Problem {
    let message = format!("`{}` has no parameter `{}`", about.name, entry.key);
    Problem::new(codes::UNKNOWN_KEY, message)
        .at(&entry.key_place)
        .help(did_you_mean(&entry.key, known))
}

fn wrong_kind(
    about: &OperationMetadata,
    name: &str,
    kind: ParameterKind,
    node: &Node,
) -> Option<Problem> {
    if node.as_text().is_some_and(|text| !is_literal(text)) {
        return None;
    }
    let kind = kind.basic();
    let shown = format!("parameter `{}` of `{}`", name, about.name);
    match kind {
        ParameterKind::Any => return None,
        _ if node.is_null() => return None,
        ParameterKind::Duration(range) => return range.problem(&shown, node),
        _ => {}
    }
    let is_right = is_of_kind(kind, node);
    (!is_right).then(|| node.wrong_type(&shown, kind.expected()))
}

/// True if a literal is accepted for this basic kind. Applies the same conversions as when the action runs.
fn is_of_kind(expected: ParameterKind, node: &Node) -> bool {
    let text = node.as_text().map(str::trim);
    let finite = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
    let number = node.as_f64().or_else(|| finite(text?));
    match expected {
        ParameterKind::Text => node.as_list().is_none() && node.as_map().is_none(),
        ParameterKind::Boolean => {
            let is_word = |word| text.is_some_and(|text| text.eq_ignore_ascii_case(word));
            node.as_boolean().is_some() || is_word("true") || is_word("false")
        }
        ParameterKind::Object => node.as_map().is_some(),
        ParameterKind::List => node.as_list().is_some(),
        ParameterKind::Number => number.is_some(),
        ParameterKind::Integer => number.is_some_and(|number| number.fract() == 0.0),
        _ => false,
    }
}
