//! Words that are likely to differ in the next request: times, dates, IDs, counts.

use std::ops::Range;

/// The kind of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolatileKind {
    /// A time of day, or a Unix timestamp.
    Time,
    /// A date.
    Date,
    /// A UUID, or a long word of irregularly mixed digits and letters.
    Identifier,
}

const DATE_NAMES: [&str; 19] = [
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

/// True if a byte belongs to a word such as `2026-11-21T02:42:00.123+01:00` or `sess_01AB-cd`.
fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-:.+/".contains(&byte)
}

/// The word around a place in a text. The letter of an escape (`\n`) is not part of it.
pub(crate) fn word_at(text: &str, at: usize) -> &str {
    let bytes = text.as_bytes();
    let at = at.min(bytes.len());
    let before = bytes[..at]
        .iter()
        .rev()
        .take_while(|byte| is_word_byte(**byte));
    let mut start = at - before.count();
    if start > 0 && bytes[start - 1] == b'\\' && start < bytes.len() {
        start += 1;
    }
    let behind = bytes[at..].iter().take_while(|byte| is_word_byte(**byte));
    let end = at + behind.count();
    text.get(start.min(end)..end).unwrap_or_default()
}

/// A word without surrounding punctuation.
pub(crate) fn trimmed(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
}

/// The kind of a word, if it is likely to change.
pub(crate) fn kind(word: &str) -> Option<VolatileKind> {
    let word = trimmed(word);
    if is_time(word) || is_epoch(word) {
        Some(VolatileKind::Time)
    } else if is_date(word) {
        Some(VolatileKind::Date)
    } else if is_identifier(word) {
        Some(VolatileKind::Identifier)
    } else {
        None
    }
}

/// True if the word is the name of a day or a month, in full or abbreviated.
pub(crate) fn is_part_of_date(word: &str) -> bool {
    let word = trimmed(word).to_ascii_lowercase();
    word.len() >= 3 && DATE_NAMES.iter().any(|name| name.starts_with(&word))
}

/// Matches `10:41`, `10:41:07.123Z`, or the same after a date and a `T`.
fn is_time(word: &str) -> bool {
    let of_day = word.rsplit_once(['T', 't']).map_or(word, |(_, time)| time);
    let mut parts = of_day.split(':');
    let digits = |part: Option<&str>, minimum| {
        part.is_some_and(|part| {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            (minimum..=2).contains(&digits)
        })
    };
    let whole = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let hour = parts.next();
    hour.is_some_and(whole) && digits(hour, 1) && digits(parts.next(), 2)
}

/// Matches a Unix timestamp in seconds (10 digits) or milliseconds (13 digits) that begins with 1 or 2: the
/// years 2001 to 2065.
fn is_epoch(word: &str) -> bool {
    let digits = word.split('.').next().unwrap_or(word);
    matches!(digits.len(), 10 | 13)
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && matches!(digits.as_bytes()[0], b'1' | b'2')
}

/// Matches `2026-11-21`, `2026/11/21`, `21.11.2026`.
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

/// Matches a UUID, a long hexadecimal number, or a word in which letters and digits alternate as in no
/// natural language.
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

/// A word that may differ in the next request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) kind: VolatileKind,
    /// The position in bytes.
    pub(crate) range: Range<usize>,
    /// True if the text describes it as current, or the word itself implies it.
    pub(crate) is_current: bool,
}

