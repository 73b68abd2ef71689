//! The turn loop: assemble a request, call the model, run tools, repeat.
//!
//! The phases of a turn are functions of the modules below. They receive the [`TurnContext`] and the parts of
//! the [`Turn`] that they change, and return what happened; the loop here decides what follows.

mod approval;
mod call_progress;
mod calls;
mod cancellation;
mod candidate;
mod compact;
mod context;
mod end;
mod message;
mod mode;
mod model_call;
mod outside;
mod overflow;
mod permit;
mod repair;
mod reserve;
mod results;
mod sampling;
mod send;
mod spend;
mod synthetic;

use std::convert::Infallible;
use std::sync::Arc;

use cachalot_hooks::input::{Answer, TurnCall};
use cachalot_hooks::{Event as When, Synthetic};
use cachalot_model::{
    Block, Error as ModelError, ErrorKind as ModelErrorKind, Message, StopReason,
};
use cachalot_prefix::diagnosis::Diagnosis;
use cachalot_tools::{PreparedCall, ToolCall, Toolbox};

use crate::active_session::ActiveSession;
use crate::chat_state::ChatState;
use crate::conversation::{InterruptedTurn, results as result_message};
use crate::definition::AgentDefinition;
use crate::hook_emitter::HookContext;
use crate::normalized_reply::{NormalizedReply, is_visible};
use crate::provenance::Provenance;
use crate::repetition::Repetition;
use crate::report::Stop;
use crate::{CancellationToken, Error, ErrorKind};
use call_progress::CallProgress;
use calls::JudgedCall;
use cancellation::TurnCancellation;
pub(crate) use candidate::access_request;
use compact::{Compactor, NotCompacted};
use context::TurnContext;
use end::TurnEnd;
use message::{PromptOutcome, TurnMessage};
use model_call::{AnswerReport, ModelAnswer};
use permit::permit;
use reserve::{CallReservation, reserve};
use spend::TurnSpend;

/// Maximum consecutive answers that are cut off in the middle of a call; then the turn ends.
const MAX_CUT_OFF_ANSWERS: u32 = 3;

/// Input of a turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TurnInput<'a> {
    /// The user's message.
    pub(crate) text: &'a str,
    /// Texts and images that follow the text, with notes about the images.
    pub(crate) attachments: &'a [Block],
    /// Set when the message comes from another agent or a fork, not from the user.
    pub(crate) from_agent: bool,
    /// Set when stored answers must not be replayed.
    pub(crate) fresh: bool,
}

/// State of one turn: from the user's message to the final answer, over any number of model calls.
pub(crate) struct Turn<'a> {
    context: TurnContext<'a>,
    session: &'a mut ActiveSession,
    input: TurnInput<'a>,
    message: TurnMessage<'a>,
    spend: TurnSpend,
    /// Last complete text shown to the user.
    last_text: String,
    /// Text of the answer that is streaming, as far as it was shown.
    partial_text: String,
    /// Progress of the running calls.
    progress: CallProgress,
    /// Calls of this turn, in the form used in hook events.
    hook_calls: Vec<TurnCall>,
    /// Stop reason of the last model answer.
    stop_reason: Option<StopReason>,
    /// Origin of the last answer, if no model gave it.
    synthetic: Option<Provenance>,
    /// Prefix breaks of this turn, oldest first.
    breaks: Vec<Diagnosis>,
    /// Number of answers that stop hooks rejected, so that the turn continued.
    continuations: u32,
    /// Set when the model refused the conversation as too long, and it was to be compacted.
    overflowed: bool,
}

