//! Searches for the IDs of calls in texts and answers.

use aho_corasick::AhoCorasick;

/// Maximum length of an ID that is searched for, in bytes, and maximum number of them: both bound the memory of a search
/// and its time.
const MAX_LENGTH: usize = 128;
const MAX_IDS: usize = 4_096;
/// Maximum number of occurrences that are looked at. A text with more of them is none of a conversation.
const MAX_FOUND: usize = 1 << 20;

/// A search for IDs.
pub(crate) struct CallIds {
    searcher: AhoCorasick,
    /// Occurrences that may still be looked at.
    left: usize,
}

/// Returns true for an ID that has one spelling in an answer, and is short enough to be searched for.
pub(crate) fn is_plain(id: &str) -> bool {
    (1..=MAX_LENGTH).contains(&id.len()) && id.bytes().all(is_of_id)
}

fn is_of_id(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte)
}

impl CallIds {
    /// Creates a search for plain IDs; `None` if there are none, or too many.
    pub(crate) fn new<T: AsRef<[u8]>>(ids: &[T]) -> Option<Self> {
        if ids.is_empty() || ids.len() > MAX_IDS {
            return None;
        }
        let searcher = AhoCorasick::new(ids).ok()?;
        Some(Self {
            searcher,
            left: MAX_FOUND,
        })
    }

    /// Calls `found` with the number of the ID for each occurrence that is no part of a longer ID. Returns false if there
    /// are too many to be looked at.
    pub(crate) fn each_in(&mut self, text: &[u8], mut found: impl FnMut(usize)) -> bool {
        for occurrence in self.searcher.find_overlapping_iter(text) {
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            let before = text[..occurrence.start()].last();
            let after = text.get(occurrence.end());
            if !before.into_iter().chain(after).any(|byte| is_of_id(*byte)) {
                found(occurrence.pattern().as_usize());
            }
        }
        true
    }
}

/// Returns true if an answer has one of the IDs, or if that is not known.
pub(crate) fn has_any(answer: &[u8], ids: &[String]) -> bool {
    if ids.is_empty() {
        return false;
    }
    let Some(mut search) = CallIds::new(ids) else {
        return true;
    };
    let mut is_found = false;
    let is_complete = search.each_in(answer, |_| is_found = true);
    is_found || !is_complete
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_unless_they_are_parts_of_others() {
        let ids = ["call_1".to_owned(), "f.exec:1".to_owned()];
        for (answer, expected) in [
            (r#"{"id":"call_1"}"#, true),
            (r#"{"id":"call_10"}"#, false),
            (r#"{"id":"f.exec:10"}"#, false),
            ("see call_1, then", true),
            ("recall_1", false),
            ("call_1", true),
            ("é:call_1é", false),
            ("écall_1é", true),
        ] {
            assert_eq!(has_any(answer.as_bytes(), &ids), expected, "{answer}");
        }
        assert!(!has_any(b"call_1", &[]));
    }

    #[test]
    fn a_search_is_bounded() {
        let many: Vec<String> = (0..=MAX_IDS)
            .map(|number| format!("call_{number}"))
            .collect();
        assert!(CallIds::new(&many).is_none() && has_any(b"", &many));
        let nested: Vec<String> = (1..=MAX_LENGTH).map(|length| "a".repeat(length)).collect();
        let text = vec![b'a'; MAX_FOUND];
        let search = CallIds::new(&nested);
        assert!(search.is_some_and(|mut search| !search.each_in(&text, |_| {})));
        assert!(is_plain(&nested[MAX_LENGTH - 1]) && !is_plain(&"a".repeat(MAX_LENGTH + 1)));
        assert!(!is_plain("") && !is_plain("a b") && !is_plain("\u{e9}"));
    }
}
