//! `/fork`: a new session that begins with the conversation of another one.

use cachalot_prompt::{SessionHead, Sessions};

use crate::command_error::{CommandError, Result};
use crate::wiring::run_id;

/// Creates a session that continues from the end of another one, and returns its ID. Both share the stored pieces of
/// their prompt, and the provider's cache.
///
/// # Errors
/// The conversation is empty, or the store fails.
pub(super) async fn fork(sessions: &Sessions, session: &str) -> Result<String> {
    let opened = sessions.open(session).await?;
    let from = opened.filter(|opened| !opened.prompt.messages().is_empty());
    let Some(from) = from else {
        let nothing = "the conversation is empty; there is nothing to continue from";
        return Err(CommandError::failed(nothing));
    };
    let head = SessionHead {
        id: run_id(),
        // It is a session of the user, and not one of another session.
        parent: None,
        origin: Some(from.head.lineage()),
        ..from.head.clone()
    };
    let mut fork = sessions.create_from(head, from.prompt.clone()).await?;
    fork.last_usage = from.last_usage;
    fork.namespace.clone_from(&from.namespace);
    fork.save().await?;
    Ok(fork.head.id.clone())
}
