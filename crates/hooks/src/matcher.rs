//! The tools that a hook is for.

use regex::Regex;

/// The tools that a hook is for: a regular expression that matches the whole name, upper and lower
/// case apart; all of them if it is empty or `*`.
#[derive(Debug, Clone, Default)]
pub struct Matcher(Option<Expression>);

#[derive(Debug, Clone)]
struct Expression {
    written: String,
    whole: Regex,
}

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
        // By itself first: `a)|(b` is an expression only between our own parentheses.
        Regex::new(pattern)?;
        let whole = Regex::new(&format!("^(?:{pattern})$"))?;
        Ok(Self(Some(Expression {
            written: pattern.to_owned(),
            whole,
        })))
    }

    /// Whether a tool of this name is one of them.
    #[must_use]
    pub fn matches(&self, tool: &str) -> bool {
        (self.0.as_ref()).is_none_or(|expression| expression.whole.is_match(tool))
    }

    /// The expression as it is written; empty for every tool.
    #[must_use]
    pub fn pattern(&self) -> &str {
        (self.0.as_ref()).map_or("", |expression| &expression.written)
    }
}

/// Whether they are written the same.
impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        self.pattern() == other.pattern()
    }
}
