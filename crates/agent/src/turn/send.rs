//! Sending of the next request: hooks receive the new messages, and may rewrite them, before they become part
//! of the session.

use cachalot_hooks::Event as When;
use cachalot_model::Message;

use super::Turn;
use crate::conversation::is_as_good;
use crate::report::Stop;
use crate::{Error, ErrorKind};

/// The outcome of the messages that were about to be sent.
pub(super) enum Sent {
    /// They are part of the session, and the model is called.
    Asking,
    /// A hook has answered.
    Answered,
    /// The turn must end.
    Stopped(Stop),
}

impl Turn<'_> {
    /// Emits `before_llm_call`, and adds the held message to the session as hooks have rewritten it.
    pub(super) async fn send(&mut self, iteration: u32) -> Result<Sent, Error> {
        match self.send_once().await {
            // Only the user's message can follow another writer's messages.
            Err((error, Some(held))) if error.kind == ErrorKind::Conflict && iteration == 1 => {
                self.reopened_behind_hooks().await?;
                self.desk.conversation.hold(Some(held));
                self.send_once().await.map_err(|(error, _)| error)
            }
            sent => sent.map_err(|(error, _)| error),
        }
    }

    /// Sends once. An error carries the held message.
    async fn send_once(&mut self) -> Result<Sent, (Error, Option<Message>)> {
        match self.desk.herald.wants(When::BeforeLlmCall) {
            true => Box::pin(self.send_as_wanted()).await,
            false => self.say_held(None).await.map(|()| Sent::Asking),
        }
    }

    async fn send_as_wanted(&mut self) -> Result<Sent, (Error, Option<Message>)> {
        let (messages, unsent) = self.desk.conversation.with_held();
        let last = messages[messages.len() - unsent..].to_vec();
        let told = self.tell(When::BeforeLlmCall, |input| {
            input.messages = messages;
            input.unsent = unsent;
        });
        let verdict = match told.await {
            Ok(verdict) => verdict,
            Err(stop) => return Ok(Sent::Stopped(stop)),
        };
        let denial = verdict.denial().map(str::to_owned);
        let mut rewritten = None;
        if let Some(messages) = verdict.updated_messages {
            match is_as_good(&last, messages) {
                Ok(messages) => rewritten = Some(messages),
                Err(why) => {
                    let warning = format!("what a hook made of the messages is left out: {why}");
                    self.desk.herald.warn(&warning).await;
                }
            }
        }
        self.say_held(rewritten).await?;
        if let Some(why) = denial {
            return Ok(Sent::Stopped(Stop::Hook(why)));
        }
        if let Some(synthetic) = self.usable(verdict.synthetic).await {
            let answered = self.answer(None, &synthetic).await;
            answered.map_err(|error| (error, None))?;
            return Ok(Sent::Answered);
        }
        Ok(Sent::Asking)
    }

    async fn say_held(
        &mut self,
        rewritten: Option<Vec<Message>>,
    ) -> Result<(), (Error, Option<Message>)> {
        let conversation = &mut self.desk.conversation;
        let held = conversation.held().cloned();
        let said = conversation.say_held(rewritten).await;
        said.map_err(|error| (error, held))
    }
}
