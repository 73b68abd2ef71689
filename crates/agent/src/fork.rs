//! Forks: a fork runs one message on a copy-on-write snapshot of a conversation.
//!
//! The first request of a fork is its parent's last request plus its own message, so that the provider reads
//! nearly all of it from its cache. A fork is shown all tools of its parent, because they are at the
//! beginning of the shared prefix. Its [`Gate`] decides which of them it may use, before hooks, rules and the
//! tools themselves. A fork has its own session and its own cost, and requests no approvals.

mod approver;
mod differences;
mod listener;

use std::sync::Arc;

use cachalot_model::{Model, ModelSettings, Usage};
use cachalot_prompt::Namespace;
use cachalot_tools::Gate;
use serde_json::Value;

use crate::active_session::{self, ActiveSession};
use crate::chat_state::ChatState;
use crate::conversation::{AgentPrompt, Conversation};
use crate::definition::AgentDefinition;
use crate::delegate::Delegation;
use crate::event::Listener;
use crate::fork_limits::ForkLimits;
use crate::fork_point::ForkPoint;
use crate::hook_emitter::HookEmitter;
use crate::normalized_reply::is_visible;
use crate::report::{Stop, UsageTotals};
use crate::turn::{Turn, TurnInput, TurnOutcome};
use crate::{CancellationToken, Error, ErrorKind, Inherit};

pub use differences::ForkDifference;

use approver::ForkApprover;
use listener::ForkListener;

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
    shared: ChatState,
    from: ForkPoint,
    owner: ForkOwner,
    /// Runs the tasks that the fork gives to sub-agents.
    delegation: Arc<dyn Delegation>,
    /// Depth of delegation.
    depth: u32,
    /// True if another model is called, so that the fork inherits nothing although `spec` requested it.
    inherits_nothing: bool,
}

/// The owner of a fork.
enum ForkOwner {
    /// A chat; the fork runs beside its turns until this signal is triggered.
    Chat(CancellationToken),
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
    pub sum: UsageTotals,
    /// The ID of its session.
    pub session: String,
    /// Usage of its first request, if there was one and the provider reported it.
    pub first: Option<Usage>,
    /// Usage of the parent's last request, if known.
    pub parent: Option<Usage>,
    /// The parts that it did not inherit from its parent, in the order of `InheritedPart`.
    pub differences: Vec<ForkDifference>,
    /// Tools that were called but are not allowed, without duplicates.
    pub denied: Vec<String>,
}

/// The result of a fork that may have failed.
pub(crate) struct ForkOutcome {
    pub(crate) ended: Result<TurnOutcome, Error>,
    pub(crate) sum: UsageTotals,
    /// Empty if no session was created.
    pub(crate) session: String,
    pub(crate) first: Option<Usage>,
    pub(crate) parent: Option<Usage>,
    pub(crate) differences: Vec<ForkDifference>,
    pub(crate) denied: Vec<String>,
}

impl ForkOutcome {
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

/// A fork that is ready to run its message.
pub(crate) struct PreparedTurn {
    pub(crate) shared: ChatState,
    pub(crate) agent: AgentDefinition,
    pub(crate) active_session: ActiveSession,
    /// The message.
    pub(crate) text: String,
}

impl PreparedTurn {
    /// Starts the session, and returns the turn that the message begins.
    pub(crate) async fn begin(&mut self) -> Turn<'_> {
        self.active_session.emit_session_start("startup").await;
        let input = TurnInput {
            text: &self.text,
            from_agent: true,
            ..TurnInput::default()
        };
        Turn::new(&self.shared, &self.agent, &mut self.active_session, input)
    }
}

impl Fork {
    /// Creates a fork that runs beside the turns of a chat until `chat_ended` is triggered.
    ///
    /// # Errors
    /// [`ErrorKind::Fork`] if `holder` is empty or `max_iterations` is 0.
    pub(crate) fn for_chat(
        spec: ForkSpec,
        agent: &AgentDefinition,
        shared: &ChatState,
        parent: &ActiveSession,
        chat_ended: &CancellationToken,
    ) -> Result<Self, Error> {
        let refused = |why: &str| Err(Error::new(ErrorKind::Fork, why));
        if !is_visible(&spec.holder) {
            return refused("a fork needs a `holder`: who it is, as in `the review`");
        }
        if spec.max_iterations == 0 {
            return refused("a fork with no model call (`max_iterations: 0`) does nothing");
        }
        Ok(Self {
            spec,
            agent: agent.clone(),
            shared: parent.restricted(shared),
            from: parent.fork_point(),
            owner: ForkOwner::Chat(chat_ended.clone()),
            delegation: Arc::clone(&parent.tools.delegation),
            inherits_nothing: false,
            depth: 0,
        })
    }

