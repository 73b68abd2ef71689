//! Prefixes as ranges, glob patterns, and the words of a query.

/// Returns the smallest text that is larger than every text that begins with `prefix`; `None` if there is
/// none. Texts are compared by their UTF-8 bytes, which is the order of their characters.
pub fn after_prefix(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        let next = match last {
            '\u{D7FF}' => Some('\u{E000}'),
            other => char::from_u32(other as u32 + 1),
        };
        if let Some(next) = next {
            end.push(next);
            return Some(end);
        }
    }
    None
}

/// True if the whole text matches the pattern: `*` matches any text, every other character itself.
#[must_use]
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    let Some((prefix, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(prefix) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let Some(suffix) = parts.pop() else {
        return true;
    };
    for part in parts {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(suffix)
}

/// A word of a query: literal text, or the prefix of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word<'a> {
    /// The text, without a trailing `*`.
    pub text: &'a str,
    /// True if it is the prefix of a word.
    pub prefix: bool,
}

/// Returns the words of a query: the parts between spaces, without a trailing `*`. A part without a letter or
/// digit is not a word.
pub fn words(query: &str) -> impl Iterator<Item = Word<'_>> {
    query
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter_map(|part| {
            let text = part.trim_end_matches('*');
            text.contains(char::is_alphanumeric).then_some(Word {
                text,
                prefix: text.len() < part.len(),
            })
        })
}

/// Converts the query to FTS5 syntax, with every word quoted so that nothing in it is an operator; `None` if
/// there is no word.
pub fn fts5_expression(query: &str) -> Option<String> {
    let mut expression = String::with_capacity(query.len() + 16);
    for word in words(query) {
        if !expression.is_empty() {
            expression.push_str(" AND ");
        }
        expression.push('"');
        expression.push_str(&word.text.replace('"', "\"\""));
        expression.push('"');
        if word.prefix {
            expression.push('*');
        }
    }
    (!expression.is_empty()).then_some(expression)
}

#[cfg(test)]
#[path = "../tests/unit/text.rs"]
mod tests;
