//! The surroundings of a hook that is parsed, and the problems that were found.

use cachalot_core::Problem;
use cachalot_core::config::Table;
use cachalot_core::suggest::{did_you_mean, nearest};
use cachalot_core::tree::Node;

use super::plugin::Plugin;
use crate::Dialect;
use crate::builtin::Builtins;

/// The surroundings of the hooks of one file, and the problems that were found in it.
pub(crate) struct ParserContext<'a> {
    pub(super) builtins: &'a Builtins,
    /// Set if the file belongs to another runtime: it may contain features that we do not have.
    pub(super) foreign: bool,
    /// The plugin that the file belongs to.
    pub(crate) plugin: Option<Plugin>,
    /// The errors.
    pub(crate) problems: Vec<Problem>,
    /// The warnings: features that are ignored.
    pub(crate) warnings: Vec<Problem>,
}

impl ParserContext<'_> {
    /// Reports the keys of a mapping that none of its tables declares: an error in our files, an ignored
    /// option in files of other runtimes.
    pub(super) fn report_undeclared(
        &mut self,
        node: &Node,
        tables: &[&'static Table],
        dialect: Dialect,
    ) {
        let is_declared = |key: &str| tables.iter().any(|table| table.parameter(key).is_some());
        let remarks = dialect.vocabulary().comment_keys;
        let entries = node.as_map().unwrap_or_default().iter();
        for entry in entries {
            let key = entry.key.as_str();
            if is_declared(key) || remarks.contains(&key) {
                continue;
            }
            if !self.foreign {
                let keys = tables.iter().flat_map(|table| table.parameters());
                let keys = keys.filter(|parameter| parameter.is_documented());
                let known: Vec<&str> = keys.map(|parameter| parameter.name).collect();
                if let Some(near) = nearest(key, known.iter().copied()) {
                    Problem::remove_missing_key(&mut self.problems, near, &node.head());
                }
                let name = tables.first().map_or("", |table| table.name);
                let problem = Problem::new("unknown-key", format!("unknown key `{key}` in {name}"))
                    .at(&entry.key_place);
                self.problems.push(problem.help(did_you_mean(key, &known)));
            } else if entry.value.as_boolean() != Some(false) && !entry.value.is_null() {
                let message = format!("`{key}` is not honoured: {}", ignored(key));
                self.warnings
                    .push(Problem::new("unsupported-option", message).at(&entry.key_place));
            }
        }
    }

    /// Reports a feature of another runtime that we do not have: a warning in that runtime's files, an
    /// error in ours.
    pub(super) fn unsupported(&mut self, problem: Problem) {
        if self.foreign {
            self.warnings.push(problem)
        } else {
            self.problems.push(problem)
        }
    }
}

/// The consequence of ignoring an option.
fn ignored(option: &str) -> &'static str {
    match option {
        "async" | "asyncRewake" => "the hook is waited for",
        "once" => "the hook runs every time",
        "if" => "the hook runs whether or not it applies",
        _ => "the hook runs without it",
    }
}
