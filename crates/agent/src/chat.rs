//! A chat with a team of agents: consecutive turns in one session.

use std::sync::Arc;

use cachalot_core::suggest::did_you_mean;
use cachalot_hooks::Event as When;
use cachalot_model::{Block, Message};
use cachalot_operation::Permissions;
use cachalot_tools::{ToolCall, Toolbox};
use serde_json::Value;
use tokio_util::sync::DropGuard;

use crate::active_session::ActiveSession;
use crate::chat_state::ChatState;
pub use crate::conversation::Retracted;
use crate::definition::{AgentDefinition, Team};
use crate::delegate::Delegation;
use crate::dependencies::Dependencies;
use crate::fork::{Fork, ForkReport, ForkSpec};
use crate::media;
use crate::prefix_rewrite::PrefixRewrite;
use crate::reading_call::ReadingCall;
use crate::report::{Stop, TurnReport, UsageTotals};
use crate::review::{self, Review, Reviews};
use crate::sub_agents::SubAgents;
use crate::turn::{Turn, TurnInput, joined_text};
use crate::{CancellationToken, Error, ErrorKind, Inherit};

/// Maximum model calls of a side question. More than one, because a model may call a tool anyway: it receives
/// an error as the result and is called again.
const MAX_SIDE_QUESTION_ITERATIONS: u32 = 3;

/// The result of [`Chat::reload`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// Describes which tools were added, removed or changed.
    pub changes: String,
    /// Estimated tokens that the provider reads anew with the next request: the input tokens of the last
    /// request; 0 if none was sent, or if the next message brings the change.
    pub tokens: u64,
}

/// A chat with a team of agents.
pub struct Chat {
    shared: ChatState,
    agent: AgentDefinition,
    active_session: ActiveSession,
    total: UsageTotals,
    reviews: Reviews,
    /// Cancels the forks when the chat ends or is dropped.
    forks: DropGuard,
    /// Attachments of the next message.
    attachments: Vec<Block>,
}

impl Chat {
    /// Begins a new session with `agent`, or with the team's entry agent if `agent` is `None`.
    ///
    /// # Errors
    /// The agent does not exist, its model cannot be found, its tools cannot be initialized, or the session
    /// cannot be stored.
    pub async fn begin(
        dependencies: Dependencies,
        team: Arc<Team>,
        agent: Option<&str>,
    ) -> Result<Self, Error> {
        let agent = match agent {
            None => team.entry().clone(),
            Some(name) => find_agent(&team, name, String::new)?,
        };
        let shared = ChatState::new(dependencies, team);
        let mut active_session =
            ActiveSession::begin(&shared, &agent, &delegation(), None, 0).await?;
        active_session.emit_session_start("startup").await;
        Ok(Self::from_session(shared, agent, active_session).await)
    }

    /// Resumes a session of this or another process. Everything that was sent is sent again, byte for byte,
    /// even if the agent's tools or instruction have changed since. If the agent's model has changed,
    /// everything is rendered anew. The listener receives a warning in both cases.
    ///
    /// # Errors
    /// The errors of [`Chat::begin`]; also if the session does not exist, or its agent is not in the team.
    pub async fn resume(
        dependencies: Dependencies,
        team: Arc<Team>,
        session: &str,
    ) -> Result<Self, Error> {
        let opened = dependencies.sessions.open(session).await?.ok_or_else(|| {
            Error::new(
                ErrorKind::Session,
                format!("there is no session `{session}`; `cachalot sessions ls` lists them"),
            )
        })?;
        let held = || {
            format!(
                "the session `{}` was held with `{}`: ",
                opened.head.id, opened.head.agent
            )
        };
        let agent = find_agent(&team, &opened.head.agent, held)?;
        let shared = ChatState::new(dependencies, team);
        let mut active_session =
            ActiveSession::resume(&shared, &agent, &delegation(), opened).await?;
        active_session.emit_session_start("resume").await;
        Ok(Self::from_session(shared, agent, active_session).await)
    }

