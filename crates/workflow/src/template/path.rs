//! Expressions that only look up a value: `state.a.b[0]['c']`. They are the most common expressions in
//! agent files, and are evaluated without the engine and without conversions.

use serde_json::Value as Json;

use super::scope::{NAMES, Scope};
use super::step::{Step, take_name};

/// The parts of a lookup: a name, a key, and further keys and indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) name: String,
    pub(super) key: String,
    pub(super) rest: Vec<Step>,
}

impl Path {
    /// Parses an expression; `None` if it is not a plain lookup.
    pub(super) fn parse(expression: &str) -> Option<Self> {
        let mut rest = expression.trim();
        let name =
            take_name(&mut rest).filter(|name| NAMES.contains(name) && *name != "secrets")?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            steps.push(take_step(&mut rest)?);
        }
        let mut steps = steps.into_iter();
        match steps.next()? {
            Step::Key(key) => Some(Self {
                name: name.to_owned(),
                key: key.to_string(),
                rest: steps.collect(),
            }),
            Step::Index(_) => None,
        }
    }

    /// Returns the value of the lookup; `None` if a step does not exist. The engine then reports the
    /// reason.
    pub(super) fn follow<'a>(&self, scope: &'a Scope) -> Option<&'a Json> {
        let mut steps = self.rest.iter();
        steps.try_fold(scope.json(&self.name, &self.key)?, |json, step| {
            step.follow(json)
        })
    }
}

fn take_step(rest: &mut &str) -> Option<Step> {
    if let Some(after) = rest.strip_prefix('.') {
        *rest = after;
        return take_name(rest).map(|name| Step::Key(name.into()));
    }
    let (inside, after) = rest.strip_prefix('[')?.split_once(']')?;
    *rest = after;
    if let Ok(index) = inside.parse() {
        return inside
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some(Step::Index(index));
    }
    let quote = inside
        .chars()
        .next()
        .filter(|quote| matches!(quote, '\'' | '"'))?;
    let key = inside.strip_prefix(quote)?.strip_suffix(quote)?;
    (!key.contains([quote, '\\'])).then(|| Step::Key(key.into()))
}

#[cfg(test)]
#[path = "../../tests/unit/template/path.rs"]
mod tests;
