//! Wire formats.

use cachalot_core::Problem;
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
    /// Claims `format`.
    pub(crate) fn read(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        let text = section.text("format", problems)?;
        let format = match text {
            "chat" => Self::Chat,
            "responses" => Self::Responses,
            "messages" => Self::Messages,
            "gemini" => Self::Gemini,
            "converse" => Self::Converse,
            other => {
                let mut problem =
                    Problem::new("bad-value", format!("there is no format `{other}`")).help(
                        cachalot_core::suggest::did_you_mean(
                            other,
                            &["chat", "responses", "messages", "gemini", "converse"],
                        ),
                    );
                if let Some(node) = section.node("format") {
                    problem = problem.at(&node.place);
                }
                problems.push(problem);
                return None;
            }
        };
        Some(format)
    }
}