/// The outcome of a turn.
pub(crate) struct TurnOutcome {
    pub(crate) text: String,
    pub(crate) stop: Stop,
    /// Stop reason of the last model answer.
    pub(crate) finish: Option<StopReason>,
    pub(crate) synthetic: Option<Provenance>,
    /// Prefix breaks of the turn, oldest first.
    pub(crate) breaks: Vec<Diagnosis>,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(
        shared: &'a ChatState,
        agent: &'a AgentDefinition,
        session: &'a mut ActiveSession,
        input: TurnInput<'a>,
    ) -> Self {
        Self {
            context: TurnContext {
                shared,
                agent,
                hook_emitter: Arc::clone(&session.hook_emitter),
                cancellation: TurnCancellation::default(),
            },
            session,
            input,
            message: TurnMessage::new(input),
            spend: TurnSpend::begin(shared),
            last_text: String::new(),
            partial_text: String::new(),
            progress: CallProgress::default(),
            hook_calls: Vec::new(),
            stop_reason: None,
            synthetic: None,
            breaks: Vec::new(),
            continuations: 0,
            overflowed: false,
        }
    }

    /// Runs the turn until it ends, is cancelled, or exceeds the time budget. In every case the conversation
    /// can continue afterwards.
    pub(crate) async fn run_until(
        mut self,
        cancel: &CancellationToken,
    ) -> Result<TurnOutcome, Error> {
        self.context.cancellation = TurnCancellation::new(cancel, &self.context.shared.meter);
        self.run().await
    }

    /// Runs the turn.
    pub(crate) async fn run(mut self) -> Result<TurnOutcome, Error> {
        if !is_visible(self.input.text) {
            let nothing = "the message is empty";
            return Err(Error::new(ErrorKind::Input, nothing));
        }
        // An empty message returns before this, so that hooks never see a turn that begins and does not end.
        self.context.hook_emitter.begin_turn(self.input.text);
        let Err(end) = Box::pin(self.rounds()).await;
        let ended = match end {
            TurnEnd::Finished(stop) => Ok(self.outcome(stop)),
            TurnEnd::Stopped(stop) => Box::pin(self.stop_turn(stop)).await,
            TurnEnd::Failed(error) => Err(error),
        };
        // Emitted for every end, also for an error: hooks that keep something for the turn release it here.
        Box::pin(end::emit_turn_end(&self.context, &ended)).await;
        ended
    }

    /// Compacts the conversation at the user's request, instead of running a turn. Returns true if it did.
    pub(crate) async fn compact(mut self, cancel: &CancellationToken) -> Result<bool, Error> {
        self.context.cancellation = TurnCancellation::new(cancel, &self.context.shared.meter);
        repair::repair_conversation(&self.context, self.session).await?;
        self.compactor().compact_on_request().await
    }

    async fn rounds(&mut self) -> Result<Infallible, TurnEnd> {
        // Only a check: an exhausted budget ends the turn before repair, compaction or hooks do anything. `reply`
        // reserves the input of each call.
        drop(self.reserve().map_err(TurnEnd::Finished)?);
        // The compaction sends the conversation to the model, and providers refuse one with open calls.
        repair::repair_conversation(&self.context, self.session).await?;
        self.compactor().compact_if_full().await?;
        // After the compaction: the message follows the summary, and is not a part of it.
        let submitted = self.message.submit(&self.context, self.session, self.input);
        match Box::pin(submitted).await? {
            PromptOutcome::Held => {}
            PromptOutcome::Denied(why) => return Err(TurnEnd::Finished(Stop::Hook(why))),
            PromptOutcome::Answered(synthetic) => {
                Box::pin(self.answer_message(&synthetic)).await?;
                self.end_unless_continued(Stop::End).await?;
            }
        }
        let mut repetition = Repetition::default();
        let mut cut_off = 0;
        for iteration in 1..=self.context.agent.max_iterations {
            self.context.hook_emitter.iterate(iteration);
            let round = self.round(iteration, &mut repetition, &mut cut_off);
            Box::pin(round).await?;
        }
        let maximum = self.context.agent.max_iterations;
        end::emit_max_iterations(&self.context, maximum).await;
        Err(Stop::Iterations(maximum).into())
    }

