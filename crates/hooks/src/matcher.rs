//! Matches tool calls: by the name of the tool, and by their result.

use regex::Regex;
use serde::Serialize;

/// A restriction to tool calls with this result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ResultFilter {
    /// Failed calls.
    Failures,
    /// Successful calls.
    Successes,
}

/// The tools that a hook applies to: a case-sensitive regular expression for the whole name; all tools
/// if it is empty or `*`.
#[derive(Debug, Clone, Default)]
pub struct Matcher(Option<Expression>);

#[derive(Debug, Clone)]
struct Expression {
    written: String,
    whole: Regex,
}

impl Matcher {
    /// Matches every tool.
    pub const ALL: Self = Self(None);

    /// Matches tools by their whole name.
    ///
    /// # Errors
    /// `pattern` is no regular expression.
    pub fn new(pattern: &str) -> Result<Self, regex::Error> {
        if pattern.is_empty() || pattern == "*" {
            return Ok(Self::ALL);
        }
        // Compiled alone first: `a)|(b` is valid only within the parentheses below.
        Regex::new(pattern)?;
        let whole = Regex::new(&format!("^(?:{pattern})$"))?;
        Ok(Self(Some(Expression {
            written: pattern.to_owned(),
            whole,
        })))
    }

    /// True if the name of a tool matches.
    #[must_use]
    pub fn matches(&self, tool: &str) -> bool {
        (self.0.as_ref()).is_none_or(|expression| expression.whole.is_match(tool))
    }

    /// The expression as written; empty if all tools match.
    #[must_use]
    pub fn pattern(&self) -> &str {
        (self.0.as_ref()).map_or("", |expression| &expression.written)
    }
}

/// Compares the written expressions.
impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        self.pattern() == other.pattern()
    }
}
