//! Emission of hook events for an active session.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::Digest;
use cachalot_hooks::input::{Notification, Switch, ToolUse};
use cachalot_hooks::{Event as When, Hooks, Input, Transcript, Verdict};
use parking_lot::Mutex;

use crate::Error;
use crate::chat_state::ChatState;
use crate::definition::AgentDefinition;

/// Maximum time that hooks may take after a turn was interrupted.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// Emits the hook events of an agent's session, and forwards messages of hooks to the user.
pub(crate) struct HookEmitter {
    shared: ChatState,
    hooks: Hooks,
    agent: Arc<str>,
    model: Arc<str>,
    session: Arc<str>,
    parent: Option<Arc<str>>,
    turn_state: Mutex<TurnState>,
    /// The messages of the session, once it has begun.
    transcript: Mutex<Option<Transcript>>,
}

/// The state of the current turn.
#[derive(Debug, Clone, Default)]
struct TurnState {
    turn: String,
    iteration: u32,
    said: Option<String>,
    /// Names of the hooks that rewrote what the model is sent, or answered in its place.
    rewritten_by: Vec<String>,
}

impl HookEmitter {
    /// Creates an emitter for a session that may not have begun yet.
    pub(crate) fn new(
        shared: &ChatState,
        agent: &AgentDefinition,
        session: &str,
        parent: Option<&str>,
    ) -> Result<Self, Error> {
        let model = agent.find_model(&shared.dependencies.models)?;
        Ok(Self {
            hooks: shared.hooks(agent)?,
            shared: shared.clone(),
            agent: agent.name.as_str().into(),
            model: format!("{}/{}", model.provider(), model.name()).into(),
            session: session.into(),
            parent: parent.map(Into::into),
            turn_state: Mutex::default(),
            transcript: Mutex::default(),
        })
    }

    /// Passes this transcript to hooks from now on.
    pub(crate) fn set_transcript(&self, transcript: &Transcript) {
        let mut own = self.transcript.lock();
        *own = Some(transcript.clone());
    }

    /// Continues the turn of another agent's emitter.
    pub(crate) fn continue_turn_of(&self, other: &Self) {
        let turn_state = other.turn_state.lock().clone();
        self.set(|own| *own = turn_state);
    }

    /// Emits `on_agent_switch`: another agent continues.
    pub(crate) async fn emit_agent_switch(&self, from: &str, to: &str, kind: &'static str) {
        let told = self.emit(When::OnAgentSwitch, |input| {
            input.switch = Some(Switch {
                from_agent: from.to_owned(),
                to_agent: to.to_owned(),
                kind,
            });
        });
        told.await;
    }

    /// Records that a turn begins.
    pub(crate) fn begin_turn(&self, said: &str) {
        let turn = self.shared.new_turn_id(&self.session);
        self.set(|turn_state| {
            *turn_state = TurnState {
                turn,
                iteration: 0,
                said: Some(said.to_owned()),
                rewritten_by: Vec::new(),
            };
        });
    }

    /// Records the number of the next model call of the turn.
    pub(crate) fn iterate(&self, iteration: u32) {
        self.set(|turn_state| turn_state.iteration = iteration);
    }

    /// Records that the turn has ended.
    pub(crate) fn end_turn(&self) {
        self.set(|turn_state| {
            turn_state.turn.clear();
            turn_state.iteration = 0;
        });
    }

    fn set(&self, change: impl FnOnce(&mut TurnState)) {
        change(&mut self.turn_state.lock());
    }

    /// Names of the hooks that rewrote what the model is sent in this turn.
    pub(crate) fn rewritten_by(&self) -> Vec<String> {
        let turn_state = self.turn_state.lock();
        turn_state.rewritten_by.clone()
    }

    /// A digest of the registered hooks.
    pub(crate) fn hooks(&self) -> Digest {
        self.hooks.identity()
    }

    /// True if a hook handles this event.
    pub(crate) fn wants(&self, when: When) -> bool {
        self.hooks.handles(when)
    }

    /// True if a hook handles this event for this tool.
    pub(crate) fn wants_tool(&self, when: When, tool: &str) -> bool {
        self.hooks.handles_tool(when, tool)
    }

