//! Recovery from a conversation that the model refuses as too long: it is compacted in the middle of the
//! turn, and the turn continues.

use cachalot_model::{Error as ModelError, ErrorKind};

use super::Turn;
use super::compact::{CompactionOutcome, CompactionTrigger};
use crate::Error;
use crate::normalized_reply::is_visible;
use crate::report::Stop;

/// A note for the model on a message that it had begun to answer before the compaction.
const RESUMED_MESSAGE_NOTE: &str = "This message was said before the summary above was written: what was done for it until then stands in the summary, and need not be done again.";

/// The name under which hook events report the added summary.
const SUMMARY_SOURCE: &str = "a summary of a conversation that was too long";

/// Estimated bytes per token.
const BYTES_PER_TOKEN: u64 = 4;

impl Turn<'_> {
    /// Compacts the conversation if the model refused it as too long, at most once per turn. The user's
    /// message is then held, to be sent again.
    ///
    /// # Errors
    /// The model's error, if it is another one or compaction does not help.
    pub(super) async fn compact_after_overflow(
        &mut self,
        error: ModelError,
    ) -> Result<Result<(), Stop>, Error> {
        if error.kind != ErrorKind::TooLong || is_visible(&self.partial_text) {
            return Err(self.keep_partial_answer(error).await);
        }
        let why = if self.session.awaits_first_answer {
            "a fork is sent what it inherits as it was sent before, and not a summary of it"
                .to_owned()
        } else if self.agent.compaction_threshold <= 0.0 {
            "it is not summarized by itself (`compaction_threshold: 0`; `/compact` does it)"
                .to_owned()
        } else if std::mem::replace(&mut self.overflowed, true) {
            "it was summarized already: what is said at once is too much".to_owned()
        } else if self.summary_input(CompactionTrigger::Overflow).is_empty() {
            "nothing stands before the message that could be summarized".to_owned()
        } else {
            match Box::pin(self.compact_now(CompactionTrigger::Overflow)).await? {
                Ok(CompactionOutcome::Done) => return Ok(Ok(())),
                Ok(CompactionOutcome::Failed(why)) => format!("it could not be summarized: {why}"),
                Err(stop) => return Ok(Err(stop)),
            }
        };
        let length = self.describe_length();
        let mut error = self.keep_partial_answer(error).await;
        error.message.push_str(&format!(
            "; the conversation has {length}, and {why}. Say less at once, begin a new session, or go on with a model that takes more"
        ));
        Err(error)
    }

    /// Describes the length of the conversation and its limit, as far as known.
    fn describe_length(&self) -> String {
        let conversation = &self.session.conversation;
        let bytes = conversation.prompt().bytes();
        let takes = match conversation.model().limits().context {
            Some(takes) => format!(" of the {takes} that the model takes"),
            None => String::new(),
        };
        format!(
            "{bytes} bytes, about {} tokens{takes}",
            bytes / BYTES_PER_TOKEN
        )
    }

    /// Estimated input tokens of the next request: those of the last request, or an estimate from its bytes
    /// if that is unknown.
    pub(super) fn estimate_next_input(&self) -> u64 {
        if let Some(last) = self.session.last_input() {
            return last;
        }
        let conversation = &self.session.conversation;
        let said = match conversation.held() {
            Some(message) => serde_json::to_vec(message).map_or(0, |bytes| bytes.len()),
            None => self.input.text.len(),
        };
        let said = u64::try_from(said).unwrap_or(u64::MAX);
        conversation.prompt().bytes().saturating_add(said) / BYTES_PER_TOKEN
    }

    /// Holds the user's message again, after the summary.
    pub(super) fn hold_message_after_summary(&mut self) {
        if self.has_begun() {
            self.appended.push(RESUMED_MESSAGE_NOTE.to_owned());
        }
        self.hook_prompt.prefix = Some(self.session.conversation.prefix());
        self.appended_by.push(SUMMARY_SOURCE.to_owned());
        self.hold_message();
    }

    /// True if something was answered in this turn.
    pub(super) fn has_begun(&self) -> bool {
        self.stop_reason.is_some() || self.synthetic.is_some()
    }
}
