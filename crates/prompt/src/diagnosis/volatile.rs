//! Words that are likely to differ the next time: times, dates, ids, counts.

use std::ops::Range;

/// What kind of word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Volatile {
    /// A time of day, or a number of seconds since 1970.
    Time,
    /// A date.
    Date,
    /// A UUID, or a long word of digits and letters in disorder.
    Identifier,
}

const NAMES: [&str; 19] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Whether a byte belongs to a word such as `2026-11-21T02:42:00.123+01:00` or `sess_01AB-cd`.
fn of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-:.+/".contains(&byte)
}

/// The word around a place in a text. Letters that belong to an escape (`\n`) are no part of it.
pub(crate) fn word_at(text: &str, at: usize) -> &str {
    let bytes = text.as_bytes();
    let at = at.min(bytes.len());
    let before = bytes[..at].iter().rev().take_while(|byte| of_word(**byte));
    let mut start = at - before.count();
    if start > 0 && bytes[start - 1] == b'\\' && start < bytes.len() {
        start += 1;
    }
    let behind = bytes[at..].iter().take_while(|byte| of_word(**byte));
    let end = at + behind.count();
    text.get(start.min(end)..end).unwrap_or_default()
}

/// What kind of word it is, if it is likely to change.
pub(crate) fn kind(word: &str) -> Option<Volatile> {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if is_time(word) || is_epoch(word) {
        Some(Volatile::Time)
    } else if is_date(word) {
        Some(Volatile::Date)
    } else if is_identifier(word) {
        Some(Volatile::Identifier)
    } else {
        None
    }
}

/// Whether it is the name of a day or a month, in full or cut short.
pub(crate) fn is_part_of_date(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let word = word.to_ascii_lowercase();
    word.len() >= 3 && NAMES.iter().any(|name| name.starts_with(&word))
}

/// `10:41`, `10:41:07.123Z`, or the same behind a date and a `T`.
fn is_time(word: &str) -> bool {
    let of_day = word.rsplit_once(['T', 't']).map_or(word, |(_, time)| time);
    let mut parts = of_day.split(':');
    let digits = |part: Option<&str>, least| {
        part.is_some_and(|part| {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            (least..=2).contains(&digits)
        })
    };
    let whole = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let hour = parts.next();
    hour.is_some_and(whole) && digits(hour, 1) && digits(parts.next(), 2)
}

/// Seconds or milliseconds since 1970 of this century's first half.
fn is_epoch(word: &str) -> bool {
    let digits = word.split('.').next().unwrap_or(word);
    matches!(digits.len(), 10 | 13)
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && matches!(digits.as_bytes()[0], b'1' | b'2')
}

/// `2026-11-21`, `2026/11/21`, `21.11.2026`.
fn is_date(word: &str) -> bool {
    ['-', '/', '.'].into_iter().any(|between| {
        let parts: Vec<&str> = word.split(between).collect();
        let number = |part: &&str| {
            let digits = part.bytes().all(|byte| byte.is_ascii_digit());
            digits && matches!(part.len(), 1 | 2 | 4)
        };
        let year =
            |part: &&&str| part.len() == 4 && matches!(part.get(..2), Some("19" | "20" | "21"));
        parts.len() == 3 && parts.iter().all(number) && parts.iter().filter(year).count() == 1
    })
}

/// A UUID, hexadecimal digits, or letters and digits that take turns as in no word of a language.
fn is_identifier(word: &str) -> bool {
    let id = word.rsplit(['_', ':', '/']).next().unwrap_or(word);
    let signs = id.bytes().filter(|byte| *byte != b'-').count();
    let digits = id.bytes().filter(u8::is_ascii_digit).count();
    let hexadecimal = id
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let plain = id
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if hexadecimal {
        return signs >= 12 && digits >= 2 && digits < signs || id.len() == 36 && signs == 32;
    }
    let mixed = |part: &str| {
        let pairs = part.as_bytes().windows(2);
        let turns = pairs.filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit());
        turns.count() >= 3
    };
    plain && signs >= 16 && digits >= 3 && id.split('-').any(mixed)
}

/// The words of a text that are likely to differ the next time, in order.
pub(crate) fn find(text: &str) -> Vec<(Volatile, Range<usize>)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\\' {
            at += 2;
            continue;
        }
        if !of_word(bytes[at]) {
            at += 1;
            continue;
        }
        let length = bytes[at..]
            .iter()
            .take_while(|byte| of_word(**byte))
            .count();
        let word = at..at + length;
        found.extend(
            text.get(word.clone())
                .and_then(kind)
                .map(|kind| (kind, word)),
        );
        at += length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_change_are_told_from_those_that_stay() {
        for (word, expected) in [
            ("10:41", Some(Volatile::Time)),
            ("9:05:33", Some(Volatile::Time)),
            ("2026-11-21T10:41:07.123Z", Some(Volatile::Time)),
            ("1795228920", Some(Volatile::Time)),
            ("1795228920123", Some(Volatile::Time)),
            ("2026-11-21", Some(Volatile::Date)),
            ("21.11.2026", Some(Volatile::Date)),
            ("(2026/11/21)", Some(Volatile::Date)),
            (
                "3f2b8c1e-9d4a-4c6b-8e21-5a7d0f3b9c42",
                Some(Volatile::Identifier),
            ),
            ("sess_01HQ3K9Z7M2X4V8B", Some(Volatile::Identifier)),
            ("9f86d081884c7d65", Some(Volatile::Identifier)),
            ("claude-sonnet-4-5", None),
            ("claude-sonnet-4-5-20250929", None),
            ("gpt-4.1", None),
            ("internationalization", None),
            ("1.2.3", None),
            ("5:1", None),
            ("4096", None),
            ("127.0.0.1:8080", None),
            ("https://example.org/a", None),
            ("cache-control", None),
            ("deadbeef", None),
            ("", None),
        ] {
            assert_eq!(kind(word), expected, "{word}");
        }
        assert!(is_part_of_date("Monday,") && is_part_of_date("Nov"));
        assert!(!is_part_of_date("may be") && !is_part_of_date("marvellous"));
    }

    #[test]
    fn the_word_around_a_place_does_not_begin_with_an_escape() {
        assert_eq!(word_at(r"started:\n10:41 x", 12), "10:41");
        assert_eq!(word_at("at 10:41.", 7), "10:41.");
        assert_eq!(word_at("", 3), "");
        let found = find(r#"{"a":"x\n2026-11-21 and 10:41"}"#);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
