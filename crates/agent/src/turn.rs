//! The turn loop: assemble, call, run tools, repeat.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use cachalot_core::Spend;
use cachalot_model::budget::Meter;
use cachalot_model::{
    Block, Delta, ErrorKind as ModelErrorKind, Message, Reply, Role, StopReason, ToolResult, Usage,
};
use cachalot_tools::{Answer, Batch, Call, Output, Prepared, Toolbox, Verdict, Watcher};

use crate::Cancel;
use crate::conversation::Conversation;
use crate::definition::{AgentDefinition, Team};
use crate::event::{Approval, Event, Question};
use crate::house::House;
use crate::permissions::Decision;
use crate::repetition::Repetition;
use crate::{Error, context};

/// Why a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The model had nothing more to do.
    End,
    /// The model, or a filter of its provider, refused.
    Refusal,
    /// The answer reached the limit of its tokens.
    Length,
    /// So many model calls were made, and no more are allowed in a turn.
    Iterations(u32),
    /// The model made the same calls so many times in a row.
    Repetition(u32),
    /// A budget is used up; says which.
    Budget(String),
    /// It was cancelled.
    Interrupted,
}

impl Stop {
    /// What to tell the user, if the turn did not simply end.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        Some(match self {
            Self::End => return None,
            Self::Refusal => "the model refused to answer".to_owned(),
            Self::Length => {
                "the answer is cut off: it reached the limit of its tokens (max_tokens)".to_owned()
            }
            Self::Iterations(most) => format!(
                "stopped after {most} model calls (max_iterations); say something to go on"
            ),
            Self::Repetition(times) => format!(
                "stopped: the same tool calls were made {times} times in a row (max_consecutive_tool_calls)"
            ),
            Self::Budget(which) => format!("stopped: {which}"),
            Self::Interrupted => "interrupted; the session is kept".to_owned(),
        })
    }
}

/// What a turn came to.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnReport {
    /// The model's last text.
    pub text: String,
    /// Why it ended.
    pub stop: Stop,
    /// What it used, sub-agents included.
    pub sum: Sum,
}

/// What turns used, cost and saved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Model calls.
    pub model_calls: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Tokens.
    pub usage: Usage,
    /// What was paid, for models.
    pub paid: Spend,
    /// What was saved, by tools that need not run.
    pub saved: Spend,
}

impl std::ops::AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.model_calls += other.model_calls;
        self.tool_calls += other.tool_calls;
        self.usage += other.usage;
        self.paid += other.paid;
        self.saved += other.saved;
    }
}

/// What all turns of a chat share, those of sub-agents included.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) house: House,
    pub(crate) team: Arc<Team>,
    pub(crate) meter: Meter,
    pub(crate) cancel: Cancel,
    /// What has been used since the turn began.
    pub(crate) sum: Arc<Mutex<Sum>>,
    /// Tools that the user allowed for the rest of the chat.
    pub(crate) always: Arc<Mutex<Vec<String>>>,
}

impl Shared {
    pub(crate) fn add(&self, part: Sum) {
        *self.sum.lock().unwrap_or_else(PoisonError::into_inner) += part;
    }

    pub(crate) fn take_sum(&self) -> Sum {
        std::mem::take(&mut *self.sum.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_always(&self, tool: &str) -> bool {
        let always = self.always.lock().unwrap_or_else(PoisonError::into_inner);
        always.iter().any(|allowed| allowed == tool)
    }
}

/// A turn of one agent.
pub(crate) struct Turn<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) agent: &'a AgentDefinition,
    pub(crate) toolbox: &'a Arc<dyn Toolbox>,
    pub(crate) conversation: &'a mut Conversation,
}

/// How a turn ended, and with which text.
pub(crate) struct Ended {
    pub(crate) text: String,
    pub(crate) stop: Stop,
}

