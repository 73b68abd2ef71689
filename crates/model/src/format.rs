//! Wire formats.

use cachalot_core::Problem;
use cachalot_core::spec::words;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::Section;

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
    pub(crate) fn read(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        let text = section.text("format", problems)?;
        let format = Self::NAMES.iter().find(|(name, _)| *name == text);
        if format.is_none() {
            let problem = Problem::new("bad-value", format!("there is no format `{text}`"))
                .help(did_you_mean(text, &words(&Self::NAMES)));
            problems.push(match section.node("format") {
                Some(node) => problem.at(&node.place),
                None => problem,
            });
        }
        format.map(|(_, format)| *format)
    }
}
