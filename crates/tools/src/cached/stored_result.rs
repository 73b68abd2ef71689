//! The encoding of a result in an entry.

use bytes::Bytes;
use cachalot_cache::{Body, DecodeError, Decoded, Failure};
use cachalot_model::{Block, ImageSource};
use serde::{Deserialize, Serialize};

use cachalot_operation::ToolOutput;

/// A result. Failures are never stored; the lifetime is a property of the entry.
#[derive(Debug, Serialize, Deserialize)]
struct StoredResult {
    content: Vec<Block>,
    #[serde(default)]
    private: bool,
}

impl Decoded for StoredResult {
    fn weight(&self) -> u64 {
        let blocks: u64 = self.content.iter().map(weight).sum();
        size_of::<Self>() as u64 + blocks
    }
}

fn weight(block: &Block) -> u64 {
    let text = match block {
        Block::Text { text, extra } if extra.is_empty() => text.capacity(),
        Block::Image(image) if image.extra.is_empty() => match &image.source {
            ImageSource::Url(url) => url.capacity(),
            ImageSource::Inline { media_type, base64 } => media_type.capacity() + base64.capacity(),
        },
        // Rare: weighed as a JSON tree.
        other => {
            return serde_json::to_value(other).map_or(0, |tree| tree.weight());
        }
    };
    (size_of::<Block>() + text) as u64
}

/// The error text of a failed tool.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ToolFailed(String);

/// The failure of a tool, for the ledger.
pub(super) fn failure(output: &ToolOutput) -> Failure {
    let texts = output.content.iter().filter_map(Block::as_text);
    Failure::new(ToolFailed(texts.collect::<Vec<_>>().join("\n")))
}

/// Encodes a result.
pub(super) fn encode(output: &ToolOutput) -> serde_json::Result<Bytes> {
    /// A borrowed form of [`StoredResult`].
    #[derive(Serialize)]
    struct StoredResultRef<'a> {
        content: &'a [Block],
        private: bool,
    }
    let keeping = StoredResultRef {
        content: &output.content,
        private: output.private,
    };
    serde_json::to_vec(&keeping).map(Bytes::from)
}

fn decode(bytes: &[u8]) -> Result<StoredResult, DecodeError> {
    serde_json::from_slice(bytes).map_err(|error| DecodeError(error.to_string()))
}

/// Decodes an answer of the engine into an owned result.
pub(super) async fn read(body: &Body) -> Result<ToolOutput, Failure> {
    let stored_result = body.decoded(decode).await?;
    Ok(ToolOutput {
        private: stored_result.private,
        ..stored_result.content.clone().into()
    })
}
