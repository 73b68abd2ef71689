//! Pieces of a text that is streamed.

use serde_json::Value;

/// The maximum length of a piece, in bytes. Some clients limit the length of a line.
const MAX_PIECE: usize = 512;

/// Splits a text into pieces; none if it is empty.
pub(crate) fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(MAX_PIECE));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Splits a text into pieces with the probabilities of their tokens: a piece for each token, or one piece if the
/// tokens are not those of the text.
pub(crate) fn pieces_with_logprobs<'a>(
    text: &'a str,
    logprobs: &'a [Value],
) -> Vec<(&'a str, &'a [Value])> {
    if logprobs.is_empty() {
        return pieces(text).map(|piece| (piece, &[][..])).collect();
    }
    let mut rest = text;
    let mut pieces = Vec::with_capacity(logprobs.len());
    for logprob in logprobs.chunks(1) {
        let token = logprob
            .iter()
            .find_map(|entry| entry.get("token")?.as_str());
        let Some((piece, after)) = token
            .filter(|token| rest.starts_with(token))
            .and_then(|token| rest.split_at_checked(token.len()))
        else {
            return vec![(text, logprobs)];
        };
        pieces.push((piece, logprob));
        rest = after;
    }
    match rest {
        "" => pieces,
        _ => vec![(text, logprobs)],
    }
}
