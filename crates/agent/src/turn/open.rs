//! The beginning of a turn: the user's message, the hooks that handle it, and the added context.

use cachalot_hooks::input::Prompt;
use cachalot_hooks::{Event as When, Input, Synthetic, Verdict};
use cachalot_model::{Block, Message};

use super::Turn;
use crate::conversation::Remains;
use crate::event::Event;
use crate::herald::Added;
use crate::provenance::Provenance;
use crate::report::{Stop, Sum};
use crate::said::is_visible;
use crate::{Error, ErrorKind, context};

/// The outcome of the user's message.
pub(super) enum Opened {
    /// The message is held, to be sent to the model.
    Held,
    /// A hook has answered the message.
    Answered,
    /// A hook has rejected the message.
    Denied(String),
    /// The turn must end.
    Stopped(Stop),
}

impl Turn<'_> {
    /// Repairs the conversation so that the user's message can follow.
    pub(super) async fn settle(&mut self) -> Result<(), Error> {
        if !self.desk.closing.is_empty() {
            // The user's message brings results for the open calls.
            return Ok(());
        }
        match self.desk.conversation.mend(Remains::default()).await {
            Err(error) if error.kind == ErrorKind::Conflict => self.reopen().await,
            done => done,
        }
    }

    /// Continues from the stored session after another writer has appended to it.
    pub(super) async fn reopen(&mut self) -> Result<(), Error> {
        Box::pin(self.desk.reopen(self.shared, self.agent)).await?;
        self.desk.conversation.mend(Remains::default()).await
    }

    /// Emits the events of the user's message, and holds the message that is to be sent.
    pub(super) async fn open(&mut self) -> Result<Opened, Error> {
        self.prompt = self.prompt_of_task();
        for when in [When::UserPromptSubmit, When::PreUserTurn] {
            if when == When::UserPromptSubmit && self.task.is_implicit {
                continue;
            }
            let verdict = match self.tell_of_prompt(when).await {
                Ok(verdict) => verdict,
                Err(stop) => return Ok(Opened::Stopped(stop)),
            };
            if let Some(why) = verdict.denial() {
                return Ok(Opened::Denied(why.to_owned()));
            }
            self.prompt.context.extend(verdict.context);
            if let Some(synthetic) = self.usable(verdict.synthetic).await {
                return Box::pin(self.answer_turn(&synthetic)).await;
            }
        }
        let mut added = Added::default();
        match self.tell_of_prompt(When::TurnStart).await {
            Ok(verdict) => added.add(verdict),
            Err(stop) => return Ok(Opened::Stopped(stop)),
        }
        match self.halt.unless(self.ask_sources()).await {
            Ok(further) => {
                added.paragraphs.extend(further.paragraphs);
                added.by.extend(further.by);
            }
            Err(stop) => return Ok(Opened::Stopped(stop)),
        }
        let message = self.message(added);
        self.desk.conversation.hold(Some(message));
        Ok(Opened::Held)
    }

    fn prompt_of_task(&self) -> Prompt {
        let conversation = &self.desk.conversation;
        Prompt {
            text: self.task.said.to_owned(),
            prefix: Some(conversation.prefix()),
            implicit: self.task.is_implicit,
            fresh: self.task.is_fresh,
            form: conversation.form(),
            context: self.desk.opening.paragraphs.clone(),
            after_results: !conversation.results().is_empty() || conversation.summary().is_some(),
            ..Prompt::default()
        }
    }

    async fn tell_of_prompt(&self, when: When) -> Result<Verdict, Stop> {
        self.tell(when, |input| {
            input.prompt = Some(self.prompt.clone());
            if when == When::TurnStart {
                // Hooks that add context can check whether it was sent already.
                input.messages = self.desk.conversation.prompt().messages();
            }
        })
        .await
    }

    /// Emits an event, unless the turn must end before.
    pub(super) async fn tell(
        &self,
        when: When,
        fill: impl FnOnce(&mut Input),
    ) -> Result<Verdict, Stop> {
        match self.desk.herald.wants(when) {
            true => self.halt.unless(self.desk.herald.tell(when, fill)).await,
            false => Ok(Verdict::default()),
        }
    }

    async fn ask_sources(&self) -> Added {
        let mut added = Added::default();
        for source in &self.shared.house.context {
            if let Some(paragraph) = source.paragraph(self.agent, self.task.said).await {
                added.paragraphs.push(paragraph);
                added.by.push(source.name().to_owned());
            }
        }
        added
    }

    /// Builds the user's message: the summary before the restart if there is one, the user's text, and the
    /// paragraphs that change from turn to turn.
    fn message(&mut self, added: Added) -> Message {
        // The opening paragraphs are part of `prompt.context`.
        self.desk.opening = Added::default();
        self.paragraphs.clone_from(&self.prompt.context);
        self.paragraphs.extend(added.paragraphs);
        self.added_by.extend(added.by);
        let mut message = self.message_behind_summary();
        let closing = std::mem::take(&mut self.desk.closing);
        message.content.splice(0..0, closing);
        message
    }

    /// Holds the user's message again, with the paragraphs that hooks added at the restart of the session.
    pub(super) fn hold_message(&mut self) {
        let opening = std::mem::take(&mut self.desk.opening);
        self.paragraphs.splice(0..0, opening.paragraphs);
        self.added_by.extend(opening.by);
        let message = self.message_behind_summary();
        self.desk.conversation.hold(Some(message));
    }

    fn message_behind_summary(&self) -> Message {
        let mut message = context::message(self.task.said, &self.paragraphs);
        if let Some(summary) = self.desk.conversation.summary() {
            let block = Block::text(format!("<summary>\n{summary}\n</summary>"));
            message.content.insert(0, block);
        }
        message
    }

    /// Returns a hook's answer if it has text; otherwise warns.
    pub(super) async fn usable(&self, synthetic: Option<Synthetic>) -> Option<Synthetic> {
        let synthetic = synthetic?;
        if is_visible(&synthetic.content) {
            return Some(synthetic);
        }
        let nothing = "a hook gave an empty answer, which is left out";
        self.desk.herald.warn(nothing).await;
        None
    }

    /// Answers the turn with a hook's answer: stores the user's message and the answer, without a model call.
    async fn answer_turn(&mut self, synthetic: &Synthetic) -> Result<Opened, Error> {
        let said = self.message(Added::default());
        match self.answer(Some(said.clone()), synthetic).await {
            Err(error) if error.kind == ErrorKind::Conflict => {
                self.reopened_behind_hooks().await?;
                self.answer(Some(said), synthetic).await?;
            }
            done => done?,
        }
        Ok(Opened::Answered)
    }

    /// Continues from a session that has changed since hooks received its prefix.
    pub(super) async fn reopened_behind_hooks(&mut self) -> Result<(), Error> {
        self.reopen().await?;
        self.prompt.prefix = Some(self.desk.conversation.prefix());
        let somebody = "somebody who continued the session elsewhere";
        self.added_by.push(somebody.to_owned());
        Ok(())
    }

    /// Appends a hook's answer in place of a model's, after the message that it answers.
    pub(super) async fn answer(
        &mut self,
        said: Option<Message>,
        synthetic: &Synthetic,
    ) -> Result<(), Error> {
        let (provenance, message) = Provenance::message(synthetic);
        let messages = said.into_iter().chain([message]).collect();
        self.desk.conversation.say_all_unsent(messages).await?;
        self.shared.add(Sum {
            saved_answers: u32::from(synthetic.saved.calls > 0),
            saved: synthetic.saved,
            ..Sum::default()
        });
        let (agent, listener) = (self.agent.name.as_str(), &self.shared.house.listener);
        let text = synthetic.content.as_str();
        listener.tell(&Event::Text { agent, text });
        listener.tell(&Event::Synthetic {
            agent,
            provenance: &provenance,
        });
        self.text.clone_from(&synthetic.content);
        self.synthetic = Some(provenance);
        self.finish = None;
        Ok(())
    }
}