    async fn from_session(
        shared: ChatState,
        agent: AgentDefinition,
        active_session: ActiveSession,
    ) -> Self {
        let this = Self {
            reviews: Reviews::from_session(agent.review.as_ref(), &active_session),
            shared,
            agent,
            active_session,
            total: UsageTotals::default(),
            forks: CancellationToken::default().drop_guard(),
            attachments: Vec::new(),
        };
        for warning in review::warnings(&this.agent, &this.active_session, &this.shared) {
            this.active_session.hook_emitter.warn(&warning).await;
        }
        this
    }

    /// The ID of the session.
    #[must_use]
    pub fn session(&self) -> &str {
        self.active_session.conversation.id()
    }

    /// The messages of the session that are stored, oldest first.
    #[must_use]
    pub fn messages(&self) -> Vec<Arc<Message>> {
        self.active_session.conversation.prompt().messages()
    }

    /// The agent of the session.
    #[must_use]
    pub fn agent(&self) -> &AgentDefinition {
        &self.agent
    }

    /// The permission rules of the team.
    #[must_use]
    pub fn permissions(&self) -> &Permissions {
        &self.shared.team.permissions
    }

    /// The calls that the user has allowed for the rest of the chat: an agent and a rule each.
    #[must_use]
    pub fn granted(&self) -> Vec<(String, String)> {
        self.shared.granted()
    }

    /// The agents of the team.
    #[must_use]
    pub fn agents(&self) -> &[AgentDefinition] {
        &self.shared.team.agents
    }

    /// The tools of the agent.
    #[must_use]
    pub fn toolbox(&self) -> &Arc<dyn Toolbox> {
        &self.active_session.tools.toolbox
    }

    /// Usage of all turns and forks of this chat since it was begun or resumed in this process.
    #[must_use]
    pub fn total(&self) -> UsageTotals {
        let mut total = self.total;
        total += self.shared.forks().totals();
        total
    }

    /// Records the URLs in a message that the user typed, so that tools may fetch them without an approval.
    /// The caller calls it before the turn of that message. A program that assembles a message from other
    /// texts does not call it.
    pub fn allow_typed_urls(&self, message: &str) {
        self.shared.typed_urls.add_from_message(message);
    }

    /// Attaches an image, a file of the type PNG, JPEG, GIF or WebP, to the message of the next turn. It is
    /// scaled down to the limits of the provider.
    ///
    /// # Errors
    /// The model accepts no images, or its provider would refuse this one: it is damaged, or there are too
    /// many. The next message then has no attachments.
    pub async fn attach(&mut self, image: Vec<u8>) -> Result<(), Error> {
        let attachments = std::mem::take(&mut self.attachments);
        let conversation = &self.active_session.conversation;
        let model = conversation.model();
        let refused = |why| Error::new(ErrorKind::Input, why);
        if model.limits().images == Some(false) {
            let (provider, name) = (model.provider(), model.name());
            let why = format!("the model {provider}/{name} accepts no images; use another one");
            return Err(refused(why));
        }
        let before = conversation.prompt().messages();
        let attached = media::attach(attachments, image, &before, model.media()).await;
        self.attachments = attached.map_err(|error| refused(error.to_string()))?;
        Ok(())
    }

    /// Attaches a text to the message of the next turn, behind the text of the user.
    pub fn attach_text(&mut self, text: String) {
        self.attachments.push(Block::text(text));
    }

    /// Removes the attachments of the next message.
    pub fn clear_attachments(&mut self) {
        self.attachments.clear();
    }

    /// Returns the cost of a message that would make the provider read an expired prefix anew, if the cost is above
    /// that of the agent's guard (`prefix.guard`); for a caller that asks the user before the turn. `None` without a
    /// guard, a price or a published lifetime. Nothing is sent, and the conversation is unchanged.
    #[must_use]
    pub fn prefix_rewrite(&self, text: &str) -> Option<PrefixRewrite> {
        let guard = self.agent.prefix.guard?;
        let now = self.shared.dependencies.clock.now();
        let conversation = &self.active_session.conversation;
        let (cold, longer_lifetime) = conversation.cold_prefix(Message::user(text), now)?;
        let cost = cold.cost.filter(|cost| cost.picodollars > guard.above)?;
        Some(PrefixRewrite {
            idle: cold.idle,
            lifetime: cold.lifetime,
            tokens: cold.tokens,
            cost,
            longer_lifetime,
        })
    }

