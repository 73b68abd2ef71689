//! Ranks chunks by the words of a query (BM25).

use std::collections::{HashMap, HashSet};

use cachalot_core::config::Settings;

/// The parameters of BM25.
#[derive(Debug, Clone, Copy, PartialEq, Settings)]
#[settings(name = "the parameters of `bm25`")]
pub struct WordRanking {
    /// The saturation of words that occur often in a chunk.
    #[setting(range = 0.0..=10.0, default = 1.5)]
    pub k1: f64,
    /// The part of the correction for the length of a chunk.
    #[setting(range = 0.0..=1.0, default = 0.75)]
    pub b: f64,
}

/// The words of a chunk with the number of their occurrences.
struct Words {
    counts: HashMap<String, u32>,
    total: u32,
}

impl WordRanking {
    /// Returns the score of each text; 0 for one without a word of the query.
    pub(super) fn scores(&self, query: &str, texts: &[&str]) -> Vec<f64> {
        let wanted: HashSet<String> = words(query).collect();
        let chunks: Vec<Words> = texts.iter().map(|text| Words::new(text)).collect();
        let count = chunks.len() as f64;
        let total: f64 = chunks.iter().map(|chunk| f64::from(chunk.total)).sum();
        let average = (total / count).max(1.0);
        let mut scores = vec![0.0; chunks.len()];
        for word in &wanted {
            let found = |chunk: &Words| chunk.counts.get(word).copied().map_or(0.0, f64::from);
            let having = chunks.iter().filter(|chunk| found(chunk) > 0.0).count() as f64;
            let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
            for (score, chunk) in scores.iter_mut().zip(&chunks) {
                let occurrences = found(chunk);
                let length = 1.0 - self.b + self.b * f64::from(chunk.total) / average;
                let saturation = occurrences + self.k1 * length;
                if occurrences > 0.0 {
                    *score += rarity * occurrences * (self.k1 + 1.0) / saturation;
                }
            }
        }
        scores
    }
}

impl Words {
    fn new(text: &str) -> Self {
        let mut counts = HashMap::new();
        let mut total = 0;
        for word in words(text) {
            *counts.entry(word).or_default() += 1;
            total += 1;
        }
        Self { counts, total }
    }
}

/// Returns the words of a text in small letters.
fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANKING: WordRanking = WordRanking { k1: 1.5, b: 0.75 };

    #[test]
    fn rare_words_and_short_texts_rank_first() {
        let texts = [
            "The whale sings.",
            "The whale dives. The whale eats. The whale sleeps near the surface of the sea.",
            "The squid, the squid!",
            "Nothing of it",
        ];
        let scores = RANKING.scores("the SQUID whale", &texts);
        assert!(scores[2] > scores[0], "{scores:?}");
        assert!(scores[0] > 0.0 && scores[1] > 0.0, "{scores:?}");
        assert_eq!(scores[3], 0.0);
        assert!(RANKING.scores("whale", &texts)[0] > RANKING.scores("whale", &texts)[1] / 3.0);
    }

    #[test]
    fn scores_are_those_of_the_formula() {
        // Two texts of two words; the word is in one of them, once.
        let scores = RANKING.scores("deep", &["deep sea", "high sky"]);
        let rarity = (1.0_f64 + (2.0 - 1.0 + 0.5) / (1.0 + 0.5)).ln();
        assert!((scores[0] - rarity * 2.5 / 2.5).abs() < 1e-12, "{scores:?}");
        assert_eq!(scores[1], 0.0);
        assert_eq!(RANKING.scores("deep", &[]), Vec::<f64>::new());
        assert_eq!(RANKING.scores("?!", &["deep"]), [0.0]);
    }
}
