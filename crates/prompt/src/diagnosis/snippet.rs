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
            cut(&masked(&text, seals), 0)
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
    cut(&whole, left.len())
}

/// Of JSON text, the part of the line around a place that can be shown.
fn cut(text: &str, at: usize) -> String {
    let at = floor(text, at);
    let (left, right) = text.split_at(at);
    let from = left
        .char_indices()
        .rev()
        .take(BEFORE)
        .last()
        .map_or(at, |(at, _)| at);
    let line = [
        left.rfind("\\n").map(|at| at + 2),
        left.rfind('"').map(|at| at + 1),
    ];
    let whole_line = line.into_iter().flatten().max().unwrap_or(0);
    let start = from.max(whole_line);
    let ends = right.find("\\n").into_iter().chain(right.find('"')).min();
    // Where the difference is in the structure, a line says nothing.
    let (start, ends) = match ends {
        Some(0) | None => (from, None),
        Some(end) => (start, Some(end)),
    };
    let rest = right.get(..ends.unwrap_or(right.len())).unwrap_or_default();
    let kept = LONGEST.saturating_sub(text[start..at].chars().count());
    let mut shown: String = text[start..at].to_owned();
    shown.extend(rest.chars().take(kept));
    let quoted = format!("\"{}\"", shown.trim_end_matches('\\'));
    let shown = serde_json::from_str(&quoted).unwrap_or(shown);
    shown.chars().take(LONGEST).collect()
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
