//! A permission rule.

use cachalot_core::tree::Node;
use cachalot_core::{Problem, SourceSpan};
use serde::{Serialize, Serializer};

use super::analyzed_request::{AnalyzedRequest, ArgumentSubject};
use super::pattern::{MatchResult, Pattern};
use super::tool_names::other_names;

/// A rule: a pattern for tools, and patterns for arguments.
#[derive(Clone)]
pub(super) struct Rule {
    text: String,
    place: SourceSpan,
    tool: Pattern,
    arguments: Vec<(String, Pattern)>,
}

/// The tool that runs commands, and the one that runs them in the background. Rules for the first apply to
/// both: a rule that denies a command must not be avoided by running it in the background.
const COMMANDS: &str = "shell";
const BACKGROUND_COMMANDS: &str = "run_background_job";

const EXPECTED_FORM: &str =
    "write a tool (`read_*`), or a tool and arguments (`shell:command=git *`)";

/// Parses a rule; errors are pushed to `problems`.
pub(super) fn read(node: &Node) -> Result<Rule, Problem> {
    match node.as_text() {
        Some(text) => parse(text, &node.place),
        None => Err(node.wrong_type("a rule", "text such as `shell:command=git *`")),
    }
}

/// Parses a rule that is located at `place`.
pub(super) fn parse(text: &str, place: &SourceSpan) -> Result<Rule, Problem> {
    let wrong = |message: String| {
        Problem::new("bad-permission", message)
            .at(place)
            .help(EXPECTED_FORM)
    };
    let pattern = |text: &str| {
        Pattern::new(text).map_err(|error| wrong(format!("`{text}` is no pattern: {error}")))
    };
    let mut parts = split(text).into_iter();
    let tool = parts.next().unwrap_or_default().trim();
    if !is_tool(tool) {
        return Err(wrong(format!(
            "`{text}` does not begin with the name of a tool"
        )));
    }
    let mut arguments: Vec<(&str, String)> = Vec::new();
    for part in parts {
        let argument = part
            .split_once('=')
            .map(|(name, pattern)| (name.trim(), pattern))
            .filter(|(name, _)| is_argument(name));
        match (argument, arguments.last_mut()) {
            (Some((name, pattern)), _) => arguments.push((name, pattern.to_owned())),
            // A colon within a pattern, as in `https://…`.
            (None, Some((_, pattern))) => {
                pattern.push(':');
                pattern.push_str(part);
            }
            (None, None) => {
                return Err(wrong(format!(
                    "`{part}` is not of the form ARGUMENT=PATTERN"
                )));
            }
        }
    }
    let arguments = arguments
        .into_iter()
        .map(|(name, text)| Ok((name.to_owned(), pattern(&text)?)))
        .collect::<Result<_, Problem>>()?;
    Ok(Rule {
        text: text.to_owned(),
        place: place.clone(),
        tool: pattern(tool)?,
        arguments,
    })
}

/// Splits at colons that are not escaped by a backslash.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        if character == ':' && !is_escaped {
            parts.push(&text[start..at]);
            start = at + 1;
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    parts.push(&text[start..]);
    parts
}

fn is_tool(text: &str) -> bool {
    let fits = |character: char| character.is_ascii_alphanumeric() || "_-*?".contains(character);
    !text.is_empty() && text.chars().all(fits)
}

fn is_argument(text: &str) -> bool {
    let fits = |character: char| character.is_alphanumeric() || "_-.".contains(character);
    !text.is_empty() && text.chars().all(fits)
}

