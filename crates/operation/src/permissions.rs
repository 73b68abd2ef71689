//! Permission rules: allow, ask or deny, by tool and by the resources that a call accesses.
//!
//! A rule is `TOOL` or `TOOL:ARGUMENT=PATTERN` (more arguments may follow, each after a colon; `\:` is a
//! literal colon). In patterns, `*` matches any text, `?` any character and `**/` any directories or
//! none. All other characters match themselves.
//!
//! The names of tools are compared without letter case. The names of docker-agent stand for our tools, too
//! (`list_directory` for `list_dir`).
//!
//! Deny rules take precedence over ask rules, and ask rules over allow rules. Without a matching rule,
//! read-only tools are allowed, and the user is asked about all others.
//!
//! Some arguments stand for resources that the call accesses, independent of the names of its own
//! arguments:
//!
//! | argument | stands for |
//! |---|---|
//! | `path`, `paths`, `file`, `files`, `directory` | every path: read, written, searched, or named by a command |
//! | `command`, `cmd` | every command that is run, also by another program of the line |
//! | `url` | every URL that is requested |
//! | `host` | the host of every URL that is requested, or that a command names |
//!
//! Other names stand for the arguments themselves; `…_path`, `working_directory` and `cwd` are paths.
//!
//! Rules for `shell` also apply to `run_background_job`.
//!
//! Deny and ask rules match widely, allow rules narrowly:
//!
//! | argument | a deny or ask rule matches | an allow rule matches |
//! |---|---|---|
//! | a path | the path as written and its location, relative to the workspace or absolute, with and without following links, ignoring letter case | the location relative to the workspace, both with and without following links; never paths that commands name |
//! | a command | the whole line, or a command that any shell or wrapper would run from it; perhaps, if a word of a line that is not understood might be the command | the whole line, if `*` and `?` match no shell syntax, the line is plain, its programs are in the table of programs whose options are known (`data/programs.txt`), and every command that it runs in turn is allowed or spelled out, too; or the line that a pattern without a wildcard spells |
//! | a list | one of its items | all of its items |
//!
//! If it is unknown before the call whether a deny or ask rule matches (a variable, code in another
//! language), the user is asked: [`PermissionDecision::Unclear`]. Rules are about what a line names, not about what it
//! does: that is the task of a sandbox. Where one is in force ([`AccessRequest::sandboxed`]), a deny rule with a path
//! matches a command only if a word names such a file.

mod analyzed_request;
mod check;
mod command_pattern;
mod grant;
mod pattern;
mod rule;
mod search;
mod tool_names;

use std::path::Path;

use cachalot_core::config::{Custom, ParameterKind as Kind, Settings};
use cachalot_core::tree::Node;
use cachalot_core::{Problem, SourceSpan};
use serde::Serialize;

use analyzed_request::AnalyzedRequest;
use pattern::MatchResult;
use rule::Rule;

use crate::{Arguments, ResourceAccess, Workspace};

pub use analyzed_request::host;
pub use check::ToolSignature;
pub use command_pattern::CommandPattern;
pub use grant::PermissionGrant;
pub use search::SearchFilter;
pub use tool_names::own_name;

/// A call, as rules see it.
#[derive(Debug, Clone, Copy)]
pub struct AccessRequest<'a> {
    /// The name of the tool.
    pub tool: &'a str,
    /// True if we guarantee that the tool changes nothing.
    pub read_only: bool,
    /// The arguments.
    pub arguments: &'a Arguments,
    /// The resources that the call accesses.
    pub resource_access: &'a ResourceAccess,
    /// True if the programs of the call run in a sandbox: the system keeps them from protected and denied files.
    pub sandboxed: bool,
}

/// The decision of the rules about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionDecision {
    /// The call is allowed.
    Allow,
    /// The user must approve the call: because of this rule, or because no rule matches.
    Ask(Option<String>),
    /// The user must approve the call because a deny rule may match it. If the user cannot be asked, or
    /// if all calls are approved automatically, the call must be denied.
    Unclear {
        /// The rule that may deny the call.
        rule: String,
        /// The reason why the match is unknown.
        why: String,
    },
    /// The call is denied by this rule.
    Deny(String),
}

/// A rule in a list.
#[derive(Debug, Clone, Copy)]
pub struct ListedRule<'a> {
    /// `deny`, `ask` or `allow`.
    pub kind: &'static str,
    /// The rule as it is written.
    pub text: &'a str,
    /// Its place.
    pub place: &'a SourceSpan,
}

