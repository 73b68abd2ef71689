//! Detection of credentials by their names and shapes, for secrets that are not known.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use super::{MASK, SecretSet};

mod addresses;
mod assignments;

/// True if values of fields of that name are credentials, regardless of their shape: `password`,
/// `db_password`, `X-Auth-Token`, `openaiApiKey`. Case and separators do not matter.
fn names_a_credential(name: &str) -> bool {
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
    let folded = folded(name);
    ENDINGS.iter().any(|ending| folded.ends_with(ending))
        || name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// The letters and digits of a name, in lower case.
fn folded(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
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
    if text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----") {
        return std::iter::once(0..text.len()).collect();
    }
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let words: BTreeSet<&str> = text
        .split(|c: char| !part_of_word(c))
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

/// Returns the range after each occurrence of an authorization scheme.
fn after_scheme(text: &str, scheme: &str) -> Vec<Range<usize>> {
    const MIN_LENGTH: usize = 8;
    text.match_indices(scheme)
        .map(|(at, _)| {
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
