//! Which calls may be made: allowed, asked about or denied, by tool and argument.
//!
//! A rule is `TOOL` or `TOOL:ARGUMENT=PATTERN` (more arguments may follow, each behind a colon of
//! its own); `*` and `?` stand for any text and any character. Denials win over questions, questions
//! over permissions. Without a rule, tools that change nothing are allowed and all others are asked
//! about.

use std::path::{Component, Path, PathBuf};

use cachalot_core::tree::{Node, Section};
use cachalot_core::{Place, Problem};
use cachalot_tools::Arguments;
use globset::{GlobBuilder, GlobMatcher};
use serde_json::Value;

/// What the rules say of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may be made.
    Allow,
    /// Somebody has to be asked.
    Ask,
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

#[derive(Debug, Clone)]
struct Rule {
    text: String,
    tool: GlobMatcher,
    arguments: Vec<ArgumentRule>,
}

#[derive(Debug, Clone)]
struct ArgumentRule {
    name: String,
    pattern: GlobMatcher,
    /// The pattern as written.
    text: String,
}

/// What a shell takes for more than text. A `*` in a permission does not stand for these: otherwise
/// `git *` would allow `git status; rm -rf .`.
const SHELL_SYNTAX: &[char] = &[';', '&', '|', '<', '>', '$', '`', '(', ')', '\n', '\r'];

impl Permissions {
    /// Reads `permissions:` with its lists `allow`, `ask` and `deny`.
    pub fn read(node: &Node, problems: &mut Vec<Problem>) -> Self {
        let Some(mut section) = Section::of(node, "permissions", problems) else {
            return Self::default();
        };
        let mut rules = |key| match section.list(key, problems) {
            Some(list) => list
                .iter()
                .filter_map(|item| rule(item, problems))
                .collect(),
            None => Vec::new(),
        };
        let (allow, ask, deny) = (rules("allow"), rules("ask"), rules("deny"));
        section.finish(problems);
        Self { allow, ask, deny }
    }

    /// What the rules say of a call whose relative paths are below `root`.
    ///
    /// A path is matched as it was written and as it lies below `root`: a denial or a question needs
    /// one of them to match, a permission all, so that `./a/../.env` is `.env`.
    #[must_use]
    pub fn judge(
        &self,
        tool: &str,
        read_only: bool,
        arguments: &Arguments,
        root: &Path,
    ) -> Decision {
        let matches = |rules: &[Rule], how| {
            rules
                .iter()
                .find(|rule| rule.matches(tool, arguments, root, how))
                .map(|rule| rule.text.clone())
        };
        if let Some(rule) = matches(&self.deny, Reading::Wide) {
            Decision::Deny(rule)
        } else if matches(&self.ask, Reading::Wide).is_some() {
            Decision::Ask
        } else if read_only || matches(&self.allow, Reading::Narrow).is_some() {
            Decision::Allow
        } else {
            Decision::Ask
        }
    }
}

fn rule(node: &Node, problems: &mut Vec<Problem>) -> Option<Rule> {
    let Some(text) = node.as_text() else {
        problems.push(node.wrong_type("a rule", "text such as `shell:command=git *`"));
        return None;
    };
    match parse(text, &node.place) {
        Ok(rule) => Some(rule),
        Err(problem) => {
            problems.push(problem);
            None
        }
    }
}

fn parse(text: &str, place: &Place) -> Result<Rule, Problem> {
    let wrong = |message: String| {
        Problem::new("bad-permission", message)
            .at(place)
            .help("write a tool (`read_*`) or a tool and arguments (`shell:command=git *`)")
    };
    let (tool, rest) = match text.split_once(':') {
        Some((tool, rest)) => (tool.trim(), Some(rest)),
        None => (text.trim(), None),
    };
    if tool.is_empty() {
        return Err(wrong(format!("`{text}` names no tool")));
    }
    let glob = |pattern: &str| {
        GlobBuilder::new(pattern)
            .literal_separator(false)
            .backslash_escape(true)
            .build()
            .map(|glob| glob.compile_matcher())
            .map_err(|error| wrong(format!("`{pattern}` is no pattern: {error}")))
    };
    let mut arguments: Vec<(String, String)> = Vec::new();
    for part in rest.into_iter().flat_map(|rest| rest.split(':')) {
        match part.split_once('=') {
            Some((name, pattern)) if !name.trim().is_empty() && !name.contains([' ', '/']) => {
                arguments.push((name.trim().to_owned(), pattern.to_owned()));
            }
            // A colon inside of a pattern.
            _ => match arguments.last_mut() {
                Some((_, pattern)) => {
                    pattern.push(':');
                    pattern.push_str(part);
                }
                None => return Err(wrong(format!("`{part}` is not of the form NAME=PATTERN"))),
            },
        }
    }
    let arguments = arguments
        .into_iter()
        .map(|(name, text)| {
            Ok(ArgumentRule {
                name,
                pattern: glob(&text)?,
                text,
            })
        })
        .collect::<Result<_, Problem>>()?;
    Ok(Rule {
        text: text.to_owned(),
        tool: glob(tool)?,
        arguments,
    })
}

/// How a pattern is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// To forbid: whatever may be meant.
    Wide,
    /// To permit: only what is surely meant.
    Narrow,
}

impl Rule {
    fn matches(&self, tool: &str, arguments: &Arguments, root: &Path, how: Reading) -> bool {
        self.tool.is_match(tool)
            && self.arguments.iter().all(|rule| {
                arguments
                    .get(&rule.name)
                    .is_some_and(|value| rule.matches(value, root, how))
            })
    }
}

impl ArgumentRule {
    fn matches(&self, value: &Value, root: &Path, how: Reading) -> bool {
        let text = plain(value);
        if how == Reading::Narrow && self.name == "command" && value.is_string() {
            // A `*` does not stand for what a shell takes for more than text.
            let unspelt = |sign: &char| text.contains(*sign) && !self.text.contains(*sign);
            if SHELL_SYNTAX.iter().any(unspelt) {
                return false;
            }
        }
        if self.name != "path" && self.name != "working_directory" {
            return self.pattern.is_match(&text);
        }
        let below = below(root, &text);
        match how {
            Reading::Wide => {
                let absolute = root.join(&below);
                self.pattern.is_match(&text)
                    || self.pattern.is_match(&below)
                    || self.pattern.is_match(&absolute)
            }
            Reading::Narrow => self.pattern.is_match(&below),
        }
    }
}

/// A path as it lies below the root, `.` and `..` resolved by their text; one that is not below it
/// stays absolute.
fn below(root: &Path, text: &str) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in root.join(text).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop();
            }
            part => resolved.push(part),
        }
    }
    match resolved.strip_prefix(root) {
        Ok(relative) if relative.as_os_str().is_empty() => PathBuf::from("."),
        Ok(relative) => relative.to_owned(),
        Err(_) => resolved,
    }
}

/// A value as text: lists of texts (argument vectors) with blanks between.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => items
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" "),
        other => other.to_string(),
    }
}
