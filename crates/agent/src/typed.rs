//! Addresses that the user typed in the messages of a chat.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use url::Url;

/// Addresses that the user typed. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct TypedUrls(Arc<Mutex<BTreeSet<String>>>);

impl TypedUrls {
    /// Takes up the addresses in a message of the user's.
    pub(crate) fn note(&self, message: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(urls_in(message));
    }

    /// Forgets all of them: another session begins.
    pub(crate) fn clear(&self) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.clear();
    }

    /// Whether the user typed exactly this address, query included. A fragment is never sent, and does
    /// not matter.
    pub(crate) fn holds(&self, url: &str) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        requested(url).is_some_and(|url| known.contains(&url))
    }
}

/// An address as it is requested: two spellings of it are the same if the same bytes are sent. Percent
/// signs stay as they are.
fn requested(url: &str) -> Option<String> {
    let mut url = Url::parse(url.trim()).ok()?;
    url.set_fragment(None);
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    is_web.then(|| url.into())
}

/// The addresses in a text, each also without the punctuation that may not belong to it.
fn urls_in(text: &str) -> impl Iterator<Item = String> {
    // Of the same length in bytes.
    let lower = text.to_ascii_lowercase();
    let starts: Vec<usize> = ["http://", "https://"]
        .iter()
        .flat_map(|scheme| {
            lower
                .match_indices(scheme)
                .map(|(at, _)| at)
                .collect::<Vec<_>>()
        })
        .collect();
    starts.into_iter().flat_map(|start| {
        let rest = &text[start..];
        let ends = |sign: char| sign.is_whitespace() || "<>\"`|".contains(sign);
        let mut word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        let mut found = Vec::new();
        loop {
            found.extend(requested(word));
            match word.strip_suffix(|sign: char| ".,;:!?)]}'*_".contains(sign)) {
                Some(shorter) => word = shorter,
                None => return found,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_what_was_typed_is_known() {
        let typed = TypedUrls::default();
        typed.note(
            "See https://a.example/x?q=1, (http://b.example) and [this](https://c.example/d_(e)).\n<HTTPS://D.example:443/%61#f>",
        );
        for url in [
            "https://a.example/x?q=1",
            "https://a.example/x?q=1#part",
            "http://b.example",
            "http://B.example/",
            "https://c.example/d_(e)",
            "https://d.example/%61",
        ] {
            assert!(typed.holds(url), "{url}");
        }
        for url in [
            "https://a.example/x",
            "https://a.example/x?q=12",
            "https://a.example/x?q=1&r=2",
            "http://a.example/x?q=1",
            "https://a.example.evil.example/x?q=1",
            "https://user:secret@a.example/x?q=1",
            "https://a.example:8443/x?q=1",
            "https://d.example/a",
            "https://d.example/%61%20",
            "file:///etc/passwd",
        ] {
            assert!(!typed.holds(url), "{url}");
        }
        typed.clear();
        assert!(!typed.holds("http://b.example"));
    }
}
