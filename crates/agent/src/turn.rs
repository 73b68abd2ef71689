//! The turn loop: assemble a request, call the model, run tools, repeat.

mod ask;
mod calls;
mod compact;
mod ending;
mod halt;
mod open;
mod overflow;
mod permit;
mod phases;
mod results;
mod send;

use std::sync::{Arc, Mutex};

use cachalot_core::Spend;
use cachalot_hooks::input::{Prompt, TurnCall};
use cachalot_model::budget::Reservation;
use cachalot_model::{Model, Reply, StopReason};
use cachalot_prefix::diagnosis::Diagnosis;

use crate::conversation::Progress;
use crate::definition::AgentDefinition;
use crate::desk::Desk;
use crate::fork::Reserved;
use crate::provenance::Provenance;
use crate::repetition::Repetition;
use crate::report::Stop;
use crate::said::{Said, is_visible};
use crate::shared::Shared;
use crate::{Cancel, Error, ErrorKind};
use halt::Halt;
use open::Opened;
use send::Sent;

/// Maximum consecutive answers that are cut off in the middle of a call; then the turn ends.
const MOST_CUT_OFF: u32 = 3;

/// Input of a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task<'a> {
    /// The user's message.
    pub(crate) said: &'a str,
    /// Set when the message comes from another agent or a fork, not from the user.
    pub(crate) is_implicit: bool,
    /// Set when stored answers must not be replayed.
    pub(crate) is_fresh: bool,
}

/// State of one turn: from the user's message to the final answer, over any number of model calls.
pub(crate) struct Turn<'a> {
    shared: &'a Shared,
    agent: &'a AgentDefinition,
    desk: &'a mut Desk,
    task: Task<'a>,
    halt: Halt,
    /// Last complete text shown to the user.
    text: String,
    /// Text of the answer that is streaming, as far as it was shown.
    partial: String,
    /// Progress of the running calls.
    progress: Arc<Mutex<Option<Progress>>>,
    /// `prompt` field of hook events in this turn.
    prompt: Prompt,
    /// Paragraphs that follow the user's text in the message.
    paragraphs: Vec<String>,
    /// Names of hooks and sources that added something to this turn's messages, other than through
    /// [`Prompt::context`].
    added_by: Vec<String>,
    /// Calls of this turn, in the form used in hook events.
    calls: Vec<TurnCall>,
    /// Stop reason of the last model answer.
    finish: Option<StopReason>,
    /// Origin of the last answer, if no model gave it.
    synthetic: Option<Provenance>,
    /// Prefix breaks of this turn, oldest first.
    breaks: Vec<Diagnosis>,
    /// Prefix break of the last answer, until it is reported.
    broken: Option<Diagnosis>,
    /// Number of answers that stop hooks rejected, so that the turn continued.
    continuations: u32,
    /// Set when the model refused the conversation as too long, and it was to be compacted.
    has_overflowed: bool,
    /// Spend before the turn, and spend within it that is not part of answering.
    before: Spend,
    /// Model calls answered by fallbacks before the turn.
    fallback_calls_before: u32,
    /// The fallback model that gave the last answer, if it was not the agent's own model.
    fallback: Option<Model>,
}

/// The outcome of a turn.
pub(crate) struct Ended {
    pub(crate) text: String,
    pub(crate) stop: Stop,
    /// Stop reason of the last model answer.
    pub(crate) finish: Option<StopReason>,
    pub(crate) synthetic: Option<Provenance>,
    /// Prefix breaks of the turn, oldest first.
    pub(crate) breaks: Vec<Diagnosis>,
}

/// The outcome of the rounds of a turn.
enum Round {
    /// The last message is the model's (or a hook's in its place), or no message was added.
    Over(Ended),
    /// The last answer is missing or incomplete: the conversation must be repaired.
    Stopped(Stop),
}

/// The next step after an answer.
enum Next {
    /// Another model call.
    Call,
    /// The end of the turn.
    End(Box<Round>),
}

