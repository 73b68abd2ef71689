//! Recovery from a conversation that the model refuses as too long: it is compacted in the middle of the
//! turn, and the turn continues.

use super::compact::{CompactionTrigger, Compactor, NotCompacted};
use super::reserve::BYTES_PER_TOKEN;
use crate::conversation::Conversation;

/// Compacts the conversation, which the model refused as too long. The user's message is then held, to be sent
/// again. `is_repeated` is true if that was tried
/// before in this turn.
pub(super) async fn recover(
    mut compactor: Compactor<'_, '_>,
    is_repeated: bool,
) -> Result<(), NotCompacted> {
    let failed = |why: &str| Err(NotCompacted::Failed(why.to_owned()));
    if compactor.session.awaits_first_answer {
        return failed(
            "a fork is sent what it inherits as it was sent before, and not a summary of it",
        );
    }
    if compactor.context.agent.compaction_threshold <= 0.0 {
        return failed(
            "it is not summarized by itself (`compaction_threshold: 0`; `/compact` does it)",
        );
    }
    if is_repeated {
        return failed("the conversation is already summarized: this message alone is too long");
    }
    if compactor
        .summary_input(CompactionTrigger::Overflow)
        .is_empty()
    {
        return failed("nothing stands before the message that could be summarized");
    }
    let compacted = Box::pin(compactor.compact(CompactionTrigger::Overflow)).await;
    compacted.map_err(|reason| match reason {
        NotCompacted::Failed(why) => {
            NotCompacted::Failed(format!("it could not be summarized: {why}"))
        }
        ended @ NotCompacted::Ended(_) => ended,
    })
}

/// Describes the length of a conversation and its limit, as far as known.
pub(super) fn describe_length(conversation: &Conversation) -> String {
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
