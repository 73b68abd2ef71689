//! Differences in words that change by themselves: times, dates, identifiers, counters, credentials.

use cachalot_core::secret::find_credentials;

use super::LikelyCause;
use super::site::DifferenceSite;
use super::volatile::{VolatileKind, is_part_of_date, kind, trimmed, word_at};

/// Returns the cause if the difference is in a word that changes by itself.
pub(super) fn volatile(site: &DifferenceSite<'_>) -> Option<LikelyCause> {
    let (before, after) = (site.text_before(), site.text_after());
    let (was, is) = (word_at(before, site.offset), word_at(after, site.offset));
    let number = |word: &str| {
        let word = trimmed(word);
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    if trimmed(was) == trimmed(is) && !was.is_empty() {
        // The difference is in punctuation behind an unchanged word.
        return None;
    }
    if in_credential(before, site.offset) || in_credential(after, site.offset) {
        return Some(LikelyCause::Credential);
    }
    match (kind(was), kind(is)) {
        (Some(VolatileKind::Time), Some(VolatileKind::Time)) => Some(LikelyCause::Timestamp),
        (Some(VolatileKind::Date), Some(VolatileKind::Date)) => Some(LikelyCause::Date),
        (Some(VolatileKind::Identifier), Some(_)) | (Some(_), Some(VolatileKind::Identifier)) => {
            Some(LikelyCause::Identifier)
        }
        _ if is_part_of_date(was) && is_part_of_date(is) => Some(LikelyCause::Date),
        _ if number(was) && number(is) && follows_a_date(before, site.offset) => {
            Some(LikelyCause::Date)
        }
        _ if number(was) && number(is) => Some(LikelyCause::Counter),
        _ => None,
    }
}

/// Number of bytes before and after a place that are searched for a credential.
const SEARCHED: usize = 1_024;

/// True if something that looks like a credential is at this place.
fn in_credential(text: &str, at: usize) -> bool {
    let start = text.floor_char_boundary(at.saturating_sub(SEARCHED));
    let end = text.floor_char_boundary(at.saturating_add(SEARCHED));
    let found = text.get(start..end).map(find_credentials);
    let at = at - start.min(at);
    found.is_some_and(|found| {
        found
            .iter()
            .any(|range| (range.start..=range.end).contains(&at))
    })
}

/// True if one of the last words before a place names a day or a month.
fn follows_a_date(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let mut words = before.rsplit([' ', ',', '"', '\\']).take(4);
    words.any(is_part_of_date)
}
