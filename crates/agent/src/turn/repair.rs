//! Repair of a conversation, so that a message of the user can follow.

use super::context::TurnContext;
use crate::active_session::ActiveSession;
use crate::conversation::InterruptedTurn;
use crate::{Error, ErrorKind};

/// Repairs the conversation after an earlier turn that was interrupted.
pub(super) async fn repair_conversation(
    context: &TurnContext<'_>,
    session: &mut ActiveSession,
) -> Result<(), Error> {
    if !session.open_call_results.is_empty() {
        // The user's message brings results for the open calls.
        return Ok(());
    }
    match session
        .conversation
        .repair(InterruptedTurn::default())
        .await
    {
        Err(error) if error.kind == ErrorKind::Conflict => reopen(context, session).await,
        done => done,
    }
}

/// Continues from the stored session after another writer has appended to it.
pub(super) async fn reopen(
    context: &TurnContext<'_>,
    session: &mut ActiveSession,
) -> Result<(), Error> {
    Box::pin(session.reopen(context.shared, context.agent)).await?;
    session
        .conversation
        .repair(InterruptedTurn::default())
        .await
}
