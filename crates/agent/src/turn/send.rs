//! What is about to be sent: hooks see it, and may rewrite it, before it becomes part of the session.

use cachalot_hooks::Event as When;
use cachalot_model::Message;

use super::Turn;
use crate::conversation::is_as_good;
use crate::report::Stop;
use crate::{Error, ErrorKind};

/// What came of what was about to be sent.
pub(super) enum Sent {
    /// It is part of the session, and goes to the model.
    Asking,
    /// A hook has answered it.
    Answered,
    /// The turn has to end.
    Stopped(Stop),
}

impl Turn<'_> {
    /// Tells hooks what is about to be sent, and makes it part of the session as they want it.
    pub(super) async fn send(&mut self, iteration: u32) -> Result<Sent, Error> {
        match self.send_once().await {
            // Only what the user says can be said anywhere.
            Err((error, Some(held))) if error.kind == ErrorKind::Conflict && iteration == 1 => {
                self.reopened_behind_hooks().await?;
                self.desk.conversation.hold(Some(held));
                self.send_once().await.map_err(|(error, _)| error)
            }
            sent => sent.map_err(|(error, _)| error),
        }
    }

    /// The failure comes with what was held.
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
