//! The turn loop: assemble, call, run tools, repeat.

mod ask;
mod calls;
mod halt;
mod permit;

use std::sync::{Arc, Mutex, PoisonError};

use cachalot_model::Message;
use cachalot_model::{ErrorKind as ModelErrorKind, StopReason};

use crate::conversation::{Progress, Remains};
use crate::definition::AgentDefinition;
use crate::desk::Desk;
use crate::repetition::Repetition;
use crate::report::Stop;
use crate::said::{Said, is_visible};
use crate::shared::Shared;
use crate::{Cancel, Error, ErrorKind, context};
use halt::Halt;

/// So many answers in a row may be cut off in the middle of a call before the turn ends.
const MOST_CUT_OFF: u32 = 3;

/// A turn of one agent.
pub(crate) struct Turn<'a> {
    shared: &'a Shared,
    agent: &'a AgentDefinition,
    desk: &'a mut Desk,
    halt: Halt,
    /// The last text that the model said.
    text: String,
    /// The answer under way, as far as it was shown.
    partial: String,
    /// The calls under way.
    progress: Arc<Mutex<Option<Progress>>>,
}

/// How a turn ended, and with which text.
pub(crate) struct Ended {
    pub(crate) text: String,
    pub(crate) stop: Stop,
}

/// What came of the rounds of a turn.
enum Round {
    /// The model had the last word, or nothing was said at all.
    Over(Ended),
    /// The last word is not the model's, or has not come.
    Stopped(Stop),
}

impl<'a> Turn<'a> {
    pub(crate) fn new(shared: &'a Shared, agent: &'a AgentDefinition, desk: &'a mut Desk) -> Self {
        Self {
            shared,
            agent,
            desk,
            halt: Halt::default(),
            text: String::new(),
            partial: String::new(),
            progress: Arc::default(),
        }
    }

    /// Carries the turn out, unless it is cancelled or its time is up before: then the conversation
    /// is left so that it can go on.
    pub(crate) async fn run_until(mut self, said: &str, cancel: &Cancel) -> Result<Ended, Error> {
        self.halt = Halt::when(cancel, &self.shared.meter);
        self.run(said).await
    }

    /// Carries the turn out.
    pub(crate) async fn run(mut self, said: &str) -> Result<Ended, Error> {
        match self.rounds(said).await? {
            Round::Over(ended) => Ok(ended),
            Round::Stopped(stop) => self.stopped(stop).await,
        }
    }

    async fn rounds(&mut self, said: &str) -> Result<Round, Error> {
        if !is_visible(said) {
            let nothing = "nothing was said: the message is empty";
            return Err(Error::new(ErrorKind::Input, nothing));
        }
        if let Some(over) = self.over_budget() {
            return Ok(Round::Over(self.ended(over)));
        }
        if let Err(stop) = self.open(said).await? {
            return Ok(Round::Stopped(stop));
        }
        let mut repetition = Repetition::default();
        let mut cut_off = 0;
        for iteration in 1..=self.agent.max_iterations {
            if let Some(over) = self.over_budget() {
                return Ok(Round::Stopped(over));
            }
            let reply = match self.halt.clone().unless(self.ask(iteration)).await {
                Ok(Ok(reply)) => reply,
                Ok(Err(error)) => return Err(self.broken_off(error).await),
                Err(stop) => return Ok(Round::Stopped(stop)),
            };
            let reason = reply.stop.clone();
            let conversation = &self.desk.conversation;
            let said = Said::of(reply, conversation.calls(), conversation.may_call());
            if is_visible(&said.text) {
                self.text = said.text;
            }
            self.desk.conversation.say(said.message).await?;
            self.partial.clear();
            if said.calls.is_empty() {
                let ended = self.answered(&reason, said.is_empty, iteration)?;
                return Ok(Round::Over(ended));
            }
            let is_cut_off = reason == StopReason::Length;
            cut_off = if is_cut_off { cut_off + 1 } else { 0 };
            let times = repetition.note(&said.calls);
            let is_stuck = times >= self.agent.max_repetitions;
            let calls = match is_stuck {
                true => calls::repeated(said.calls, times),
                false => calls::complete(said.calls, is_cut_off),
            };
            if let Err(stop) = self.run_calls(calls).await? {
                return Ok(Round::Stopped(stop));
            }
            if is_stuck {
                return Ok(Round::Stopped(Stop::Repetition(times)));
            }
            if cut_off >= MOST_CUT_OFF {
                return Ok(Round::Stopped(Stop::Length));
            }
        }
        Ok(Round::Stopped(Stop::Iterations(self.agent.max_iterations)))
    }

