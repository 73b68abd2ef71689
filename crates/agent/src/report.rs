//! Results of turns.

use cachalot_core::Spend;
use cachalot_model::Usage;
use cachalot_prefix::diagnosis::Diagnosis;

use crate::Provenance;

/// The reason why a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The model completed its answer.
    End,
    /// The model, or a content filter of its provider, refused.
    Refusal,
    /// The answer reached its token limit.
    Length,
    /// The turn reached this maximum of model calls.
    Iterations(u32),
    /// The model made the same calls this many times in a row.
    Repetition(u32),
    /// A budget is exhausted; contains the description.
    Budget(String),
    /// The turn was cancelled.
    Interrupted,
    /// A hook prevented the turn from starting or continuing; contains the reason.
    Hook(String),
}

impl Stop {
    /// Returns the notice for the user, if the turn did not simply end.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        Some(match self {
            Self::End => return None,
            Self::Refusal => "the model refused to answer".to_owned(),
            Self::Length => {
                "the answer is cut off: it reached the limit of its tokens (max_tokens)".to_owned()
            }
            Self::Iterations(maximum) => {
                format!(
                    "stopped after {maximum} model calls (max_iterations); send a message to continue"
                )
            }
            Self::Repetition(times) => format!(
                "stopped: the same tool calls were made {times} times in a row (max_consecutive_tool_calls)"
            ),
            Self::Budget(which) => format!("stopped: {which}"),
            Self::Interrupted => "interrupted; the session is kept".to_owned(),
            Self::Hook(why) => format!("stopped by a hook: {why}"),
        })
    }
}

/// The result of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnReport {
    /// The last text of this turn, by the model or by a hook in its place; of an interrupted answer, the part
    /// that was received.
    pub text: String,
    /// The reason why the turn ended.
    pub stop: Stop,
    /// Usage of the turn, including sub-agents.
    pub sum: UsageTotals,
    /// The origin of the text, if no model gave it.
    pub synthetic: Option<Provenance>,
    /// Prefix breaks: requests whose beginning the provider could not read from its cache although it was
    /// sent before, with causes.
    pub breaks: Vec<Diagnosis>,
}

/// Usage, cost and savings of turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageTotals {
    /// Answered model calls.
    pub model_calls: u32,
    /// Number of these that a fallback answered in place of the first model.
    pub fallback_calls: u32,
    /// Tool calls with results, including refused ones.
    pub tool_calls: u32,
    /// Answers by hooks that saved a model call.
    pub saved_answers: u32,
    /// Token usage.
    pub usage: Usage,
    /// Spend on models.
    pub paid: Spend,
    /// Spend that was saved by tool calls and model calls that were not made.
    pub saved: Spend,
}

impl std::ops::AddAssign for UsageTotals {
    fn add_assign(&mut self, other: Self) {
        self.model_calls = self.model_calls.saturating_add(other.model_calls);
        self.fallback_calls = self.fallback_calls.saturating_add(other.fallback_calls);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.saved_answers = self.saved_answers.saturating_add(other.saved_answers);
        self.usage += other.usage;
        self.paid += other.paid;
        self.saved += other.saved;
    }
}
