//! Relaxed JSON: with comments and trailing commas.

/// Removes comments (`// …`, `/* … */`) and commas before a closing bracket. Strings stay unchanged.
pub(super) fn strip(text: &str) -> String {
    let mut stripped = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string(rest),
            '/' => match comment(rest) {
                Some(length) => {
                    rest = &rest[length..];
                    continue;
                }
                None => 1,
            },
            ']' | '}' => {
                let kept = stripped.trim_end();
                if let Some(kept) = kept.strip_suffix(',') {
                    stripped.truncate(kept.len());
                }
                1
            }
            other => other.len_utf8(),
        };
        stripped.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    stripped
}

/// Returns the length of the string literal at the beginning of the text; the whole length if it is
/// unterminated.
fn string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().enumerate().skip(1).find(|(_, byte)| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Returns the length of the comment at the beginning of the text.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let inner = text.strip_prefix("/*")?;
    inner.find("*/").map(|at| at + 4)
}

#[cfg(test)]
mod tests {
    use super::strip;

    #[test]
    fn comments_and_trailing_commas_go_and_strings_stay() {
        for (text, expected) in [
            ("[1, 2,]", "[1, 2]"),
            ("{\"a\": 1 , // one\n}", "{\"a\": 1 }"),
            ("[/* none */]", "[]"),
            ("{\"a\": \"http://x/,]\",}", "{\"a\": \"http://x/,]\"}"),
            ("[\"\\\"//\", 1,\n]", "[\"\\\"//\", 1]"),
            ("1 / 2", "1 / 2"),
            ("/* open", "/* open"),
            ("\"open // ,]", "\"open // ,]"),
            ("[\"ä\", 'é',]", "[\"ä\", 'é']"),
        ] {
            assert_eq!(strip(text), expected, "{text}");
        }
    }
}
