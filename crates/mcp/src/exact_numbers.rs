//! Numbers of shown JSON values in their spelling. A value in memory holds 64-bit integers and floats, which
//! would change `12345678901234567890123` and `1.10`. Such a number is kept as a marked string until the
//! value is shown.

use std::borrow::Cow;
use std::ops::Range;

use cachalot_core::json::{Scanner, numbers};
use serde_json::{Number, Value};

/// Marks a string that holds a number, before and after it. A character of a private use area, which has no
/// meaning in text.
const MARK: char = '\u{F8FF}';

/// Replaces the numbers within these ranges of a JSON text that a value in memory would not keep in their
/// spelling. The ranges are in order.
pub(super) fn kept<'a>(text: &'a str, ranges: &[Range<usize>]) -> Cow<'a, str> {
    let mut kept = String::new();
    let mut copied = 0;
    for range in ranges {
        let Some(part) = text.get(range.clone()) else {
            continue;
        };
        for number in numbers(part) {
            let lexeme = &part[number.clone()];
            if !is_number(lexeme) || is_kept_anyway(lexeme) {
                continue;
            }
            kept.push_str(&text[copied..range.start + number.start]);
            kept.extend(['"', MARK]);
            kept.push_str(lexeme);
            kept.extend([MARK, '"']);
            copied = range.start + number.end;
        }
    }
    match copied {
        0 => Cow::Borrowed(text),
        _ => {
            kept.push_str(&text[copied..]);
            Cow::Owned(kept)
        }
    }
}

/// True if a value in memory keeps the spelling of a number.
fn is_kept_anyway(lexeme: &str) -> bool {
    let number: Option<Number> = serde_json::from_str(lexeme).ok();
    number.is_some_and(|number| number.to_string() == lexeme)
}

fn is_number(lexeme: &str) -> bool {
    let mut scanner = Scanner::new(lexeme.as_bytes());
    scanner.scalar().is_ok() && scanner.end().is_ok()
}

/// Formats a value as JSON, with the numbers that [`kept`] replaced in their spelling.
pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(MARK) {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.as_str();
    let opening = ['"', MARK].iter().collect::<String>();
    while let Some(start) = rest.find(&opening) {
        let (before, marked) = rest.split_at(start);
        shown.push_str(before);
        let inner = &marked[opening.len()..];
        let number = inner.find(MARK).map(|end| &inner[..end]);
        let closed = number.filter(|number| {
            let after = &inner[number.len() + MARK.len_utf8()..];
            // Not a quote within a string, and no key.
            is_number(number)
                && !before.ends_with('\\')
                && after.starts_with('"')
                && !after.starts_with("\":")
        });
        rest = match closed {
            Some(number) => {
                shown.push_str(number);
                &inner[number.len() + MARK.len_utf8() + 1..]
            }
            // A string of the server.
            None => {
                shown.push_str(&opening);
                inner
            }
        };
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(text: &str) -> String {
        let kept = kept(text, &[0..text.len()]);
        shown(&serde_json::from_str(&kept).unwrap())
    }

    #[test]
    fn numbers_keep_their_spelling() {
        for text in [
            "12345678901234567890123",
            r#"{"n":-12345678901234567890123,"m":9007199254740993,"a":[1.10,1e5,-0,1E400,0.5]}"#,
            r#"["1.10","12345678901234567890123",1.10,"\"1.10"]"#,
            r#"{"1.10":1.10}"#,
        ] {
            assert_eq!(round_trip(text), text);
        }
    }

    #[test]
    fn marked_strings_of_a_server_are_not_mistaken_for_other_json() {
        for inner in ["x", "1}", "1\\\"", ""] {
            let text = format!("[\"{MARK}{inner}{MARK}\",1.10]");
            assert_eq!(round_trip(&text), text);
        }
        for text in [
            format!("[\"{MARK}1\",\"{MARK}\",\"{MARK}{MARK}\"]"),
            format!("{{\"{MARK}1{MARK}\":2}}"),
            format!("[\"a\\\"{MARK}1{MARK}\",1.10]"),
        ] {
            assert_eq!(round_trip(&text), text);
        }
    }

    #[test]
    fn only_the_ranges_change() {
        let text = r#"{"a":1.10,"b":1.10}"#;
        assert_eq!(
            kept(text, &[14..18]),
            format!(r#"{{"a":1.10,"b":"{MARK}1.10{MARK}"}}"#)
        );
    }

    proptest! {
        #[test]
        fn every_number_is_shown_as_written(
            numbers in prop::collection::vec("-?(0|[1-9][0-9]{0,40})([.][0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", 0..8)
        ) {
            let text = format!("[{}]", numbers.join(","));
            prop_assert_eq!(round_trip(&text), text);
        }
    }
}
