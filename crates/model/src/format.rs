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
    /// Amazon Bedrock's Converse.
    Converse,
}

impl Format {
    /// The formats by their names in files.
    pub(crate) const NAMES: [(&str, Self); 5] = [
        ("chat", Self::Chat),
        ("responses", Self::Responses),
        ("messages", Self::Messages),
        ("gemini", Self::Gemini),
        ("converse", Self::Converse),
    ];

    /// Claims `format`.
    pub(crate) fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, format)| *format == self);
        named.map_or("", |(name, _)| name)
    }
}
