//! Identifiers of documents, whose order is that of the names in them.

use cachalot_store::implementation::after_prefix;

/// Between the parts of an identifier: less than every character of a part.
const SEPARATOR: &str = "!0";

/// Maximum length of the name and of the value in the identifier of a label, in bytes. With a key of
/// [`super::LONGEST_NAME`] it stays below the 1,500 bytes of an identifier.
const LONGEST_LABEL: [usize; 2] = [200, 300];

/// The number of bytes at the end of a part that was cut: a mark and a hash.
const CUT: usize = 2 + 32;

/// Returns an identifier that documents may have: not empty, without `/`, control characters and spaces, and neither
/// `.`, `..` nor `__…__`. Its order is that of the names, and that of a prefix is a prefix.
pub(super) fn id(name: &str) -> String {
    format!("k{}", encode(name))
}

fn encode(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        push(&mut encoded, c);
    }
    encoded
}

/// Appends a character, or two that are ordered like it.
fn push(encoded: &mut String, c: char) {
    match c {
        '\0'..='!' => {
            encoded.push('!');
            encoded.push(char::from(b'@' + c as u8));
        }
        '.' => encoded.push_str(".@"),
        '/' => encoded.push_str(".A"),
        c => encoded.push(c),
    }
}

/// Returns at most `longest` bytes for a text: its beginning and its hash, if it is too long.
fn part(text: &str, longest: usize) -> String {
    let encoded = encode(text);
    if encoded.len() <= longest {
        return encoded;
    }
    let hash = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let hash = hex::encode(&hash.as_ref()[..16]);
    format!("{}!1{hash}", beginning(text, longest))
}

/// Returns the beginning of all parts of texts with a prefix.
fn beginning(prefix: &str, longest: usize) -> String {
    let mut encoded = String::new();
    for c in prefix.chars() {
        let before = encoded.len();
        push(&mut encoded, c);
        if encoded.len() > longest - CUT {
            encoded.truncate(before);
            break;
        }
    }
    encoded
}

/// Returns the identifier of a label of the record under `key`.
pub(super) fn label(name: &str, value: &str, key: &str) -> String {
    format!("{}{}", label_prefix(name, value), encode(key))
}

/// Returns the beginning of the identifiers of a label, which are ordered by key.
pub(super) fn label_prefix(name: &str, value: &str) -> String {
    let value = part(value, LONGEST_LABEL[1]);
    format!("{}{value}{SEPARATOR}", label_name(name))
}

/// Returns the beginning of the identifiers of labels whose values have a prefix, and of some others.
pub(super) fn label_value_prefix(name: &str, prefix: &str) -> String {
    format!(
        "{}{}",
        label_name(name),
        beginning(prefix, LONGEST_LABEL[1])
    )
}

fn label_name(name: &str) -> String {
    format!("k{}{SEPARATOR}", part(name, LONGEST_LABEL[0]))
}

/// A range of identifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdRange {
    /// The first one.
    pub(super) start: String,
    /// The one after the last one.
    pub(super) end: String,
}

impl IdRange {
    /// All identifiers with a beginning.
    pub(super) fn of(beginning: String) -> Self {
        let end = after_prefix(&beginning);
        Self {
            // Every identifier begins with `k`.
            end: end.unwrap_or_else(|| "l".to_owned()),
            start: beginning,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/firestore/name.rs"]
mod tests;