    /// Runs one turn. When `cancel` is triggered or the future is dropped, running work is stopped; the
    /// session is stored and can continue. If a review is due after the turn ([`AgentDefinition::review`]),
    /// it starts in the background and is not awaited.
    ///
    /// # Errors
    /// The message is empty, the model could not be called or did not answer, or the session could not be
    /// stored. The user's message and the part of the answer that was received stay in the session; the chat
    /// can continue.
    pub async fn turn(
        &mut self,
        text: &str,
        cancel: &CancellationToken,
    ) -> Result<TurnReport, Error> {
        self.run_turn(text, false, cancel).await
    }

    /// Runs one turn like [`Chat::turn`], without replaying an earlier answer: hooks that answer turns are
    /// notified that the user wants a new one.
    ///
    /// # Errors
    /// The errors of [`Chat::turn`].
    pub async fn fresh_turn(
        &mut self,
        text: &str,
        cancel: &CancellationToken,
    ) -> Result<TurnReport, Error> {
        self.run_turn(text, true, cancel).await
    }

    async fn run_turn(
        &mut self,
        text: &str,
        fresh: bool,
        cancel: &CancellationToken,
    ) -> Result<TurnReport, Error> {
        // Usage and handoffs of an earlier turn whose future was dropped.
        self.total += self.shared.take_totals();
        self.adopt_agent();
        let attachments = std::mem::take(&mut self.attachments);
        let input = TurnInput {
            text,
            attachments: &attachments,
            fresh,
            ..TurnInput::default()
        };
        let turn = Turn::new(&self.shared, &self.agent, &mut self.active_session, input);
        let ended = turn.run_until(cancel).await;
        self.adopt_agent();
        let sum = self.shared.take_totals();
        self.total += sum;
        if let Ok(ended) = &ended
            && ended.stop == Stop::End
            && ended.synthetic.is_none()
        {
            self.count_completed_turn();
        }
        ended.map(|ended| TurnReport {
            text: ended.text,
            stop: ended.stop,
            sum,
            synthetic: ended.synthetic,
            breaks: ended.breaks,
        })
    }

    /// Continues the chat with another agent of the team, in the same session: the next request has that
    /// agent's instruction, tools and model, followed by the conversation so far. The provider reads it anew
    /// from its beginning. Nothing happens if the agent is the current one. A review that runs continues.
    ///
    /// # Errors
    /// The agent does not exist, its model cannot be found, its tools cannot be initialized, or the session
    /// cannot be stored; the chat continues with the current agent.
    pub async fn switch_agent(&mut self, name: &str) -> Result<(), Error> {
        self.total += self.shared.take_totals();
        self.adopt_agent();
        let team = Arc::clone(&self.shared.team);
        let agent = find_agent(&team, name, String::new)?;
        if agent.name == self.agent.name {
            return Ok(());
        }
        self.active_session
            .switch(&self.shared, &agent, "user")
            .await?;
        self.adopt_agent();
        Ok(())
    }

    /// Makes a tool call of a command of the user ([`crate::definition::CommandPart::Call`]) and returns its
    /// result. It needs the same permission as a call of the model, and its result is not part of the
    /// conversation.
    ///
    /// # Errors
    /// The agent has no such tool, the call is denied, or it failed.
    pub async fn call_tool(
        &mut self,
        tool: &str,
        arguments: &Value,
        cancel: &CancellationToken,
    ) -> Result<String, Error> {
        let definitions = self.active_session.tools.toolbox.definitions();
        let Some(definition) = definitions.iter().find(|known| known.name == tool) else {
            let known: Vec<&str> = definitions.iter().map(|tool| tool.name.as_str()).collect();
            let help = if known.is_empty() {
                "it has none".to_owned()
            } else {
                did_you_mean(tool, &known)
            };
            let message = format!("the agent has no tool `{tool}`: {help}");
            return Err(Error::new(ErrorKind::Tools, message));
        };
        let call = ToolCall {
            id: "command".to_owned(),
            name: tool.to_owned(),
            arguments: for_schema(arguments, &definition.parameters).to_string(),
        };
        let toolbox = Arc::clone(&self.active_session.tools.toolbox);
        let called = self.call_for_user(&*toolbox, call, cancel).await;
        called.map(|blocks| joined_text(&blocks)).map_err(|why| {
            let message = format!("the tool `{tool}` of the command failed: {why}");
            Error::new(ErrorKind::Tools, message)
        })
    }