    /// A fork of a turn in the middle of its calls. It runs as `agent`, in the conversation of `with` and
    /// with that agent's model, and may use its own tools.
    pub(crate) fn for_turn(
        agent: &AgentDefinition,
        with: &AgentDefinition,
        shared: &ChatState,
        from: ForkPoint,
        delegation: Arc<dyn Delegation>,
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
                model_settings: with.model_settings.clone(),
                ..agent.clone()
            },
            shared: shared.clone(),
            from,
            owner: ForkOwner::Turn,
            delegation,
            inherits_nothing: false,
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
    pub fn with_model(mut self, model: &str) -> Result<Self, Error> {
        let found = self.shared.dependencies.models.find(model)?;
        found.ready()?;
        let parent = &mut self.from.snapshot.model;
        let found = found.continuing(parent.wire().format());
        if share_prefix(&found, parent) {
            *parent = found;
        } else {
            self.inherits_nothing = self.spec.inherit != Inherit::None;
            self.spec.inherit = Inherit::None;
        }
        model.clone_into(&mut self.agent.model);
        self.agent.model_settings = ModelSettings::default();
        Ok(self)
    }

    /// The parts that it inherits from its parent.
    #[must_use]
    pub fn inherited_parts(&self) -> Inherit {
        self.spec.inherit
    }

    /// Sends the events of the fork ([`Event::Fork`](crate::Event::Fork)) to `listener` instead of the chat's
    /// listener.
    #[must_use]
    pub fn with_listener(mut self, listener: Arc<dyn Listener>) -> Self {
        self.shared.dependencies.listener = listener;
        self
    }

    /// Runs `message` on the fork. A list of the allowed tools is added to the message. Calls that would need
    /// the user's approval are refused. When `cancel` is triggered, the chat ends or the future is dropped,
    /// running work is stopped.
    ///
    /// # Errors
    /// The errors of [`Chat::turn`](crate::Chat::turn). Also [`ErrorKind::Fork`] if forks are strict
    /// ([`crate::Dependencies::strict_forks`]) and this one lacks something that it must inherit, or if it has a
    /// gate and its model is configured with tools that the provider runs
    /// ([`Model::server_tools`](cachalot_model::Model::server_tools)).
    pub async fn run(self, message: &str, cancel: &CancellationToken) -> Result<ForkReport, Error> {
        self.outcome(message, cancel).await.report()
    }

    /// Runs like [`Fork::run`], and also returns usage and session if it fails.
    pub(crate) async fn outcome(self, message: &str, cancel: &CancellationToken) -> ForkOutcome {
        let either = match &self.owner {
            ForkOwner::Chat(ended) => ended.child_token(),
            ForkOwner::Turn => CancellationToken::default(),
        };
        // Passes the signal on and never completes. The fork is not dropped: its turn ends by itself and stores what it
        // has.
        let thrown = async {
            cancel.cancelled().await;
            either.cancel();
            std::future::pending().await
        };
        tokio::select! {
            biased;
            never = thrown => never,
            outcome = Box::pin(self.run_until(message, &either)) => outcome,
        }
    }

    async fn run_until(self, message: &str, cancel: &CancellationToken) -> ForkOutcome {
        let parent = self.from.usage;
        let fork_listener = self.fork_listener();
        let prepared_turn = if is_visible(message) {
            self.prepare(&fork_listener, message).await
        } else {
            let nothing = "the message is empty";
            Err(Error::new(ErrorKind::Input, nothing))
        };
        let (mut prepared_turn, differences) = match prepared_turn {
            Ok(ready) => ready,
            Err(error) => {
                return ForkOutcome {
                    ended: Err(error),
                    sum: UsageTotals::default(),
                    session: String::new(),
                    first: None,
                    parent,
                    differences: Vec::new(),
                    denied: Vec::new(),
                };
            }
        };
        let turn = prepared_turn.begin().await;
        let ended = Box::pin(turn.run_until(cancel)).await;
        let PreparedTurn {
            shared,
            mut active_session,
            ..
        } = prepared_turn;
        active_session.end(&shared, "stream_ended").await;
        ForkOutcome {
            ended,
            sum: shared.take_totals(),
            session: active_session.conversation.id().to_owned(),
            first: fork_listener.first(),
            parent,
            differences,
            denied: fork_listener.denied(),
        }
    }