    /// Makes one model call and runs the tool calls of its answer. Another model call follows, unless the turn
    /// ends.
    async fn round(
        &mut self,
        iteration: u32,
        repetition: &mut Repetition,
        cut_off: &mut u32,
    ) -> Result<(), TurnEnd> {
        let Some(ModelAnswer {
            reply,
            cost,
            prefix_break,
        }) = Box::pin(self.reply(iteration)).await?
        else {
            return Ok(());
        };
        let (reason, usage) = (reply.stop.clone(), reply.usage);
        let conversation = &self.session.conversation;
        let said =
            NormalizedReply::from_reply(reply, conversation.calls(), conversation.accepts_calls());
        let report = AnswerReport {
            usage,
            cost,
            finish: reason.clone(),
            text: said.text.clone(),
        };
        if is_visible(&said.text) {
            self.last_text = said.text;
        }
        // The answer was paid for. It is stored before the events below, each of which may end the turn.
        self.session.conversation.append(said.message).await?;
        // The text is a part of the session now. An interrupt from here on must not store it a second time.
        self.partial_text.clear();
        self.stop_reason = Some(reason.clone());
        self.synthetic = None;
        if let Some(prefix_break) = prefix_break {
            model_call::report_break(&self.context, &prefix_break).await;
            self.breaks.push(prefix_break);
        }
        let heard = model_call::emit_after_llm_call(&self.context, self.session, &report).await;
        if said.calls.is_empty() {
            let model = self.session.conversation.model();
            let stop = end::stop_of_answer(&self.context, model, &reason, said.is_empty, iteration)
                .await?;
            heard.map_err(TurnEnd::Finished)?;
            return self.end_unless_continued(stop).await;
        }
        if let Err(Stop::Hook(why)) = heard {
            // The calls need results in the session; otherwise providers refuse it.
            let calls = calls::reject_after_turn_end(said.calls);
            self.run_calls(calls).await?;
            return Err(Stop::Hook(why).into());
        }
        let is_cut_off = reason == StopReason::Length;
        *cut_off = if is_cut_off { *cut_off + 1 } else { 0 };
        let times = repetition.count(&said.calls);
        let is_stuck = times >= self.context.agent.max_repetitions;
        let calls = if is_stuck {
            calls::reject_repeated(said.calls, times)
        } else {
            calls::accept_complete(said.calls, is_cut_off)
        };
        // Rejected calls get results as well, although the turn may end: the next request is refused if a call has
        // none.
        self.run_calls(calls).await?;
        if is_stuck {
            return Err(Stop::Repetition(times).into());
        }
        if *cut_off >= MAX_CUT_OFF_ANSWERS {
            return Err(Stop::Length.into());
        }
        Ok(())
    }