    /// Reads a file of the workspace, or lists a directory, for a message of the user. The call needs the permissions of a
    /// call of the model, and its result is cached like that of one: it answers the model if that reads the same, and
    /// nothing has changed. It does not become part of the conversation.
    ///
    /// # Errors
    /// The path cannot be read, a rule or a hook denies it, or the user does not allow it.
    pub async fn read_path(
        &mut self,
        path: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<Block>, Error> {
        let tools = &self.active_session.tools;
        let workspace = &self.shared.dependencies.tools.workspace;
        let reading = ReadingCall::new(path, &tools.toolbox, workspace)?;
        let ReadingCall { toolbox, call } = self.undenied(reading)?;
        let called = self.call_for_user(&*toolbox, call, cancel).await;
        called.map_err(|why| Error::new(ErrorKind::Input, why))
    }

    /// Obtains the permission to send a file for a message of the user without a call that reads it. It is the permission
    /// of a call of `read_file`; the file may be outside of the workspace.
    ///
    /// # Errors
    /// A rule or a hook denies it, or the user does not allow it.
    pub async fn permit_reading(
        &mut self,
        path: &str,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        let reading = ReadingCall::of_file(path, &self.active_session.tools.toolbox)?;
        let ReadingCall { toolbox, call } = self.undenied(reading)?;
        let permitted = self.turn_for_user().permit_call(&*toolbox, call, cancel);
        permitted
            .await
            .map_err(|why| Error::new(ErrorKind::Input, why))
    }

    /// Returns a call, if no rule denies it.
    fn undenied(&self, reading: ReadingCall) -> Result<ReadingCall, Error> {
        let workspace = &self.shared.dependencies.tools.workspace;
        match reading.denying_rule(&self.shared.team.permissions, workspace) {
            None => Ok(reading),
            Some(rule) => {
                let why = format!("the rule `{rule}` denies reading it");
                Err(Error::new(ErrorKind::Input, why))
            }
        }
    }

    /// Makes a tool call of the user.
    async fn call_for_user(
        &mut self,
        toolbox: &dyn Toolbox,
        call: ToolCall,
        cancel: &CancellationToken,
    ) -> Result<Vec<Block>, String> {
        self.turn_for_user().call_tool(toolbox, call, cancel).await
    }

    /// Returns a turn without a message, for a call of the user.
    fn turn_for_user(&mut self) -> Turn<'_> {
        let input = TurnInput::default();
        Turn::new(&self.shared, &self.agent, &mut self.active_session, input)
    }

    /// Adopts the agent to which the session was handed off.
    fn adopt_agent(&mut self) {
        let name = self.active_session.conversation.agent();
        if name == self.agent.name {
            return;
        }
        if let Some(agent) = self.shared.team.agent(name) {
            self.agent = agent.clone();
            self.reviews.reset();
        }
    }

    /// Summarizes the conversation and restarts it with the summary, with which the next message begins.
    /// Returns true if it did. If not, the listener receives a warning and the conversation continues
    /// unchanged. The cost is part of [`Chat::total`].
    ///
    /// # Errors
    /// The session could not be stored; it is unchanged.
    pub async fn compact(&mut self, cancel: &CancellationToken) -> Result<bool, Error> {
        self.total += self.shared.take_totals();
        let input = TurnInput::default();
        let turn = Turn::new(&self.shared, &self.agent, &mut self.active_session, input);
        let compacted = turn.compact(cancel).await;
        self.total += self.shared.take_totals();
        compacted
    }

