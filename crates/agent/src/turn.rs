//! The turn loop: assemble a request, call the model, run tools, repeat.

mod calls;
mod cancellation;
mod compact;
mod end;
mod model_call;
mod overflow;
mod permit;
mod phases;
mod prompt;
mod results;
mod send;

use std::sync::Arc;

use cachalot_core::Spend;
use cachalot_hooks::input::{Prompt, TurnCall};
use cachalot_model::budget::Reservation;
use cachalot_model::{Model, Reply, StopReason};
use cachalot_prefix::diagnosis::Diagnosis;
use parking_lot::Mutex;

use crate::active_session::ActiveSession;
use crate::chat_state::ChatState;
use crate::conversation::Progress;
use crate::definition::AgentDefinition;
use crate::fork::ForkReservation;
use crate::normalized_reply::{NormalizedReply, is_visible};
use crate::provenance::Provenance;
use crate::repetition::Repetition;
use crate::report::Stop;
use crate::{CancellationToken, Error, ErrorKind};
use cancellation::TurnCancellation;
use prompt::PromptOutcome;
use send::SendOutcome;

/// Maximum consecutive answers that are cut off in the middle of a call; then the turn ends.
const MAX_CUT_OFF_ANSWERS: u32 = 3;

/// Input of a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TurnInput<'a> {
    /// The user's message.
    pub(crate) text: &'a str,
    /// Set when the message comes from another agent or a fork, not from the user.
    pub(crate) from_agent: bool,
    /// Set when stored answers must not be replayed.
    pub(crate) fresh: bool,
}

/// State of one turn: from the user's message to the final answer, over any number of model calls.
pub(crate) struct Turn<'a> {
    shared: &'a ChatState,
    agent: &'a AgentDefinition,
    session: &'a mut ActiveSession,
    input: TurnInput<'a>,
    cancellation: TurnCancellation,
    /// Last complete text shown to the user.
    last_text: String,
    /// Text of the answer that is streaming, as far as it was shown.
    partial_text: String,
    /// Progress of the running calls.
    progress: Arc<Mutex<Option<Progress>>>,
    /// `prompt` field of hook events in this turn.
    hook_prompt: Prompt,
    /// Paragraphs that follow the user's text in the message.
    appended: Vec<String>,
    /// Names of hooks and sources that added something to this turn's messages, other than through
    /// [`Prompt::context`].
    appended_by: Vec<String>,
    /// Calls of this turn, in the form used in hook events.
    hook_calls: Vec<TurnCall>,
    /// Stop reason of the last model answer.
    stop_reason: Option<StopReason>,
    /// Origin of the last answer, if no model gave it.
    synthetic: Option<Provenance>,
    /// Prefix breaks of this turn, oldest first.
    breaks: Vec<Diagnosis>,
    /// Prefix break of the last answer, until it is reported.
    unreported_break: Option<Diagnosis>,
    /// Number of answers that stop hooks rejected, so that the turn continued.
    continuations: u32,
    /// Set when the model refused the conversation as too long, and it was to be compacted.
    overflowed: bool,
    /// Spend before the turn, and spend within it that is not part of answering.
    baseline: Spend,
    /// Model calls answered by fallbacks before the turn.
    fallback_calls_before: u32,
    /// The fallback model that gave the last answer, if it was not the agent's own model.
    fallback: Option<Model>,
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

/// The outcome of the rounds of a turn.
enum RoundOutcome {
    /// The last message is the model's (or a hook's in its place), or no message was added.
    Finished(TurnOutcome),
    /// The last answer is missing or incomplete: the conversation must be repaired.
    Stopped(Stop),
}

/// The next step after an answer.
enum Next {
    /// Another model call.
    Call,
    /// The end of the turn.
    End(Box<RoundOutcome>),
}

impl Next {
    fn end(round: RoundOutcome) -> Self {
        Self::End(Box::new(round))
    }
}

