//! Suggestions for misspelled words ("did you mean").

/// Returns the candidate nearest to `word`, if it is near enough to be a typing error.
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
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the remedy for an unknown word: the nearest candidate, or the list of all.
#[must_use]
pub fn did_you_mean(word: &str, candidates: &[&str]) -> String {
    match nearest(word, candidates.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None if candidates.is_empty() => "nothing is expected here".to_owned(),
        None => format!("expected one of: {}", candidates.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_different_word_is_not() {
        assert_eq!(nearest("ttl_day", ["ttl_days", "action"]), Some("ttl_days"));
        assert_eq!(nearest("Key", ["key", "pattern"]), Some("key"));
        assert_eq!(nearest("banana", ["key", "pattern"]), None);
    }
}
