//! Sending of the next request: hooks receive the new messages, and may rewrite them, before they become part
//! of the session.

use cachalot_hooks::Event as When;
use cachalot_model::Message;

use super::Turn;
use crate::conversation::validate_rewrite;
use crate::report::Stop;
use crate::{Error, ErrorKind};

/// The outcome of the messages that were about to be sent.
pub(super) enum SendOutcome {
    /// They are part of the session, and the model is called.
    Ready,
    /// A hook has answered.
    Answered,
    /// The turn must end.
    Stopped(Stop),
}

impl Turn<'_> {
    /// Emits `before_llm_call`, and adds the held message to the session as hooks have rewritten it.
    pub(super) async fn send(&mut self, iteration: u32) -> Result<SendOutcome, Error> {
        match self.send_once().await {
            // Only the user's message can follow another writer's messages.
            Err((error, Some(held))) if error.kind == ErrorKind::Conflict && iteration == 1 => {
                self.reopen_after_conflict().await?;
                self.session.conversation.hold(Some(held));
                self.send_once().await.map_err(|(error, _)| error)
            }
            sent => sent.map_err(|(error, _)| error),
        }
    }

    /// Sends once. An error carries the held message.
    async fn send_once(&mut self) -> Result<SendOutcome, (Error, Option<Message>)> {
        match self.session.hook_emitter.wants(When::BeforeLlmCall) {
            true => Box::pin(self.send_through_hooks()).await,
            false => self.append_held(None).await.map(|()| SendOutcome::Ready),
        }
    }

    async fn send_through_hooks(&mut self) -> Result<SendOutcome, (Error, Option<Message>)> {
        let (messages, unsent) = self.session.conversation.with_held();
        let last = messages[messages.len() - unsent..].to_vec();
        let told = self.emit(When::BeforeLlmCall, |input| {
            input.messages = messages;
            input.unsent = unsent;
        });
        let verdict = match told.await {
            Ok(verdict) => verdict,
            Err(stop) => return Ok(SendOutcome::Stopped(stop)),
        };
        let denial = verdict.denial().map(str::to_owned);
        let mut rewritten = None;
        if let Some(messages) = verdict.updated_messages {
            match validate_rewrite(&last, messages) {
                Ok(messages) => rewritten = Some(messages),
                Err(why) => {
                    let warning = format!("what a hook made of the messages is left out: {why}");
                    self.session.hook_emitter.warn(&warning).await;
                }
            }
        }
        self.append_held(rewritten).await?;
        if let Some(why) = denial {
            return Ok(SendOutcome::Stopped(Stop::Hook(why)));
        }
        if let Some(synthetic) = self.usable_answer(verdict.synthetic).await {
            let answered = self.answer(None, &synthetic).await;
            answered.map_err(|error| (error, None))?;
            return Ok(SendOutcome::Answered);
        }
        Ok(SendOutcome::Ready)
    }

    async fn append_held(
        &mut self,
        rewritten: Option<Vec<Message>>,
    ) -> Result<(), (Error, Option<Message>)> {
        let conversation = &mut self.session.conversation;
        let held = conversation.held().cloned();
        let said = conversation.append_held(rewritten).await;
        said.map_err(|error| (error, held))
    }
}