    /// Removes the last message of the user and everything after it: answers, tool calls and their results.
    /// Each repeated call removes the message before. Returns `None` if there is no message of the user. The
    /// session continues from what precedes the removed message, in this process and wherever it is resumed.
    /// This repairs a session whose end the provider refuses. Effects of tools are not undone.
    ///
    /// # Errors
    /// The session could not be stored; it is unchanged.
    pub async fn retract(&mut self) -> Result<Option<Retracted>, Error> {
        self.total += self.shared.take_totals();
        match self.active_session.retract().await {
            // Another writer has appended to the session: retract from its end instead.
            Err(error) if error.kind == ErrorKind::Conflict => {
                self.active_session
                    .reopen(&self.shared, &self.agent)
                    .await?;
                self.active_session.retract().await
            }
            done => done,
        }
    }

    /// Creates a fork of this chat in its current state. The cost does not depend on the length of the
    /// conversation; the chat can continue meanwhile. When the chat ends or is dropped, its forks are
    /// cancelled.
    ///
    /// # Errors
    /// [`ErrorKind::Fork`] if `holder` is empty or `max_iterations` is 0.
    pub fn fork(&self, spec: ForkSpec) -> Result<Fork, Error> {
        let session = &self.active_session;
        Fork::for_chat(spec, &self.agent, &self.shared, session, self.forks.token())
    }

    /// Answers a side question on a fork of the whole conversation, without tools. Neither the question nor
    /// the answer becomes part of the conversation. The cost is part of [`Chat::total`].
    ///
    /// # Errors
    /// The errors of [`Chat::turn`].
    pub async fn side_question(
        &self,
        question: &str,
        cancel: &CancellationToken,
    ) -> Result<ForkReport, Error> {
        let fork = self.fork(ForkSpec {
            holder: "the side question".to_owned(),
            tools: Some(Vec::new()),
            approved: false,
            inherit: Inherit::Full,
            max_iterations: MAX_SIDE_QUESTION_ITERATIONS,
            max_input_tokens: None,
            max_output_tokens: None,
        })?;
        fork.run(question, cancel).await
    }

    /// Starts a review of the current conversation in the background. `focus` is a subject to emphasize. The
    /// listener receives an event at its end, unless `notify` is off and the review has succeeded. An agent
    /// without `review` uses the default definition.
    ///
    /// # Errors
    /// A review is running, the conversation is empty, or it cannot be forked.
    pub fn review(&mut self, focus: Option<&str>) -> Result<(), Error> {
        let refused = |why: &str| Err(Error::new(ErrorKind::Input, why));
        if self.reviews.is_running() {
            return refused("a review is running; wait for its end");
        }
        let session = &self.active_session;
        if session.conversation.is_new() {
            return refused("the conversation is empty; nothing can be reviewed");
        }
        let definition = self.agent.review.clone().unwrap_or_default();
        let fork = self.fork(review::fork_spec(&definition, session))?;
        let listener = &self.shared.dependencies.listener;
        let review = Review::new(fork, &definition, focus, session, listener)?;
        self.reviews.start(review);
        Ok(())
    }

    /// True if a review is running.
    #[must_use]
    pub fn is_reviewing(&self) -> bool {
        self.reviews.is_running()
    }

    /// Waits until no review is running. Dropping the future does not stop the review.
    pub async fn wait_for_review(&mut self) {
        self.reviews.wait().await;
    }

    /// Counts a completed turn, and starts a review if one is due: at least `every_turns` turns were
    /// completed since the last one. A review that cannot start stays due; the user receives a warning every
    /// `every_turns` turns.
    fn count_completed_turn(&mut self) {
        let completed = self.reviews.count_turn();
        let turns = self.agent.review.as_ref().map(|review| review.every_turns);
        let Some(turns) = turns.filter(|turns| *turns > 0) else {
            return;
        };
        if completed < turns {
            return;
        }
        if let Err(error) = self.review(None)
            && completed.is_multiple_of(turns)
        {
            let warning = format!("no review, although one is due: {error}");
            self.shared.warn(&self.agent.name, &warning);
            // The turn is answered, and hooks may be slow: do not wait for them.
            let hook_emitter = Arc::clone(&self.active_session.hook_emitter);
            tokio::spawn(async move { hook_emitter.notify("warning", None, &warning).await });
        }
    }

