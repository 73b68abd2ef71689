//! OpenAI's Embeddings. Servers with Chat Completions have them, too.

use bytes::Bytes;
use cachalot_accounting::Usage;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use crate::error::{Error, ErrorKind};
use crate::{Extra, Format, address, extra};

/// The vectors of texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// One vector for each text, in the order of the texts; all have the same length.
    pub vectors: Vec<Vec<f32>>,
    /// The tokens; `None` if the provider does not report them.
    pub usage: Option<Usage>,
}

/// Returns the endpoint below a base URL.
#[must_use]
pub fn url(base: &Url) -> Url {
    address::appended(base, "/embeddings")
}

/// Returns the body of a request for the vectors of texts. `options` are further members, such as `dimensions`.
#[must_use]
pub fn body(model: &str, texts: &[String], options: &Extra) -> Bytes {
    let mut body = Map::new();
    extra::add(&mut body, Format::Chat, options);
    body.insert("model".to_owned(), json!(model));
    body.insert("input".to_owned(), json!(texts));
    Value::Object(body).to_string().into()
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct Tokens {
    prompt_tokens: u64,
}

/// Parses the answer to a request with `count` texts.
///
/// # Errors
/// [`ErrorKind::Malformed`]: it does not have one vector for each text, or they differ in length.
pub fn answer(body: &[u8], count: usize) -> Result<Embeddings, Error> {
    let malformed = |why: &str| {
        let message = format!("the answer has no embeddings of the texts: {why}");
        Error::new(ErrorKind::Malformed, message)
    };
    let answer: Answer =
        serde_json::from_slice(body).map_err(|error| malformed(&error.to_string()))?;
    if answer.data.len() != count {
        let found = answer.data.len();
        return Err(malformed(&format!("{found} vectors for {count} texts")));
    }
    let mut vectors = vec![Vec::new(); count];
    for Item { index, embedding } in answer.data {
        match vectors.get_mut(index) {
            Some(vector) if vector.is_empty() => *vector = embedding,
            _ => return Err(malformed("two vectors for one text")),
        }
    }
    let length = vectors.first().map_or(0, Vec::len);
    if length == 0 || vectors.iter().any(|vector| vector.len() != length) {
        return Err(malformed(
            "vectors without numbers, or of different lengths",
        ));
    }
    if vectors.iter().flatten().any(|number| !number.is_finite()) {
        return Err(malformed("a number is too large"));
    }
    let usage = answer.usage.map(|tokens| Usage {
        uncached_input: tokens.prompt_tokens,
        ..Usage::default()
    });
    Ok(Embeddings { vectors, usage })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_in_the_order_of_the_texts() {
        let body = br#"{"object": "list", "data": [
            {"index": 1, "embedding": [3, 4.5]}, {"index": 0, "embedding": [1, 2]}
        ], "usage": {"prompt_tokens": 7, "total_tokens": 7}}"#;
        let embeddings = answer(body, 2).unwrap();
        assert_eq!(embeddings.vectors, [vec![1.0, 2.0], vec![3.0, 4.5]]);
        assert_eq!(embeddings.usage.unwrap().uncached_input, 7);
    }

    #[test]
    fn answers_without_a_vector_for_each_text_are_refused() {
        for body in [
            r#"{"choices": []}"#,
            r#"{"data": [{"index": 0, "embedding": [1]}]}"#,
            r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}"#,
            r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 2, "embedding": [1]}]}"#,
            r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}"#,
            r#"{"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]}"#,
            r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1e99]}]}"#,
            r#"{"data": [{"index": 0, "embedding": "AAA="}, {"index": 1, "embedding": "AAA="}]}"#,
        ] {
            let refused = answer(body.as_bytes(), 2).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Malformed, "{body}");
        }
    }
}
