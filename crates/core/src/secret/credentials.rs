//! Detection of credentials by their names and shapes, for secrets that are not known.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use memchr::memmem;

use super::{MASK, SecretSet};

mod addresses;
mod assignments;

/// True if values of fields of that name are credentials, regardless of their shape: `password`,
/// `db_password`, `X-Auth-Token`, `openaiApiKey`. Case and separators do not matter.
pub(crate) fn names_a_credential(name: &str) -> bool {
    const ENDINGS: [&str; 16] = [
        "authorization",
        "apikey",
        "accesskey",
        "secretkey",
        "privatekey",
        "token",
        "password",
        "passwords",
        "passwd",
        "passphrase",
        "secret",
        "secrets",
        "cookie",
        "cookies",
        "credential",
        "credentials",
    ];
    // These count as a whole word at any position of the name: `password_again`.
    const WORDS: [&str; 5] = [
        "authorization",
        "password",
        "passwd",
        "passphrase",
        "secret",
    ];
    ENDINGS.iter().any(|ending| ends_with(name, ending))
        || name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// True if the letters and digits of a name, in lower case, end with `ending`.
fn ends_with(name: &str, ending: &str) -> bool {
    let mut signs = signs(name).rev();
    ending.bytes().rev().all(|byte| signs.next() == Some(byte))
}

/// The letters and digits of a name, in lower case.
fn signs(name: &str) -> impl DoubleEndedIterator<Item = u8> {
    let signs = name.bytes().filter(u8::is_ascii_alphanumeric);
    signs.map(|byte| byte.to_ascii_lowercase())
}

/// True if a word has the shape of a provider's credential.
fn looks_like_a_credential(word: &str) -> bool {
    const PREFIXES: [(&str, usize); 19] = [
        ("sk-", 20),
        ("pk-", 20),
        ("sk_live_", 20),
        ("sk_test_", 20),
        ("rk_live_", 20),
        ("rk_test_", 20),
        ("whsec_", 20),
        ("ghp_", 20),
        ("gho_", 20),
        ("ghs_", 20),
        ("github_pat_", 20),
        ("glpat-", 20),
        ("xoxb-", 20),
        ("xoxp-", 20),
        ("AKIA", 20),
        ("ASIA", 20),
        ("AIza", 30),
        ("llx-", 20),
        ("hf_", 20),
    ];
    PREFIXES
        .iter()
        .any(|(prefix, minimum)| word.starts_with(prefix) && word.len() >= *minimum)
        || (word.starts_with("eyJ") && word.matches('.').count() == 2 && word.len() > 40)
}

/// Masks the credentials that [`find_credentials`] finds in `text`, and leaves the rest readable.
#[must_use]
pub fn mask_credentials(text: &str) -> Cow<'_, str> {
    let found = find_credentials(text);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut from = 0;
    for range in found {
        shown.push_str(&text[from..range.start]);
        shown.push_str(MASK);
        from = range.end;
    }
    shown.push_str(&text[from..]);
    Cow::Owned(shown)
}

/// Returns the ranges of a text that look like credentials, in order and without overlaps:
///
/// - words of the shape of a provider's key;
/// - the text after `Bearer` and `Basic`;
/// - values assigned to the name of a credential (`password=[secret]`, `api_key: [secret]`) that look random;
/// - in URLs, the password (`https://bob:[secret]@host`) and the values of parameters that sign or authorize
///   (`?access_token=[secret]`, also `key`, `sig` and `signature`);
/// - the whole text, if it contains a private key.
#[must_use]
pub fn find_credentials(text: &str) -> Vec<Range<usize>> {
    let contains = |what: &str| memmem::find(text.as_bytes(), what.as_bytes()).is_some();
    if contains("-----BEGIN ") && contains("PRIVATE KEY-----") {
        return std::iter::once(0..text.len()).collect();
    }
    let words: BTreeSet<&str> = long_words(text)
        .filter(|word| looks_like_a_credential(word))
        .collect();
    let mut found: Vec<Range<usize>> = words
        .into_iter()
        .flat_map(|word| text.match_indices(word))
        .map(|(at, word)| at..at + word.len())
        .collect();
    for scheme in ["Bearer ", "Basic "] {
        found.extend(after_scheme(text, scheme));
    }
    found.extend(addresses::passwords(text));
    found.extend(addresses::parameters(text));
    found.extend(assignments::values(text));
    found.sort_by_key(|range| (range.start, range.end));
    found.dedup_by(|next, range| {
        let within = next.start < range.end;
        if within {
            range.end = range.end.max(next.end);
        }
        within
    });
    found
}

/// Minimum length of a word with the shape of a credential.
const MIN_WORD: usize = 20;

/// Returns the words of a text that have at least [`MIN_WORD`] bytes, in order. Looks at one byte of so many, because such
/// a word contains one of them, and most words are short.
fn long_words(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let mut at = MIN_WORD - 1;
    std::iter::from_fn(move || {
        while let Some(byte) = bytes.get(at) {
            if !is_of_word(byte) {
                at += MIN_WORD;
                continue;
            }
            let before = bytes[..at].iter().rev().take_while(|byte| is_of_word(byte));
            let behind = bytes[at..].iter().take_while(|byte| is_of_word(byte));
            let (start, end) = (at - before.count(), at + behind.count());
            // The byte at the end is none of a word.
            at = end + MIN_WORD;
            if end - start >= MIN_WORD {
                return text.get(start..end);
            }
        }
        None
    })
}

/// Returns the range after each occurrence of an authorization scheme.
fn after_scheme(text: &str, scheme: &str) -> Vec<Range<usize>> {
    const MIN_LENGTH: usize = 8;
    memmem::find_iter(text.as_bytes(), scheme)
        .map(|at| {
            let start = at + scheme.len();
            let end = text[start..]
                .find(|c: char| c.is_whitespace() || "\"',".contains(c))
                .map_or(text.len(), |n| start + n);
            start..end
        })
        .filter(|range| range.len() >= MIN_LENGTH)
        .collect()
}

/// Masks, in place, known secrets, values of fields whose name is that of a credential, and in texts the
/// credentials that [`mask_credentials`] finds. Absent values and booleans are not credentials.
pub fn redact_value(value: &mut serde_json::Value, secret_set: &SecretSet) {
    use serde_json::Value;
    match value {
        Value::String(text) => {
            let known = secret_set.redact(text);
            let shown = mask_credentials(&known);
            if shown != text.as_str() {
                *text = shown.into_owned();
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| redact_value(item, secret_set)),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                let absent = field.is_null() || field.is_boolean();
                if !absent && names_a_credential(name) {
                    *field = Value::String(MASK.to_owned());
                } else {
                    redact_value(field, secret_set);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
