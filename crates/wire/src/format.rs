//! Wire formats.

use cachalot_core::config::{Settings, Word as _};

/// A wire format.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, Settings,
)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// OpenAI Chat Completions, and servers compatible with it.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
    /// Gemini's `generateContent`.
    Gemini,
    /// Gemini's Interactions.
    Interactions,
    /// Amazon Bedrock's Converse.
    Converse,
}

impl Format {
    /// Claims `format`.
    pub fn name(self) -> &'static str {
        self.word()
    }
}
