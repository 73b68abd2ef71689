//! Suggestions for misspelled words ("did you mean").

use std::cmp::Reverse;

/// Returns the candidate nearest to `word`, if it is near enough to be a typing error: among equally near ones
/// that with the longest common beginning.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, candidate)| {
            *distance <= 1 + candidate.chars().count().min(word.chars().count()) / 4
        })
        .min_by_key(|(distance, candidate)| {
            let pairs = lower
                .chars()
                .zip(candidate.chars().flat_map(char::to_lowercase));
            let common = pairs.take_while(|(ours, theirs)| ours == theirs).count();
            (*distance, Reverse(common))
        })
        .map(|(_, candidate)| candidate)
}

/// Returns the remedy for an unknown word: the nearest candidate, or the only one that begins with the word, or the list
/// of all.
#[must_use]
pub fn did_you_mean(word: &str, candidates: &[&str]) -> String {
    let near = nearest(word, candidates.iter().copied());
    match near.or_else(|| beginning_with(word, candidates)) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None if candidates.is_empty() => "nothing is expected here".to_owned(),
        None => format!("expected one of: {}", candidates.join(", ")),
    }
}

/// Returns the only candidate that begins with the word, unless the word is very short.
fn beginning_with<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    const MIN_CHARS: usize = 3;
    let mut found = candidates
        .iter()
        .filter(|candidate| word.chars().count() >= MIN_CHARS && candidate.starts_with(word));
    match (found.next(), found.next()) {
        (Some(candidate), None) => Some(*candidate),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_words_find_the_nearest_candidate() {
        assert_eq!(nearest("ttl_day", ["ttl_days", "action"]), Some("ttl_days"));
        assert_eq!(nearest("Key", ["key", "pattern"]), Some("key"));
        assert_eq!(nearest("math", ["path", "match"]), Some("match"));
        assert_eq!(nearest("banana", ["key", "pattern"]), None);
    }

    #[test]
    fn only_candidate_with_the_same_beginning_is_suggested() {
        let events = ["pre_tool_use", "post_tool_use", "pre_compact"];
        assert_eq!(
            did_you_mean("pre_tool", &events),
            "did you mean `pre_tool_use`?"
        );
        for other in ["pre_", "po", "tool"] {
            assert!(
                did_you_mean(other, &events).starts_with("expected one of: "),
                "{other}"
            );
        }
    }
}
