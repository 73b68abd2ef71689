//! Credentials that a text gives to a name: `password=…`, `api_key: …`.

use std::ops::Range;

use super::names_a_credential;

/// What is shorter is rather a word, a type or a count.
const SHORTEST: usize = 8;

/// The values that are given to names of credentials, in order. Only values that look made up count,
/// so that code and prose stay as they are: letters and digits in one word, and no call of anything.
pub(super) fn values(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // What has been looked at as a value is not looked at again: that would take long for a long one.
    let mut seen = 0;
    for (at, _) in text.match_indices(['=', ':']) {
        if at < seen || !names_a_credential(name_before(&text[..at])) {
            continue;
        }
        let value = value_behind(text, at + 1);
        seen = value.end;
        if is_made_up(text, &value) {
            found.push(value);
        }
    }
    found
}

/// The name at the end of a text; it may stand in quotes, and those be escaped.
fn name_before(text: &str) -> &str {
    let text = text.trim_end_matches([' ', '"', '\'', '\\', '`']);
    let of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let length = text.bytes().rev().take_while(|byte| of_name(byte)).count();
    &text[text.len() - length..]
}

/// The word behind a place; it may stand in quotes, and those be escaped.
fn value_behind(text: &str, from: usize) -> Range<usize> {
    let rest = &text[from..];
    let start = from + rest.len() - rest.trim_start_matches([' ', '"', '\'', '\\', '`']).len();
    let of_value = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.+/=~!@#%^*".contains(byte);
    let length = text[start..].bytes().take_while(of_value).count();
    // A full stop ends the sentence.
    let value = text[start..start + length].trim_end_matches(['.', '!']);
    start..start + value.len()
}

fn is_made_up(text: &str, value: &Range<usize>) -> bool {
    let is_called = text[value.end..].starts_with(['(', '[', '{', '<', ':']);
    let word = &text[value.clone()];
    word.len() >= SHORTEST
        && !is_called
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic())
}