    /// Prepares the fork as a sub-agent of a turn; dropped with the turn.
    pub(crate) async fn prepared_turn(self, message: &str) -> Result<PreparedTurn, Error> {
        let fork_listener = self.fork_listener();
        let (prepared_turn, _) = Box::pin(self.prepare(&fork_listener, message)).await?;
        Ok(prepared_turn)
    }

    fn fork_listener(&self) -> Arc<ForkListener> {
        let outer = Arc::clone(&self.shared.dependencies.listener);
        let holder = match self.owner {
            ForkOwner::Chat(_) => Some(self.spec.holder.as_str()),
            ForkOwner::Turn => None,
        };
        Arc::new(ForkListener::new(outer, holder))
    }

    /// The state shared by everything that runs within the fork.
    fn isolated_state(&self, fork_listener: &Arc<ForkListener>) -> ChatState {
        let mut dependencies = self.shared.dependencies.clone();
        dependencies.listener = Arc::clone(fork_listener) as _;
        let listed = self.spec.tools.clone().filter(|_| self.spec.approved);
        dependencies.approver = Arc::new(ForkApprover {
            listed: listed.unwrap_or_default(),
            parent: Arc::clone(&self.shared.dependencies.approver),
        });
        // Context sources react to messages of the user, and the message of a fork is not from the user.
        dependencies.context.clear();
        // A fork runs beside others, so it asks the user nothing.
        dependencies.tools.user = None;
        let account = match self.owner {
            ForkOwner::Chat(_) => self.shared.forks().inner(),
            ForkOwner::Turn => self.shared.account().inner(),
        };
        let mut shared = self.shared.with_account(account, dependencies);
        if let ForkOwner::Chat(_) = self.owner {
            shared.limits = Some(ForkLimits::new(
                &self.spec.holder,
                self.spec.max_iterations,
                self.spec.max_input_tokens,
                self.spec.max_output_tokens,
                shared.account(),
            ));
        }
        shared
    }

    /// Prepares the fork, and compares it with its parent.
    async fn prepare(
        self,
        fork_listener: &Arc<ForkListener>,
        message: &str,
    ) -> Result<(PreparedTurn, Vec<ForkDifference>), Error> {
        let mut shared = self.isolated_state(fork_listener);
        let id = (shared.dependencies.new_session_id)();
        let (snapshot, inherit) = (&self.from.snapshot, self.spec.inherit);
        let agent = AgentDefinition {
            max_iterations: self.spec.max_iterations,
            ..self.agent.clone()
        };
        let hook_emitter = HookEmitter::new(&shared, &agent, &id, Some(&snapshot.head.id))?;
        let hook_emitter = Arc::new(hook_emitter);
        let mut agent_tools = active_session::load_tools(
            &shared,
            &agent,
            &self.delegation,
            &hook_emitter,
            &id,
            self.depth,
        )
        .await?;
        // A fork runs its message as one agent; a handoff would continue it as another one.
        agent_tools.handoff_request.refuse();
        let gate = self.gate(&agent_tools.agent_prompt);
        active_session::check_server_tools(&shared, &agent, gate.as_ref())?;
        shared.dependencies.tools.gate.clone_from(&gate);
        fork_listener.set_gate(gate.as_ref());
        // This affects prompts that are rendered anew. With `Full`, the model is shown all tools of the parent, because
        // they begin the shared prefix, and only the gate refuses them.
        remove_denied_tools(&mut agent_tools.agent_prompt, gate.as_ref());
        let agent_prompt = &agent_tools.agent_prompt;
        let conversation = Conversation::fork(
            &shared.dependencies,
            &agent,
            snapshot,
            inherit,
            agent_prompt,
            id,
            shared.read_only_agent.as_deref(),
        )
        .await?;
        let differences = differences::differences(snapshot, &conversation.snapshot());
        let text = self.message(message, gate.as_ref());
        let mut active_session = ActiveSession::new(agent_tools, conversation, hook_emitter)
            .with_published_fingerprint(&shared, &agent);
        active_session.conversation.set_title(message);
        active_session
            .tools
            .toolbox
            .reset(active_session.conversation.id())
            .await;
        if inherit != Inherit::None {
            active_session.continue_from(&self.from);
        }
        self.check(&shared, &active_session, &differences).await?;
        if self.inherits_nothing {
            active_session
                .hook_emitter
                .warn(&self.unread_warning(&active_session, &text))
                .await;
        }
        let prepared_turn = PreparedTurn {
            shared,
            agent,
            active_session,
            text,
        };
        Ok((prepared_turn, differences))
    }

