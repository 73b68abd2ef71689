//! Division of a text into chunks.

use cachalot_core::config::{Parameter, Settings, no_effect};
use serde_json::{Value, json};

/// The division of documents.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "`chunking`", default, also = CHUNKING_OF_OTHERS)]
pub struct Chunking {
    /// The maximum length of a chunk in characters.
    #[setting(range = 1..=100_000, default = 1500)]
    pub size: usize,
    /// The number of characters at the end of a chunk with which the next one begins.
    #[setting(range = 0..=50_000, default = 75)]
    pub overlap: usize,
    /// Ends chunks between words.
    #[setting(default = false)]
    pub respect_word_boundaries: bool,
}

#[rustfmt::skip]
const CHUNKING_OF_OTHERS: &[Parameter] = &[
    no_effect("code_aware", "code is divided like other texts: choose a `size`"),
];

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunk {
    /// The number of its first line, from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

impl Chunking {
    /// Returns the settings for keys.
    pub(super) fn identity(&self) -> Value {
        let Self {
            size,
            overlap,
            respect_word_boundaries,
        } = self;
        json!([size, overlap, respect_word_boundaries])
    }

    /// Divides a text. Chunks without anything but white space are left out.
    pub(super) fn divide(&self, text: &str) -> Vec<Chunk> {
        let mut starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        starts.push(text.len());
        let length = starts.len() - 1;
        let mut chunks = Vec::new();
        let (mut begin, mut line, mut counted) = (0, 1, 0);
        while begin < length {
            let end = self.end(text, &starts, begin);
            let part = text.get(starts[begin]..starts[end]).unwrap_or_default();
            line += newlines(text.get(counted..starts[begin]).unwrap_or_default());
            counted = starts[begin];
            if !part.trim().is_empty() {
                let text = part.to_owned();
                chunks.push(Chunk { line, text });
            }
            if end == length {
                break;
            }
            // A chunk that ends early at a word must not begin again where it began.
            begin = end.saturating_sub(self.overlap).max(begin + 1);
        }
        chunks
    }

    /// Returns the end of the chunk that begins with the character `begin`.
    fn end(&self, text: &str, starts: &[usize], begin: usize) -> usize {
        let length = starts.len() - 1;
        let end = length.min(begin.saturating_add(self.size));
        if end == length || !self.respect_word_boundaries {
            return end;
        }
        let is_blank = |at: &usize| {
            let rest = text.get(starts[*at]..).unwrap_or_default();
            rest.starts_with(char::is_whitespace)
        };
        let earliest = begin + self.size.div_ceil(2);
        (earliest..=end).rev().find(is_blank).unwrap_or(end)
    }
}

fn newlines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(chunking: &Chunking, text: &str) -> Vec<(usize, String)> {
        let chunks = chunking.divide(text).into_iter();
        chunks.map(|chunk| (chunk.line, chunk.text)).collect()
    }

    fn expected(chunks: &[(usize, &str)]) -> Vec<(usize, String)> {
        let chunks = chunks.iter();
        chunks
            .map(|(line, text)| (*line, (*text).to_owned()))
            .collect()
    }

    #[test]
    fn chunks_overlap_and_cover_the_text() {
        let chunking = Chunking {
            size: 4,
            overlap: 1,
            respect_word_boundaries: false,
        };
        assert_eq!(
            texts(&chunking, "äbc\ndefgh"),
            expected(&[(1, "äbc\n"), (1, "\ndef"), (2, "fgh")])
        );
        assert_eq!(texts(&chunking, " \n \n"), expected(&[]));
        assert_eq!(texts(&chunking, ""), expected(&[]));
    }

    #[test]
    fn chunks_end_between_words() {
        let chunking = Chunking {
            size: 9,
            overlap: 0,
            respect_word_boundaries: true,
        };
        assert_eq!(
            texts(&chunking, "one two three fourteenth"),
            expected(&[(1, "one two"), (1, " three"), (1, " fourteen"), (1, "th")])
        );
    }

    #[test]
    fn overlap_as_long_as_a_chunk_ends() {
        let chunking = Chunking {
            size: 2,
            overlap: 2,
            respect_word_boundaries: true,
        };
        assert_eq!(
            texts(&chunking, "abcd"),
            expected(&[(1, "ab"), (1, "bc"), (1, "cd")])
        );
    }
}
