//! Which calls may be made: allowed, asked about or denied, by tool and by what the call touches.
//!
//! A rule is `TOOL` or `TOOL:ARGUMENT=PATTERN` (more arguments may follow, each behind a colon of
//! its own; `\:` is a colon that separates nothing). In patterns, `*` and `?` stand for any text and
//! any character, `**/` for any directories or none, and everything else for itself.
//!
//! Denials win over questions, questions over permissions. Without a rule, tools that change nothing
//! are allowed and all others are asked about.
//!
//! Some arguments stand for what a call touches, whatever its own arguments are called:
//!
//! | argument | stands for |
//! |---|---|
//! | `path`, `paths`, `file`, `files`, `directory` | every path: read, written, searched, or named by a command |
//! | `command`, `cmd` | every command that is run, also by another program of the line |
//! | `url` | every address that is requested |
//! | `host` | the host of every address that is requested, or that a command names |
//!
//! Others are the arguments of their name; `…_path` and `working_directory` are paths.
//!
//! Denials and questions are read widely, permissions narrowly:
//!
//! | argument | a denial or question matches | a permission matches |
//! |---|---|---|
//! | a path | as it is written, or where it lies, relative to the workspace or absolute, links followed or not, letter case aside | where it lies relative to the workspace, links followed and not; never what commands name |
//! | a command | the whole line, or a command that any shell or wrapper makes of it | the whole line, no `*` or `?` stands for shell syntax, and what it runs in its turn is permitted or spelled, too |
//! | a list | one of its items | all of its items |
//!
//! Where a denial or a question can match, but that cannot be told before the call runs (a variable,
//! code in another language), the call is asked about: [`Decision::Unclear`].

mod command_pattern;
mod names;
mod pattern;
mod remembered;
mod rule;
mod search;
mod subject;

use cachalot_core::Problem;
use cachalot_core::tree::{Node, Section};

use pattern::Match;
use rule::Rule;
use subject::Subjects;

use crate::{Arguments, Touches, Workspace};

pub use command_pattern::CommandPattern;
pub use names::Signature;
pub use remembered::Remembered;
pub use search::SearchFilter;
pub use subject::host;

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

/// Decision of the rules about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may be made.
    Allow,
    /// The user has to be asked: because of this rule, or because no rule is about it.
    Ask(Option<String>),
    /// The user has to be asked because it cannot be told whether a rule denies it. Where no user is
    /// asked, and where all questions are answered with yes, it must not be made.
    Unclear {
        /// The rule that may deny it.
        rule: String,
        /// Why it cannot be told.
        why: String,
    },
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
        let call = Subjects::of(operation, workspace);
        self.allow
            .iter()
            .any(|rule| rule.text().to_lowercase().contains(name) && rule.narrow(&call, &|_| false))
    }

    /// Reads permissions that a user keeps beside all files: a mapping whose only key is `allow`.
    pub fn read_allowed(node: &Node, problems: &mut Vec<Problem>) -> Self {
        let Some(mut section) = Section::of(node, "the saved permissions", problems) else {
            return Self::default();
        };
        let rules = section.list("allow", problems).unwrap_or_default();
        let allow = rules
            .iter()
            .filter_map(|item| rule::read(item, problems))
            .collect();
        section.finish(problems);
        Self {
            allow,
            ..Self::default()
        }
    }

    /// Adds what others permit. Denials and questions of this still win.
    pub fn also_allow(&mut self, others: &Self) {
        self.allow.extend(others.allow.iter().cloned());
    }

    /// Decides about a call.
    #[must_use]
    pub fn judge(&self, operation: &Operation<'_>, workspace: &Workspace) -> Decision {
        let is_for = |rules: &[Rule]| rules.iter().any(|rule| rule.is_for(operation.tool));
        if !is_for(&self.deny)
            && !is_for(&self.ask)
            && (operation.read_only || !is_for(&self.allow))
        {
            return match operation.read_only {
                true => Decision::Allow,
                false => Decision::Ask(None),
            };
        }
        let call = Subjects::of(operation, workspace);
        let mut doubt = None;
        for rule in &self.deny {
            match rule.wide(&call) {
                Match::Yes => return Decision::Deny(rule.text().to_owned()),
                Match::Maybe if doubt.is_none() => doubt = Some(rule),
                Match::Maybe | Match::No => {}
            }
        }
        if let Some(rule) = doubt {
            return Decision::Unclear {
                rule: rule.text().to_owned(),
                why: call.why(),
            };
        }
        if let Some(rule) = self.ask.iter().find(|rule| rule.wide(&call) != Match::No) {
            return Decision::Ask(Some(rule.text().to_owned()));
        }
        let others = |command: &str| {
            let permits = |rule: &Rule| rule.permits_command(operation.tool, command);
            self.allow.iter().any(permits)
        };
        if operation.read_only || self.allow.iter().any(|rule| rule.narrow(&call, &others)) {
            Decision::Allow
        } else {
            Decision::Ask(None)
        }
    }
}
