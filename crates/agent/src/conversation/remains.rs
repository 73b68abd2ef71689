//! What a turn leaves behind that does not come to its end, and what stands in the conversation for
//! what is missing.

use std::collections::BTreeSet;

use cachalot_model::{Block, Extra, Message, Role, ToolResult};
use cachalot_tools::{Answer, Output};

use crate::said::is_visible;

/// What stands for an answer that never came, so that user and model keep taking turns.
const NO_ANSWER: &str = "(no answer: the turn ended before there was one)";

/// What stands behind an answer of which only a part came.
const BROKEN_OFF: &str = "(the answer broke off here)";

/// What stands for the result of a call that was interrupted.
const INTERRUPTED: &str =
    "The call was interrupted. Whether it had an effect is not known; look before you repeat it.";

/// What stands for the result of a call that was not begun.
const NOT_BEGUN: &str = "The call was not made: the turn was interrupted before.";

/// What stands for a result without content, which some providers refuse.
const EMPTY_RESULT: &str = "(nothing)";

/// How far the calls of a batch have come.
#[derive(Debug, Default, Clone)]
pub(crate) struct Progress {
    pub(crate) began: BTreeSet<String>,
    pub(crate) ended: Vec<Answer>,
}

/// What a turn left behind; nothing, if nobody knows.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    /// The answer as far as it was shown.
    pub(crate) text: String,
    /// How far the calls have come.
    pub(crate) progress: Option<Progress>,
}

impl Remains {
    /// Results of calls that have none.
    pub(super) fn results(&self, ids: Vec<String>) -> Message {
        let results = ids.into_iter().map(|id| {
            let output = self.output(&id);
            block(id, output)
        });
        Message::of(Role::User, results.collect())
    }

    fn output(&self, id: &str) -> Output {
        let Some(progress) = &self.progress else {
            return Output::error(INTERRUPTED);
        };
        let ended = progress.ended.iter().find(|answer| answer.call.id == id);
        match ended {
            Some(answer) => answer.output.clone(),
            None if progress.began.contains(id) => Output::error(INTERRUPTED),
            None => Output::error(NOT_BEGUN),
        }
    }

    /// The answer, as far as it came.
    pub(super) fn answer(&self) -> Message {
        match is_visible(&self.text) {
            true => Message::assistant(format!("{}\n\n{BROKEN_OFF}", self.text.trim_end())),
            false => Message::assistant(NO_ANSWER),
        }
    }
}

/// The results of calls, in their order, one for each.
pub(crate) fn results(calls: &[String], answers: &[Answer]) -> Message {
    let results = calls.iter().map(|id| {
        let answer = answers.iter().find(|answer| answer.call.id == *id);
        let output = answer.map(|answer| answer.output.clone());
        block(
            id.clone(),
            output.unwrap_or_else(|| Output::error(INTERRUPTED)),
        )
    });
    Message::of(Role::User, results.collect())
}

fn block(id: String, output: Output) -> Block {
    let is_empty = output.content.iter().all(|block| match block {
        Block::Text { text, .. } => !is_visible(text),
        _ => false,
    });
    Block::ToolResult(ToolResult {
        id,
        content: match is_empty {
            true => vec![Block::text(EMPTY_RESULT)],
            false => output.content,
        },
        is_error: output.is_error,
        extra: Extra::new(),
    })
}
