//! Messages about lookups of undefined values: which part is undefined, and what the value before it has.

use cachalot_core::SourceSpan;
use cachalot_core::text::truncate;
use minijinja::{Error, ErrorKind};
use serde_json::Value as Json;

use super::path::Path;
use super::prepared::{Prepared, Template, Tree};
use super::step::Step;
use super::{Scope, Templates};

/// The maximum number of names in a list.
const MAX_NAMES: usize = 12;

/// The maximum length of a name in a list, in characters.
const MAX_NAME_CHARS: usize = 60;

impl Path {
    /// Names the first undefined part of the lookup and what could be looked up instead: `` `state.file_path`
    /// is undefined; inputs given: `file` ``. `None` if every part is defined.
    pub(super) fn describe_undefined(&self, scope: &Scope) -> Option<String> {
        let name = &self.name;
        let mut prefix = format!("{name}{}", Step::Key(self.key.as_str().into()));
        let Some(mut json) = scope.json(name, &self.key) else {
            return Some(match fields_of(name, scope) {
                Some(fields) => format!("`{prefix}` is undefined; {fields}"),
                None => format!("`{prefix}` is undefined"),
            });
        };
        for step in &self.rest {
            let before = std::mem::take(&mut prefix);
            prefix = format!("{before}{step}");
            match step.follow(json) {
                Some(found) => json = found,
                None => {
                    let content = content_of(json);
                    return Some(format!("`{prefix}` is undefined; `{before}` {content}"));
                }
            }
        }
        None
    }
}

/// Returns the message about the expression that the error reports as undefined.
pub(super) fn describe(error: &Error, scope: &Scope) -> Option<String> {
    let expression = undefined_expression(error)?;
    Path::parse(expression)?.describe_undefined(scope)
}

/// Returns the expression that the error reports as undefined.
pub(super) fn undefined_expression(error: &Error) -> Option<&str> {
    let detail = error.detail()?;
    let expression = detail.split('`').nth(1);
    expression.filter(|_| error.kind() == ErrorKind::UndefinedError)
}

impl Templates {
    /// Returns the message about the argument `name` of `arguments` if it looks up something undefined, which
    /// gives null, and the place of its template.
    pub(crate) fn undefined_argument(
        &self,
        arguments: &Prepared,
        name: &str,
        scope: &Scope,
    ) -> Option<(String, SourceSpan)> {
        let template = template_of(&arguments.tree, name)?;
        let path = template.path.as_ref()?;
        let value = self.evaluate(&self.shared.strict, template, scope).ok()?;
        if !value.is_undefined() {
            return None;
        }
        Some((path.describe_undefined(scope)?, template.place.clone()))
    }
}

/// Returns the template of the field `name`, at any depth.
fn template_of<'t>(tree: &'t Tree, name: &str) -> Option<&'t Template> {
    let Tree::Map(fields) = tree else {
        return None;
    };
    fields.iter().find_map(|(key, field)| match field {
        Tree::Template(template) if key == name => Some(template),
        field => template_of(field, name),
    })
}

/// Describes the fields of a value that templates can read by its name. Names of secrets and environment
/// variables are not listed.
fn fields_of(name: &str, scope: &Scope) -> Option<String> {
    match name {
        "env" | "secrets" => None,
        "state" => Some(fields_of_state(scope)),
        name => match scope.whole(name)? {
            Json::Object(fields) => Some(format!("`{name}` {}", has(fields.keys()))),
            other => Some(format!("`{name}` {}", content_of(other))),
        },
    }
}

fn fields_of_state(scope: &Scope) -> String {
    let keys: Vec<&String> = scope.state().keys().collect();
    let Some(inputs) = scope.context().inputs() else {
        return format!("`state` {}", has(keys.into_iter()));
    };
    let is_input = |key: &&String| inputs.get(key).is_some();
    let (inputs, set): (Vec<&String>, Vec<&String>) = keys.into_iter().partition(is_input);
    let inputs = match inputs.as_slice() {
        [] => "no inputs given".to_owned(),
        inputs => format!("inputs given: {}", listed(inputs.iter().copied())),
    };
    match set.as_slice() {
        [] => inputs,
        set => format!("{inputs}; set since: {}", listed(set.iter().copied())),
    }
}

fn content_of(json: &Json) -> String {
    match json {
        Json::Object(fields) => has(fields.keys()),
        Json::Array(items) => match items.len() {
            1 => "is a list of 1 value".to_owned(),
            count => format!("is a list of {count} values"),
        },
        Json::String(_) => "is text".to_owned(),
        Json::Number(_) => "is a number".to_owned(),
        Json::Bool(_) => "is true or false".to_owned(),
        Json::Null => "is null".to_owned(),
    }
}

fn has<'k>(keys: impl ExactSizeIterator<Item = &'k String>) -> String {
    match keys.len() {
        0 => "is empty".to_owned(),
        _ => format!("has {}", listed(keys)),
    }
}

fn listed<'k>(names: impl ExactSizeIterator<Item = &'k String>) -> String {
    let others = names.len().saturating_sub(MAX_NAMES);
    let named = names.take(MAX_NAMES);
    let mut named: Vec<String> = named
        .map(|name| format!("`{}`", truncate(name, MAX_NAME_CHARS)))
        .collect();
    if others > 0 {
        named.push(format!("{others} more"));
    }
    named.join(", ")
}
