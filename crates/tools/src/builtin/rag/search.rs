//! Ranks the chunks of documents.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::chunks::{Chunk, Chunking};
use super::settings::{EmbeddingSearch, WordSearch};
use super::vectors::{Embedder, similarity};
use crate::builtin::files::documents::Document;
use crate::run_blocking::run_blocking;

/// Maximum number of chunks of all documents of a source.
const MAX_CHUNKS: usize = 20_000;

/// A chunk of a document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    pub(super) document: Arc<str>,
    pub(super) chunk: Chunk,
}

/// A chunk that was found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) score: f64,
    pub(super) part: Part,
}

/// Returns the chunks whose vectors are most similar to that of the query, best first.
///
/// # Errors
/// A message: there are too many chunks, or their vectors cannot be made.
pub(super) async fn by_vectors(
    search: &EmbeddingSearch,
    embedder: &Arc<Embedder>,
    documents: &[Document],
    query: &str,
    session: Option<Arc<str>>,
) -> Result<Vec<Found>, String> {
    let parts = divided(documents, &search.chunking)?;
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let query = [query.to_owned()];
    let mut vectors = embedder.vectors(&query, session.clone()).await?;
    let query: Arc<[f32]> = vectors.pop().unwrap_or_default().into();
    // A change of one document must not change the requests of others.
    let of_documents = parts.chunk_by(|one, next| Arc::ptr_eq(&one.document, &next.document));
    let batches = of_documents.flat_map(|parts| parts.chunks(search.batch_size));
    let compared = batches.map(|batch| {
        let (embedder, query) = (Arc::clone(embedder), Arc::clone(&query));
        compared(embedder, batch.to_vec(), query, session.clone())
    });
    let compared =
        stream::iter(compared.collect::<Vec<_>>()).buffered(search.max_embedding_concurrency);
    let found: Vec<Vec<Found>> = compared.try_collect().await?;
    let mut found: Vec<Found> = found.into_iter().flatten().collect();
    found.retain(|found| found.score >= search.threshold);
    Ok(best(found, search.limit))
}

/// Returns the chunks of a batch with their similarity to the query.
async fn compared(
    embedder: Arc<Embedder>,
    batch: Vec<Part>,
    query: Arc<[f32]>,
    session: Option<Arc<str>>,
) -> Result<Vec<Found>, String> {
    let texts = batch.iter().map(|part| part.chunk.text.clone());
    let texts: Vec<String> = texts.collect();
    let vectors = embedder.vectors(&texts, session).await?;
    let found = batch.into_iter().zip(vectors);
    let found = found.map(|(part, vector)| Found {
        score: similarity(&vector, &query),
        part,
    });
    Ok(found.collect())
}

/// Returns the chunks with the words of the query, best first.
///
/// # Errors
/// A message: there are too many chunks.
pub(super) async fn by_words(
    search: &WordSearch,
    documents: &[Document],
    query: &str,
) -> Result<Vec<Found>, String> {
    let parts = divided(documents, &search.chunking)?;
    let (ranking, query) = (search.ranking, query.to_owned());
    let mut found: Vec<Found> = run_blocking(move |_| {
        let texts: Vec<&str> = parts.iter().map(|part| part.chunk.text.as_str()).collect();
        let scores = ranking.scores(&query, &texts);
        let found = parts.into_iter().zip(scores);
        found.map(|(part, score)| Found { score, part }).collect()
    })
    .await;
    found.retain(|found| found.score > 0.0 && found.score >= search.threshold);
    Ok(best(found, search.limit))
}

/// Combines results by reciprocal rank fusion: the score of a chunk is the sum of 1 / (`k` + rank) over the results that
/// contain it.
pub(super) fn fused(results: Vec<Vec<Found>>, k: f64) -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    for result in results {
        for (index, Found { part, .. }) in result.into_iter().enumerate() {
            let score = 1.0 / (k + index as f64 + 1.0);
            match all.iter_mut().find(|known| known.part == part) {
                Some(known) => known.score += score,
                None => all.push(Found { score, part }),
            }
        }
    }
    let count = all.len();
    best(all, count)
}

fn best(mut found: Vec<Found>, limit: usize) -> Vec<Found> {
    // Stable: equal scores stay in the order of the documents.
    found.sort_by(|one, other| other.score.total_cmp(&one.score));
    found.truncate(limit);
    found
}

fn divided(documents: &[Document], chunking: &Chunking) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    for Document { name, text } in documents {
        let document: Arc<str> = name.as_str().into();
        parts.extend(chunking.divide(text).into_iter().map(|chunk| Part {
            document: Arc::clone(&document),
            chunk,
        }));
    }
    if parts.len() > MAX_CHUNKS {
        return Err(format!(
            "the documents have {} chunks, and at most {MAX_CHUNKS} can be searched: name fewer documents in `docs`, or raise `size` of `chunking`",
            parts.len()
        ));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, score: f64) -> Found {
        let chunk = Chunk {
            line: 1,
            text: text.to_owned(),
        };
        let document = "a.md".into();
        let part = Part { document, chunk };
        Found { score, part }
    }

    #[test]
    fn chunk_of_both_results_ranks_first() {
        let vectors = vec![found("a", 0.9), found("b", 0.8)];
        let words = vec![found("c", 7.0), found("b", 6.0)];
        let all = fused(vec![vectors, words], 60.0);
        let texts: Vec<&str> = all
            .iter()
            .map(|found| found.part.chunk.text.as_str())
            .collect();
        assert_eq!(texts, ["b", "a", "c"]);
        assert!((all[0].score - 2.0 / 62.0).abs() < 1e-12);
        assert!((all[1].score - 1.0 / 61.0).abs() < 1e-12);
    }
}