impl Turn<'_> {
    /// Carries the turn out. When it is cancelled, the conversation is left so that it can go on.
    pub(crate) async fn run(mut self, said: &str) -> Result<Ended, Error> {
        let (cancel, meter) = (self.shared.cancel.clone(), self.shared.meter.clone());
        let stop = tokio::select! {
            biased;
            () = cancel.cancelled() => Stop::Interrupted,
            over = time_over(&meter) => Stop::Budget(over),
            ended = self.rounds(said) => return ended,
        };
        self.stopped(stop).await
    }

    async fn rounds(&mut self, said: &str) -> Result<Ended, Error> {
        self.conversation.mend().await?;
        let message = self.with_context(said).await;
        self.conversation.say(message).await?;
        let mut repetition = Repetition::default();
        for iteration in 1..=self.agent.max_iterations {
            if let Err(over) = self.shared.meter.check_for(self.conversation.model()) {
                return self.stopped(Stop::Budget(over.message)).await;
            }
            let reply = match self.ask(iteration).await {
                Err(error) if error.kind == ModelErrorKind::OverBudget => {
                    return self.stopped(Stop::Budget(error.message)).await;
                }
                reply => reply?,
            };
            let text = reply.message.text();
            let calls: Vec<Call> = reply.message.tool_uses().map(call).collect();
            self.conversation.say(reply.message).await?;
            if calls.is_empty() {
                let stop = match reply.stop {
                    StopReason::Length => Stop::Length,
                    StopReason::Refusal => Stop::Refusal,
                    _ => Stop::End,
                };
                return Ok(Ended { text, stop });
            }
            let times = repetition.note(calls.iter());
            let stuck = times >= self.agent.max_repetitions;
            let answers = if stuck {
                calls.into_iter().map(|call| repeated(call, times)).collect()
            } else {
                self.run_tools(calls).await
            };
            self.conversation.say(results(answers)).await?;
            if stuck {
                return self.stopped(Stop::Repetition(times)).await;
            }
        }
        self.stopped(Stop::Iterations(self.agent.max_iterations)).await
    }

    /// Ends a turn whose last word was not the model's.
    async fn stopped(&mut self, stop: Stop) -> Result<Ended, Error> {
        self.conversation.mend().await?;
        Ok(Ended {
            text: String::new(),
            stop,
        })
    }

    /// The user's message, with what changes from turn to turn behind it.
    async fn with_context(&self, said: &str) -> Message {
        let mut paragraphs = Vec::new();
        for source in &self.shared.house.context {
            paragraphs.extend(source.paragraph(self.agent, said).await);
        }
        let mut message = Message::user(said);
        message
            .content
            .extend(context::block(&paragraphs).map(Block::text));
        message
    }

    async fn ask(&mut self, iteration: u32) -> Result<Reply, cachalot_model::Error> {
        let (agent, listener) = (self.agent.name.as_str(), &self.shared.house.listener);
        listener.tell(&Event::Asked { agent, iteration });
        let body = self.conversation.body();
        let model = self.conversation.model().clone();
        let began = Instant::now();
        let mut on = |delta: Delta| match &delta {
            Delta::Text(text) => listener.tell(&Event::Text { agent, text }),
            Delta::Reasoning(text) => listener.tell(&Event::Reasoning { agent, text }),
            Delta::ToolUse { .. } | Delta::Arguments { .. } => {}
        };
        let reply = model.stream(body, &mut on).await?;
        let elapsed = began.elapsed();
        let usage = reply.usage.unwrap_or_default();
        let cost = model.cost_of(&reply);
        let paid = Spend {
            input_tokens: usage.total_input(),
            output_tokens: usage.output,
            cost,
            ..Spend::one(elapsed)
        };
        self.conversation.count(usage, paid);
        self.shared.meter.record(reply.usage.as_ref(), cost);
        self.shared.add(Sum {
            model_calls: 1,
            usage,
            paid,
            ..Sum::default()
        });
        listener.tell(&Event::Answered {
            agent,
            usage: reply.usage.as_ref(),
            cost,
            elapsed,
        });
        Ok(reply)
    }

    async fn run_tools(&self, calls: Vec<Call>) -> Vec<Answer> {
        let mut prepared = Vec::with_capacity(calls.len());
        for call in calls {
            let ready = self.toolbox.prepare(call);
            prepared.push(self.permit(ready).await);
        }
        let mut context = self.shared.house.tools.clone();
        context.session = self.conversation.id().to_owned();
        let batch = Batch {
            context,
            verbatim: self.conversation.results(),
            watcher: Arc::new(Told {
                shared: self.shared.clone(),
                agent: self.agent.name.clone(),
            }),
        };
        let answers = self.toolbox.run(prepared, &batch).await;
        for answer in &answers {
            self.shared.add(Sum {
                tool_calls: 1,
                saved: answer.saved,
                ..Sum::default()
            });
        }
        answers
    }

    /// Lets a call be made, or makes a result of why not.
    async fn permit(&self, prepared: Prepared) -> Prepared {
        let Verdict::Ready {
            arguments,
            read_only,
            ..
        } = &prepared.verdict
        else {
            return prepared;
        };
        let (name, house) = (&prepared.call.name, &self.shared.house);
        let root = house.tools.workspace.root();
        let decision = self
            .shared
            .team
            .permissions
            .judge(name, *read_only, arguments, root);
        let refusal = match decision {
            Decision::Allow => return prepared,
            Decision::Deny(rule) => format!(
                "The call of `{name}` is denied by the rule `{rule}`. Do not try it again; find another way or tell the user."
            ),
            Decision::Ask if self.shared.is_always(name) => return prepared,
            Decision::Ask => {
                let question = Question {
                    agent: &self.agent.name,
                    call: &prepared.call,
                    arguments,
                };
                match house.approver.approve(&question).await {
                    Approval::Yes => return prepared,
                    Approval::Always => {
                        let mut always = self
                            .shared
                            .always
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner);
                        always.push(name.clone());
                        return prepared;
                    }
                    Approval::No(why) => {
                        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                        format!("The user did not allow this call of `{name}`{why}.")
                    }
                }
            }
        };
        Prepared {
            verdict: Verdict::Refused(Output::error(refusal)),
            ..prepared
        }
    }
}