    /// Adopts tools that were added, removed or changed since the session began, for example by an MCP
    /// server. The messages are kept. The next message brings the change, if the model accepts that
    /// ([`Model::tool_changes`](cachalot_model::Model::tool_changes)); otherwise the provider reads the next request
    /// anew from its beginning. Returns `None` if the tools are the same; the next request is then unchanged.
    ///
    /// # Errors
    /// The tools cannot be initialized, or the session cannot be stored; it is unchanged.
    pub async fn reload(&mut self) -> Result<Option<Reloaded>, Error> {
        let reloaded = self
            .active_session
            .reload(&self.shared, &self.agent)
            .await?;
        Ok(reloaded.map(|(changes, tokens)| Reloaded { changes, tokens }))
    }

    /// Emits the `on_user_input` hook event: the chat waits for the user.
    pub async fn notify_waiting_for_user(&self) {
        self.active_session
            .hook_emitter
            .emit(When::OnUserInput, |_| {})
            .await;
    }

    /// Ends the session and begins a new one with the same agent. Permissions that the user granted for the
    /// rest of the chat stay granted; the spend so far continues to count.
    ///
    /// # Errors
    /// The errors of [`Chat::begin`]; the old session then continues.
    pub async fn start_new_session(&mut self) -> Result<(), Error> {
        let delegation = Arc::clone(&self.active_session.tools.delegation);
        let shared = self.active_session.restricted(&self.shared);
        // The new session begins before the old one ends: on an error, the old one continues.
        let mut active_session =
            ActiveSession::begin(&shared, &self.agent, &delegation, None, 0).await?;
        self.active_session.end(&self.shared, "clear").await;
        self.shared.dependencies.toolboxes.reset_team();
        active_session.emit_session_start("clear").await;
        self.active_session = active_session;
        self.reviews.reset();
        self.shared.typed_urls.clear();
        Ok(())
    }

    /// Ends the chat. Releases what tools hold for the session and cancels a review that was not awaited with
    /// [`Chat::wait_for_review`]. The stored session is kept.
    pub async fn close(mut self) -> UsageTotals {
        // Before the other forks are cancelled: the review gets time to end in order.
        self.reviews.cancel().await;
        self.forks.token().cancel();
        self.active_session.end(&self.shared, "stream_ended").await;
        // After the end of the session, whose hooks may have called models.
        self.total += self.shared.take_totals();
        self.total()
    }
}

/// Runs the tasks that agents of the chat give to each other.
fn delegation() -> Arc<dyn Delegation> {
    Arc::new(SubAgents)
}

/// Returns arguments with the names of a tool: docker-agent calls the `command` of its tool `shell` `cmd`.
fn for_schema(arguments: &Value, schema: &Value) -> Value {
    let mut arguments = arguments.clone();
    let has = |name: &str| schema.pointer(&format!("/properties/{name}")).is_some();
    if let Some(fields) = arguments.as_object_mut()
        && has("command")
        && !has("cmd")
        && let Some(command) = fields.shift_remove("cmd")
    {
        fields.insert("command".to_owned(), command);
    }
    arguments
}

/// Returns the agent with this name. `about` is the beginning of the error message.
fn find_agent(
    team: &Team,
    name: &str,
    about: impl FnOnce() -> String,
) -> Result<AgentDefinition, Error> {
    team.agent(name).cloned().ok_or_else(|| {
        let names: Vec<&str> = team
            .agents
            .iter()
            .map(|agent| agent.name.as_str())
            .collect();
        Error::new(
            ErrorKind::Definition,
            format!(
                "{}there is no agent `{name}` in the file; {}",
                about(),
                did_you_mean(name, &names)
            ),
        )
    })
}
