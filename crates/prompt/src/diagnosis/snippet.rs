//! What is shown of a difference.

use cachalot_core::Seals;
use cachalot_core::secret::{MASK, mask_credentials};
use serde_json::Value;

use super::Change;
use super::detect::{Site, floor};
use crate::foreign::Scanner;

/// What is shown, in characters, and how much of that stands before the difference.
const LONGEST: usize = 80;
const BEFORE: usize = 40;

/// Around what is shown, so many bytes are searched for secrets.
const SEARCHED: usize = 2_048;

/// What a difference in bytes looks like.
pub(super) fn change(site: &Site<'_>, seals: &Seals) -> Change {
    let (before, after) = (site.text_before(), site.text_after());
    Change {
        before: shown(before, site.offset, seals),
        after: shown(after, site.offset, seals),
    }
}

/// What a difference in a parameter looks like.
pub(super) fn parameter(name: &str, before: &[u8], after: &[u8], seals: &Seals) -> Option<Change> {
    let of = |tail: &[u8]| {
        let value = member(tail, name);
        value.map_or_else(String::new, |value| {
            let text = format!("\"{name}\":{value}");
            masked(&text, seals).chars().take(LONGEST).collect()
        })
    };
    let change = Change {
        before: of(before),
        after: of(after),
    };
    (change.before != change.after).then_some(change)
}

/// A member of a body's tail.
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

fn masked(text: &str, seals: &Seals) -> String {
    mask_credentials(&seals.redact(text)).into_owned()
}

/// The line around a place in JSON text. Secrets are masked before anything is cut off: half a
/// secret would not be known for one.
fn shown(text: &str, at: usize, seals: &Seals) -> String {
    let at = floor(text, at);
    let start = floor(text, at.saturating_sub(SEARCHED));
    let end = floor(text, at.saturating_add(SEARCHED));
    let whole = masked(&text[start..end], seals);
    let left = masked(&text[start..at], seals);
    if !whole.starts_with(&left) {
        // A secret stands across the place.
        return MASK.to_owned();
    }
    match is_in_string(text, at) {
        true => cut(&whole, left.len()),
        // Where the structure differs, a line says nothing.
        false => {
            let from = last_chars(&left, BEFORE);
            whole[from..].chars().take(LONGEST).collect()
        }
    }
}

/// Whether a place in JSON text is between quotes.
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

/// Where the last so many characters of a text begin.
fn last_chars(text: &str, count: usize) -> usize {
    let last = text.char_indices().rev().take(count).last();
    last.map_or(text.len(), |(at, _)| at)
}

/// Of a string in JSON text, the part of the line around a place that can be shown, read.
fn cut(text: &str, at: usize) -> String {
    let at = floor(text, at);
    let (left, right) = text.split_at(at);
    let begins = [("\\n", 2), ("\"", 1)];
    let begins = begins
        .iter()
        .filter_map(|(sign, len)| Some(left.rfind(sign)? + len));
    let start = begins.max().unwrap_or(0).max(last_chars(left, BEFORE));
    let ends = ["\\n", "\""].iter().filter_map(|sign| right.find(sign));
    let end = ends.min().unwrap_or(right.len());
    let kept = LONGEST.saturating_sub(left[start..].chars().count());
    let mut shown = left[start..].to_owned();
    shown.extend(right[..end].chars().take(kept));
    // An escape may have been cut in two; then the text is shown as it was written.
    let read = serde_json::from_str(&format!("\"{shown}\""));
    read.unwrap_or(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cachalot_core::DigestKey;

    #[test]
    fn the_line_around_the_difference_is_shown() {
        let text = r#"{"text":"You help.\nConversation started: Sunday 10:41\nBe kind.","x":1}"#;
        let at = text.find("1\\nBe").unwrap_or_default();
        assert_eq!(
            shown(text, at, &Seals::none()),
            "Conversation started: Sunday 10:41"
        );
        let long = format!(r#"{{"text":"{}"}}"#, "é".repeat(10_000));
        let at = long.find('é').unwrap_or_default() + 5_001;
        assert_eq!(shown(&long, at, &Seals::none()).chars().count(), LONGEST);
        assert_eq!(shown("", 7, &Seals::none()), "");
    }

    #[test]
    fn no_part_of_a_secret_is_shown() {
        let seals = Seals::under(DigestKey::new([7; 32]));
        seals.learn("hunter2hunter2");
        let text = r#"{"text":"the password is hunter2hunter2, she said"}"#;
        for at in 0..text.len() {
            let shown = shown(text, at, &seals);
            assert!(
                !shown.contains("hunter") && !shown.contains("unter2"),
                "{at}: {shown}"
            );
        }
    }
}
