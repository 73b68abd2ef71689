//! Patterns for model names.

/// A case-insensitive pattern for model names: `*` matches any text, other characters match themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Parses a pattern.
    pub fn new(text: &str) -> Self {
        Self(text.to_lowercase())
    }

    /// True if the pattern matches the whole `name`, or the part after its last `/`.
    pub fn matches(&self, name: &str) -> bool {
        self.matches_lowercase(&name.to_lowercase())
    }

    /// Like [`Pattern::matches`], for a name in small letters.
    pub(crate) fn matches_lowercase(&self, name: &str) -> bool {
        let last = name.rsplit('/').next().unwrap_or(name);
        matches_pattern(&self.0, name) || matches_pattern(&self.0, last)
    }

    /// The only name that it matches, if there is just one.
    pub fn as_name(&self) -> Option<&str> {
        (!self.0.contains('*')).then_some(self.0.as_str())
    }
}

fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn pattern_star_matches_any_text_and_provider_prefix_is_ignored() {
        let matches_pattern = |pattern: &str, name: &str| Pattern::new(pattern).matches(name);
        assert!(matches_pattern("gpt-5*", "gpt-5.6-mini"));
        assert!(matches_pattern("gpt-5*", "openai/GPT-5"));
        assert!(!matches_pattern("gpt-5*", "gpt-4o"));
        assert!(!matches_pattern("gpt-5*", "my-gpt-5"));
        assert!(matches_pattern("*", ""));
        assert!(matches_pattern(
            "*claude-opus-4-5*",
            "anthropic.claude-opus-4-5-20251101-v1:0"
        ));
        assert!(matches_pattern("a*b*c", "a-b-b-c"));
        assert!(!matches_pattern("a*b*c", "a-c-b"));
        assert!(!matches_pattern("a*ba", "a"));
        assert!(matches_pattern("exact", "exact"));
        assert!(!matches_pattern("exact", "exactly"));
    }
}
