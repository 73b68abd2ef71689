//! What a turn came to.

use cachalot_core::Spend;
use cachalot_model::Usage;
use cachalot_prefix::diagnosis::Diagnosis;

use crate::Provenance;

/// Why a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The model had nothing more to do.
    End,
    /// The model, or a filter of its provider, refused.
    Refusal,
    /// The answer reached the limit of its tokens.
    Length,
    /// So many model calls were made, and no more are allowed in a turn.
    Iterations(u32),
    /// The model made the same calls so many times in a row.
    Repetition(u32),
    /// A budget is used up; says which.
    Budget(String),
    /// It was cancelled.
    Interrupted,
    /// A hook did not let it begin or go on; says why.
    Hook(String),
}

impl Stop {
    /// What to tell the user, if the turn did not simply end.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        Some(match self {
            Self::End => return None,
            Self::Refusal => "the model refused to answer".to_owned(),
            Self::Length => {
                "the answer is cut off: it reached the limit of its tokens (max_tokens)".to_owned()
            }
            Self::Iterations(most) => {
                format!("stopped after {most} model calls (max_iterations); say something to go on")
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

/// What a turn came to.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnReport {
    /// The last text of the model, or of a hook that answered for it, in this turn; of an answer that
    /// was interrupted, what had come of it.
    pub text: String,
    /// Why it ended.
    pub stop: Stop,
    /// What it used, sub-agents included.
    pub sum: Sum,
    /// Where the text comes from, if no model gave it.
    pub synthetic: Option<Provenance>,
    /// Where the provider could not read what it had been sent before in this session, and why.
    pub breaks: Vec<Diagnosis>,
}

/// What turns used, cost and saved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Model calls that were answered.
    pub model_calls: u32,
    /// How many of them a fallback answered, in place of the model that was asked first.
    pub fallback_calls: u32,
    /// Tool calls that have results, those that were refused included.
    pub tool_calls: u32,
    /// Answers that hooks gave, and that a model would have been paid for.
    pub saved_answers: u32,
    /// Tokens.
    pub usage: Usage,
    /// What was paid, for models.
    pub paid: Spend,
    /// What was saved, by tools that need not run and models that need not be asked.
    pub saved: Spend,
}

impl std::ops::AddAssign for Sum {
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
