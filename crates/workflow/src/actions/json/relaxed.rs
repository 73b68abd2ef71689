//! Relaxed JSON: with comments and trailing commas.

use cachalot_core::json::string_end;

/// Removes comments (`// …`, `/* … */`) and commas before a closing bracket. Strings stay unchanged.
pub(super) fn strip(text: &str) -> String {
    let mut stripped = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_end(rest.as_bytes(), 0).unwrap_or(rest.len()),
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

/// Returns the length of the comment at the beginning of the text.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let inner = text.strip_prefix("/*")?;
    inner.find("*/").map(|at| at + 4)
}

#[cfg(test)]
#[path = "../../../tests/unit/actions/json/relaxed.rs"]
mod tests;