/// Finds the times, dates and IDs in a text, in order. Times of day and numbers count only if the text
/// describes them as current, which excludes opening hours and telephone numbers. IDs of revisions are
/// excluded, too.
pub(crate) fn find(text: &str) -> Vec<Word> {
    let words = words(text);
    let mut found = Vec::new();
    let mut behind = 0;
    for (index, range) in words.iter().enumerate() {
        if range.start < behind {
            continue;
        }
        let word = trimmed(&text[range.clone()]);
        let context = || context(text, range.start);
        let (kind, is_current, end) = match kind(word) {
            Some(VolatileKind::Time) => {
                if is_timestamp(word) || describes_current(&context()) {
                    (VolatileKind::Time, true, range.end)
                } else {
                    continue;
                }
            }
            Some(VolatileKind::Date) => {
                (VolatileKind::Date, describes_current(&context()), range.end)
            }
            Some(VolatileKind::Identifier) => {
                if is_revision(word, &context()) {
                    continue;
                } else {
                    (VolatileKind::Identifier, true, range.end)
                }
            }
            None => match date_in_words(text, &words[index..]) {
                Some(end) => (VolatileKind::Date, describes_current(&context()), end),
                None => continue,
            },
        };
        behind = end;
        found.push(Word {
            kind,
            range: without_signs(text, range.start..end),
            is_current,
        });
    }
    found
}

/// A range of a text without surrounding punctuation.
fn without_signs(text: &str, range: Range<usize>) -> Range<usize> {
    let word = trimmed(&text[range.clone()]);
    let behind = text[range.clone()].find(word).unwrap_or(0);
    let start = range.start + behind;
    start..start + word.len()
}

/// The words of a text, without escapes.
fn words(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\\' {
            at += 2;
            continue;
        }
        let length = bytes[at..].iter().take_while(|byte| is_word_byte(**byte));
        let length = length.count();
        if length > 0 {
            found.push(at..at + length);
        }
        at += length.max(1);
    }
    found
}

/// True if the word is a date with a time, or a Unix timestamp in milliseconds.
fn is_timestamp(word: &str) -> bool {
    word.contains(['T', 't']) || word.bytes().take_while(u8::is_ascii_digit).count() == 13
}

/// Words that describe a following time or date as current.
const CURRENT_WORDS: [&str; 16] = [
    "now",
    "today",
    "tonight",
    "current",
    "currently",
    "started",
    "starting",
    "begun",
    "began",
    "generated",
    "updated",
    "timestamp",
    "date:",
    "time:",
    "it is",
    "as of",
];

/// Words before an ID that does not change.
const REVISIONS: [&str; 10] = [
    "commit", "revision", "rev", "sha", "sha1", "sha256", "hash", "digest", "checksum", "md5",
];

/// The last words of the line before a place in a text, which may be JSON: in lower case, separated and
/// surrounded by blanks, with colons kept at the end of words.
fn context(text: &str, at: usize) -> String {
    /// Maximum number of bytes and words before a place that are considered.
    const BYTES: usize = 120;
    const WORDS: usize = 8;
    let start = text.floor_char_boundary(at.saturating_sub(BYTES));
    let line = &text[start..at];
    let line = line.rsplit(['\n', '\r']).next().unwrap_or_default();
    let line = line.rfind("\\n").map_or(line, |end| &line[end + 2..]);
    let line = line.to_ascii_lowercase().replace("\":", ": ");
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == ':'));
    let mut last: Vec<&str> = words
        .filter(|word| !word.is_empty())
        .rev()
        .take(WORDS)
        .collect();
    last.reverse();
    format!(" {} ", last.join(" "))
}

fn describes_current(context: &str) -> bool {
    CURRENT_WORDS.iter().any(|now| {
        let mut places = context.match_indices(now);
        places.any(|(at, now)| {
            let behind = context[at + now.len()..].bytes().next();
            context[..at].ends_with(' ') && matches!(behind, Some(b' ' | b':'))
        })
    })
}

/// True if an ID belongs to something immutable, such as a commit.
fn is_revision(word: &str, context: &str) -> bool {
    let before = context.split([' ', ':']).filter(|word| !word.is_empty());
    let own = word
        .split(':')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let mut last = before.rev().take(3);
    REVISIONS.contains(&own.as_str()) || last.any(|word| REVISIONS.contains(&word))
}

