//! The turn loop: assemble, call, run tools, repeat.

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

/// So many answers in a row may be cut off in the middle of a call before the turn ends.
const MOST_CUT_OFF: u32 = 3;

/// What a turn is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task<'a> {
    /// What is said.
    pub(crate) said: &'a str,
    /// Whether another agent says it.
    pub(crate) is_implicit: bool,
    /// Whether an answer that was given before does not count.
    pub(crate) is_fresh: bool,
}

/// A turn of one agent.
pub(crate) struct Turn<'a> {
    shared: &'a Shared,
    agent: &'a AgentDefinition,
    desk: &'a mut Desk,
    task: Task<'a>,
    halt: Halt,
    /// The last text that was said to the user.
    text: String,
    /// The answer under way, as far as it was shown.
    partial: String,
    /// The calls under way.
    progress: Arc<Mutex<Option<Progress>>>,
    /// What hooks are told of the user's message.
    prompt: Prompt,
    /// What stands behind the user's words in the message that is sent.
    paragraphs: Vec<String>,
    /// Who added something to the messages of this turn beside [`Prompt::context`].
    added_by: Vec<String>,
    /// The calls so far, as hooks are told of them.
    calls: Vec<TurnCall>,
    /// Why the last answer of a model ended.
    finish: Option<StopReason>,
    /// Whose answer the last one was, if no model's.
    synthetic: Option<Provenance>,
    /// Where the provider could not read what it had been sent before.
    breaks: Vec<Diagnosis>,
    /// The same of the last answer, before it is told.
    broken: Option<Diagnosis>,
    /// How often a stop hook did not accept an answer, so that the turn went on.
    continuations: u32,
    /// Whether the conversation was to be summarized because the model did not take it.
    has_overflowed: bool,
    /// What had been spent before the turn, and in it on what is no part of answering.
    before: Spend,
    /// Model calls that fallbacks had answered before the turn.
    fallback_calls_before: u32,
    /// The model that gave the last answer, if it was not the agent's own but a fallback.
    fallback: Option<Model>,
}

/// How a turn ended, and with which text.
pub(crate) struct Ended {
    pub(crate) text: String,
    pub(crate) stop: Stop,
    /// Why the last answer of a model ended.
    pub(crate) finish: Option<StopReason>,
    pub(crate) synthetic: Option<Provenance>,
    /// Where the provider could not read what it had been sent before.
    pub(crate) breaks: Vec<Diagnosis>,
}

/// What came of the rounds of a turn.
enum Round {
    /// The model had the last word, or nothing was said at all.
    Over(Ended),
    /// The last word is not the model's, or has not come.
    Stopped(Stop),
}

/// What comes after an answer.
enum Next {
    /// Another model call.
    Call,
    /// Nothing.
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

    /// Carries the turn out, unless it is cancelled or its time is up before: then the conversation
    /// is left so that it can go on.
    pub(crate) async fn run_until(mut self, cancel: &Cancel) -> Result<Ended, Error> {
        self.halt = Halt::when(cancel, &self.shared.meter);
        self.run().await
    }

    /// Carries the turn out.
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

    /// One model call, and what it calls for.
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
            // The results of the calls are part of the session, or no provider would take it back.
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

    /// Sends what is held until the model answers it, or what comes in place of its answer.
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

    /// Ends a turn whose last word was the model's, or a hook's in its place, unless a hook wants it
    /// to go on.
    async fn unless_done(&mut self, stop: Stop) -> Next {
        match self.goes_on(&stop).await {
            Ok(true) => Next::Call,
            Ok(false) => Next::end(Round::Over(self.ended(stop))),
            Err(stop) => Next::end(Round::Over(self.ended(stop))),
        }
    }

    /// Sets aside what the next model call sends, as far as can be told, so that others that are made
    /// at the same time do not count on it: of the chat's budget, and of what a fork may use. To be
    /// held until the call was counted.
    ///
    /// # Errors
    /// Why no further model call may be made.
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
