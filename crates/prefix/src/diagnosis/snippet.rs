//! Excerpts that show a difference.

use std::ops::Range;

use cachalot_core::SecretSet;
use cachalot_core::json::Scanner;
use cachalot_core::secret::{MASK, mask_credentials};
use serde_json::Value;

use super::TextChange;
use super::site::DifferenceSite;

/// Maximum length of an excerpt in characters, and the maximum part of it before the difference.
const MAX_EXCERPT_CHARS: usize = 80;
const MAX_CHARS_BEFORE: usize = 40;

/// Number of bytes before and after a place that are searched for secrets.
const SEARCHED: usize = 2_048;

/// Returns excerpts of a difference in bytes.
pub(super) fn change(site: &DifferenceSite<'_>, secret_set: &SecretSet) -> TextChange {
    let (before, after) = (site.text_before(), site.text_after());
    let both = |shown: fn(&str, usize, &SecretSet) -> String| TextChange {
        before: shown(before, site.offset, secret_set),
        after: shown(after, site.offset, secret_set),
    };
    let lines = both(shown);
    if lines.before == lines.after {
        // The difference is the end of the line.
        both(written)
    } else {
        lines
    }
}

/// Returns excerpts of a difference in a parameter.
pub(super) fn parameter(
    name: &str,
    before: &[u8],
    after: &[u8],
    secret_set: &SecretSet,
) -> Option<TextChange> {
    let of = |tail: &[u8]| {
        let value = member(tail, name);
        value.map_or_else(String::new, |value| {
            let text = format!("\"{name}\":{value}");
            masked(&text, secret_set)
                .chars()
                .take(MAX_EXCERPT_CHARS)
                .collect()
        })
    };
    let change = TextChange {
        before: of(before),
        after: of(after),
    };
    (change.before != change.after).then_some(change)
}

/// Returns a member of a body's tail.
pub(super) fn member(tail: &[u8], name: &str) -> Option<Value> {
    let mut members = tail.to_vec();
    *members.first_mut().filter(|first| **first == b',')? = b'{';
    let mut found = None;
    let mut scanner = Scanner::new(&members);
    let read = scanner.members(|other, scanner| {
        let value = scanner.value()?;
        if other == name.as_bytes() {
            found = serde_json::from_slice(value).ok();
        }
        Ok(())
    });
    read.ok().and(found)
}

fn masked(text: &str, secret_set: &SecretSet) -> String {
    mask_credentials(&secret_set.redact(text)).into_owned()
}

/// The line around a place in JSON text, unescaped.
fn shown(text: &str, at: usize, secret_set: &SecretSet) -> String {
    around(text, at, secret_set, true)
}

/// The text around a place in JSON text, escaped as written, so that line ends are visible.
fn written(text: &str, at: usize, secret_set: &SecretSet) -> String {
    around(text, at, secret_set, false)
}

/// The text around a place in JSON text; with `read`, the unescaped line if the place is in a string. Secrets
/// are masked before the text is cut, because a part of a secret is not recognized as one.
fn around(text: &str, at: usize, secret_set: &SecretSet, read: bool) -> String {
    let at = text.floor_char_boundary(at);
    let start = text.floor_char_boundary(at.saturating_sub(SEARCHED));
    let end = text.floor_char_boundary(at.saturating_add(SEARCHED));
    let whole = masked(&text[start..end], secret_set);
    let left = masked(&text[start..at], secret_set);
    if !whole.starts_with(&left) {
        // A secret spans the place.
        return MASK.to_owned();
    }
    if is_in_string(text, at) && read {
        line(&whole, left.len())
    } else {
        // A line is not meaningful if the structure differs.
        as_written(&whole, left.len()).to_owned()
    }
}

/// True if a place in JSON text is between quotes.
fn is_in_string(text: &str, at: usize) -> bool {
    let (mut within, mut escaped) = (false, false);
    for byte in text.as_bytes().iter().take(at) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => within = !within,
            _ => {}
        }
    }
    within
}

/// The part of a line around a place in a JSON string that can be shown, unescaped.
fn line(text: &str, at: usize) -> String {
    let (left, right) = text.split_at(text.floor_char_boundary(at));
    let begins = [("\\n", 2), ("\"", 1)];
    let begins = begins
        .iter()
        .filter_map(|(mark, len)| Some(left.rfind(mark)? + len));
    let start = begins.max().unwrap_or(0);
    let ends = ["\\n", "\""].iter().filter_map(|mark| right.find(mark));
    let end = left.len() + ends.min().unwrap_or(right.len());
    let (text, at) = (&text[start..end], left.len() - start);
    let shown = part(text, at, |_| 1);
    // Text cut from the middle may begin within an escape; it is then shown as written.
    let read = serde_json::from_str(&format!("\"{shown}\""));
    read.unwrap_or_else(|_| as_written(text, at).to_owned())
}

