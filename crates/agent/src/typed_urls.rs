//! URLs that the user typed in the messages of a chat.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use url::Url;

/// URLs that the user typed. Clones share the set.
#[derive(Debug, Clone, Default)]
pub(crate) struct TypedUrls(Arc<Mutex<BTreeSet<String>>>);

impl TypedUrls {
    /// Adds the URLs in a message of the user.
    pub(crate) fn add_from_message(&self, message: &str) {
        let mut known = self.0.lock();
        known.extend(urls_in(message));
    }

    /// Removes all URLs, for a new session.
    pub(crate) fn clear(&self) {
        let mut known = self.0.lock();
        known.clear();
    }

    /// True if the user typed exactly this URL, including its query. Fragments are ignored, because they are
    /// never sent.
    pub(crate) fn contains(&self, url: &str) -> bool {
        let known = self.0.lock();
        normalize_url(url).is_some_and(|url| known.contains(&url))
    }
}

/// Normalizes a URL to the form in which it is requested: two spellings are equal if they send the same
/// bytes. Percent-encoding is kept.
fn normalize_url(url: &str) -> Option<String> {
    let mut url = Url::parse(url.trim()).ok()?;
    url.set_fragment(None);
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    is_web.then(|| url.into())
}

/// The URLs in a text, each also without trailing punctuation that may not belong to it.
fn urls_in(text: &str) -> impl Iterator<Item = String> {
    // ASCII lower case keeps the byte offsets.
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
        let ends = |character: char| character.is_whitespace() || "<>\"`|".contains(character);
        let mut word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        let mut found = Vec::new();
        loop {
            found.extend(normalize_url(word));
            match word.strip_suffix(|character: char| ".,;:!?)]}'*_".contains(character)) {
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
    fn contains_exactly_the_urls_of_user_messages() {
        let typed = TypedUrls::default();
        typed.add_from_message(
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
            assert!(typed.contains(url), "{url}");
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
            assert!(!typed.contains(url), "{url}");
        }
        typed.clear();
        assert!(!typed.contains("http://b.example"));
    }
}
