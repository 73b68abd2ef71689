//! Patterns of commands, for conditions of hooks.

use super::analyzed_request::match_script;
use super::pattern::{MatchResult, Pattern, escaped};
use crate::resource_access::{Command, CommandText};
use crate::shell::Script;

/// A pattern of commands in the notation of Claude Code: `git *` and `git:*` match `git` and everything
/// that starts with `git `; `*` matches any text.
#[derive(Debug, Clone)]
pub struct CommandPattern(Vec<Pattern>);

impl CommandPattern {
    /// Parses a pattern; `None` if it is too long.
    #[must_use]
    pub fn new(written: &str) -> Option<Self> {
        let begins = written
            .strip_suffix(":*")
            .or_else(|| written.strip_suffix(" *"));
        let texts = match begins {
            Some(begins) => vec![begins.to_owned(), format!("{begins} *")],
            None => vec![written.to_owned()],
        };
        let patterns = texts.iter().map(|text| {
            // Only `*` is special.
            let parts: Vec<String> = text.split('*').map(escaped).collect();
            Pattern::new(&parts.join("*"))
        });
        patterns.collect::<Result<_, _>>().ok().map(Self)
    }

    /// True if a command may run a command that the pattern matches, in any notation. True if this is
    /// unknown.
    #[must_use]
    pub fn may_run(&self, command: &Command) -> bool {
        let whole = match &command.text {
            CommandText::Line(line) => line.trim().to_owned(),
            CommandText::Program(words) => words.join(" "),
        };
        let script = Script::new(command);
        let mut patterns = self.0.iter();
        patterns.any(|pattern| {
            pattern.matches(&whole) || match_script(&script, pattern) != MatchResult::No
        })
    }
}
