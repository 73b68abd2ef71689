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
mod tests {
    use super::*;

    const NAMES: [&str; 22] = [
        "",
        "\0",
        "\0\0",
        "\u{1f}",
        " ",
        " a",
        "!",
        "!!",
        "!0",
        "\"",
        "-",
        ".",
        "..",
        "./",
        "/",
        "/a",
        "0",
        "__a__",
        "a",
        "a/b",
        "ü",
        "\u{10ffff}",
    ];

    #[test]
    fn identifiers_are_allowed_and_ordered_like_the_names() {
        for name in NAMES {
            let id = id(name);
            assert!(id.starts_with('k') && !id.contains('/'), "{id}");
            assert!(id.chars().all(|c| c > ' '), "{id:?}");
            for other in NAMES {
                assert_eq!(
                    name.cmp(other),
                    id.cmp(&super::id(other)),
                    "{name:?} {other:?}"
                );
                let labels = [label("tag", name, "x"), label("tag", other, "x")];
                assert_eq!(name == other, labels[0] == labels[1], "{name:?} {other:?}");
                let keys = [label("tag", "x", name), label("tag", "x", other)];
                assert_eq!(name.cmp(other), keys[0].cmp(&keys[1]), "{name:?} {other:?}");
                let range = IdRange::of(label_value_prefix("tag", name));
                let is_inside = range.start <= labels[1] && labels[1] < range.end;
                assert!(is_inside || !other.starts_with(name), "{name:?} {other:?}");
                let range = IdRange::of(label_prefix("tag", name));
                let is_inside = range.start <= labels[1] && labels[1] < range.end;
                assert_eq!(is_inside, name == other, "{name:?} {other:?}");
            }
        }
    }

    #[test]
    fn long_labels_have_short_identifiers() {
        for c in ["a", "ü", ".", "\u{10ffff}"] {
            let long = c.repeat(super::super::LONGEST_NAME as usize / c.len());
            let other = format!("{}x", &long[..long.len() - c.len()]);
            assert!(label(&long, &long, &long).len() <= 1500);
            assert_ne!(label("tag", &long, "k"), label("tag", &other, "k"));
            for length in [1, 50, 100, long.len() / c.len()] {
                let range = IdRange::of(label_value_prefix("tag", &c.repeat(length)));
                let id = label("tag", &long, "k");
                assert!(range.start <= id && id < range.end, "{c} {length}");
            }
        }
    }
}
