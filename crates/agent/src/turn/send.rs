//! Sending of the next request: hooks receive the new messages, and may rewrite them, before they become part
//! of the session.

use cachalot_hooks::{Event as When, Synthetic};
use cachalot_model::Message;

use super::context::TurnContext;
use super::end::TurnEnd;
use super::message::TurnMessage;
use super::repair::reopen;
use super::synthetic::usable_answer;
use crate::ErrorKind;
use crate::active_session::ActiveSession;
use crate::conversation::{Conversation, validate_rewrite};
use crate::report::Stop;

/// Emits `before_llm_call`, and adds the held message to the session as hooks have rewritten it. Returns the
/// answer of a hook, if one has answered it.
pub(super) async fn send(
    context: &TurnContext<'_>,
    session: &mut ActiveSession,
    message: &mut TurnMessage<'_>,
    iteration: u32,
) -> Result<Option<Synthetic>, TurnEnd> {
    match send_once(context, session).await {
        // Only the user's message can follow another writer's messages.
        Err((TurnEnd::Failed(error), Some(held)))
            if error.kind == ErrorKind::Conflict && iteration == 1 =>
        {
            reopen(context, session).await?;
            message.record_conflict(&session.conversation);
            session.conversation.hold(Some(held));
            let sent = send_once(context, session).await;
            sent.map_err(|(end, _)| end)
        }
        sent => sent.map_err(|(end, _)| end),
    }
}

/// Sends once. An error carries the held message.
async fn send_once(
    context: &TurnContext<'_>,
    session: &mut ActiveSession,
) -> Result<Option<Synthetic>, (TurnEnd, Option<Message>)> {
    let conversation = &mut session.conversation;
    if context.hook_emitter.wants(When::BeforeLlmCall) {
        Box::pin(send_through_hooks(context, conversation)).await
    } else {
        append_held(conversation, None).await.map(|()| None)
    }
}

async fn send_through_hooks(
    context: &TurnContext<'_>,
    conversation: &mut Conversation,
) -> Result<Option<Synthetic>, (TurnEnd, Option<Message>)> {
    let (messages, unsent) = conversation.with_held();
    let last = messages[messages.len() - unsent..].to_vec();
    let emitted = context.emit(When::BeforeLlmCall, |input| {
        input.messages = messages;
        input.unsent = unsent;
    });
    let verdict = emitted.await.map_err(|stop| (stop.into(), None))?;
    let denial = verdict.denial().map(str::to_owned);
    let mut rewritten = None;
    if let Some(messages) = verdict.updated_messages {
        match validate_rewrite(&last, messages) {
            Ok(messages) => rewritten = Some(messages),
            Err(why) => {
                let warning = format!("what a hook made of the messages is left out: {why}");
                context.hook_emitter.warn(&warning).await;
            }
        }
    }
    // Also if a hook denies the request: the held message may have the results of calls that are stored already.
    append_held(conversation, rewritten).await?;
    if let Some(why) = denial {
        return Err((Stop::Hook(why).into(), None));
    }
    Ok(usable_answer(context, verdict.synthetic).await)
}

async fn append_held(
    conversation: &mut Conversation,
    rewritten: Option<Vec<Message>>,
) -> Result<(), (TurnEnd, Option<Message>)> {
    let held = conversation.held().cloned();
    let appended = conversation.append_held(rewritten).await;
    appended.map_err(|error| (error.into(), held))
}
