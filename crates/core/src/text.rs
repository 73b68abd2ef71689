//! Truncation of texts for messages and prompts, measured in characters.
//!
//! A secret is masked before its text is truncated: a part of a secret would not be recognized.

use std::borrow::Cow;

/// Formats a number with separators between groups of three digits: `1,204,500`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Splits a list of `N` words at its white space. In a constant, another number of words does not compile.
///
/// # Panics
/// The list does not have `N` words.
#[must_use]
pub const fn word_list<const N: usize>(list: &'static str) -> [&'static str; N] {
    let mut words = [""; N];
    let mut rest = list.trim_ascii();
    let mut count = 0;
    while !rest.is_empty() {
        let mut end = 0;
        while end < rest.len() && !rest.as_bytes()[end].is_ascii_whitespace() {
            end += 1;
        }
        let (word, behind) = rest.split_at(end);
        words[count] = word;
        count += 1;
        rest = behind.trim_ascii_start();
    }
    assert!(count == N, "the list has fewer words");
    words
}

/// Returns the first `max` characters.
#[must_use]
pub fn head(text: &str, max: usize) -> &str {
    match text.char_indices().nth(max) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Returns the last `max` characters.
#[must_use]
pub fn tail(text: &str, max: usize) -> &str {
    match text.char_indices().nth_back(max) {
        Some((before, character)) => &text[before + character.len_utf8()..],
        None => text,
    }
}

/// Returns the first `max` characters; `…` follows if characters were left out.
#[must_use]
pub fn truncate(text: &str, max: usize) -> Cow<'_, str> {
    let kept = head(text, max);
    if kept.len() < text.len() {
        Cow::Owned(format!("{kept}…"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns up to `max` characters from character `from` on; `…` stands at each end where characters were left
/// out.
#[must_use]
pub fn window(text: &str, from: usize, max: usize) -> String {
    let rest = &text[head(text, from).len()..];
    let before = if rest.len() < text.len() { "…" } else { "" };
    format!("{before}{}", truncate(rest, max))
}

/// Returns true for a line in place of output that a tool, or a limit on its result, has left out: `[… 20 bytes left
/// out: …]`, `[this result was cut: …]`.
#[must_use]
pub fn is_omission(line: &str) -> bool {
    line.starts_with("[… ") || line.starts_with("[this result was cut: ")
}

/// Returns the text on one line: white space becomes single spaces, and control characters are removed.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        let before = line.len();
        if before > 0 {
            line.push(' ');
        }
        let start = line.len();
        line.extend(word.chars().filter(|character| !character.is_control()));
        if line.len() == start {
            line.truncate(before);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters_at_either_end() {
        for (max, first, last) in [
            (0, "", ""),
            (1, "ä", "€"),
            (2, "äb", "b€"),
            (3, "äb€", "äb€"),
            (9, "äb€", "äb€"),
        ] {
            assert_eq!(head("äb€", max), first);
            assert_eq!(tail("äb€", max), last);
        }
    }

    #[test]
    fn word_lists_are_split_at_white_space() {
        const WORDS: [&str; 3] = word_list("  a b_1\n\tc-d ");
        assert_eq!(WORDS, ["a", "b_1", "c-d"]);
        assert_eq!(word_list::<0>(" "), [""; 0]);
        assert!(std::panic::catch_unwind(|| word_list::<2>("a")).is_err());
        assert!(std::panic::catch_unwind(|| word_list::<2>("a b c")).is_err());
    }

    #[test]
    fn truncation_is_marked_with_an_ellipsis() {
        assert_eq!(truncate("äöü", 3), "äöü");
        assert_eq!(truncate("äöü", 2), "äö…");
        assert_eq!(truncate("", 0), "");
        assert_eq!(window("äöüx", 0, 4), "äöüx");
        assert_eq!(window("äöüx", 1, 2), "…öü…");
        assert_eq!(window("äöüx", 2, 2), "…üx");
        assert_eq!(window("äöüx", 9, 2), "…");
    }

    #[test]
    fn a_line_has_single_spaces_and_no_control_characters() {
        assert_eq!(one_line("  a\t b\r\n\nc\u{1b}[0m "), "a b c[0m");
        assert_eq!(one_line(" \n "), "");
        assert_eq!(one_line("\u{7} a \u{7} b \u{7}"), "a b");
    }
}
