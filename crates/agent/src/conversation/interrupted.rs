//! The state that an interrupted turn leaves behind, and the messages that replace what is missing.

use std::collections::{BTreeMap, BTreeSet};

use cachalot_model::{Block, Extra, Message, Role, ToolResult};
use cachalot_tools::{LiveOutput, ToolCallResult, ToolOutput};

use super::changed_mark::mark_changed;
use crate::normalized_reply::is_visible;

/// Replaces an answer that never arrived, so that user and model keep alternating.
const NO_ANSWER: &str = "(no answer: the turn ended before there was one)";

/// Follows an answer of which only a part arrived.
const INCOMPLETE_ANSWER: &str = "(the answer broke off here)";

/// Replaces the result of an interrupted call.
const INTERRUPTED: &str =
    "The call was interrupted. Whether it had an effect is not known; look before you repeat it.";

/// The maximum size of the output in the result of an interrupted call.
const MAX_OUTPUT_BYTES: usize = 4_000;

/// Replaces a result that hooks had to see before the model and did not.
const WITHHELD: &str = "The call was made, but the turn was interrupted before its result could be passed on. Make it again if you need the result and repeating it does no harm.";

/// Replaces the result of a call that was not started.
const NOT_STARTED: &str = "The call was not made: the turn was interrupted before.";

/// Replaces a result without content, which some providers refuse.
const EMPTY_RESULT: &str = "(nothing)";

/// Progress of the calls of a batch.
#[derive(Debug, Default, Clone)]
pub(crate) struct Progress {
    /// IDs of calls that have begun, and their output while they run.
    pub(crate) started: BTreeMap<String, LiveOutput>,
    pub(crate) ended: Vec<ToolCallResult>,
    /// IDs of ended calls whose results hooks have not seen yet.
    pub(crate) unseen: BTreeSet<String>,
    /// IDs of calls whose results hooks have changed.
    pub(crate) changed: BTreeSet<String>,
}

impl Progress {
    /// Records that hooks have seen, and possibly changed, the result of a call.
    pub(crate) fn record_seen(&mut self, answer: &ToolCallResult, is_changed: bool) {
        let id = &answer.call.id;
        self.unseen.remove(id);
        if is_changed {
            self.changed.insert(id.clone());
        }
        for ended in &mut self.ended {
            if ended.call.id == *id {
                ended.clone_from(answer);
            }
        }
    }
}

/// The state that an interrupted turn left behind; empty if it is unknown.
#[derive(Debug, Default)]
pub(crate) struct InterruptedTurn {
    /// The answer as far as it was shown.
    pub(crate) text: String,
    /// Progress of the calls; `None` if it is unknown.
    pub(crate) progress: Option<Progress>,
}

impl InterruptedTurn {
    /// Results for the calls that have none.
    pub(super) fn results(&self, ids: Vec<String>) -> Message {
        let results = ids.into_iter().map(|id| {
            let output = self.output(&id);
            let progress = self.progress.as_ref();
            let is_changed = progress.is_some_and(|progress| progress.changed.contains(&id));
            block(id, output, is_changed)
        });
        Message::new(Role::User, results.collect())
    }

    fn output(&self, id: &str) -> ToolOutput {
        // A session that another process left behind has no progress: the call may have run or not.
        let Some(progress) = &self.progress else {
            return ToolOutput::error(INTERRUPTED);
        };
        let ended = progress.ended.iter().find(|answer| answer.call.id == id);
        match (ended, progress.started.get(id)) {
            (Some(_), _) if progress.unseen.contains(id) => ToolOutput::error(WITHHELD),
            (Some(answer), _) => answer.output.clone(),
            (None, Some(output)) => ToolOutput::error(interrupted_call(output)),
            (None, None) => ToolOutput::error(NOT_STARTED),
        }
    }

    /// True if the message stands for an incomplete or missing answer.
    pub(crate) fn is_placeholder(message: &Message) -> bool {
        let text = message.text();
        text == NO_ANSWER || text.ends_with(INCOMPLETE_ANSWER)
    }

    /// The answer, as far as it arrived.
    pub(super) fn answer(&self) -> Message {
        if is_visible(&self.text) {
            Message::assistant(format!("{}\n\n{INCOMPLETE_ANSWER}", self.text.trim_end()))
        } else {
            Message::assistant(NO_ANSWER)
        }
    }
}

/// The result of an interrupted call: with the output that its tool had written, or the end of it.
fn interrupted_call(output: &LiveOutput) -> String {
    let text = output.text();
    if !is_visible(&text) {
        return INTERRUPTED.to_owned();
    }
    if text.len() <= MAX_OUTPUT_BYTES {
        format!("{INTERRUPTED} Its output before that:\n{}", text.trim_end())
    } else {
        let end = output.end(MAX_OUTPUT_BYTES);
        format!(
            "{INTERRUPTED} The end of its output before that:\n{}",
            end.trim_end()
        )
    }
}

/// The results of the calls, in order, one per call. `changed` are the IDs of results that hooks have
/// changed.
pub(crate) fn results(
    calls: &[String],
    answers: &[ToolCallResult],
    changed: &BTreeSet<String>,
) -> Message {
    let results = calls.iter().map(|id| {
        let answer = answers.iter().find(|answer| answer.call.id == *id);
        let output = answer.map(|answer| answer.output.clone());
        block(
            id.clone(),
            output.unwrap_or_else(|| ToolOutput::error(INTERRUPTED)),
            changed.contains(id),
        )
    });
    Message::new(Role::User, results.collect())
}

fn block(id: String, output: ToolOutput, is_changed: bool) -> Block {
    let is_blank = |block: &Block| block.as_text().is_some_and(|text| !is_visible(text));
    let is_empty = output.content.iter().all(is_blank);
    let mut result = ToolResult {
        id,
        content: if is_empty {
            vec![Block::text(EMPTY_RESULT)]
        } else {
            output.content
        },
        is_error: output.is_error,
        extra: Extra::new(),
    };
    if is_changed {
        mark_changed(&mut result);
    }
    Block::ToolResult(result)
}
