//! Forks: a fork runs one message on a copy-on-write snapshot of a conversation.
//!
//! The first request of a fork is its parent's last request plus its own message, so that the provider reads
//! nearly all of it from its cache. A fork is shown all tools of its parent, because they are at the
//! beginning of the shared prefix. Its [`Gate`] decides which of them it may use, before hooks, rules and the
//! tools themselves. A fork has its own session and its own cost, and requests no approvals.

mod allowance;
mod branch;
mod flock;
mod listed;
mod overheard;
mod parity;

use std::sync::Arc;

use cachalot_core::Cost;
use cachalot_model::{Model, Usage};
use cachalot_prompt::Namespace;
use cachalot_tools::Gate;
use serde_json::Value;

use crate::conversation::{Conversation, Shown};
use crate::definition::AgentDefinition;
use crate::desk::{self, Desk};
use crate::event::Listener;
use crate::herald::Herald;
use crate::report::{Stop, Sum};
use crate::said::is_visible;
use crate::shared::Shared;
use crate::turn::{Ended, Task, Turn};
use crate::{Cancel, Chat, Error, ErrorKind};

pub(crate) use allowance::{Allowance, Reserved};
pub(crate) use branch::{Branch, Trunk};
pub(crate) use flock::{Flock, Lead};
pub use parity::{Difference, Inherited};

use listed::Listed;
use overheard::Overheard;

/// The parts that a fork inherits from its parent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Inherit {
    /// The whole prompt: the provider reads the conversation as it was sent. The gate restricts the use of
    /// the tools.
    #[default]
    Full,
    /// System text and messages; of the tools, those that the fork may use.
    Prompt,
    /// Metadata of the session (its origin and routing key) and the messages. System text and tools are
    /// rendered anew, with the tools that the fork may use.
    Session,
    /// Nothing; the messages are not inherited either.
    None,
}

/// The specification of a fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkSpec {
    /// The name of the fork in denials, warnings and costs: `the review`.
    pub holder: String,
    /// Names of the tools that it may use; `None`: all that the parent may use. Tools that the parent lacks
    /// are ignored.
    pub tools: Option<Vec<String>>,
    /// True if the listed tools need no approval, because the user wrote the list. Calls for which a rule or
    /// a hook requires an approval, and writes of protected files, are still refused. If false, every call is
    /// refused that would need the user's approval in the parent.
    pub approved: bool,
    /// The parts that it inherits.
    pub inherit: Inherit,
    /// Maximum model calls, including those of its sub-agents.
    pub max_iterations: u32,
    /// Maximum input tokens of all its requests together. A request that would exceed it is not sent; its
    /// size is taken from the previous request or estimated from its bytes. Requests in flight count.
    pub max_input_tokens: Option<u64>,
    /// Maximum output tokens of all its answers together. Once they are reached, no further request is sent.
    pub max_output_tokens: Option<u64>,
}

/// A fork of a conversation, for one message.
pub struct Fork {
    spec: ForkSpec,
    agent: AgentDefinition,
    /// The state of the parent.
    shared: Shared,
    from: Branch,
    part: Part,
    /// Depth of delegation.
    depth: u32,
    /// True if another model is called, so that the fork inherits nothing although `spec` requested it.
    is_unread: bool,
}

/// The owner of a fork.
enum Part {
    /// A chat; the fork runs beside its turns until this signal is triggered.
    Chat(Cancel),
    /// A turn; the fork is a sub-agent and runs until it is dropped.
    Turn,
}

/// The result of a fork.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkReport {
    /// The last text of the model; of an interrupted answer, the part that was received.
    pub text: String,
    /// The reason why it ended.
    pub stop: Stop,
    /// Its usage, including its sub-agents.
    pub sum: Sum,
    /// The ID of its session.
    pub session: String,
    /// Usage of its first request, if there was one and the provider reported it.
    pub first: Option<Usage>,
    /// Usage of the parent's last request, if known.
    pub parent: Option<Usage>,
    /// The parts that it did not inherit from its parent, in the order of [`Inherited`].
    pub differences: Vec<Difference>,
    /// Tools that were called but are not allowed, without duplicates.
    pub denied: Vec<String>,
}

/// The result of a fork that may have failed.
pub(crate) struct Outcome {
    pub(crate) ended: Result<Ended, Error>,
    pub(crate) sum: Sum,
    /// Empty if no session was created.
    pub(crate) session: String,
    pub(crate) first: Option<Usage>,
    pub(crate) parent: Option<Usage>,
    pub(crate) differences: Vec<Difference>,
    pub(crate) denied: Vec<String>,
}

