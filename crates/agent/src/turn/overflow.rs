//! Recovery from a conversation that the model refuses as too long: it is compacted in the middle of the
//! turn, and the turn continues.

use cachalot_model::{Error as ModelError, ErrorKind};

use super::Turn;
use super::compact::{Compacted, Why};
use crate::Error;
use crate::report::Stop;
use crate::said::is_visible;

/// A note for the model on a message that it had begun to answer before the compaction.
const UNDER_WAY: &str = "This message was said before the summary above was written: what was done for it until then stands in the summary, and need not be done again.";

/// The name under which hook events report the added summary.
const SUMMARY: &str = "a summary of a conversation that was too long";

/// Estimated bytes per token.
const TOKEN: u64 = 4;

impl Turn<'_> {
    /// Compacts the conversation if the model refused it as too long, at most once per turn. The user's
    /// message is then held, to be sent again.
    ///
    /// # Errors
    /// The model's error, if it is another one or compaction does not help.
    pub(super) async fn make_room(&mut self, error: ModelError) -> Result<Result<(), Stop>, Error> {
        if error.kind != ErrorKind::TooLong || is_visible(&self.partial) {
            return Err(self.broken_off(error).await);
        }
        let why = if self.desk.is_unread {
            "a fork is sent what it inherits as it was sent before, and not a summary of it"
                .to_owned()
        } else if self.agent.compaction_threshold <= 0.0 {
            "it is not summarized by itself (`compaction_threshold: 0`; `/compact` does it)"
                .to_owned()
        } else if std::mem::replace(&mut self.has_overflowed, true) {
            "it was summarized already: what is said at once is too much".to_owned()
        } else if self.material(Why::Overflow).is_empty() {
            "nothing stands before the message that could be summarized".to_owned()
        } else {
            match Box::pin(self.compact_now(Why::Overflow)).await? {
                Ok(Compacted::Is) => return Ok(Ok(())),
                Ok(Compacted::Not(why)) => format!("it could not be summarized: {why}"),
                Err(stop) => return Ok(Err(stop)),
            }
        };
        let length = self.length();
        let mut error = self.broken_off(error).await;
        error.message.push_str(&format!(
            "; the conversation has {length}, and {why}. Say less at once, begin a new session, or go on with a model that takes more"
        ));
        Err(error)
    }

    /// Describes the length of the conversation and its limit, as far as known.
    fn length(&self) -> String {
        let conversation = &self.desk.conversation;
        let bytes = conversation.prompt().bytes();
        let takes = match conversation.model().limits().context {
            Some(takes) => format!(" of the {takes} that the model takes"),
            None => String::new(),
        };
        format!("{bytes} bytes, about {} tokens{takes}", bytes / TOKEN)
    }

    /// Estimated input tokens of the next request: those of the last request, or an estimate from its bytes
    /// if that is unknown.
    pub(super) fn next_input(&self) -> u64 {
        if let Some(last) = self.desk.last_input() {
            return last;
        }
        let conversation = &self.desk.conversation;
        let said = match conversation.held() {
            Some(message) => serde_json::to_vec(message).map_or(0, |bytes| bytes.len()),
            None => self.task.said.len(),
        };
        let said = u64::try_from(said).unwrap_or(u64::MAX);
        conversation.prompt().bytes().saturating_add(said) / TOKEN
    }

    /// Holds the user's message again, after the summary.
    pub(super) fn stand_behind_summary(&mut self) {
        if self.has_begun() {
            self.paragraphs.push(UNDER_WAY.to_owned());
        }
        self.prompt.prefix = Some(self.desk.conversation.prefix());
        self.added_by.push(SUMMARY.to_owned());
        self.hold_message();
    }

    /// True if something was answered in this turn.
    pub(super) fn has_begun(&self) -> bool {
        self.finish.is_some() || self.synthetic.is_some()
    }
}