impl<'a> Turn<'a> {
    pub(crate) fn new(
        shared: &'a ChatState,
        agent: &'a AgentDefinition,
        session: &'a mut ActiveSession,
        input: TurnInput<'a>,
    ) -> Self {
        Self {
            baseline: end::spent(shared),
            fallback_calls_before: shared.totals().fallback_calls,
            fallback: None,
            shared,
            agent,
            session,
            input,
            cancellation: TurnCancellation::default(),
            last_text: String::new(),
            partial_text: String::new(),
            progress: Arc::default(),
            hook_prompt: Prompt::default(),
            appended: Vec::new(),
            appended_by: Vec::new(),
            hook_calls: Vec::new(),
            stop_reason: None,
            synthetic: None,
            breaks: Vec::new(),
            unreported_break: None,
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
        self.cancellation = TurnCancellation::new(cancel, &self.shared.meter);
        self.run().await
    }

    /// Runs the turn.
    pub(crate) async fn run(mut self) -> Result<TurnOutcome, Error> {
        if !is_visible(self.input.text) {
            let nothing = "nothing was said: the message is empty";
            return Err(Error::new(ErrorKind::Input, nothing));
        }
        self.session.hook_emitter.begin_turn(self.input.text);
        let ended = match Box::pin(self.rounds()).await {
            Ok(RoundOutcome::Finished(ended)) => Ok(ended),
            Ok(RoundOutcome::Stopped(stop)) => Box::pin(self.stop_turn(stop)).await,
            Err(error) => Err(error),
        };
        Box::pin(self.emit_turn_end(&ended)).await;
        ended
    }

    async fn rounds(&mut self) -> Result<RoundOutcome, Error> {
        if let Err(over) = self.reserve() {
            return Ok(RoundOutcome::Finished(self.outcome(over)));
        }
        self.repair_conversation().await?;
        if let Err(stop) = self.compact_if_full().await? {
            return Ok(RoundOutcome::Stopped(stop));
        }
        match Box::pin(self.submit_prompt()).await? {
            PromptOutcome::Held => {}
            PromptOutcome::Denied(why) => {
                return Ok(RoundOutcome::Finished(self.outcome(Stop::Hook(why))));
            }
            PromptOutcome::Stopped(stop) => return Ok(RoundOutcome::Stopped(stop)),
            PromptOutcome::Answered => {
                if let Next::End(round) = self.end_unless_continued(Stop::End).await {
                    return Ok(*round);
                }
            }
        }
        let mut repetition = Repetition::default();
        let mut cut_off = 0;
        for iteration in 1..=self.agent.max_iterations {
            self.session.hook_emitter.iterate(iteration);
            let round = self.round(iteration, &mut repetition, &mut cut_off);
            let next = Box::pin(round).await?;
            if let Next::End(round) = next {
                return Ok(*round);
            }
        }
        let most = self.agent.max_iterations;
        self.emit_max_iterations(most).await;
        Ok(RoundOutcome::Stopped(Stop::Iterations(most)))
    }

    /// Makes one model call and runs the tool calls of its answer.
    async fn round(
        &mut self,
        iteration: u32,
        repetition: &mut Repetition,
        cut_off: &mut u32,
    ) -> Result<Next, Error> {
        let stopped = |stop| Ok(Next::end(RoundOutcome::Stopped(stop)));
        let reply = match Box::pin(self.reply(iteration)).await? {
            Ok(reply) => reply,
            Err(next) => return Ok(next),
        };
        let (reason, mut heard) = (reply.stop.clone(), self.answer_report(&reply));
        let conversation = &self.session.conversation;
        let said =
            NormalizedReply::from_reply(reply, conversation.calls(), conversation.accepts_calls());
        heard.text.clone_from(&said.text);
        if is_visible(&said.text) {
            self.last_text = said.text;
        }
        self.session.conversation.append(said.message).await?;
        self.partial_text.clear();
        self.stop_reason = Some(reason.clone());
        self.synthetic = None;
        self.report_break().await;
        let heard = self.emit_after_llm_call(&heard).await;
        if said.calls.is_empty() {
            let stop = self
                .stop_of_answer(&reason, said.is_empty, iteration)
                .await?;
            return Ok(match heard {
                Ok(()) => self.end_unless_continued(stop).await,
                Err(stop) => Next::end(RoundOutcome::Finished(self.outcome(stop))),
            });
        }
        if let Err(Stop::Hook(why)) = heard {
            // The calls need results in the session; otherwise providers refuse it.
            let stop = self
                .run_calls(calls::reject_after_turn_end(said.calls))
                .await;
            return stopped(stop.err().unwrap_or(Stop::Hook(why)));
        }
        let is_cut_off = reason == StopReason::Length;
        *cut_off = if is_cut_off { *cut_off + 1 } else { 0 };
        let times = repetition.count(&said.calls);
        let is_stuck = times >= self.agent.max_repetitions;
        let calls = match is_stuck {
            true => calls::reject_repeated(said.calls, times),
            false => calls::accept_complete(said.calls, is_cut_off),
        };
        if let Err(stop) = self.run_calls(calls).await {
            return stopped(stop);
        }
        if is_stuck {
            return stopped(Stop::Repetition(times));
        }
        if *cut_off >= MAX_CUT_OFF_ANSWERS {
            return stopped(Stop::Length);
        }
        Ok(Next::Call)
    }

    /// Sends the held message and returns the model's answer, or the next step if there is none.
    async fn reply(&mut self, iteration: u32) -> Result<Result<Reply, Next>, Error> {
        let stopped = |stop| Ok(Err(Next::end(RoundOutcome::Stopped(stop))));
        loop {
            let reserved = match self.reserve() {
                Ok(reserved) => reserved,
                Err(over) => {
                    if let Stop::Iterations(most) = over {
                        self.emit_max_iterations(most).await;
                    }
                    return stopped(over);
                }
            };
            match self.send(iteration).await? {
                SendOutcome::Ready => {}
                SendOutcome::Answered => {
                    return Ok(Err(self.end_unless_continued(Stop::End).await));
                }
                SendOutcome::Stopped(stop) => return stopped(stop),
            }
            let asked = self
                .cancellation
                .clone()
                .run_until_cancelled(self.call_model(iteration))
                .await;
            drop(reserved);
            let error = match asked {
                Ok(Ok(reply)) => return Ok(Ok(reply)),
                Ok(Err(error)) => error,
                Err(stop) => return stopped(stop),
            };
            if let Err(stop) = self.compact_after_overflow(error).await? {
                return stopped(stop);
            }
        }
    }

    /// Ends a turn whose last answer is complete, unless a stop hook continues it.
    async fn end_unless_continued(&mut self, stop: Stop) -> Next {
        match self.emit_stop(&stop).await {
            Ok(true) => Next::Call,
            Ok(false) => Next::end(RoundOutcome::Finished(self.outcome(stop))),
            Err(stop) => Next::end(RoundOutcome::Finished(self.outcome(stop))),
        }
    }

    /// Reserves the estimated input of the next model call, so that concurrent calls do not spend it: in the
    /// chat's budget, and in the limits of a fork. The caller holds the reservation until the call is
    /// counted.
    ///
    /// # Errors
    /// The limit that prevents another model call.
    fn reserve(&self) -> Result<(Reservation, Option<ForkReservation>), Stop> {
        let next = self.estimate_next_input();
        let model = self.session.conversation.model();
        let reserved = self.shared.meter.reserve(model, next);
        let of_chat = reserved.map_err(|over| Stop::Budget(over.message))?;
        let limits = self.shared.limits.as_ref();
        let of_fork = limits.map(|it| it.reserve(next)).transpose()?;
        Ok((of_chat, of_fork))
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