impl Outcome {
    fn report(self) -> Result<ForkReport, Error> {
        let ended = self.ended?;
        Ok(ForkReport {
            text: ended.text,
            stop: ended.stop,
            sum: self.sum,
            session: self.session,
            first: self.first,
            parent: self.parent,
            differences: self.differences,
            denied: self.denied,
        })
    }
}

impl Chat {
    /// Creates a fork of this chat in its current state. The cost does not depend on the length of the
    /// conversation; the chat can continue meanwhile. When the chat ends or is dropped, its forks are
    /// cancelled.
    ///
    /// # Errors
    /// [`ErrorKind::Fork`] if `holder` is empty or `max_iterations` is 0.
    pub fn fork(&self, spec: ForkSpec) -> Result<Fork, Error> {
        let refused = |why: &str| Err(Error::new(ErrorKind::Fork, why));
        if !is_visible(&spec.holder) {
            return refused("a fork needs a `holder`: who it is, as in `the review`");
        }
        if spec.max_iterations == 0 {
            return refused("a fork with no model call (`max_iterations: 0`) does nothing");
        }
        Ok(Fork {
            spec,
            agent: self.agent().clone(),
            shared: self.shared().clone(),
            from: self.desk().branch(),
            part: Part::Chat(self.over().clone()),
            is_unread: false,
            depth: 0,
        })
    }
}

/// A fork that is ready to run its message.
pub(crate) struct Seat {
    pub(crate) shared: Shared,
    pub(crate) agent: AgentDefinition,
    pub(crate) desk: Desk,
    /// The message.
    pub(crate) said: String,
}

impl Fork {
    /// A fork of a turn in the middle of its calls. It runs as `agent`, in the conversation of `with` and
    /// with that agent's model, and may use its own tools.
    pub(crate) fn of_turn(
        agent: &AgentDefinition,
        with: &AgentDefinition,
        shared: &Shared,
        from: Branch,
        depth: u32,
    ) -> Self {
        Self {
            spec: ForkSpec {
                holder: format!("the agent `{}`", agent.name),
                tools: None,
                approved: false,
                inherit: Inherit::Full,
                max_iterations: agent.max_iterations,
                max_input_tokens: None,
                max_output_tokens: None,
            },
            agent: AgentDefinition {
                model: with.model.clone(),
                ..agent.clone()
            },
            shared: shared.clone(),
            from,
            part: Part::Turn,
            is_unread: false,
            depth,
        }
    }

    /// Calls another model, named as in the agent file.
    ///
    /// A model that differs from the parent's only in settings that the provider's cache does not depend on
    /// (output limits, sampling, stop texts) inherits as usual. For any other model the fork inherits
    /// nothing: the provider has nothing of the conversation in that model's cache. The message must then
    /// contain all that the model needs, and the listener receives a warning with the cost, unless the fork
    /// was to inherit nothing anyway.
    ///
    /// # Errors
    /// The model does not exist, or its API key is missing.
    pub fn asking(mut self, model: &str) -> Result<Self, Error> {
        let found = self.shared.house.models.find(model)?;
        found.ready()?;
        let parent = &mut self.from.tip.model;
        let found = found.continuing(parent.wire().format());
        if reads_alike(&found, parent) {
            *parent = found;
        } else {
            self.is_unread = self.spec.inherit != Inherit::None;
            self.spec.inherit = Inherit::None;
        }
        model.clone_into(&mut self.agent.model);
        Ok(self)
    }

    /// The parts that it inherits from its parent.
    #[must_use]
    pub fn inherits(&self) -> Inherit {
        self.spec.inherit
    }

    /// Sends the events of the fork ([`Event::Fork`](crate::Event::Fork)) to `listener` instead of the chat's
    /// listener.
    #[must_use]
    pub fn heard_by(mut self, listener: Arc<dyn Listener>) -> Self {
        self.shared.house.listener = listener;
        self
    }

    /// Runs `message` on the fork. A list of the allowed tools is added to the message. Calls that would need
    /// the user's approval are refused. When `cancel` is triggered, the chat ends or the future is dropped,
    /// running work is stopped.
    ///
    /// # Errors
    /// The errors of [`Chat::turn`]. Also [`ErrorKind::Fork`] if forks are strict
    /// ([`crate::House::strict_forks`]) and this one lacks something that it must inherit, or if it has a
    /// gate and its model is configured with tools that the provider runs
    /// ([`Model::server_tools`](cachalot_model::Model::server_tools)).
    pub async fn run(self, message: &str, cancel: &Cancel) -> Result<ForkReport, Error> {
        self.outcome(message, cancel).await.report()
    }

