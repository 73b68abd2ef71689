//! What looks like a credential, though nobody said that it is one.

use std::borrow::Cow;

use super::{MASK, Seals};

/// Names of fields whose values are credentials whatever they look like.
fn names_a_credential(name: &str) -> bool {
    const NAMES: [&str; 15] = [
        "authorization",
        "proxyauthorization",
        "apikey",
        "xapikey",
        "token",
        "accesstoken",
        "refreshtoken",
        "idtoken",
        "password",
        "passwd",
        "secret",
        "clientsecret",
        "cookie",
        "setcookie",
        "privatekey",
    ];
    let folded: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .map(|c| c.to_ascii_lowercase())
        .collect();
    NAMES.contains(&folded.as_str())
}

/// Whether a word has the shape of a credential that a provider hands out.
fn looks_like_a_credential(word: &str) -> bool {
    const PREFIXES: [(&str, usize); 14] = [
        ("sk-", 20),
        ("pk-", 20),
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
        .any(|(prefix, least)| word.starts_with(prefix) && word.len() >= *least)
        || (word.starts_with("eyJ") && word.matches('.').count() == 2 && word.len() > 40)
}

/// `text` with every word that looks like a credential masked.
#[must_use]
pub fn mask_credentials(text: &str) -> Cow<'_, str> {
    if text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----") {
        return Cow::Borrowed(MASK);
    }
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let mut shown = Cow::Borrowed(text);
    for word in text.split(|c: char| !part_of_word(c)) {
        if looks_like_a_credential(word) {
            shown = Cow::Owned(shown.replace(word, MASK));
        }
    }
    for scheme in ["Bearer ", "Basic "] {
        if let Some(at) = shown.find(scheme) {
            let start = at + scheme.len();
            let end = shown[start..]
                .find(|c: char| c.is_whitespace() || "\"',".contains(c))
                .map_or(shown.len(), |n| start + n);
            if end - start >= 8 {
                let masked = format!("{}{MASK}{}", &shown[..start], &shown[end..]);
                shown = Cow::Owned(masked);
            }
        }
    }
    shown
}

/// Masks, in place, known secrets, values of fields that name a credential, and words that look like one.
pub fn redact_value(value: &mut serde_json::Value, seals: &Seals) {
    use serde_json::Value;
    match value {
        Value::String(text) => {
            let known = seals.redact(text);
            let shown = mask_credentials(&known);
            if shown != text.as_str() {
                *text = shown.into_owned();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact_value(item, seals)),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                if names_a_credential(name) && !field.is_null() {
                    *field = Value::String(MASK.to_owned());
                } else {
                    redact_value(field, seals);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_recognised_by_field_name_and_by_shape() {
        let mut value = serde_json::json!({
            "headers": {"Authorization": "x", "X-Api-Key": "y", "accept": "text/html"},
            "body": "my key is sk-abcdefghijklmnopqrstuv, keep it",
            "note": "Authorization: Bearer abcdefgh12345678 please",
            "token": null,
        });
        redact_value(&mut value, &Seals::none());
        assert_eq!(
            value,
            serde_json::json!({
                "headers": {"Authorization": MASK, "X-Api-Key": MASK, "accept": "text/html"},
                "body": "my key is [secret], keep it",
                "note": "Authorization: Bearer [secret] please",
                "token": null,
            })
        );
    }
}
