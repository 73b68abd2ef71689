//! Jumps of the cost from one answer of a conversation to the next, and their causes.

use std::fmt;

use cachalot_accounting::CostByKind;
use cachalot_core::Cost;

use super::{Turn, Walker};
use crate::reading::reading;

/// The part of the session's cost that a jump has at least: a hundredth.
const MIN_PART: u64 = 100;

/// A growth of the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jump {
    /// The growth since the answer before.
    pub more: Cost,
    /// The cause of the largest part of it.
    pub cause: JumpCause,
}

/// The cause of a growth of the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JumpCause {
    /// The model costs more, or reads nothing of what the one before it had in the cache.
    OtherModel,
    /// The pause outlasted the provider's cache.
    ColdCache,
    /// The prefix differs from the one in the provider's cache.
    BrokenPrefix,
    /// The prompt is longer.
    LongerPrompt,
    /// The answer is longer.
    LargerOutput,
    /// Tools of the provider, such as searches of the web.
    Tools,
}

impl JumpCause {
    /// Returns the name in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OtherModel => "other_model",
            Self::ColdCache => "cold_cache",
            Self::BrokenPrefix => "broken_prefix",
            Self::LongerPrompt => "longer_prompt",
            Self::LargerOutput => "larger_output",
            Self::Tools => "tools",
        }
    }
}

impl fmt::Display for JumpCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherModel => "another model",
            Self::ColdCache => "cold cache",
            Self::BrokenPrefix => "broken prefix",
            Self::LongerPrompt => "longer prompt",
            Self::LargerOutput => "larger output",
            Self::Tools => "tools of the provider",
        })
    }
}

impl Jump {
    /// True if the cost at least doubled, and the growth is a part of the session's cost that is worth a word.
    pub(super) fn is_large(&self, before: Cost, total: Cost) -> bool {
        let more = self.more.picodollars;
        more >= before.picodollars.max(1) && more >= total.picodollars / MIN_PART
    }
}

impl Walker<'_> {
    /// Compares the costs of two answers; `None` if the cost did not grow, or if it is not known for what it was paid.
    pub(super) fn jump(&self, last: &Turn<'_>, turn: &Turn<'_>) -> Option<Jump> {
        let more = turn.cost.picodollars.checked_sub(last.cost.picodollars)?;
        if last.cost.unpriced > 0 {
            return None;
        }
        let answer = turn.answer;
        let paid = self.price(answer, &answer.usage)?;
        if paid.total() != turn.cost {
            return None;
        }
        let lost = turn.loss.as_ref().map_or(0, |loss| loss.tokens);
        let warm = self.price(answer, &reading(&answer.usage, lost))?;
        let before = self.price(answer, &last.answer.usage)?;
        let prompt = |cost: &CostByKind| {
            [cost.input, cost.cache_read, cost.cache_write]
                .iter()
                .fold(0, |sum, part| sum + signed(*part))
        };
        let other_price = signed(before.total()) - signed(last.cost);
        let cold = signed(paid.total()) - signed(warm.total());
        let longer = prompt(&warm) - prompt(&before);
        // Another model reads nothing of what this one has in the cache.
        let prompt_parts = if answer.model != last.answer.model {
            let part = other_price + cold + longer;
            [(part, JumpCause::OtherModel), (0, JumpCause::LongerPrompt)]
        } else if turn.is_cold {
            [
                (cold, JumpCause::ColdCache),
                (longer, JumpCause::LongerPrompt),
            ]
        } else {
            [
                (cold, JumpCause::BrokenPrefix),
                (longer, JumpCause::LongerPrompt),
            ]
        };
        let parts = [
            (
                signed(warm.output) - signed(before.output),
                JumpCause::LargerOutput,
            ),
            (signed(warm.tools) - signed(before.tools), JumpCause::Tools),
        ];
        let parts = prompt_parts.into_iter().chain(parts);
        let (_, cause) = parts.max_by_key(|(part, _)| *part)?;
        Some(Jump {
            more: Cost::from_picodollars(more),
            cause,
        })
    }
}

fn signed(cost: Cost) -> i128 {
    i128::from(cost.picodollars)
}