/// Formats the rule as written.
impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text.fmt(f)
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl Rule {
    /// The location in its file.
    pub(super) fn place(&self) -> &SourceSpan {
        &self.place
    }

    /// The rule as written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The pattern for tools.
    pub(super) fn tool(&self) -> &Pattern {
        &self.tool
    }

    /// The names of the arguments.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().map(|(name, _)| name.as_str())
    }

    /// True if it applies to calls of this tool: it names the tool, or for a tool that runs commands in the
    /// background the tool that runs them at once.
    pub(super) fn applies_to(&self, tool: &str) -> bool {
        self.tool.matches_any_case(tool)
            || (tool == BACKGROUND_COMMANDS && self.tool.matches_any_case(COMMANDS))
            || other_names(tool).any(|name| self.tool.matches_any_case(name))
    }

    /// True if calls of one tool may match both rules, as far as their tools and arguments tell without a
    /// call.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let share_tool = self.applies_to(other.tool.text()) || other.applies_to(self.tool.text());
        let is_apart = |(name, pattern): &(String, Pattern)| {
            let mut others = other.arguments.iter().filter(|(known, _)| known == name);
            others
                .any(|(_, known)| !known.matches(pattern.text()) && !pattern.matches(known.text()))
        };
        share_tool && !self.arguments.iter().any(is_apart)
    }

    /// Returns a copy for the tools whose names begin with this prefix.
    pub(super) fn with_tool_prefix(&self, prefix: &str) -> Option<Self> {
        let tool = Pattern::new(&format!("{prefix}{}", self.tool.text())).ok()?;
        Some(Self {
            tool,
            ..self.clone()
        })
    }

    /// Matches the call widely (deny, ask). A rule with an argument does not match calls without it. `is_enforced`: see
    /// [`AnalyzedRequest::may_match`].
    pub(super) fn may_match(&self, call: &AnalyzedRequest<'_>, is_enforced: bool) -> MatchResult {
        let mut minimum = MatchResult::from(self.applies_to(call.request.tool));
        for (name, pattern) in &self.arguments {
            if minimum == MatchResult::No {
                break;
            }
            minimum = minimum.min(call.may_match(name, pattern, is_enforced));
        }
        minimum
    }

    /// Matches the call narrowly (allow). `others` returns true if some allow rule covers a command that
    /// is run by another command.
    pub(super) fn always_matches(
        &self,
        call: &AnalyzedRequest<'_>,
        others: &dyn Fn(&str) -> bool,
    ) -> bool {
        self.applies_to(call.request.tool)
            && self
                .arguments
                .iter()
                .all(|(name, pattern)| call.always_matches(name, pattern, others))
    }

    /// True if it allows this command of the tool, with any other arguments.
    pub(super) fn permits_command(&self, tool: &str, command: &str) -> bool {
        self.applies_to(tool)
            && match self.arguments.as_slice() {
                [] => true,
                [(name, pattern)] => {
                    ArgumentSubject::named(name) == ArgumentSubject::Commands
                        && pattern.permits_line(command)
                }
                _ => false,
            }
    }

    /// True if it spells a whole command, without a wildcard, and matches the call.
    pub(super) fn spells(&self, call: &AnalyzedRequest<'_>) -> bool {
        let is_command = |name: &str| ArgumentSubject::named(name) == ArgumentSubject::Commands;
        let mut arguments = self.arguments.iter();
        arguments.any(|(name, pattern)| is_command(name) && pattern.is_literal())
            && self.always_matches(call, &|_| false)
    }

    /// Returns the path patterns of the rule, if it may match files below the directory of a search;
    /// otherwise empty.
    pub(super) fn search_patterns(&self, call: &AnalyzedRequest<'_>) -> Vec<&Pattern> {
        let (paths, others): (Vec<_>, Vec<_>) = self
            .arguments
            .iter()
            .partition(|(name, _)| ArgumentSubject::named(name) == ArgumentSubject::Paths);
        let is_about = self.applies_to(call.request.tool)
            && others
                .iter()
                .all(|(name, pattern)| call.may_match(name, pattern, false) != MatchResult::No);
        if is_about {
            paths.into_iter().map(|(_, pattern)| pattern).collect()
        } else {
            Vec::new()
        }
    }

    /// The patterns of its arguments for paths.
    pub(super) fn path_patterns(&self) -> impl Iterator<Item = &Pattern> {
        let arguments = self.arguments.iter();
        let paths =
            arguments.filter(|(name, _)| ArgumentSubject::named(name) == ArgumentSubject::Paths);
        paths.map(|(_, pattern)| pattern)
    }

    /// True if it has an argument for paths.
    pub(super) fn has_path_argument(&self) -> bool {
        self.path_patterns().next().is_some()
    }
}
