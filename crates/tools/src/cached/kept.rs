//! A result as an entry holds it.

use bytes::Bytes;
use cachalot_cache::{Body, DecodeError, Failure};
use cachalot_model::Block;
use serde::{Deserialize, Serialize};

use crate::tool::Output;

/// A result. Failures are never kept, and how long it lasts is the entry's affair.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    content: Vec<Block>,
    #[serde(default)]
    private: bool,
}

/// A tool failed; whoever waited for the same call gets the same failure.
#[derive(Debug, thiserror::Error)]
#[error("{}", text_of(&.0.content))]
pub(super) struct ToolFailed(pub(super) Output);

/// The bytes of a result.
pub(super) fn encode(output: &Output) -> Result<Bytes, String> {
    /// The same form as [`Kept`], borrowed.
    #[derive(Serialize)]
    struct Keeping<'a> {
        content: &'a [Block],
        private: bool,
    }
    let keeping = Keeping {
        content: &output.content,
        private: output.private,
    };
    let bytes = serde_json::to_vec(&keeping).map_err(|error| error.to_string())?;
    Ok(bytes.into())
}

fn decode(bytes: &[u8]) -> Result<Kept, DecodeError> {
    serde_json::from_slice(bytes).map_err(|error| DecodeError(error.to_string()))
}

/// The content of an answer, a copy of one's own; a failure of the tool itself is a result, too.
pub(super) async fn read(body: &Body) -> Result<Output, Failure> {
    match body.decoded(decode).await {
        Ok(kept) => Ok(Output {
            content: kept.content.clone(),
            is_error: false,
            lifetime: None,
            private: kept.private,
        }),
        Err(failure) => match failure.cause::<ToolFailed>() {
            Some(ToolFailed(output)) => Ok(output.clone()),
            None => Err(failure),
        },
    }
}

/// The texts of a result, one after the other.
pub(super) fn text_of(content: &[Block]) -> String {
    content
        .iter()
        .filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect::<Vec<_>>()
        .join("\n")
}
