//! Answers that were paid for.

use std::fmt;
use std::sync::Arc;

use cachalot_accounting::Terms;
use cachalot_core::{Cost, Millis};
use cachalot_model::Usage;

use super::details::AnswerDetails;

/// A program that leaves transcripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    /// Anthropic's Claude Code.
    ClaudeCode,
    /// OpenAI's Codex.
    Codex,
    /// Google's Gemini CLI.
    GeminiCli,
    /// opencode.
    OpenCode,
    /// Qwen Code.
    QwenCode,
    /// pi.
    Pi,
    /// GitHub's Copilot CLI.
    CopilotCli,
    /// Cline's command line.
    Cline,
    /// Moonshot's Kimi Code.
    KimiCode,
    /// This program.
    Cachalot,
}

impl Client {
    /// True if its transcripts may be one JSON document each.
    pub(super) fn writes_documents(self) -> bool {
        matches!(self, Self::GeminiCli | Self::Cline)
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::GeminiCli => "Gemini CLI",
            Self::OpenCode => "opencode",
            Self::QwenCode => "Qwen Code",
            Self::Pi => "pi",
            Self::CopilotCli => "Copilot CLI",
            Self::Cline => "Cline",
            Self::KimiCode => "Kimi Code",
            Self::Cachalot => "Cachalot",
        })
    }
}

/// An answer of a model, with what its request cost.
#[derive(Debug, Clone)]
pub struct PaidAnswer {
    /// The program that asked.
    pub client: Client,
    /// The directory in which it worked, or another name of the project.
    pub project: Arc<str>,
    /// The session.
    pub session: Arc<str>,
    /// The model, as named by the program; empty if it is not known.
    pub model: Arc<str>,
    /// The time of the answer.
    pub at: Option<Millis>,
    /// The tokens.
    pub usage: Usage,
    /// The cost, where it is recorded; otherwise it results from the prices of the model.
    pub cost: Option<Cost>,
    /// Members of the answer that change its price, beside the tokens.
    pub terms: Terms,
    /// True if the transcript may lack the final count of the output.
    pub is_partial: bool,
    /// True if another copy of it, outside of sub-agents, gives the session.
    pub(crate) is_sidechain: bool,
    /// Tokens that were written to the provider's cache again.
    pub loss: Option<Loss>,
    /// Details, if the reader keeps them.
    pub details: Option<Box<AnswerDetails>>,
    /// Its place in a conversation.
    pub(crate) place: AnswerPlace,
}

/// The place of an answer in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnswerPlace {
    /// After the earlier answers of the same session and sub-agent, by time.
    InSession {
        /// The sub-agent, if the session has several.
        agent: Option<Arc<str>>,
    },
    /// As the transcript records it.
    Recorded {
        /// The key of this answer.
        key: u64,
        /// The key of the answer before it by the same model.
        previous: Option<u64>,
        /// True for a sub-agent's answer.
        is_sub_agent: bool,
    },
    /// Not known: a part of another answer, or one of several conversations without names.
    Unknown,
}

impl PaidAnswer {
    /// Creates an answer whose cost results from the prices of its model.
    pub(crate) fn new(client: Client, model: Arc<str>, at: Option<Millis>, usage: Usage) -> Self {
        Self {
            client,
            project: "".into(),
            session: "".into(),
            model,
            at,
            usage,
            cost: None,
            terms: Terms::default(),
            is_partial: false,
            is_sidechain: false,
            loss: None,
            details: None,
            place: AnswerPlace::InSession { agent: None },
        }
    }

    /// Returns the sub-agent that answered, where the transcript names it and its details are known.
    #[must_use]
    pub fn agent(&self) -> Option<&str> {
        let of_session = match &self.place {
            AnswerPlace::InSession { agent } => agent.as_deref(),
            AnswerPlace::Recorded { .. } | AnswerPlace::Unknown => None,
        };
        of_session.or_else(|| self.details.as_ref()?.agent.as_deref())
    }

    /// Returns an answer whose place in a conversation is not known, such as the sum of several.
    #[must_use]
    pub fn without_place(self) -> Self {
        Self {
            place: AnswerPlace::Unknown,
            ..self
        }
    }

    /// Creates an answer of which another source knows the cost.
    #[must_use]
    pub fn with_cost(client: Client, usage: Usage, cost: Cost, at: Millis) -> Self {
        Self {
            cost: Some(cost),
            ..Self::new(client, "".into(), Some(at), usage)
        }
    }
}

/// Tokens that a request wrote to the provider's cache again, although the one before it had them there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The number of tokens.
    pub tokens: u64,
    /// The cause.
    pub cause: LossCause,
}

/// The cause of a loss.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LossCause {
    /// The provider's own comparison of the requests names it: `tools_changed` and others.
    Diagnosed(Arc<str>),
    /// The conversation was replaced by a summary.
    Compaction,
    /// Another model answered in between.
    ModelChanged,
    /// The pause since the request before was longer than the lifetime of its entries, in milliseconds.
    Paused(Millis),
    /// The transcript shows no cause.
    Unexplained,
}

/// Returns the usage of counts whose input includes what was read from and written to the provider's cache, for a time
/// that is not recorded.
pub(super) fn inclusive_usage(
    input: Option<u64>,
    read: Option<u64>,
    written: Option<u64>,
    output: Option<u64>,
) -> Usage {
    let (read, written) = (read.unwrap_or(0), written.unwrap_or(0));
    let uncached = input.unwrap_or(0).saturating_sub(read);
    Usage {
        uncached_input: uncached.saturating_sub(written),
        cache_read: read,
        cache_write_other: written,
        output: output.unwrap_or(0),
        ..Usage::default()
    }
}