/// The tools that agents may call, as rules `TOOL` or `TOOL:ARGUMENT=PATTERN`.
///
/// Serialized as written, for keys.
#[derive(Debug, Clone, Default, Serialize, Settings)]
#[settings(name = "`permissions`")]
pub struct Permissions {
    /// Calls that run without a question.
    #[setting(kind = RULES, with = rules)]
    allow: Vec<Rule>,
    /// Calls that the user has to approve; refused if the user cannot be asked.
    #[setting(kind = RULES, with = rules)]
    ask: Vec<Rule>,
    /// Calls that are refused.
    #[setting(kind = RULES, with = rules)]
    deny: Vec<Rule>,
}

const RULES: Kind = Kind::Custom(&Custom {
    schema: Some(|| Kind::Texts.schema(false)),
    check: |entry, problems| {
        Kind::List.check(entry, problems);
        for item in entry.value.as_list().unwrap_or_default() {
            problems.extend(rule::read(item).err());
        }
    },
});

/// Returns the valid rules of a list.
fn rules(node: &Node) -> Option<Vec<Rule>> {
    let items = node.as_list()?.iter();
    Some(items.filter_map(|item| rule::read(item).ok()).collect())
}

/// The permissions that a user saved outside of configuration files.
#[derive(Debug, Settings)]
#[settings(name = "the saved permissions")]
struct SavedPermissions {
    #[setting(kind = RULES, with = rules)]
    allow: Vec<Rule>,
}

impl Permissions {
    /// Parses `permissions:` with its lists `allow`, `ask` and `deny`.
    pub fn read(node: &Node, problems: &mut Vec<Problem>) -> Self {
        <Self as Settings>::read(node, problems).unwrap_or_default()
    }