/// The part of a JSON text around a place that can be shown, as written.
fn as_written(text: &str, at: usize) -> &str {
    part(text, at, |character| character.chars().count())
}

/// The part of a JSON text around a place that fits, if `width` is the width of each sign. Escapes are not
/// split.
fn part(text: &str, at: usize, width: impl Fn(&str) -> usize) -> &str {
    let characters = characters(text);
    let middle = characters.partition_point(|character| character.end <= at);
    let mut left = MAX_CHARS_BEFORE;
    let fits = |left: &mut usize, character: &&Range<usize>| {
        let rest = left.checked_sub(width(&text[(*character).clone()]));
        rest.inspect(|rest| *left = *rest).is_some()
    };
    let before = characters[..middle].iter().rev();
    let start = before
        .take_while(|character| fits(&mut left, character))
        .last();
    let start = start.map_or_else(
        || {
            characters
                .get(middle)
                .map_or(text.len(), |character| character.start)
        },
        |character| character.start,
    );
    left += MAX_EXCERPT_CHARS - MAX_CHARS_BEFORE;
    let behind = characters[middle..].iter();
    let end = behind
        .take_while(|character| fits(&mut left, character))
        .last();
    let end = end.map_or_else(
        || {
            middle
                .checked_sub(1)
                .map_or(start, |last| characters[last].end)
        },
        |character| character.end,
    );
    &text[start..end]
}

/// The signs of a JSON text: its characters, and escapes (`\n`, `\u00e9`, and a pair of those for a character
/// beyond U+FFFF).
fn characters(text: &str) -> Vec<Range<usize>> {
    let mut characters = Vec::new();
    let mut at = 0;
    while let Some(first) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let mut end = at + escape(&text[at..]).unwrap_or(first.len_utf8());
        if is_half(&text[at..]) && is_half(&text[end..]) {
            end += escape(&text[end..]).unwrap_or(0);
        }
        characters.push(at..end);
        at = end;
    }
    characters
}

/// Length of the escape at the beginning of a text.
fn escape(text: &str) -> Option<usize> {
    let character = text.strip_prefix('\\')?.chars().next()?;
    let digits = text.get(2..6);
    let whole = digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    Some(match character {
        'u' if whole => 6,
        character => 1 + character.len_utf8(),
    })
}

/// True if a text begins with an escaped surrogate: half of a character beyond U+FFFF.
fn is_half(text: &str) -> bool {
    let digits = text.strip_prefix("\\u").and_then(|rest| rest.get(..4));
    let code = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    code.is_some_and(|code| (0xd800..0xe000).contains(&code))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use cachalot_core::DigestKey;

    #[test]
    fn snippet_shows_the_line_around_the_difference() {
        let text = r#"{"text":"You help.\nConversation started: Sunday 10:41\nBe kind.","x":1}"#;
        let at = text.find("1\\nBe").unwrap_or_default();
        assert_eq!(
            shown(text, at, &SecretSet::empty()),
            "Conversation started: Sunday 10:41"
        );
        let long = format!(r#"{{"text":"{}"}}"#, "é".repeat(10_000));
        let at = long.find('é').unwrap_or_default() + 5_001;
        assert_eq!(
            shown(&long, at, &SecretSet::empty()).chars().count(),
            MAX_EXCERPT_CHARS
        );
        assert_eq!(shown("", 7, &SecretSet::empty()), "");
    }

    #[test]
    fn escapes_are_not_cut() {
        for escaped in ["\\u00e9", "\\ud83d\\udc33", "\\t", "\\\\"] {
            let text = format!(r#"{{"text":"{}"}}"#, escaped.repeat(400));
            let expected: String = serde_json::from_str(&format!("\"{escaped}\"")).unwrap();
            for at in 9 + 100 * escaped.len()..9 + 101 * escaped.len() {
                assert_eq!(
                    shown(&text, at, &SecretSet::empty()),
                    expected.repeat(MAX_EXCERPT_CHARS),
                    "{escaped} {at}"
                );
            }
        }
    }

    #[test]
    fn snippet_contains_no_part_of_a_secret() {
        let secret_set = SecretSet::with_key(DigestKey::new([7; 32]));
        secret_set.learn("hunter2hunter2");
        let text = r#"{"text":"the password is hunter2hunter2, she said"}"#;
        for at in 0..text.len() {
            let shown = shown(text, at, &secret_set);
            assert!(
                !shown.contains("hunter") && !shown.contains("unter2"),
                "{at}: {shown}"
            );
        }
    }
}