impl Next {
    fn end(round: Round) -> Self {
        Self::End(Box::new(round))
    }
}

impl<'a> Turn<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        agent: &'a AgentDefinition,
        desk: &'a mut Desk,
        task: Task<'a>,
    ) -> Self {
        Self {
            before: ending::spent(shared),
            fallback_calls_before: shared.sum().fallback_calls,
            fallback: None,
            shared,
            agent,
            desk,
            task,
            halt: Halt::default(),
            text: String::new(),
            partial: String::new(),
            progress: Arc::default(),
            prompt: Prompt::default(),
            paragraphs: Vec::new(),
            added_by: Vec::new(),
            calls: Vec::new(),
            finish: None,
            synthetic: None,
            breaks: Vec::new(),
            broken: None,
            continuations: 0,
            has_overflowed: false,
        }
    }

    /// Runs the turn until it ends, is cancelled, or exceeds the time budget. In every case the conversation
    /// can continue afterwards.
    pub(crate) async fn run_until(mut self, cancel: &Cancel) -> Result<Ended, Error> {
        self.halt = Halt::when(cancel, &self.shared.meter);
        self.run().await
    }

    /// Runs the turn.
    pub(crate) async fn run(mut self) -> Result<Ended, Error> {
        if !is_visible(self.task.said) {
            let nothing = "nothing was said: the message is empty";
            return Err(Error::new(ErrorKind::Input, nothing));
        }
        self.desk.herald.begin_turn(self.task.said);
        let ended = match Box::pin(self.rounds()).await {
            Ok(Round::Over(ended)) => Ok(ended),
            Ok(Round::Stopped(stop)) => Box::pin(self.stopped(stop)).await,
            Err(error) => Err(error),
        };
        Box::pin(self.farewell(&ended)).await;
        ended
    }

    async fn rounds(&mut self) -> Result<Round, Error> {
        if let Err(over) = self.reserve() {
            return Ok(Round::Over(self.ended(over)));
        }
        self.settle().await?;
        if let Err(stop) = self.compact_if_full().await? {
            return Ok(Round::Stopped(stop));
        }
        match Box::pin(self.open()).await? {
            Opened::Held => {}
            Opened::Denied(why) => return Ok(Round::Over(self.ended(Stop::Hook(why)))),
            Opened::Stopped(stop) => return Ok(Round::Stopped(stop)),
            Opened::Answered => {
                if let Next::End(round) = self.unless_done(Stop::End).await {
                    return Ok(*round);
                }
            }
        }
        let mut repetition = Repetition::default();
        let mut cut_off = 0;
        for iteration in 1..=self.agent.max_iterations {
            self.desk.herald.iterate(iteration);
            let round = self.round(iteration, &mut repetition, &mut cut_off);
            let next = Box::pin(round).await?;
            if let Next::End(round) = next {
                return Ok(*round);
            }
        }
        let most = self.agent.max_iterations;
        self.limit_reached(most).await;
        Ok(Round::Stopped(Stop::Iterations(most)))
    }

    /// Makes one model call and runs the tool calls of its answer.
    async fn round(
        &mut self,
        iteration: u32,
        repetition: &mut Repetition,
        cut_off: &mut u32,
    ) -> Result<Next, Error> {
        let stopped = |stop| Ok(Next::end(Round::Stopped(stop)));
        let reply = match Box::pin(self.reply(iteration)).await? {
            Ok(reply) => reply,
            Err(next) => return Ok(next),
        };
        let (reason, mut heard) = (reply.stop.clone(), self.heard_of(&reply));
        let conversation = &self.desk.conversation;
        let said = Said::of(reply, conversation.calls(), conversation.may_call());
        heard.text.clone_from(&said.text);
        if is_visible(&said.text) {
            self.text = said.text;
        }
        self.desk.conversation.say(said.message).await?;
        self.partial.clear();
        self.finish = Some(reason.clone());
        self.synthetic = None;
        self.tell_of_break().await;
        let heard = self.heard(&heard).await;
        if said.calls.is_empty() {
            let stop = self.answered(&reason, said.is_empty, iteration).await?;
            return Ok(match heard {
                Ok(()) => self.unless_done(stop).await,
                Err(stop) => Next::end(Round::Over(self.ended(stop))),
            });
        }
        if let Err(Stop::Hook(why)) = heard {
            // The calls need results in the session; otherwise providers refuse it.
            let stop = self.run_calls(calls::ended(said.calls)).await;
            return stopped(stop.err().unwrap_or(Stop::Hook(why)));
        }
        let is_cut_off = reason == StopReason::Length;
        *cut_off = if is_cut_off { *cut_off + 1 } else { 0 };
        let times = repetition.note(&said.calls);
        let is_stuck = times >= self.agent.max_repetitions;
        let calls = match is_stuck {
            true => calls::repeated(said.calls, times),
            false => calls::complete(said.calls, is_cut_off),
        };
        if let Err(stop) = self.run_calls(calls).await {
            return stopped(stop);
        }
        if is_stuck {
            return stopped(Stop::Repetition(times));
        }
        if *cut_off >= MOST_CUT_OFF {
            return stopped(Stop::Length);
        }
        Ok(Next::Call)
    }

    /// Sends the held message and returns the model's answer, or the next step if there is none.
    async fn reply(&mut self, iteration: u32) -> Result<Result<Reply, Next>, Error> {
        let stopped = |stop| Ok(Err(Next::end(Round::Stopped(stop))));
        loop {
            let reserved = match self.reserve() {
                Ok(reserved) => reserved,
                Err(over) => {
                    if let Stop::Iterations(most) = over {
                        self.limit_reached(most).await;
                    }
                    return stopped(over);
                }
            };
            match self.send(iteration).await? {
                Sent::Asking => {}
                Sent::Answered => return Ok(Err(self.unless_done(Stop::End).await)),
                Sent::Stopped(stop) => return stopped(stop),
            }
            let asked = self.halt.clone().unless(self.ask(iteration)).await;
            drop(reserved);
            let error = match asked {
                Ok(Ok(reply)) => return Ok(Ok(reply)),
                Ok(Err(error)) => error,
                Err(stop) => return stopped(stop),
            };
            if let Err(stop) = self.make_room(error).await? {
                return stopped(stop);
            }
        }
    }

    /// Ends a turn whose last answer is complete, unless a stop hook continues it.
    async fn unless_done(&mut self, stop: Stop) -> Next {
        match self.goes_on(&stop).await {
            Ok(true) => Next::Call,
            Ok(false) => Next::end(Round::Over(self.ended(stop))),
            Err(stop) => Next::end(Round::Over(self.ended(stop))),
        }
    }

    /// Reserves the estimated input of the next model call, so that concurrent calls do not spend it: in the
    /// chat's budget, and in the limits of a fork. The caller holds the reservation until the call is
    /// counted.
    ///
    /// # Errors
    /// The limit that prevents another model call.
    fn reserve(&self) -> Result<(Reservation, Option<Reserved>), Stop> {
        let next = self.next_input();
        let model = self.desk.conversation.model();
        let reserved = self.shared.meter.reserve(model, next);
        let of_chat = reserved.map_err(|over| Stop::Budget(over.message))?;
        let allowance = self.shared.allowance.as_ref();
        let of_fork = allowance.map(|it| it.reserve(next)).transpose()?;
        Ok((of_chat, of_fork))
    }

    fn ended(&mut self, stop: Stop) -> Ended {
        Ended {
            text: std::mem::take(&mut self.text),
            stop,
            finish: self.finish.clone(),
            synthetic: self.synthetic.clone(),
            breaks: std::mem::take(&mut self.breaks),
        }
    }
}
