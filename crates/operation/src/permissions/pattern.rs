//! Patterns of texts.

use regex::Regex;

/// What a shell takes for more than text. In a permission, nothing stands for these but they
/// themselves: otherwise `git *` would allow `git status; rm -rf .`.
pub(super) const SHELL_SYNTAX: &[char] = &[';', '&', '|', '<', '>', '$', '`', '(', ')', '\n', '\r'];

/// A pattern: `*` for any text, `?` for any character, `**/` for any directories or none, `\` before
/// one of these, or before `\` or `:`, for the sign itself.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    any: Regex,
    /// The same, where what stands for any text holds no shell syntax.
    plain: Regex,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// It is too long.
    pub(super) fn new(text: &str) -> Result<Self, regex::Error> {
        Ok(Self {
            any: Regex::new(&expression(text, "."))?,
            plain: Regex::new(&expression(text, &plain_sign()))?,
        })
    }

    /// Whether it stands for this text.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.any.is_match(text)
    }

    /// Whether it stands for this command line, with nothing in it that a shell would take for more
    /// than text unless the pattern spells it.
    pub(super) fn permits_line(&self, line: &str) -> bool {
        self.plain.is_match(line)
    }
}

fn plain_sign() -> String {
    let syntax: String = SHELL_SYNTAX.iter().collect();
    format!("[^{}]", regex::escape(&syntax))
}

/// A pattern as a regular expression. `sign` is what stands for any character.
fn expression(text: &str, sign: &str) -> String {
    let mut expression = r"(?s)\A".to_owned();
    let mut rest = text;
    let mut begins_a_part = true;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("**/").filter(|_| begins_a_part) {
            expression.push_str(&format!("(?:{sign}*/)?"));
            rest = after;
            continue;
        }
        rest = &rest[first.len_utf8()..];
        let next = rest.chars().next();
        let literal = match (first, next) {
            ('*', _) => {
                expression.push_str(&format!("{sign}*"));
                None
            }
            ('?', _) => {
                expression.push_str(sign);
                None
            }
            ('\\', Some(escaped @ ('*' | '?' | '\\' | ':'))) => {
                rest = &rest[escaped.len_utf8()..];
                Some(escaped)
            }
            (other, _) => Some(other),
        };
        if let Some(literal) = literal {
            let mut buffer = [0; 4];
            expression.push_str(&regex::escape(literal.encode_utf8(&mut buffer)));
        }
        begins_a_part = literal == Some('/');
    }
    expression.push_str(r"\z");
    expression
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).unwrap().matches(text)
    }

    #[test]
    fn stars_stand_for_any_text_and_nothing_else_does() {
        assert!(matches("*", "") && matches("*", "a\nb/c"));
        assert!(matches("git *", "git log") && !matches("git *", "git"));
        assert!(matches("a?c", "abc") && matches("a?c", "a/c") && !matches("a?c", "ac"));
        assert!(matches("a[b]{c}.", "a[b]{c}.") && !matches("a.c", "abc"));
        assert!(matches(r"a\*b", "a*b") && !matches(r"a\*b", "axb"));
        assert!(matches(r"C:\dir\*", r"C:\dir*") && matches(r"a\:b\\", r"a:b\"));
        assert!(matches("ä?", "äö"));
    }

    #[test]
    fn two_stars_and_a_slash_are_directories_or_none() {
        for path in [".env", "a/.env", "a/b/.env"] {
            assert!(matches("**/.env", path), "{path}");
        }
        assert!(!matches("**/.env", "a.env"));
        assert!(matches("src/**/x", "src/x") && matches("src/**/x", "src/a/b/x"));
        assert!(matches("src/**", "src/a/b") && !matches("src/**", "srcs/a"));
        assert!(matches("a**/b", "a/b") && !matches("a**/b", "ab"));
    }

    #[test]
    fn in_a_command_line_nothing_stands_for_shell_syntax() {
        let permits = |pattern: &str, line: &str| Pattern::new(pattern).unwrap().permits_line(line);
        assert!(permits("git *", "git log --oneline -- 'a b' \"c\" ~ # x"));
        for sign in SHELL_SYNTAX {
            assert!(!permits("git *", &format!("git log {sign} x")), "{sign:?}");
            assert!(!permits("git ?", &format!("git {sign}")), "{sign:?}");
        }
        assert!(permits("git log | head *", "git log | head -5"));
        assert!(!permits("git log | head *", "git log | head -5 | sh"));
    }
}
