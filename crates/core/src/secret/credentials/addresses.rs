//! Credentials in URLs anywhere in a text.

use std::ops::Range;

use memchr::{memchr_iter, memmem};

use super::{ends_with, names_a_credential, signs};

/// The separator of the scheme of a URL.
const SEPARATOR: &str = "://";

/// Returns the passwords of all `scheme://user:password@host` in a text, in order.
pub(super) fn passwords(text: &str) -> Vec<Range<usize>> {
    memmem::find_iter(text.as_bytes(), SEPARATOR)
        .filter_map(|at| {
            let start = at + SEPARATOR.len();
            let length = text[start..]
                .find(|c: char| "/?#\\".contains(c) || ends_an_address(c))
                .unwrap_or(text.len() - start);
            // A password may contain an unencoded `@`: the last one ends it.
            let (user_and_password, _) = text[start..start + length].rsplit_once('@')?;
            let (user, password) = user_and_password.split_once(':')?;
            let start = start + user.len() + 1;
            (!password.is_empty()).then(|| start..start + password.len())
        })
        .collect()
}

/// Returns the values of all parameters, `?name=value` and `&name=value`, whose names are those of signatures
/// or credentials, in order. A text may also begin with a parameter, like the body of a form.
pub(super) fn parameters(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for at in memchr_iter(b'=', text.as_bytes()) {
        let name = &text[name_start(text, at)..at];
        let before = text[..at - name.len()].chars().next_back();
        let secret = match before {
            // The `;` is that of `&amp;`.
            Some('?' | '&' | '#' | ';') => names_a_credential(name) || is_authorizing(name),
            None => names_a_credential(name),
            Some(_) => false,
        };
        let start = at + 1;
        if !secret || found.last().is_some_and(|last| start < last.end) {
            continue;
        }
        let length = text[start..]
            .find(|c: char| "&#".contains(c) || ends_an_address(c))
            .unwrap_or(text.len() - start);
        if length > 0 {
            found.push(start..start + length);
        }
    }
    found
}

/// Returns the start of the name that ends before `end`.
fn name_start(text: &str, end: usize) -> usize {
    text[..end]
        .bytes()
        .rposition(|byte| !(byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)))
        .map_or(0, |at| at + 1)
}

/// True for names that mean a signature or key only as a parameter of a URL.
fn is_authorizing(name: &str) -> bool {
    let is = |word: &str| signs(name).eq(word.bytes());
    is("key") || is("sig") || ends_with(name, "signature")
}

/// True for white space and the delimiters of URLs in texts, JSON and shell commands.
fn ends_an_address(character: char) -> bool {
    character.is_whitespace() || "\"'`<>".contains(character)
}