/// Returns the end of a date with the month in letters, if these words begin with one: `21 November 2026`,
/// `Nov 21, 2026`. A preceding day of the week is not part of it.
fn date_in_words(text: &str, words: &[Range<usize>]) -> Option<usize> {
    let parts: Vec<&str> = words
        .iter()
        .take(3)
        .map(|word| &text[word.clone()])
        .collect();
    let [one, two, year] = parts[..] else {
        return None;
    };
    let is_year = |word: &str| word.len() == 4 && matches!(word.get(..2), Some("19" | "20" | "21"));
    let dated = is_day(one) && is_month(two) || is_month(one) && is_day(two);
    let year_digits = trimmed(year);
    let whole = year_digits.bytes().all(|byte| byte.is_ascii_digit());
    (dated && whole && is_year(year_digits)).then_some(words[2].end)
}

/// Matches `21`, `21st`.
fn is_day(word: &str) -> bool {
    let word = trimmed(word);
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let ending = word.get(digits..).unwrap_or_default();
    matches!(digits, 1 | 2) && matches!(ending, "" | "st" | "nd" | "rd" | "th")
}

/// Matches the name of a month, in full or its first three letters.
fn is_month(word: &str) -> bool {
    let word = trimmed(word).to_ascii_lowercase();
    let mut months = DATE_NAMES[7..].iter();
    months.any(|month| *month == word || month.get(..3) == Some(word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volatile_words_are_distinguished_from_constant_ones() {
        for (word, expected) in [
            ("10:41", Some(VolatileKind::Time)),
            ("9:05:33", Some(VolatileKind::Time)),
            ("2026-11-21T10:41:07.123Z", Some(VolatileKind::Time)),
            ("1795228920", Some(VolatileKind::Time)),
            ("1795228920123", Some(VolatileKind::Time)),
            ("2026-11-21", Some(VolatileKind::Date)),
            ("21.11.2026", Some(VolatileKind::Date)),
            ("(2026/11/21)", Some(VolatileKind::Date)),
            (
                "3f2b8c1e-9d4a-4c6b-8e21-5a7d0f3b9c42",
                Some(VolatileKind::Identifier),
            ),
            ("sess_01HQ3K9Z7M2X4V8B", Some(VolatileKind::Identifier)),
            ("9f86d081884c7d65", Some(VolatileKind::Identifier)),
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
    fn word_at_excludes_a_preceding_escape() {
        assert_eq!(word_at(r"started:\n10:41 x", 12), "10:41");
        assert_eq!(word_at("at 10:41.", 7), "10:41.");
        assert_eq!(word_at("", 3), "");
        let found = find(r#"{"a":"x\n2026-11-21 and 10:41"}"#);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn volatile_values_are_distinguished_from_constant_ones() {
        for (text, expected) in [
            ("It is 10:41.", vec![("10:41", true)]),
            ("Current time: 16:10", vec![("16:10", true)]),
            ("Now at 16:10", vec![("16:10", true)]),
            (r#"{"text":"Time: 16:10"}"#, vec![("16:10", true)]),
            (r"Today.\nOffice hours 09:00", vec![]),
            ("The train leaves at 16:10", vec![]),
            ("Psalm 23:10", vec![]),
            ("Call +1 415 555 2671 or 2125551234", vec![]),
            ("started: 1795228920", vec![("1795228920", true)]),
            (
                "at 2026-11-21T10:41:07Z",
                vec![("2026-11-21T10:41:07Z", true)],
            ),
            ("commit 9f86d081884c7d659a2feaa0", vec![]),
            ("sha256:9f86d081884c7d659a2feaa0", vec![]),
            ("session 9f86d081884c7d65", vec![("9f86d081884c7d65", true)]),
            ("Knowledge until 2024-10-01", vec![("2024-10-01", false)]),
            ("Today's date is 2026-11-21", vec![("2026-11-21", true)]),
            (
                "Today is Saturday, 21 November 2026",
                vec![("21 November 2026", true)],
            ),
            (
                "Current date: Nov 21, 2026 at 8 PM",
                vec![("Nov 21, 2026", true)],
            ),
            ("Founded on May 3rd, 1999.", vec![("May 3rd, 1999", false)]),
            ("You may 21 times march on", vec![]),
        ] {
            let found = find(text);
            let found: Vec<(&str, bool)> = found
                .iter()
                .map(|word| (&text[word.range.clone()], word.is_current))
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