    /// Runs like [`Fork::run`], and also returns usage and session if it fails.
    pub(crate) async fn outcome(self, message: &str, cancel: &Cancel) -> Outcome {
        let over = match &self.part {
            Part::Chat(over) => over.clone(),
            Part::Turn => Cancel::default(),
        };
        let either = Cancel::default();
        let thrown = async {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = over.cancelled() => {}
            }
            either.cancel();
            std::future::pending().await
        };
        tokio::select! {
            biased;
            never = thrown => never,
            outcome = Box::pin(self.run_until(message, &either)) => outcome,
        }
    }

    async fn run_until(self, message: &str, cancel: &Cancel) -> Outcome {
        let parent = self.from.usage;
        let overheard = self.overheard();
        let seat = match is_visible(message) {
            true => self.sit(&overheard, message).await,
            false => {
                let nothing = "nothing was said: the message is empty";
                Err(Error::new(ErrorKind::Input, nothing))
            }
        };
        let (seat, differences) = match seat {
            Ok(ready) => ready,
            Err(error) => {
                return Outcome {
                    ended: Err(error),
                    sum: Sum::default(),
                    session: String::new(),
                    first: None,
                    parent,
                    differences: Vec::new(),
                    denied: Vec::new(),
                };
            }
        };
        let Seat {
            shared,
            agent,
            mut desk,
            said,
        } = seat;
        desk.started("startup").await;
        let task = Task {
            said: &said,
            is_implicit: true,
            is_fresh: false,
        };
        let turn = Turn::new(&shared, &agent, &mut desk, task);
        let ended = Box::pin(turn.run_until(cancel)).await;
        desk.leave(&shared, "stream_ended").await;
        Outcome {
            ended,
            sum: shared.take_sum(),
            session: desk.conversation.id().to_owned(),
            first: overheard.first(),
            parent,
            differences,
            denied: overheard.denied(),
        }
    }

    /// Prepares the fork as a sub-agent of a turn; dropped with the turn.
    pub(crate) async fn seat(self, message: &str) -> Result<Seat, Error> {
        let overheard = self.overheard();
        let (seat, _) = Box::pin(self.sit(&overheard, message)).await?;
        Ok(seat)
    }

    fn overheard(&self) -> Arc<Overheard> {
        let outer = Arc::clone(&self.shared.house.listener);
        let holder = match self.part {
            Part::Chat(_) => Some(self.spec.holder.as_str()),
            Part::Turn => None,
        };
        Arc::new(Overheard::new(outer, holder))
    }

    /// The state shared by everything that runs within the fork.
    fn apart(&self, overheard: &Arc<Overheard>) -> Shared {
        let mut house = self.shared.house.clone();
        house.listener = Arc::clone(overheard) as _;
        let listed = self.spec.tools.clone().filter(|_| self.spec.approved);
        house.approver = Arc::new(Listed(listed.unwrap_or_default()));
        // Context sources react to messages of the user, and the message of a fork is not from the user.
        house.context.clear();
        let account = match self.part {
            Part::Chat(_) => self.shared.forks().inner(),
            Part::Turn => self.shared.account().inner(),
        };
        let mut shared = self.shared.with(account, house);
        if let Part::Chat(_) = self.part {
            shared.allowance = Some(Allowance::of(&self.spec, shared.account()));
        }
        shared
    }

    /// Prepares the fork, and compares it with its parent.
    async fn sit(
        self,
        overheard: &Arc<Overheard>,
        message: &str,
    ) -> Result<(Seat, Vec<Difference>), Error> {
        let mut shared = self.apart(overheard);
        let id = (shared.house.name_session)();
        let (tip, inherit) = (&self.from.tip, self.spec.inherit);
        let agent = AgentDefinition {
            max_iterations: self.spec.max_iterations,
            ..self.agent.clone()
        };
        let herald = Herald::of(&shared, &agent, &id, Some(&tip.head.id))?;
        let mut equipment = desk::equip(&shared, &agent, &herald, &id, self.depth).await?;
        let gate = self.gate(&equipment.shown);
        desk::check_server_tools(&shared, &agent, gate.as_ref())?;
        shared.house.tools.gate.clone_from(&gate);
        overheard.watch(gate.as_ref());
        narrow(&mut equipment.shown, gate.as_ref());
        let shown = &equipment.shown;
        let conversation =
            Conversation::fork(&shared.house, &agent, tip, inherit, shown, id).await?;
        let differences = parity::differences(tip, &conversation.tip());
        let said = self.message(message, gate.as_ref());
        let mut desk = Desk::of(equipment, conversation, herald).listed(&shared, &agent);
        desk.conversation.entitle(message);
        desk.toolbox.reset(desk.conversation.id()).await;
        if inherit != Inherit::None {
            desk.goes_on_from(&self.from);
        }
        self.check(&shared, &desk, &differences).await?;
        if self.is_unread {
            desk.herald.warn(&self.unread(&desk, &said)).await;
        }
        let seat = Seat {
            shared,
            agent,
            desk,
            said,
        };
        Ok((seat, differences))
    }

    /// The gate of the fork: the listed tools that exist, and never more than the parent's gate allows.
    fn gate(&self, shown: &Shown) -> Option<Gate> {
        let outer = self.shared.house.tools.gate.as_ref();
        let there = shown.tools.iter().map(|tool| tool.name.as_str());
        let listed = match (&self.spec.tools, &self.part) {
            (Some(listed), _) => there
                .filter(|name| listed.iter().any(|tool| tool == name))
                .collect::<Vec<_>>(),
            (None, Part::Turn) => there.collect(),
            (None, Part::Chat(_)) => return outer.cloned(),
        };
        Some(Gate::new(self.spec.holder.as_str(), listed).within(outer))
    }

    fn message(&self, message: &str, gate: Option<&Gate>) -> String {
        let instruction = match self.part {
            Part::Turn => Some(self.instruction()),
            Part::Chat(_) => None,
        };
        let rule = gate.map(Gate::rule);
        let parts = instruction.into_iter().chain([message.to_owned()]);
        parts.chain(rule).collect::<Vec<_>>().join("\n\n")
    }

    /// The instruction for a sub-agent that continues in another agent's conversation.
    fn instruction(&self) -> String {
        let (name, instruction) = (&self.agent.name, self.agent.instruction.trim());
        let begins = format!(
            "From here on you are the agent `{name}`, and work alone on the task below. What stands above is what was said before; your answer is returned to whoever gave you the task."
        );
        match is_visible(instruction) {
            true => format!("{begins}\n\n{instruction}"),
            false => begins,
        }
    }

    /// The warning that the fork's model has not read the session, with the estimated cost of the first
    /// request.
    fn unread(&self, desk: &Desk, said: &str) -> String {
        /// Estimated bytes per token, where no provider has counted.
        const BYTES: u64 = 4;
        let model = desk.conversation.model();
        let bytes = desk.conversation.prompt().bytes() + said.len() as u64;
        let tokens = bytes.div_ceil(BYTES);
        let price = model.price();
        let cost = price.map_or(Cost::UNPRICED, |price| price.of(&Usage::of(tokens, 0)));
        format!(
            "the model `{}` has not read the session `{}`: the fork inherits nothing, and its first request sends about {tokens} tokens anew ({cost})",
            self.agent.model, self.from.tip.head.id,
        )
    }

    /// Warns of parts that the fork must inherit and does not, or fails if forks are strict.
    async fn check(
        &self,
        shared: &Shared,
        desk: &Desk,
        differences: &[Difference],
    ) -> Result<(), Error> {
        let unexpected: Vec<String> = differences
            .iter()
            .filter(|difference| self.spec.inherit.covers(difference.what))
            .map(ToString::to_string)
            .collect();
        if unexpected.is_empty() {
            return Ok(());
        }
        let message = format!(
            "this fork does not go on with what the session `{}` has sent: {}. The provider reads what was said as if it were new",
            self.from.tip.head.id,
            unexpected.join(", ")
        );
        if shared.house.strict_forks {
            let message = format!("{}: {message}", self.spec.holder);
            return Err(Error::new(ErrorKind::Fork, message));
        }
        desk.herald.warn(&message).await;
        Ok(())
    }
}

/// True if the provider's cache serves both models the same prefix: they differ at most in parameters that
/// are not part of a [`Namespace`] (output limits, sampling, stop texts), and use the same key.
fn reads_alike(one: &Model, other: &Model) -> bool {
    let of = |model: &Model| {
        let mut place = model.identity();
        if let Some(fields) = place.as_object_mut() {
            fields.shift_remove("parameters");
        }
        let (wire, parameters) = (model.wire(), model.parameters());
        let mut tail = wire.tail(parameters, false).to_vec();
        if let Some(first) = tail.first_mut() {
            *first = b'{';
        }
        // The thinking budget may be reduced to the output limit: compare it as it is sent.
        let sent: Value = serde_json::from_slice(&tail).unwrap_or_default();
        let thinking = ["thinking", "additionalModelRequestFields"].map(|it| sent.get(it).cloned());
        (place, Namespace::of(wire.format(), parameters), thinking)
    };
    one.has_same_key_as(other) && of(one) == of(other)
}

/// Removes tools that the gate does not allow.
fn narrow(shown: &mut Shown, gate: Option<&Gate>) {
    if let Some(gate) = gate {
        shown.tools.retain(|tool| gate.allows(&tool.name));
    }
}