    /// The gate of the fork: the listed tools that exist, and never more than the parent's gate allows.
    fn gate(&self, agent_prompt: &AgentPrompt) -> Option<Gate> {
        let outer = self.shared.dependencies.tools.gate.as_ref();
        let there = agent_prompt.tools.iter().map(|tool| tool.name.as_str());
        let listed = match (&self.spec.tools, &self.owner) {
            (Some(listed), _) => there
                .filter(|name| listed.iter().any(|tool| tool == name))
                .collect::<Vec<_>>(),
            // The shared prefix shows the tools of the other agent. It may use its own only.
            (None, ForkOwner::Turn) => there.collect(),
            (None, ForkOwner::Chat(_)) => return outer.cloned(),
        };
        Some(Gate::new(self.spec.holder.as_str(), listed).within(outer))
    }

    fn message(&self, message: &str, gate: Option<&Gate>) -> String {
        let instruction = match self.owner {
            ForkOwner::Turn => Some(self.instruction()),
            ForkOwner::Chat(_) => None,
        };
        let rule = gate.map(Gate::rule);
        let parts = instruction.into_iter().chain([message.to_owned()]);
        parts.chain(rule).collect::<Vec<_>>().join("\n\n")
    }

    /// The instruction for a sub-agent that continues in another agent's conversation.
    fn instruction(&self) -> String {
        let (name, instruction) = (&self.agent.name, self.agent.instruction.trim());
        let begins = format!(
            "From here on you are the agent `{name}`, and work alone on the task below. Above is the earlier conversation; your answer is returned to the agent that gave you the task."
        );
        if is_visible(instruction) {
            format!("{begins}\n\n{instruction}")
        } else {
            begins
        }
    }

    /// The warning that the fork's model has not read the session, with the estimated cost of the first
    /// request.
    fn unread_warning(&self, active_session: &ActiveSession, text: &str) -> String {
        /// Estimated bytes per token, where no provider has counted.
        const BYTES: u64 = 4;
        let model = active_session.conversation.model();
        let bytes = active_session.conversation.prompt().bytes() + text.len() as u64;
        let tokens = bytes.div_ceil(BYTES);
        let cost = model.cost(&Usage::from_counts(tokens, 0));
        format!(
            "the model `{}` has not read the session `{}`: the fork inherits nothing, and its first request sends about {tokens} tokens anew ({cost})",
            self.agent.model, self.from.snapshot.head.id,
        )
    }

    /// Warns of parts that the fork must inherit and does not, or fails if forks are strict.
    async fn check(
        &self,
        shared: &ChatState,
        active_session: &ActiveSession,
        differences: &[ForkDifference],
    ) -> Result<(), Error> {
        let unexpected: Vec<String> = differences
            .iter()
            .filter(|difference| self.spec.inherit.covers(difference.part))
            .map(ToString::to_string)
            .collect();
        if unexpected.is_empty() {
            return Ok(());
        }
        let message = format!(
            "this fork does not continue the prefix of the session `{}`: {}. The provider charges the conversation as new input",
            self.from.snapshot.head.id,
            unexpected.join(", ")
        );
        if shared.dependencies.strict_forks {
            let message = format!("{}: {message}", self.spec.holder);
            return Err(Error::new(ErrorKind::Fork, message));
        }
        active_session.hook_emitter.warn(&message).await;
        Ok(())
    }
}

/// True if the provider's cache serves both models the same prefix: they differ at most in parameters that
/// are not part of a [`Namespace`] (output limits, sampling, stop texts), and use the same key.
fn share_prefix(one: &Model, other: &Model) -> bool {
    let of = |model: &Model| {
        let mut place = model.identity();
        if let Some(fields) = place.as_object_mut() {
            fields.shift_remove("parameters");
        }
        let (wire, parameters) = (model.wire(), model.parameters());
        let mut tail = wire.tail(parameters, false).to_vec();
        // A tail follows the messages, so that it begins with a comma.
        if let Some(first) = tail.first_mut() {
            *first = b'{';
        }
        // The thinking budget may be reduced to the output limit: compare it as it is sent.
        let sent: Value = serde_json::from_slice(&tail).unwrap_or_default();
        let thinking =
            ["thinking", "additionalModelRequestFields"].map(|name| sent.get(name).cloned());
        (place, Namespace::new(wire.format(), parameters), thinking)
    };
    one.has_same_key_as(other) && of(one) == of(other)
}

/// Removes tools that the gate does not allow.
fn remove_denied_tools(agent_prompt: &mut AgentPrompt, gate: Option<&Gate>) {
    if let Some(gate) = gate {
        agent_prompt.tools.retain(|tool| gate.allows(&tool.name));
    }
}