    /// Why no further model call may be made.
    fn over_budget(&self) -> Option<Stop> {
        let model = self.desk.conversation.model();
        let over = self.shared.meter.check_for(model).err()?;
        Some(Stop::Budget(over.message))
    }

    /// Says the user's message, in a conversation that is fit for it.
    async fn open(&mut self, said: &str) -> Result<Result<(), Stop>, Error> {
        let message = match self.halt.unless(self.with_context(said)).await {
            Ok(message) => message,
            Err(stop) => return Ok(Err(stop)),
        };
        match self.say_next(message.clone()).await {
            Err(error) if error.kind == ErrorKind::Conflict => {
                self.desk.reopen(self.shared, self.agent).await?;
                self.say_next(message).await
            }
            done => done,
        }
        .map(Ok)
    }

    async fn say_next(&mut self, message: Message) -> Result<(), Error> {
        let conversation = &mut self.desk.conversation;
        conversation.mend(Remains::default()).await?;
        conversation.say(message).await
    }

    /// The user's message, with what changes from turn to turn behind it.
    async fn with_context(&self, said: &str) -> Message {
        let mut paragraphs = Vec::new();
        for source in &self.shared.house.context {
            paragraphs.extend(source.paragraph(self.agent, said).await);
        }
        context::message(said, &paragraphs)
    }

    /// Ends a turn whose last word was the model's.
    fn answered(
        &mut self,
        stop: &StopReason,
        is_empty: bool,
        iteration: u32,
    ) -> Result<Ended, Error> {
        let agent = &self.agent.name;
        match stop {
            StopReason::Length => return Ok(self.ended(Stop::Length)),
            StopReason::Refusal => return Ok(self.ended(Stop::Refusal)),
            StopReason::Other(reason) => self.shared.warn(
                agent,
                &format!("the provider ended the answer for another reason: {reason}"),
            ),
            StopReason::End | StopReason::ToolUse | StopReason::StopText => {}
        }
        match (is_empty, iteration) {
            (false, _) => {}
            (true, 1) => {
                return Err(Error::new(
                    ErrorKind::Model,
                    format!(
                        "{}: `{}` gave an empty answer; ask again, or ask something else",
                        self.desk.conversation.model().provider(),
                        self.desk.conversation.model().name()
                    ),
                ));
            }
            // It has done something, and has nothing to say about it.
            (true, _) => self.shared.warn(agent, "the model said nothing more"),
        }
        Ok(self.ended(Stop::End))
    }

    fn ended(&mut self, stop: Stop) -> Ended {
        Ended {
            text: std::mem::take(&mut self.text),
            stop,
        }
    }

    /// Ends a turn whose last word was not the model's, or did not come to its end.
    async fn stopped(&mut self, stop: Stop) -> Result<Ended, Error> {
        if is_visible(&self.partial) {
            self.text = self.partial.clone();
        }
        let remains = self.remains();
        if let Some(progress) = &remains.progress {
            self.shared.add_answers(&progress.ended);
        }
        self.desk.conversation.mend(remains).await?;
        Ok(self.ended(stop))
    }

    /// The model failed. What had come of its answer was shown, and is kept.
    async fn broken_off(&mut self, error: cachalot_model::Error) -> Error {
        let remains = self.remains();
        if is_visible(&remains.text) {
            // If that fails, too, the model's failure is still what has to be told.
            let _ = self.desk.conversation.mend(remains).await;
        }
        let is_too_long = error.kind == ModelErrorKind::TooLong;
        let mut error = Error::from(error);
        if is_too_long {
            error.message.push_str(
                "; what was said cannot be taken back: begin a new session, or resume this one with a model that takes more",
            );
        }
        error
    }

    fn remains(&mut self) -> Remains {
        Remains {
            text: std::mem::take(&mut self.partial),
            progress: self
                .progress
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        }
    }
}
