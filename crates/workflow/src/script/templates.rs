//! Templates in a block, which other runtimes would render and which are plain text here.

use cachalot_core::text::word_list;
use ruff_python_ast::token::TokenKind;
use ruff_text_size::Ranged;

use super::block;

/// Names with which an expression in a template begins.
const NAMES: [&str; 8] = word_list("state variables secrets settings env data checkpoint result");

/// Keywords with which a statement in a template begins.
const STATEMENTS: [&str; 12] = [
    "if", "elif", "else", "endif", "for", "endfor", "set", "macro", "raw", "block", "include",
    "with",
];

/// Returns the first template outside of comments and f-strings: its text and its line in the block
/// (from 1). `is_variable` returns true for the names that `${name}` could stand for.
pub(super) fn first(source: &str, is_variable: impl Fn(&str) -> bool) -> Option<(&str, u32)> {
    let apart = apart(source);
    let mut from = 0;
    while let Some(found) = source[from..].find(['{', '$']) {
        let at = from + found;
        from = at + 1;
        let Some(text) = template_at(&source[at..], &is_variable) else {
            continue;
        };
        if !apart
            .iter()
            .any(|(start, end)| (*start..*end).contains(&at))
        {
            return Some((text, block::line_at(source, at)));
        }
    }
    None
}

/// Detects a template from the first name in the braces and the text after it.
type IsTemplate<'a> = dyn Fn(&str, &str) -> bool + 'a;

/// Returns the template at the beginning of the text.
fn template_at<'s>(text: &'s str, is_variable: &impl Fn(&str) -> bool) -> Option<&'s str> {
    let (inner, end, is_one): (_, _, &IsTemplate<'_>) = if let Some(inner) = text.strip_prefix("{{")
    {
        (inner, "}}", &|name, rest| {
            NAMES.contains(&name) && rest.starts_with(['.', '['])
        })
    } else if let Some(inner) = text.strip_prefix("{%") {
        (inner, "%}", &|name, rest| {
            STATEMENTS.contains(&name) && rest.starts_with([' ', '-', '%', '('])
        })
    } else if let Some(inner) = text.strip_prefix("${") {
        (inner, "}", &|name, rest| {
            is_variable(name) && rest.starts_with('}')
        })
    } else {
        return None;
    };
    let begun = inner.trim_start_matches('-').trim_start_matches(' ');
    let length = begun
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(begun.len());
    let (name, rest) = begun.split_at(length);
    let line = text.split('\n').next().unwrap_or(text);
    let closes = line.get(2..)?.find(end)? + 2 + end.len();
    is_one(name, rest).then(|| &text[..closes])
}

/// Returns the byte ranges of comments and f-strings; if the source is not Python, only those of comments
/// that take a whole line.
fn apart(source: &str) -> Vec<(usize, usize)> {
    let Ok(parsed) = block::parse(source) else {
        let mut start = 0;
        return source
            .split_inclusive('\n')
            .filter_map(|line| {
                let range = (start, start + line.len());
                start = range.1;
                line.trim_start().starts_with('#').then_some(range)
            })
            .collect();
    };
    let mut ranges = Vec::new();
    let mut open = Vec::new();
    for token in parsed.tokens() {
        let (start, end) = (token.start().to_usize(), token.end().to_usize());
        match token.kind() {
            TokenKind::FStringStart => open.push(start),
            TokenKind::FStringEnd => ranges.extend(open.pop().map(|start| (start, end))),
            TokenKind::Comment => ranges.push((start, end)),
            _ => {}
        }
    }
    ranges
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[path = "../../tests/unit/script/templates.rs"]
mod tests;