    /// Sends the held message and returns the model's answer; `None` if a hook has answered in its place, and
    /// the turn continues.
    async fn reply(&mut self, iteration: u32) -> Result<Option<ModelAnswer>, TurnEnd> {
        loop {
            let reserved = match self.reserve() {
                Ok(reserved) => reserved,
                Err(over) => {
                    if let Stop::Iterations(maximum) = over {
                        end::emit_max_iterations(&self.context, maximum).await;
                    }
                    return Err(over.into());
                }
            };
            let sent = send::send(&self.context, self.session, &mut self.message, iteration);
            if let Some(synthetic) = sent.await? {
                self.answer(None, &synthetic).await?;
                self.end_unless_continued(Stop::End).await?;
                return Ok(None);
            }
            let asked = model_call::call_model(
                &self.context,
                self.session,
                &mut self.partial_text,
                iteration,
            );
            let asked = self.context.cancellation.run_until_cancelled(asked).await?;
            // The answer is counted now. Until here, the estimate kept concurrent calls from the same part of the
            // budget.
            drop(reserved);
            match asked {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) => self.recover(error).await?,
            }
        }
    }

    /// Compacts the conversation if the model refused it as too long, at most once per turn. The user's
    /// message is then held, to be sent again.
    ///
    /// # Errors
    /// The model's error, if it is another one or compaction does not help.
    async fn recover(&mut self, error: ModelError) -> Result<(), TurnEnd> {
        // A second request after visible text would show two answers to one message.
        if error.kind != ModelErrorKind::TooLong || is_visible(&self.partial_text) {
            return Err(self.keep_partial_answer(error).await.into());
        }
        let is_repeated = std::mem::replace(&mut self.overflowed, true);
        let why = match overflow::recover(self.compactor(), is_repeated).await {
            Ok(()) => return Ok(()),
            Err(NotCompacted::Ended(end)) => return Err(end),
            Err(NotCompacted::Failed(why)) => why,
        };
        let length = overflow::describe_length(&self.session.conversation);
        let mut error = self.keep_partial_answer(error).await;
        error.message.push_str(&format!(
            "; the conversation has {length}, and {why}. Shorten the message, begin a new session, or use a model with a larger context window"
        ));
        Err(error.into())
    }

    /// Makes the permitted calls and holds the results of all calls, unless the turn must end.
    async fn run_calls(&mut self, calls: Vec<JudgedCall>) -> Result<(), Stop> {
        self.progress.begin();
        let ids: Vec<String> = calls.iter().map(|(call, _)| call.id.clone()).collect();
        let toolbox = Arc::clone(&self.session.tools.toolbox);
        let made = calls::execute(
            &self.context,
            self.session,
            &*toolbox,
            &self.progress,
            calls,
            self.session.conversation.results(),
        );
        let made = self
            .context
            .cancellation
            .run_until_cancelled(Box::pin(made))
            .await?;
        let changed = self
            .progress
            .with(|progress| std::mem::take(&mut progress.changed));
        let message = result_message(&ids, &made.answers, &changed.unwrap_or_default());
        // Before the handoff, which adds the first paragraphs of the new agent to the held message.
        self.session.conversation.hold(Some(message));
        Box::pin(self.hand_off()).await;
        self.context.shared.count_answers(&made.answers);
        drop(self.progress.take());
        self.hook_calls.extend(made.calls);
        self.message.record_appended_by(made.added_by);
        match made.denial {
            Some(why) => Err(Stop::Hook(why)),
            None => Ok(()),
        }
    }

    /// Makes a tool call of the user, with the permissions of the agent. Returns the content of its result.
    ///
    /// # Errors
    /// The reason why there is no result: the call was denied, canceled or failed.
    pub(crate) async fn call_tool(
        mut self,
        toolbox: &dyn Toolbox,
        call: ToolCall,
        cancel: &CancellationToken,
    ) -> Result<Vec<Block>, String> {
        self.context.cancellation = TurnCancellation::new(cancel, &self.context.shared.meter);
        self.progress.begin();
        let made = calls::execute(
            &self.context,
            self.session,
            toolbox,
            &self.progress,
            vec![(call, None)],
            // A result that the user has asked for is given in full.
            Arc::default(),
        );
        let made = self
            .context
            .cancellation
            .run_until_cancelled(Box::pin(made));
        let made = made
            .await
            .map_err(|stop| stop.notice().unwrap_or_default())?;
        drop(self.progress.take());
        self.context.shared.count_answers(&made.answers);
        let is_error = made.answers.iter().any(|answer| answer.output.is_error);
        let answers = made.answers.into_iter();
        let blocks: Vec<Block> = answers.flat_map(|answer| answer.output.content).collect();
        if is_error {
            Err(joined_text(&blocks))
        } else {
            Ok(blocks)
        }
    }

    /// Decides about a call of the user like about one of the model, and does not make it.
    ///
    /// # Errors
    /// The reason why the call must not be made as it is.
    pub(crate) async fn permit_call(
        mut self,
        toolbox: &dyn Toolbox,
        call: ToolCall,
        cancel: &CancellationToken,
    ) -> Result<(), String> {
        self.context.cancellation = TurnCancellation::new(cancel, &self.context.shared.meter);
        let asked = toolbox.prepare(call.clone());
        let judged = permit(&self.context, toolbox, call);
        let judged = self
            .context
            .cancellation
            .run_until_cancelled(Box::pin(judged));
        let judged = judged
            .await
            .map_err(|stop| stop.notice().unwrap_or_default())?;
        match judged.prepared {
            PreparedCall::Refused(refused) => Err(joined_text(&refused.output.content)),
            PreparedCall::Ready(ready) if ready.call == *asked.call() => Ok(()),
            PreparedCall::Ready(ready) => Err(format!(
                "a hook has changed the call of `{}`",
                ready.call.name
            )),
        }
    }

    /// Continues with the agent to which the calls have handed off, if there was a handoff. If that agent
    /// cannot begin, the current one continues and is told why.
    async fn hand_off(&mut self) {
        let Some(name) = self.session.tools.handoff_request.take() else {
            return;
        };
        let shared = self.context.shared;
        let Some(agent) = shared.team.agent(&name) else {
            return;
        };
        if let Err(error) = self.switch(agent).await {
            let failed = format!("The handoff to `{name}` failed, and you continue: {error}");
            self.context.warn(&failed).await;
            self.session.conversation.add_to_held(failed);
        }
    }

    /// Continues with the agent that follows this one after each final answer. Returns true if there is one
    /// and it has begun.
    async fn forced_handoff(&mut self) -> bool {
        let shared = self.context.shared;
        let next = self.context.agent.force_handoff.as_deref();
        let Some(agent) = next.and_then(|name| shared.team.agent(name)) else {
            return false;
        };
        if self.session.tools.handoff_request.is_refused() {
            return false;
        }
        let (before, name) = (&self.context.agent.name, &agent.name);
        let message = format!(
            "The agent `{before}` has completed its part. From here on you are the agent `{name}`: do yours."
        );
        self.session.conversation.hold(Some(Message::user(message)));
        if let Err(error) = self.switch(agent).await {
            // The message addresses the agent that did not begin. The current one must not receive it.
            self.session.conversation.hold(None);
            let failed = format!("the handoff to `{name}` failed: {error}");
            self.context.warn(&failed).await;
            return false;
        }
        true
    }

    /// Continues the turn as another agent.
    async fn switch(&mut self, agent: &'a AgentDefinition) -> Result<(), Error> {
        let shared = self.context.shared;
        self.session.switch(shared, agent, "handoff").await?;
        self.context.agent = agent;
        self.context.hook_emitter = Arc::clone(&self.session.hook_emitter);
        let started = std::mem::take(&mut self.session.session_start_output);
        for paragraph in started.paragraphs {
            self.session.conversation.add_to_held(paragraph);
        }
        self.message.record_appended_by(started.by);
        Ok(())
    }

    /// Answers the user's message with a hook's answer: stores both, without a model call.
    async fn answer_message(&mut self, synthetic: &Synthetic) -> Result<(), Error> {
        let said = self.message.build(self.session, HookContext::default());
        match self.answer(Some(said.clone()), synthetic).await {
            Err(error) if error.kind == ErrorKind::Conflict => {
                repair::reopen(&self.context, self.session).await?;
                self.message.record_conflict(&self.session.conversation);
                self.answer(Some(said), synthetic).await
            }
            done => done,
        }
    }

    /// Appends a hook's answer in place of a model's, after the message that it answers.
    async fn answer(&mut self, said: Option<Message>, synthetic: &Synthetic) -> Result<(), Error> {
        let conversation = &mut self.session.conversation;
        let provenance =
            synthetic::append_answer(&self.context, conversation, said, synthetic).await?;
        self.last_text.clone_from(&synthetic.content);
        self.synthetic = Some(provenance);
        self.stop_reason = None;
        Ok(())
    }

    /// Ends a turn whose last answer is complete, unless a stop hook or another agent continues it.
    async fn end_unless_continued(&mut self, stop: Stop) -> Result<(), TurnEnd> {
        let is_continued = self.continue_by_hook(&stop).await;
        match is_continued.map_err(TurnEnd::Finished)? {
            true => Ok(()),
            false if stop == Stop::End && Box::pin(self.forced_handoff()).await => Ok(()),
            false => Err(TurnEnd::Finished(stop)),
        }
    }

    /// Emits `stop`. Returns true if a hook continues the turn; the hook's reason is then held as the next
    /// message.
    ///
    /// # Errors
    /// The turn must end before the hooks have completed, or although they reject the answer.
    async fn continue_by_hook(&mut self, stop: &Stop) -> Result<bool, Stop> {
        if !self.context.hook_emitter.wants(When::Stop) {
            return Ok(false);
        }
        let (prompt, answer) = (self.message.prompt().clone(), self.hook_answer());
        let continued =
            end::emit_stop(&self.context, stop, prompt, answer, self.continuations).await?;
        let Some(why) = continued else {
            return Ok(false);
        };
        self.session.conversation.hold(Some(Message::user(why)));
        self.continuations += 1;
        Ok(true)
    }

    /// `answer` field of hook events for the answer of the turn.
    fn hook_answer(&self) -> Answer {
        let mut added_by = self.message.appended_by().to_vec();
        added_by.extend(self.context.hook_emitter.rewritten_by());
        // The provider may have looked something up for the answer.
        added_by.extend(self.session.conversation.model().server_tools());
        let shared = self.context.shared;
        Answer {
            text: self.last_text.clone(),
            finish: self.stop_reason.clone(),
            synthetic: self.synthetic.is_some(),
            stop_hook_active: self.continuations > 0,
            calls: self.hook_calls.clone(),
            worth: self.spend.worth(shared),
            added_by,
            by_fallback: self.spend.used_fallback(shared),
            rejected: None,
        }
    }

    /// Ends a turn whose last answer is missing or incomplete, and repairs the conversation.
    async fn stop_turn(&mut self, stop: Stop) -> Result<TurnOutcome, Error> {
        if is_visible(&self.partial_text) {
            self.last_text = self.partial_text.clone();
            self.synthetic = None;
        }
        let mut interrupted = self.interrupted();
        if let Some(progress) = &mut interrupted.progress {
            self.context.shared.count_answers(&progress.ended);
            let toolbox = &*self.session.tools.toolbox;
            // Before the repair stores the results: a hook may have to redact them.
            results::run_hooks_on_unseen(&self.context, toolbox, progress).await;
        }
        self.session.conversation.repair(interrupted).await?;
        Ok(self.outcome(stop))
    }

    /// Handles an error of the model: keeps the part of the answer that was shown, and returns the error.
    async fn keep_partial_answer(&mut self, error: ModelError) -> Error {
        let interrupted = self.interrupted();
        if is_visible(&interrupted.text) {
            // An error of this repair is less important than the model's error.
            let _ = self.session.conversation.repair(interrupted).await;
        }
        Error::from(error)
    }

    fn interrupted(&mut self) -> InterruptedTurn {
        InterruptedTurn {
            text: std::mem::take(&mut self.partial_text),
            progress: self.progress.take(),
        }
    }

    /// Reserves the estimated input of the next model call; see [`reserve()`].
    fn reserve(&self) -> Result<CallReservation, Stop> {
        reserve(&self.context, self.session, self.input.text)
    }

    fn compactor(&mut self) -> Compactor<'_, 'a> {
        Compactor {
            context: &self.context,
            session: self.session,
            message: &mut self.message,
            spend: &mut self.spend,
            has_begun: self.stop_reason.is_some() || self.synthetic.is_some(),
        }
    }

    fn outcome(&mut self, stop: Stop) -> TurnOutcome {
        TurnOutcome {
            text: std::mem::take(&mut self.last_text),
            stop,
            finish: self.stop_reason.clone(),
            synthetic: self.synthetic.clone(),
            breaks: std::mem::take(&mut self.breaks),
        }
    }
}

/// Returns the texts of blocks, each on lines of its own.
pub(crate) fn joined_text(blocks: &[Block]) -> String {
    let texts: Vec<&str> = blocks.iter().filter_map(Block::as_text).collect();
    texts.join("\n")
}
