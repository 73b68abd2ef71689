//! The words of records and of queries, as text of the types `tsvector` and `tsquery`. The words are our own, as
//! those of the other stores: sequences of letters and digits, in lower case, of any language.

use std::collections::HashMap;
use std::fmt::Write as _;

use cachalot_store::implementation::words;
use cachalot_store::{Record, space};

/// The number of bytes by which words are distinguished. Postgres accepts 2,046.
const LONGEST_WORD: usize = 256;

/// The largest vector, in bytes. Postgres accepts 1 MiB; the words after that are not found.
const LARGEST_VECTOR: usize = 500_000;

/// The last position that Postgres distinguishes, and the number of positions that it keeps for a word.
const LAST_POSITION: usize = 16_383;
const MOST_POSITIONS: usize = 255;

fn tokens(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| {
            let mut word = word.to_lowercase();
            let mut end = word.len().min(LONGEST_WORD);
            while !word.is_char_boundary(end) {
                end -= 1;
            }
            word.truncate(end);
            word
        })
}

/// Returns the words of a record of users' memory; `None` in other spaces, which are not searched.
pub(super) fn vector(space: &str, record: &Record) -> Option<String> {
    if space != space::USER {
        return None;
    }
    let value = std::str::from_utf8(&record.value).unwrap_or_default();
    let labels = record.labels.iter().map(|label| label.value.as_str());
    let fields = [record.key.as_str(), value].into_iter().chain(labels);
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    let (mut position, mut size) = (1, 0);
    for field in fields {
        for token in tokens(field) {
            if size > LARGEST_VECTOR {
                break;
            }
            let of_token = places.entry(token).or_insert_with_key(|token| {
                size += token.len() + 8;
                Vec::new()
            });
            let place = position.min(LAST_POSITION);
            if of_token.len() < MOST_POSITIONS && of_token.last() != Some(&place) {
                of_token.push(place);
                size += 2;
            }
            position += 1;
        }
        // The last word of a field does not precede the first of the next.
        position += 1;
    }
    let mut vector = String::with_capacity(size);
    for (token, positions) in places {
        // Words have no quotes and no backslashes.
        let _ = write!(vector, "'{token}'");
        for (number, position) in positions.iter().enumerate() {
            let _ = write!(vector, "{}{position}", if number == 0 { ':' } else { ',' });
        }
        vector.push(' ');
    }
    Some(vector)
}

/// Converts a query: all of its parts have to occur; the words of one part follow each other. `None` if there is
/// no word.
pub(super) fn query(query: &str) -> Option<String> {
    let parts: Vec<String> = words(query)
        .map(|word| {
            let tokens: Vec<String> = tokens(word.text)
                .map(|token| format!("'{token}'"))
                .collect();
            let phrase = tokens.join(" <-> ");
            format!("({phrase}{})", if word.prefix { ":*" } else { "" })
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join(" & "))
}
