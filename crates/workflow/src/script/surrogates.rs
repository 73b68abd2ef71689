//! Lone surrogates in text literals, which Python keeps and the embedded parser replaces.

use ruff_python_ast::StringFlags as _;
use ruff_python_ast::token::{TokenKind, Tokens};
use ruff_text_size::Ranged;

use super::unsupported::Unsupported;

/// Returns the first escape of a lone surrogate in a text literal, and its byte offset. The interpreter
/// would silently replace it by U+FFFD.
pub(super) fn first_lone_surrogate(source: &str, tokens: &Tokens) -> Option<(Unsupported, usize)> {
    tokens
        .iter()
        .filter(|token| {
            let text = matches!(
                token.kind(),
                TokenKind::String | TokenKind::FStringMiddle | TokenKind::TStringMiddle
            );
            let literally = |flags: ruff_python_ast::AnyStringFlags| {
                flags.prefix().is_raw() || flags.is_byte_string()
            };
            text && !token.string_flags().is_some_and(literally)
        })
        .find_map(|token| {
            let start = token.start().to_usize();
            let literal = source.get(start..token.end().to_usize())?;
            let (at, escape) = find_escape(literal)?;
            Some((limitation(escape), start + at))
        })
}

/// Returns the first such escape in the text of a literal.
fn find_escape(literal: &str) -> Option<(usize, &str)> {
    let mut from = 0;
    while let Some(found) = literal[from..].find('\\') {
        let at = from + found;
        let digits = match literal.as_bytes().get(at + 1)? {
            b'u' => 4,
            b'U' => 8,
            _ => 0,
        };
        if let Some(escape) = literal.get(at..at + 2 + digits)
            && let Ok(0xD800..=0xDFFF) = u32::from_str_radix(&escape[2..], 16)
        {
            return Some((at, escape));
        }
        // Skips the character after the backslash, which may be a backslash itself.
        from = at + 1 + literal[at + 1..].chars().next().map_or(0, char::len_utf8);
    }
    None
}

fn limitation(escape: &str) -> Unsupported {
    Unsupported::new(
        format!("`{escape}`, half a surrogate pair, which is no character of any text"),
        Some("write the character itself, or all of its number, as in `\\U0001F600`"),
    )
}

#[cfg(test)]
#[path = "../../tests/unit/script/surrogates.rs"]
mod tests;
