//! The beginning of a turn: the user's message, the hooks that handle it, and the added context.

use cachalot_hooks::input::Prompt;
use cachalot_hooks::{Event as When, Input, Synthetic, Verdict};
use cachalot_model::{Block, Message};

use super::Turn;
use crate::conversation::InterruptedTurn;
use crate::event::Event;
use crate::hook_emitter::HookContext;
use crate::normalized_reply::is_visible;
use crate::provenance::Provenance;
use crate::report::{Stop, UsageTotals};
use crate::{Error, ErrorKind, context};

/// The outcome of the user's message.
pub(super) enum PromptOutcome {
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
    pub(super) async fn repair_conversation(&mut self) -> Result<(), Error> {
        if !self.session.open_call_results.is_empty() {
            // The user's message brings results for the open calls.
            return Ok(());
        }
        match self
            .session
            .conversation
            .repair(InterruptedTurn::default())
            .await
        {
            Err(error) if error.kind == ErrorKind::Conflict => self.reopen().await,
            done => done,
        }
    }

    /// Continues from the stored session after another writer has appended to it.
    pub(super) async fn reopen(&mut self) -> Result<(), Error> {
        Box::pin(self.session.reopen(self.shared, self.agent)).await?;
        self.session
            .conversation
            .repair(InterruptedTurn::default())
            .await
    }

    /// Emits the events of the user's message, and holds the message that is to be sent.
    pub(super) async fn submit_prompt(&mut self) -> Result<PromptOutcome, Error> {
        self.hook_prompt = self.hook_prompt_of_input();
        for when in [When::UserPromptSubmit, When::PreUserTurn] {
            if when == When::UserPromptSubmit && self.input.from_agent {
                continue;
            }
            let verdict = match self.emit_prompt_event(when).await {
                Ok(verdict) => verdict,
                Err(stop) => return Ok(PromptOutcome::Stopped(stop)),
            };
            if let Some(why) = verdict.denial() {
                return Ok(PromptOutcome::Denied(why.to_owned()));
            }
            self.hook_prompt.context.extend(verdict.context);
            if let Some(synthetic) = self.usable_answer(verdict.synthetic).await {
                return Box::pin(self.answer_turn(&synthetic)).await;
            }
        }
        let mut added = HookContext::default();
        match self.emit_prompt_event(When::TurnStart).await {
            Ok(verdict) => added.add(verdict),
            Err(stop) => return Ok(PromptOutcome::Stopped(stop)),
        }
        match self
            .cancellation
            .run_until_cancelled(self.collect_context())
            .await
        {
            Ok(further) => {
                added.paragraphs.extend(further.paragraphs);
                added.by.extend(further.by);
            }
            Err(stop) => return Ok(PromptOutcome::Stopped(stop)),
        }
        let message = self.message(added);
        self.session.conversation.hold(Some(message));
        Ok(PromptOutcome::Held)
    }

    fn hook_prompt_of_input(&self) -> Prompt {
        let conversation = &self.session.conversation;
        Prompt {
            text: self.input.text.to_owned(),
            prefix: Some(conversation.prefix()),
            implicit: self.input.from_agent,
            fresh: self.input.fresh,
            form: conversation.output_format(),
            context: self.session.session_start_output.paragraphs.clone(),
            after_results: !conversation.results().is_empty() || conversation.summary().is_some(),
            ..Prompt::default()
        }
    }

    async fn emit_prompt_event(&self, when: When) -> Result<Verdict, Stop> {
        self.emit(when, |input| {
            input.prompt = Some(self.hook_prompt.clone());
            if when == When::TurnStart {
                // Hooks that add context can check whether it was sent already.
                input.messages = self.session.conversation.prompt().messages();
            }
        })
        .await
    }

