//! Credentials that a text assigns to a name: `password=…`, `api_key: …`.

use std::ops::Range;

use memchr::memchr2_iter;

use super::names_a_credential;

/// Minimum length of a credential; a shorter value is more likely a word, a type or a count.
const MIN_LENGTH: usize = 8;

/// Returns the values that are assigned to names of credentials, in order. Only values that look random
/// count, so that code and prose are not masked: letters and digits in one word, and not the name of a called
/// function.
pub(super) fn values(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // The end of the last value: a value is not scanned again, because that takes quadratic time for a long
    // one.
    let mut seen = 0;
    for at in memchr2_iter(b'=', b':', text.as_bytes()) {
        if at < seen || !names_a_credential(name_before(&text[..at])) {
            continue;
        }
        let value = value_behind(text, at + 1);
        seen = value.end;
        if is_placeholder(text, &value) {
            found.push(value);
        }
    }
    found
}

/// Returns the name at the end of a text; it may be in quotes, which may be escaped.
fn name_before(text: &str) -> &str {
    let text = text.trim_end_matches([' ', '"', '\'', '\\', '`']);
    let of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let length = text.bytes().rev().take_while(|byte| of_name(byte)).count();
    &text[text.len() - length..]
}

/// Returns the range of the word after an offset; it may be in quotes, which may be escaped.
fn value_behind(text: &str, from: usize) -> Range<usize> {
    let rest = &text[from..];
    let start = from + rest.len() - rest.trim_start_matches([' ', '"', '\'', '\\', '`']).len();
    let of_value = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.+/=~!@#%^*".contains(byte);
    let length = text[start..].bytes().take_while(of_value).count();
    // A full stop ends the sentence.
    let value = text[start..start + length].trim_end_matches(['.', '!']);
    start..start + value.len()
}

fn is_placeholder(text: &str, value: &Range<usize>) -> bool {
    let has_name = text[value.end..].starts_with(['(', '[', '{', '<', ':']);
    let word = &text[value.clone()];
    word.len() >= MIN_LENGTH
        && !has_name
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic())
}
