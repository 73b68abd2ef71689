//! Answers that were paid for.

use std::fmt;
use std::sync::Arc;

use cachalot_core::{Cost, Millis};
use cachalot_model::Usage;

/// A program that leaves transcripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    /// Anthropic's Claude Code.
    ClaudeCode,
    /// OpenAI's Codex.
    Codex,
    /// Google's Gemini CLI.
    GeminiCli,
    /// This program.
    Cachalot,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::GeminiCli => "Gemini CLI",
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
    /// True if it was answered at a speed or in a service tier whose prices are not known.
    pub is_unpriced: bool,
    /// True if the transcript may lack the final count of the output.
    pub is_partial: bool,
    /// True if another copy of it, outside of sub-agents, gives the session.
    pub(super) is_sidechain: bool,
    /// Tokens that were written to the provider's cache again.
    pub loss: Option<Loss>,
}

impl PaidAnswer {
    /// Creates an answer of which another source knows the cost.
    #[must_use]
    pub fn with_cost(client: Client, usage: Usage, cost: Cost, at: Millis) -> Self {
        Self {
            client,
            project: "".into(),
            session: "".into(),
            model: "".into(),
            at: Some(at),
            usage,
            cost: Some(cost),
            is_unpriced: false,
            is_partial: false,
            is_sidechain: false,
            loss: None,
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
    /// The conversation was replaced by a summary, which is not avoidable.
    Compaction,
    /// Another model answered in between.
    ModelChanged,
    /// The pause since the request before was longer than the lifetime of its entries, in milliseconds.
    Paused(Millis),
    /// The transcript shows no cause.
    Unexplained,
}

impl LossCause {
    /// True if other behavior of the user or the program avoids it.
    #[must_use]
    pub fn is_avoidable(&self) -> bool {
        !matches!(self, Self::Compaction)
    }
}
