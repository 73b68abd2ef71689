//! Masks credentials in texts that users and models continue to work with: only the credential itself is
//! removed.

use std::borrow::Cow;
use std::ops::Range;

use cachalot_core::secret::{MASK, mask_credentials};

const BEGIN: &str = "-----BEGIN ";
const KEY: &str = "PRIVATE KEY-----";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// A private key needs a run of this many base64 characters; less is a mention in code or prose.
const MIN_KEY_CHARS: usize = 32;

/// Long texts are split between lines into pieces of about this many bytes, so that masking time is
/// linear in the size of the text.
const CHUNK_BYTES: usize = 64 << 10;

/// Authentication schemes. The next word is a credential, unless it is an ordinary word.
const SCHEMES: [&str; 2] = ["Bearer ", "Basic "];

/// Applies [`mask_credentials`], with two exceptions: of a text with a private key, only the key is
/// masked; and a mere mention of a key, or an ordinary word after `Basic` or `Bearer`, stays unchanged.
pub(super) fn mask(text: &str) -> Cow<'_, str> {
    let keys = private_keys(text);
    let cuts = cuts(text);
    if keys.is_empty() && cuts.is_empty() {
        return mask_credentials(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut from = 0;
    for key in keys {
        mask_between(text, from..key.start, &cuts, &mut shown);
        shown.push_str(MASK);
        from = key.end;
    }
    mask_between(text, from..text.len(), &cuts, &mut shown);
    if shown == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(shown)
    }
}

/// Masks a part of the text, piece by piece.
fn mask_between(text: &str, part: Range<usize>, cuts: &[usize], shown: &mut String) {
    let mut from = part.start;
    let inside = cuts.iter().filter(|cut| part.contains(cut)).copied();
    for cut in inside.chain([part.end]) {
        shown.push_str(&mask_credentials(&text[from..cut]));
        from = cut;
    }
}

/// The sorted positions at which the text is split, so that [`mask_credentials`] does not take a mention
/// for a credential.
fn cuts(text: &str) -> Vec<usize> {
    let ends = |needle: &'static str| {
        text.match_indices(needle)
            .map(|(at, found)| at + found.len())
    };
    let words = SCHEMES.into_iter().flat_map(ends).filter(|end| {
        let next = text[*end..].split(|c: char| c.is_whitespace() || "\"',".contains(c));
        next.take(1).all(is_ordinary_word)
    });
    let mut cuts: Vec<usize> = words.chain(between_lines(text)).collect();
    if text.contains(BEGIN) && text.contains(KEY) {
        cuts.extend(ends(BEGIN).chain(ends(KEY)));
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Positions at line ends, where no credential is split and none begins.
fn between_lines(text: &str) -> impl Iterator<Item = usize> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let after = text.ceil_char_boundary(from + CHUNK_BYTES);
        from = after + text[after..].find('\n')?;
        Some(from)
    })
}

/// True if it is an ordinary word: `authentication`, `Auth`, `HTTP-auth;`. Tokens of eight or more bytes
/// practically always mix upper and lower case or contain digits.
fn is_ordinary_word(word: &str) -> bool {
    word.split(|c: char| "-/.:;!?()[]`*".contains(c))
        .all(|part| {
            let mut rest = part.chars();
            let _ = rest.next();
            part.chars().all(char::is_alphabetic)
                && (rest.all(char::is_lowercase) || part.chars().all(char::is_uppercase))
        })
}

/// The sorted ranges of the private keys in a text, from their first to their last line. A truncated key
/// extends as far as its text looks like a key.
fn private_keys(text: &str) -> Vec<Range<usize>> {
    let mut keys: Vec<Range<usize>> = Vec::new();
    for (begin, _) in text.match_indices(BEGIN) {
        // A second begin line within a key: its range covers it already.
        if keys.last().is_some_and(|last| begin < last.end) {
            continue;
        }
        if let Some(end) = end_of_key(text, begin) {
            keys.push(begin..end);
        }
    }
    keys
}

/// Returns the end of the private key that starts at `begin`, if it is one.
fn end_of_key(text: &str, begin: usize) -> Option<usize> {
    let label = begin + BEGIN.len();
    let body = label + end_of_label(&text[label..])?;
    let rest = &text[body..];
    let stop = rest.find(DASHES).unwrap_or(rest.len());
    // Line breaks may be escaped (`\n`). Headers (`Proc-Type: 4,ENCRYPTED`) may precede the key.
    let is_body = |c: char| is_base64(c) || ":,-\\ \t\r\n".contains(c);
    let reach = rest[..stop].find(|c| !is_body(c)).unwrap_or(stop);
    let inner = &rest[..reach];
    if !inner
        .split(|c| !is_base64(c))
        .any(|run| run.len() >= MIN_KEY_CHARS)
    {
        return None;
    }
    let last = rest[reach..].strip_prefix(END);
    match last.and_then(end_of_label) {
        Some(length) => Some(body + reach + END.len() + length),
        None => Some(body + truncated_key_length(inner)),
    }
}

/// Returns the end of a label that names a private key: `RSA PRIVATE KEY-----`.
fn end_of_label(text: &str) -> Option<usize> {
    let end = text.find(DASHES)? + DASHES.len();
    let is_label = |c: char| c.is_ascii_uppercase() || c == ' ';
    let label = text[..end].strip_suffix(KEY)?;
    label.chars().all(is_label).then_some(end)
}

fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+/=".contains(c)
}

/// The length of a key without an end line: up to the first line with a space that is no header.
fn truncated_key_length(body: &str) -> usize {
    let lines = body.split_inclusive('\n');
    lines
        .take_while(|line| !line.trim().contains(' ') || line.contains(": "))
        .map(str::len)
        .sum()
}

#[cfg(test)]
#[path = "../../../tests/unit/builtin/redact_secrets/shapes.rs"]
mod tests;
