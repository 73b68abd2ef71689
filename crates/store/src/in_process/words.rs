//! Full text search in a space without an index: scans every record.

use crate::text::{Word, words};
use crate::{LabelMatch, RecallHit, Record, request};

use super::space::Space;

pub(super) fn search(
    space: &Space,
    query: &str,
    labels: &[LabelMatch<'_>],
    limit: u32,
) -> Vec<RecallHit> {
    let query_words: Vec<(Vec<String>, bool)> = words(query)
        .map(|Word { text, prefix }| (tokens(text), prefix))
        .collect();
    if query_words.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<RecallHit> = space
        .records()
        .filter(|record| request::matches_all(labels, &record.labels))
        .filter_map(|record| score(&record, &query_words).map(|score| RecallHit { record, score }))
        .collect();
    found.sort_by(|one, other| other.score.total_cmp(&one.score));
    found.truncate(limit as usize);
    found
}

/// The fraction of the record's words that the query's words account for; `None` if one is missing.
fn score(record: &Record, query_words: &[(Vec<String>, bool)]) -> Option<f64> {
    let mut fields = vec![tokens(&record.key)];
    fields.extend(std::str::from_utf8(&record.value).ok().map(tokens));
    fields.extend(record.labels.iter().map(|label| tokens(&label.value)));
    let total: usize = fields.iter().map(Vec::len).sum();
    let mut hits = 0;
    for (phrase, prefix) in query_words {
        let count: usize = fields
            .iter()
            .map(|field| occurrences(field, phrase, *prefix))
            .sum();
        if count == 0 {
            return None;
        }
        hits += count;
    }
    Some(hits as f64 / total.max(1) as f64)
}

/// Number of places in the field where the words of the phrase follow each other.
fn occurrences(field: &[String], phrase: &[String], prefix: bool) -> usize {
    let Some((last, before)) = phrase.split_last() else {
        return 0;
    };
    field
        .windows(phrase.len())
        .filter(|window| {
            let (end, start) = (&window[before.len()], &window[..before.len()]);
            start == before
                && if prefix {
                    end.starts_with(last.as_str())
                } else {
                    end == last
                }
        })
        .count()
}

fn tokens(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}
