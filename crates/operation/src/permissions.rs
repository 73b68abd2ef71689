//! Which calls may be made: allowed, asked about or denied, by tool and argument.
//!
//! A rule is `TOOL` or `TOOL:ARGUMENT=PATTERN` (more arguments may follow, each behind a colon of
//! its own; `\:` is a colon that separates nothing). In patterns, `*` and `?` stand for any text and
//! any character, `**/` for any directories or none, and everything else for itself.
//!
//! Denials win over questions, questions over permissions. Without a rule, tools that change nothing
//! are allowed and all others are asked about.
//!
//! Denials and questions are read widely, permissions narrowly:
//!
//! | argument | a denial or question matches | a permission matches |
//! |---|---|---|
//! | a path | as it is written, or where it lies, relative to the workspace or absolute, links followed or not | where it lies relative to the workspace, links followed and not |
//! | a command line | as a whole, or one of the commands that shell syntax makes of it | as a whole, and no `*` or `?` stands for shell syntax |
//! | a list | one of its items | all of its items |
//!
//! `path` (also `paths`, `file`, `files`, `directory`) stands for every path that a call touches,
//! whatever its arguments are called: the files in a patch, the directory of a search. Other paths are
//! the arguments `…_path` and `working_directory`. A list of a program and its arguments (`command`)
//! is matched with blanks between them.

mod pattern;
mod rule;
mod subject;

use cachalot_core::Problem;
use cachalot_core::tree::{Node, Section};
use rule::Rule;
use subject::Reading;

use crate::{Arguments, Touches, Workspace};

/// A call, as rules see it.
#[derive(Debug, Clone, Copy)]
pub struct Operation<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Whether the tool changes nothing, as far as this program vouches for it.
    pub read_only: bool,
    /// The arguments.
    pub arguments: &'a Arguments,
    /// What the call touches.
    pub touches: &'a Touches,
}

/// What the rules say of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may be made.
    Allow,
    /// Somebody has to be asked: because of this rule, or because no rule speaks of it.
    Ask(Option<String>),
    /// It must not be made, because of this rule.
    Deny(String),
}

/// The rules of a team.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    allow: Vec<Rule>,
    ask: Vec<Rule>,
    deny: Vec<Rule>,
}

impl Permissions {
    /// Reads `permissions:` with its lists `allow`, `ask` and `deny`.
    pub fn read(node: &Node, problems: &mut Vec<Problem>) -> Self {
        let Some(mut section) = Section::of(node, "`permissions`", problems) else {
            return Self::default();
        };
        let mut rules = |key| match section.list(key, problems) {
            Some(list) => list
                .iter()
                .filter_map(|item| rule::read(item, problems))
                .collect(),
            None => Vec::new(),
        };
        let (allow, ask, deny) = (rules("allow"), rules("ask"), rules("deny"));
        section.finish(problems);
        Self { allow, ask, deny }
    }

    /// Whether a rule under `allow` lets the call be made and has `name` in its text, in any case of
    /// letters: what is protected is not allowed by a rule that happens to match it.
    #[must_use]
    pub fn allows_by_name(
        &self,
        operation: &Operation<'_>,
        workspace: &Workspace,
        name: &str,
    ) -> bool {
        self.allow.iter().any(|rule| {
            rule.text().to_lowercase().contains(name)
                && rule.matches(operation, workspace, Reading::Narrow)
        })
    }

    /// What the rules say of a call.
    #[must_use]
    pub fn judge(&self, operation: &Operation<'_>, workspace: &Workspace) -> Decision {
        let matching = |rules: &[Rule], how| {
            rules
                .iter()
                .find(|rule| rule.matches(operation, workspace, how))
                .map(|rule| rule.text().to_owned())
        };
        if let Some(rule) = matching(&self.deny, Reading::Wide) {
            Decision::Deny(rule)
        } else if let Some(rule) = matching(&self.ask, Reading::Wide) {
            Decision::Ask(Some(rule))
        } else if operation.read_only || matching(&self.allow, Reading::Narrow).is_some() {
            Decision::Allow
        } else {
            Decision::Ask(None)
        }
    }
}