/// Resolves when the budget's time is used up; says so.
async fn time_over(meter: &Meter) -> String {
    loop {
        match meter.time_left() {
            None => std::future::pending().await,
            Some(left) => tokio::time::sleep(left).await,
        }
        if let Err(over) = meter.check() {
            return over.message;
        }
    }
}

fn call(tool_use: &cachalot_model::ToolUse) -> Call {
    Call {
        id: tool_use.id.clone(),
        name: tool_use.name.clone(),
        arguments: tool_use.arguments.clone(),
    }
}

/// The result of a call that is not made because it was made before, again and again.
fn repeated(call: Call, times: u32) -> Answer {
    Answer {
        output: Output::error(format!(
            "Not run: this is the {times}th identical call in a row. Its result will not change."
        )),
        call,
        how: cachalot_tools::Answered::Refused,
        elapsed: std::time::Duration::ZERO,
        saved: Spend::default(),
    }
}

/// The results of a batch as one message.
fn results(answers: Vec<Answer>) -> Message {
    let results = answers.into_iter().map(|answer| {
        Block::ToolResult(ToolResult {
            id: answer.call.id,
            content: answer.output.content,
            is_error: answer.output.is_error,
            extra: cachalot_model::Extra::new(),
        })
    });
    Message::of(Role::User, results.collect())
}

/// Passes what happens to calls on to the listener.
struct Told {
    shared: Shared,
    agent: String,
}

impl Watcher for Told {
    fn began(&self, call: &Call) {
        self.shared.house.listener.tell(&Event::ToolBegan {
            agent: &self.agent,
            call,
        });
    }

    fn ended(&self, answer: &Answer) {
        self.shared.house.listener.tell(&Event::ToolEnded {
            agent: &self.agent,
            answer,
        });
    }
}