    /// Emits an event, unless the turn must end before.
    pub(super) async fn emit(
        &self,
        when: When,
        fill: impl FnOnce(&mut Input),
    ) -> Result<Verdict, Stop> {
        match self.session.hook_emitter.wants(when) {
            true => {
                self.cancellation
                    .run_until_cancelled(self.session.hook_emitter.emit(when, fill))
                    .await
            }
            false => Ok(Verdict::default()),
        }
    }

    async fn collect_context(&self) -> HookContext {
        let mut added = HookContext::default();
        for source in &self.shared.dependencies.context {
            if let Some(paragraph) = source.paragraph(self.agent, self.input.text).await {
                added.paragraphs.push(paragraph);
                added.by.push(source.name().to_owned());
            }
        }
        added
    }

    /// Builds the user's message: the summary before the restart if there is one, the user's text, and the
    /// paragraphs that change from turn to turn.
    fn message(&mut self, added: HookContext) -> Message {
        // The opening paragraphs are part of `prompt.context`.
        self.session.session_start_output = HookContext::default();
        self.appended.clone_from(&self.hook_prompt.context);
        self.appended.extend(added.paragraphs);
        self.appended_by.extend(added.by);
        let mut message = self.message_after_summary();
        let open_call_results = std::mem::take(&mut self.session.open_call_results);
        message.content.splice(0..0, open_call_results);
        message
    }

    /// Holds the user's message again, with the paragraphs that hooks added at the restart of the session.
    pub(super) fn hold_message(&mut self) {
        let session_start_output = std::mem::take(&mut self.session.session_start_output);
        self.appended.splice(0..0, session_start_output.paragraphs);
        self.appended_by.extend(session_start_output.by);
        let message = self.message_after_summary();
        self.session.conversation.hold(Some(message));
    }

    fn message_after_summary(&self) -> Message {
        let mut message = context::message(self.input.text, &self.appended);
        if let Some(summary) = self.session.conversation.summary() {
            let block = Block::text(format!("<summary>\n{summary}\n</summary>"));
            message.content.insert(0, block);
        }
        message
    }

    /// Returns a hook's answer if it has text; otherwise warns.
    pub(super) async fn usable_answer(&self, synthetic: Option<Synthetic>) -> Option<Synthetic> {
        let synthetic = synthetic?;
        if is_visible(&synthetic.content) {
            return Some(synthetic);
        }
        let nothing = "a hook gave an empty answer, which is left out";
        self.session.hook_emitter.warn(nothing).await;
        None
    }

    /// Answers the turn with a hook's answer: stores the user's message and the answer, without a model call.
    async fn answer_turn(&mut self, synthetic: &Synthetic) -> Result<PromptOutcome, Error> {
        let said = self.message(HookContext::default());
        match self.answer(Some(said.clone()), synthetic).await {
            Err(error) if error.kind == ErrorKind::Conflict => {
                self.reopen_after_conflict().await?;
                self.answer(Some(said), synthetic).await?;
            }
            done => done?,
        }
        Ok(PromptOutcome::Answered)
    }

    /// Continues from a session that has changed since hooks received its prefix.
    pub(super) async fn reopen_after_conflict(&mut self) -> Result<(), Error> {
        self.reopen().await?;
        self.hook_prompt.prefix = Some(self.session.conversation.prefix());
        let somebody = "somebody who continued the session elsewhere";
        self.appended_by.push(somebody.to_owned());
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
        self.session
            .conversation
            .append_all_unsent(messages)
            .await?;
        self.shared.add(UsageTotals {
            saved_answers: u32::from(synthetic.saved.calls > 0),
            saved: synthetic.saved,
            ..UsageTotals::default()
        });
        let (agent, listener) = (self.agent.name.as_str(), &self.shared.dependencies.listener);
        let text = synthetic.content.as_str();
        listener.on_event(&Event::Text { agent, text });
        listener.on_event(&Event::Synthetic {
            agent,
            provenance: &provenance,
        });
        self.last_text.clone_from(&synthetic.content);
        self.synthetic = Some(provenance);
        self.stop_reason = None;
        Ok(())
    }
}
