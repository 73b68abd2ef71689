//! Forks: whoever goes on with a conversation beside it, without changing it.
//!
//! A fork's first request is its parent's last one and a message of its own, so that the provider has
//! read nearly all of it before. It is shown all tools of its parent, since they are the beginning of
//! what both share; what it may use of them is its [`Gate`]'s to say, which stands before hooks, rules
//! and the tools themselves. It has a session of its own, asks nobody, and what it costs is its own.

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

/// What a fork takes over from its parent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Inherit {
    /// Everything: the provider reads all that was said as it was sent. What may be used of the tools
    /// is the gate's to say.
    #[default]
    Full,
    /// The system's text and what was said; of the tools, those that may be used.
    Prompt,
    /// When the session began and what it is called, and what was said; tools and system's text are
    /// made anew, from the tools that may be used.
    Session,
    /// Nothing, not even what was said.
    None,
}

/// What a fork is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkSpec {
    /// Who it is, in denials, warnings and cost: `the review`.
    pub holder: String,
    /// The tools that it may use, by name; `None`: whatever the parent may use. Those that the parent
    /// has not do not matter.
    pub tools: Option<Vec<String>>,
    /// Whether the tools in the list need no approval, since the user wrote the list: only what a rule
    /// or a hook wants asked about is refused, and writes of protected files. Otherwise everything is
    /// refused that the parent would ask the user about.
    pub approved: bool,
    /// What it takes over.
    pub inherit: Inherit,
    /// Model calls at most, those of whoever works on its behalf included.
    pub max_iterations: u32,
    /// Tokens that all its requests together may send. A request that would send more is not made, as
    /// far as its length is known from the one before, or can be told from its bytes. What requests
    /// under way send counts.
    pub max_input_tokens: Option<u64>,
    /// Tokens that all its answers together may have: once they have, no further request is made.
    pub max_output_tokens: Option<u64>,
}

/// A conversation that goes on beside its parent's, for one message.
pub struct Fork {
    spec: ForkSpec,
    agent: AgentDefinition,
    /// Of the parent.
    shared: Shared,
    from: Branch,
    part: Part,
    /// How deep delegation is.
    depth: u32,
    /// True if another model is asked, and so nothing is inherited of what was to be inherited.
    is_unread: bool,
}

/// What a fork is part of.
enum Part {
    /// Of a chat, beside its turns: until this is thrown.
    Chat(Cancel),
    /// Of a turn, as a sub-agent: until it is dropped.
    Turn,
}

/// What a fork came to.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkReport {
    /// The last text of the model; of an answer that was interrupted, what had come of it.
    pub text: String,
    /// Why it ended.
    pub stop: Stop,
    /// What it used, whoever worked on its behalf included.
    pub sum: Sum,
    /// Its own session.
    pub session: String,
    /// What its first request used, if there was one and the provider said so.
    pub first: Option<Usage>,
    /// What the parent's last request used, if that is known.
    pub parent: Option<Usage>,
    /// What it did not take over from its parent, in the order of [`Inherited`].
    pub differences: Vec<Difference>,
    /// The tools that were called on its behalf and that it may not use, each once.
    pub denied: Vec<String>,
}

/// How a fork ended, and what it came to until then.
pub(crate) struct Outcome {
    pub(crate) ended: Result<Ended, Error>,
    pub(crate) sum: Sum,
    /// Empty if it did not come to one.
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
    /// A fork of this chat as it stands. Costs the same however long the conversation is; the chat
    /// goes on meanwhile. When it ends, or is dropped, its forks are cancelled.
    ///
    /// # Errors
    /// [`ErrorKind::Fork`] if it has no name, or may ask no model.
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

/// A fork that is ready to be told something.
pub(crate) struct Seat {
    pub(crate) shared: Shared,
    pub(crate) agent: AgentDefinition,
    pub(crate) desk: Desk,
    /// What it is told.
    pub(crate) said: String,
}

impl Fork {
    /// A fork of a turn in the middle of its calls, which works as this agent, in the conversation of
    /// `with`, with that one's model: it may use its own tools.
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

    /// Asks another model, by its name in the agent file.
    ///
    /// A model that differs from the parent's only in what the provider's cache does not depend on
    /// (output limits, sampling, stop texts) inherits as any other fork does. Every other model has read
    /// nothing: the fork inherits nothing, its message has to say what it needs to know, and the listener
    /// is warned with the cost, unless the fork was to inherit nothing.
    ///
    /// # Errors
    /// There is no such model, or its key is missing.
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

    /// What it takes over from its parent.
    #[must_use]
    pub fn inherits(&self) -> Inherit {
        self.spec.inherit
    }

    /// Has somebody else told what happens ([`Event::Fork`](crate::Event::Fork)) than who is told of
    /// the chat.
    #[must_use]
    pub fn heard_by(mut self, listener: Arc<dyn Listener>) -> Self {
        self.shared.house.listener = listener;
        self
    }

    /// Says something, and lets the model work on it. The message says, too, which tools may be used.
    /// What the user would be asked about is refused. When `cancel` is thrown, the chat ends, or the
    /// future is dropped, what runs is stopped.
    ///
    /// # Errors
    /// As of [`Chat::turn`], and [`ErrorKind::Fork`] if forks are to be strict
    /// ([`crate::House::strict_forks`]) and this one has not what it is to inherit, or if it has a gate
    /// and its model is configured with tools that the provider runs
    /// ([`Model::server_tools`](cachalot_model::Model::server_tools)).
    pub async fn run(self, message: &str, cancel: &Cancel) -> Result<ForkReport, Error> {
        self.outcome(message, cancel).await.report()
    }

    /// As of [`Fork::run`], with what it came to also where it failed.
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

    /// As a sub-agent of a turn, which is dropped with it.
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

    /// What those who work for the fork share.
    fn apart(&self, overheard: &Arc<Overheard>) -> Shared {
        let mut house = self.shared.house.clone();
        house.listener = Arc::clone(overheard) as _;
        let listed = self.spec.tools.clone().filter(|_| self.spec.approved);
        house.approver = Arc::new(Listed(listed.unwrap_or_default()));
        // They add what fits what the user says, and it is not the user who speaks here.
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

    /// Makes everything ready, and finds out whether the fork has what it is to inherit.
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

    /// What may be used: what the fork is to use of what there is, and no more than the parent.
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

    /// What a sub-agent is told that goes on in a conversation that another agent began.
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

    /// The warning that the fork's model has read nothing of the session, with the cost of the first
    /// request.
    fn unread(&self, desk: &Desk, said: &str) -> String {
        /// Bytes of a token, where no provider has counted.
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

    /// Warns of what the fork is to inherit and does not, or refuses it.
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

/// True if the provider's cache serves both models the same prefix: they differ at most in what is no part
/// of a [`Namespace`] (output limits, sampling, stop texts).
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
        // A budget for thinking may be cut to the output limit.
        let sent: Value = serde_json::from_slice(&tail).unwrap_or_default();
        let thinking = ["thinking", "additionalModelRequestFields"].map(|it| sent.get(it).cloned());
        (place, Namespace::of(wire.format(), parameters), thinking)
    };
    one.has_same_key_as(other) && of(one) == of(other)
}

/// Leaves what may be used.
fn narrow(shown: &mut Shown, gate: Option<&Gate>) {
    if let Some(gate) = gate {
        shown.tools.retain(|tool| gate.allows(&tool.name));
    }
}