    /// True if hooks must process the result of a tool before any of its output is shown or passed on.
    pub(crate) fn withholds_output(&self, tool: &str) -> bool {
        self.hooks.withholds_output(tool)
    }

    /// Emits an event about a tool call, if a hook handles it.
    pub(crate) async fn emit_tool_event(
        &self,
        when: When,
        tool: &ToolUse,
        fill: impl FnOnce(&mut Input),
    ) -> Verdict {
        if !self.wants_tool(when, &tool.name) {
            return Verdict::default();
        }
        let told = self.emit(when, |input| {
            input.tool = Some(tool.clone());
            fill(input);
        });
        told.await
    }

    /// Emits an event. `fill` adds the fields of the event; it is called only if a hook handles the event.
    pub(crate) async fn emit(&self, when: When, fill: impl FnOnce(&mut Input)) -> Verdict {
        if !self.wants(when) {
            return Verdict::default();
        }
        let mut input = Box::new(self.input(when));
        fill(&mut input);
        // Boxed, so that nested turns do not each need space for it.
        Box::pin(self.dispatch(input)).await
    }

    async fn dispatch(&self, input: Box<Input>) -> Verdict {
        let verdict = self.hooks.fire(*input).await;
        self.note(&verdict);
        verdict
    }

    fn input(&self, when: When) -> Input {
        let turn_state = self.turn_state.lock().clone();
        Input {
            event: when,
            at: Some(self.shared.dependencies.clock.now()),
            transcript: self.transcript.lock().clone(),
            session_id: self.session.to_string(),
            turn_id: turn_state.turn,
            cwd: self.shared.directory(),
            agent_name: self.agent.to_string(),
            model_id: self.model.to_string(),
            permission_mode: self.shared.dependencies.approver.mode(),
            iteration: turn_state.iteration,
            last_user_message: turn_state.said,
            parent_session_id: self.parent.as_deref().map(str::to_owned),
            ..Input::default()
        }
    }

    /// Records the spend of hooks and the names of those that rewrote something, and forwards their messages
    /// to the user.
    fn note(&self, verdict: &Verdict) {
        let rewriters = verdict.reports.iter().filter(|report| report.rewrites());
        let mut rewriters = rewriters.peekable();
        if rewriters.peek().is_some() {
            let names = rewriters.map(|report| report.handler.clone());
            self.set(|turn_state| turn_state.rewritten_by.extend(names));
        }
        for message in &verdict.messages {
            self.shared.warn(&self.agent, message);
        }
        self.shared.record_spend(verdict.spent);
    }

    /// Warns the user, and notifies hooks of the warning.
    pub(crate) async fn warn(&self, message: &str) {
        self.shared.warn(&self.agent, message);
        self.notify("warning", None, message).await;
    }

    /// Emits a `notification` event: the user receives this message.
    pub(crate) async fn notify(
        &self,
        level: &'static str,
        kind: Option<&'static str>,
        message: &str,
    ) {
        self.emit(When::Notification, |input| {
            input.notification = Some(Notification {
                level,
                message: message.to_owned(),
                kind,
            });
        })
        .await;
    }

    /// Emits the hook events of an error that is reported to the user.
    pub(crate) async fn fail(&self, message: &str) {
        self.emit(When::OnError, |input| {
            input.error_message = Some(message.to_owned());
        })
        .await;
        self.notify("error", None, message).await;
    }
}

/// Paragraphs that hooks add to a message, with the names of these hooks.
#[derive(Debug, Clone, Default)]
pub(crate) struct HookContext {
    pub(crate) paragraphs: Vec<String>,
    pub(crate) by: Vec<String>,
}

impl HookContext {
    /// Adds the paragraphs of the handlers of an event.
    pub(crate) fn add(&mut self, verdict: Verdict) {
        let adds = |report: &&cachalot_hooks::HandlerReport| {
            let said = report.result.as_ref();
            said.is_ok_and(|output| output.additional_context.is_some())
        };
        if !verdict.context.is_empty() {
            let by = verdict.reports.iter().filter(adds);
            self.by.extend(by.map(|report| report.handler.clone()));
        }
        self.paragraphs.extend(verdict.context);
    }
}