    /// Returns the rules in the order in which they decide.
    pub fn in_order(&self) -> impl Iterator<Item = ListedRule<'_>> {
        let kinds = [
            ("deny", &self.deny),
            ("ask", &self.ask),
            ("allow", &self.allow),
        ];
        kinds.into_iter().flat_map(|(kind, rules)| {
            rules.iter().map(move |rule| ListedRule {
                kind,
                text: rule.text(),
                place: rule.place(),
            })
        })
    }

    /// True if an `allow` rule matches the call and contains `name` in its text, ignoring letter case.
    /// For protected items, which a general rule must not allow by accident.
    #[must_use]
    pub fn allows_by_name(
        &self,
        request: &AccessRequest<'_>,
        workspace: &Workspace,
        name: &str,
    ) -> bool {
        let call = AnalyzedRequest::new(request, workspace);
        self.allow.iter().any(|rule| {
            rule.text().to_lowercase().contains(name) && rule.always_matches(&call, &|_| false)
        })
    }

    /// True if an `allow` rule spells the command of the call, without a wildcard.
    #[must_use]
    pub fn spells_command(&self, request: &AccessRequest<'_>, workspace: &Workspace) -> bool {
        let call = AnalyzedRequest::new(request, workspace);
        self.allow.iter().any(|rule| rule.spells(&call))
    }

    /// Returns the reason why a call of commands matches no `allow` rule with a wildcard, if one names them.
    #[must_use]
    pub fn allow_obstacle(
        &self,
        request: &AccessRequest<'_>,
        workspace: &Workspace,
    ) -> Option<String> {
        let has_pattern =
            |rule: &&Rule| rule.applies_to(request.tool) && rule.arguments().next().is_some();
        self.allow.iter().find(has_pattern)?;
        let call = AnalyzedRequest::new(request, workspace);
        Some(call.obstacle()?.to_owned())
    }

    /// Parses the permissions that a user saved outside of configuration files: a mapping with the only
    /// key `allow`.
    pub fn read_allowed(node: &Node, problems: &mut Vec<Problem>) -> Self {
        let saved = SavedPermissions::read(node, problems);
        Self {
            allow: saved.map(|saved| saved.allow).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Adds the allow rules of `others`. Deny and ask rules of `self` still take precedence.
    pub fn also_allow(&mut self, others: &Self) {
        self.allow.extend(others.allow.iter().cloned());
    }

    /// Adds the deny rules of `others`.
    pub fn also_deny(&mut self, others: &Self) {
        self.deny.extend(others.deny.iter().cloned());
    }

    /// Denies all tools a folder and everything in it.
    ///
    /// # Errors
    /// The path is too long for a pattern.
    pub fn deny_folder(&mut self, folder: &Path, place: &SourceSpan) -> Result<(), Problem> {
        let mut path = String::new();
        for character in folder.to_string_lossy().chars() {
            if "*?\\:".contains(character) {
                path.push('\\');
            }
            path.push(character);
        }
        let path = path.trim_end_matches('/');
        for pattern in [path.to_owned(), format!("{path}/*")] {
            self.deny
                .push(rule::parse(&format!("*:path={pattern}"), place)?);
        }
        Ok(())
    }

    /// Lets rules with the bare name of a tool of an MCP server apply to it: a rule that names none of `known`
    /// applies to the tool of that name of each server. `prefixes` are those of the servers' tools
    /// (`mcp_github_`).
    pub fn name_server_tools(&mut self, prefixes: &[String], known: &[ToolSignature]) {
        for rules in [&mut self.allow, &mut self.ask, &mut self.deny] {
            *rules = std::mem::take(rules)
                .into_iter()
                .flat_map(|rule| check::for_servers(rule, prefixes, known))
                .collect();
        }
    }

    /// Returns warnings about `allow` rules for calls that an `ask` rule matches, too: the user is asked about
    /// them, while docker-agent allows them.
    #[must_use]
    pub fn order_warnings(&self) -> Vec<Problem> {
        let warning = |allow: &Rule| {
            let ask = self.ask.iter().find(|ask| ask.overlaps(allow))?;
            let message = format!(
                "calls that both `{}` under allow and `{}` under ask match are asked about",
                allow.text(),
                ask.text()
            );
            let warning = Problem::warning("permission-order", message);
            Some(warning.at(allow.place()).help(
                "ask precedes allow: narrow the rule under ask, or take it out, because calls that no rule matches are asked about anyway",
            ))
        };
        self.allow.iter().filter_map(warning).collect()
    }

    /// The texts of the deny rules, sorted: an input of every result that is stored and given to callers
    /// without another check.
    #[must_use]
    pub fn denied(&self) -> Vec<&str> {
        let mut texts: Vec<&str> = self.deny.iter().map(Rule::text).collect();
        texts.sort_unstable();
        texts.dedup();
        texts
    }

    /// Decides about a call.
    #[must_use]
    pub fn judge(&self, request: &AccessRequest<'_>, workspace: &Workspace) -> PermissionDecision {
        // The usual case: no rule is about the tool, so that the commands of the call need not be parsed.
        let applies_to = |rules: &[Rule]| rules.iter().any(|rule| rule.applies_to(request.tool));
        if !applies_to(&self.deny)
            && !applies_to(&self.ask)
            && (request.read_only || !applies_to(&self.allow))
        {
            return if request.read_only {
                PermissionDecision::Allow
            } else {
                PermissionDecision::Ask(None)
            };
        }
        let call = AnalyzedRequest::new(request, workspace);
        let mut doubt = None;
        // A doubt does not end the search: a later rule may deny the call for certain.
        for rule in &self.deny {
            match rule.may_match(&call, request.sandboxed) {
                MatchResult::Yes => return PermissionDecision::Deny(rule.text().to_owned()),
                MatchResult::Maybe if doubt.is_none() => doubt = Some(rule),
                MatchResult::Maybe | MatchResult::No => {}
            }
        }
        if let Some(rule) = doubt {
            return PermissionDecision::Unclear {
                rule: rule.text().to_owned(),
                why: call.unclear_reason(),
            };
        }
        // A rule that may match asks, too. The sandbox enforces deny rules only, so that it settles no doubt here.
        if let Some(rule) = self
            .ask
            .iter()
            .find(|rule| rule.may_match(&call, false) != MatchResult::No)
        {
            return PermissionDecision::Ask(Some(rule.text().to_owned()));
        }
        let others = |command: &str| {
            let permits = |rule: &Rule| rule.permits_command(request.tool, command);
            self.allow.iter().any(permits)
        };
        if request.read_only
            || self
                .allow
                .iter()
                .any(|rule| rule.always_matches(&call, &others))
        {
            PermissionDecision::Allow
        } else {
            PermissionDecision::Ask(None)
        }
    }
}
