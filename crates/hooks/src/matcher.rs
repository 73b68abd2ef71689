//! The tools that a hook is for.

use regex::Regex;

/// The tools that a hook is for: a regular expression that matches the whole name; all of them if it
/// is empty or `*`.
#[derive(Debug, Clone, Default)]
pub struct Matcher(Option<Regex>);

impl Matcher {
    /// Every tool.
    pub const ALL: Self = Self(None);

    /// The tools whose whole name matches `pattern`.
    ///
    /// # Errors
    /// It is no regular expression.
    pub fn of(pattern: &str) -> Result<Self, regex::Error> {
        if pattern.is_empty() || pattern == "*" {
            return Ok(Self::ALL);
        }
        Regex::new(&format!("^(?:{pattern})$")).map(|regex| Self(Some(regex)))
    }

    /// Whether a tool of this name is one of them.
    #[must_use]
    pub fn matches(&self, tool: &str) -> bool {
        self.0.as_ref().is_none_or(|regex| regex.is_match(tool))
    }

    /// The expression; empty for every tool.
    #[must_use]
    pub fn pattern(&self) -> &str {
        self.0.as_ref().map_or("", |regex| regex.as_str())
    }
}

/// Whether they are written the same.
impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        self.pattern() == other.pattern()
    }
}
