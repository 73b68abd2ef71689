//! Wire formats.

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
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
    /// The formats by their names in files.
    pub const NAMES: [(&str, Self); 6] = [
        ("chat", Self::Chat),
        ("responses", Self::Responses),
        ("messages", Self::Messages),
        ("gemini", Self::Gemini),
        ("interactions", Self::Interactions),
        ("converse", Self::Converse),
    ];

    /// Claims `format`.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, format)| *format == self);
        named.map_or("", |(name, _)| name)
    }
}
