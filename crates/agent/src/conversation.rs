//! A conversation with one model: a session, and the pieces to which its messages are rendered once.

mod agent_prompt;
mod breakpoints;
mod calls_as_text;
mod canonical_prompt;
mod changed_mark;
mod changes;
mod effort;
mod head;
mod interrupted;
mod rendering;
mod restriction;
mod resumed_monitor;
mod retract;
mod rewrite;
mod session_model;
mod snapshot;
mod summary_input;
mod tool_changes;
mod tool_name;
mod unsent;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::{Digest, Millis, SecretSet, Spend};
use cachalot_hooks::Transcript;
use cachalot_model::{
    Block, Message, Model, OutputFormat, Parameters, Reply, Role, SettingChanges, Usage,
};
use cachalot_prefix::diagnosis::{self, ColdPrefix, Diagnosis};
use cachalot_prefix::{PrefixMonitor, SentRequest};
use cachalot_prompt::{
    Level, Namespace, Note, PlanContext, PrefixLifetime, Prompt, Session, Tail, contiguous,
};
use serde_json::{Map, Value};

use crate::definition::AgentDefinition;
use crate::dependencies::Dependencies;
use crate::{Error, ErrorKind, Inherit};
use agent_prompt::RenderedPrompt;
use breakpoints::{BreakpointPlanner, plan_context};
use calls_as_text::calls_as_text;
use changed_mark::is_marked_changed;
use head::{head, is_repeated, parameters, routing_key, shorten, title, workspace};
use rendering::{adapted, rendered};
use resumed_monitor::resumed_monitor;
use session_model::{continue_in_format, model};

pub(crate) use agent_prompt::AgentPrompt;
pub(crate) use changed_mark::mark_changed;
pub(crate) use interrupted::{InterruptedTurn, Progress, results};
pub(crate) use restriction::restricted_by;
pub use retract::Retracted;
pub(crate) use rewrite::validate_rewrite;
pub(crate) use snapshot::Snapshot;
pub(crate) use summary_input::SummaryInput;
pub(crate) use tool_name::name as tool_name;

/// Maximum attempts to write a message to a store that is busy.
const MAX_WRITE_ATTEMPTS: u32 = 2;

/// The session note that holds the summary of the conversation before it was restarted.
const SUMMARY_NOTE: &str = "summary";

/// A conversation with one model.
pub(crate) struct Conversation {
    session: Session,
    model: Model,
    has_tools: bool,
    /// IDs of all tool calls.
    calls: BTreeSet<String>,
    /// IDs of the calls whose results are in the conversation verbatim.
    results: Arc<BTreeSet<String>>,
    /// The newest message, before it is part of the session.
    held: Option<Message>,
    /// The messages of the session, for hooks that read them.
    transcript: Transcript,
    /// Plans the cache breakpoints of the requests.
    planner: BreakpointPlanner,
    /// Monitors the requests for prefix breaks.
    monitor: PrefixMonitor,
    /// The rules by which `monitor` diagnoses them.
    rules: diagnosis::Rules,
    /// True if the request rate of the routing key already includes the next request.
    is_counted: bool,
    /// True if the provider is asked to compare each request with the previous one.
    is_compared: bool,
}

impl Conversation {
    /// Begins a new session. Tools and system text are rendered now and never again. `restricted_by` is the
    /// read-only agent for which the agent works.
    pub(crate) async fn begin(
        dependencies: &Dependencies,
        agent: &AgentDefinition,
        agent_prompt: &AgentPrompt,
        id: String,
        parent: Option<String>,
        restricted_by: Option<&str>,
    ) -> Result<Self, Error> {
        let model = model(dependencies, agent)?.for_tools(!agent_prompt.tools.is_empty())?;
        let mut head = head(dependencies, agent, &model, id, parent);
        restriction::note(&mut head, restricted_by);
        effort::note_first(&mut head.notes, &model);
        let RenderedPrompt { tools, system } = agent_prompt.rendered(&model);
        let prompt = Prompt::begin(&tools, &system);
        head.routing_key = routing_key(dependencies, &model, &prompt);
        // A session of exactly one request: no later turn, tool result or review reads what it writes to the
        // provider's cache.
        let is_alone = dependencies.single_turn
            && head.parent.is_none()
            && agent_prompt.tools.is_empty()
            && agent.review.is_none();
        let is_repeated = is_alone && is_repeated(dependencies, &head, &prompt).await;
        let session = dependencies.sessions.create_from(head, prompt).await?;
        let mut this = Self::from_session(dependencies, agent, session, model);
        // `routing_key` has counted the first request when it assigned the key.
        this.is_counted = true;
        if is_alone {
            let frozen = this.session.prompt.last().map(|piece| piece.depth);
            this.planner
                .expect_last_request(frozen.filter(|_| is_repeated));
        }
        Ok(this)
    }

    /// Resumes a session. All sent bytes stay as they are, unless the agent's model has changed: then
    /// everything is rendered anew. The returned notices describe this and what else has changed around the
    /// session.
    pub(crate) async fn resume(
        dependencies: &Dependencies,
        agent: &AgentDefinition,
        agent_prompt: &AgentPrompt,
        mut session: Session,
    ) -> Result<(Self, Vec<String>), Error> {
        let model = model(dependencies, agent)?;
        let model = match continue_in_format(&session, &model) {
            Some(same) => same,
            None => model.for_tools(!agent_prompt.tools.is_empty())?,
        };
        let frozen = agent_prompt.rendered(&model);
        let mut notices: Vec<String> = changes::workspace(&session.head, &workspace(dependencies))
            .into_iter()
            .collect();
        let head = &session.head;
        let now = (model.wire().format(), model.provider(), model.name());
        if (head.format, head.provider.as_str(), head.model.as_str()) == now {
            notices.extend(changes::prompt(&session, model.wire(), &frozen));
            session.head.base_url = Some(model.base_url().to_owned());
            let mut this = Self::from_session(dependencies, agent, session, model);
            this.planner.resume(this.session.saved_at());
            this.monitor = resumed_monitor(&this.session, &this.planner);
            notices.extend(this.changed_parameter());
            return Ok((this, notices));
        }
        notices.push(format!(
            "the session was held with {}/{} and continues with {}/{}: the whole conversation is sent again",
            head.provider,
            head.model,
            model.provider(),
            model.name()
        ));
        changes::check_tools(&session, &frozen, model.wire().format())?;
        let monitor = if head.format == model.wire().format() {
            resumed_monitor(
                &session,
                &BreakpointPlanner::new(&model, PlanContext::default()),
            )
        } else {
            PrefixMonitor::default()
        };
        // Another provider may accept fewer media.
        let said = session.prompt.messages().into_iter();
        let said = said.map(Arc::unwrap_or_clone).collect();
        let said = adapted(&model, said, Vec::new).await;
        tool_changes::clear_note(&mut session.head.notes);
        effort::note_first(&mut session.head.notes, &model);
        session
            .rerender_as(said, model.wire(), frozen.target(&model))
            .await?;
        let mut this = Self::from_session(dependencies, agent, session, model);
        this.monitor = monitor;
        Ok((this, notices))
    }

    /// Creates a new session that continues from a snapshot, as far as `inherit` covers it. `agent_prompt` are the
    /// tools that the fork may use and the matching system text, `restricted_by` is the read-only agent for which
    /// the fork works.
    ///
    /// # Errors
    /// The model cannot be found or does not accept such a conversation, or the session cannot be stored.
    pub(crate) async fn fork(
        dependencies: &Dependencies,
        agent: &AgentDefinition,
        from: &Snapshot,
        inherit: Inherit,
        agent_prompt: &AgentPrompt,
        id: String,
        restricted_by: Option<&str>,
    ) -> Result<Self, Error> {
        let model = match inherit {
            Inherit::None => {
                model(dependencies, agent)?.for_tools(!agent_prompt.tools.is_empty())?
            }
            _ => from.model.clone(),
        };
        let prompt = snapshot::fork_prompt(from, inherit, agent_prompt, &model);
        let mut head = head(dependencies, agent, &model, id, Some(from.head.id.clone()));
        if inherit != Inherit::None {
            head.origin = Some(from.head.lineage());
            head.routing_key.clone_from(&from.head.routing_key);
            // Messages that were not sent count as unsent here, too, and a summary is still to be sent.
            head.notes.clone_from(&from.head.notes);
        }
        if inherit != Inherit::Full {
            tool_changes::clear_note(&mut head.notes);
            effort::note_first(&mut head.notes, &model);
        }
        restriction::note(&mut head, restricted_by);
        if !snapshot::has_tools(&prompt) && changes::needs_tools(&prompt, model.wire().format()) {
            return Err(Error::new(
                ErrorKind::Fork,
                "the conversation has tool calls and the fork has no tools, which this provider refuses. Let the fork inherit everything (`full`) or nothing (`none`), or give it a tool",
            ));
        }
        let is_alone = inherit == Inherit::None;
        if is_alone {
            head.routing_key = routing_key(dependencies, &model, &prompt);
        }
        let session = dependencies.sessions.create_from(head, prompt).await?;
        let mut fork = Self::from_session(dependencies, agent, session, model);
        fork.is_counted = is_alone;
        // A provider that refused the comparison once is not asked again.
        fork.is_compared &= is_alone || from.is_compared;
        if inherit == Inherit::Full {
            // Only with `Full` does the first request begin with the bytes of the parent's last one.
            fork.planner.continue_from(from.end);
            fork.monitor = from.monitor.clone();
        }
        Ok(fork)
    }

    fn from_session(
        dependencies: &Dependencies,
        agent: &AgentDefinition,
        session: Session,
        model: Model,
    ) -> Self {
        let plan_context = plan_context(dependencies, agent, &session);
        let mut this = Self {
            has_tools: snapshot::has_tools(&session.prompt),
            calls: BTreeSet::new(),
            results: Arc::default(),
            held: None,
            transcript: Transcript::default(),
            planner: BreakpointPlanner::new(&model, plan_context),
            monitor: PrefixMonitor::default(),
            rules: diagnosis::Rules::for_model(&model),
            is_counted: false,
            is_compared: agent.prefix.diagnostics && model.comparison().is_some(),
            session,
            model,
        };
        for message in this.session.prompt.messages() {
            this.record(&message);
        }
        this
    }

    /// Records a message in the transcript, and the IDs of its calls and results.
    fn record(&mut self, message: &Arc<Message>) {
        self.transcript.add(message);
        let calls = message.tool_uses().map(|call| call.id.clone());
        self.calls.extend(calls);
        // Failures, substitutes for missing results, and results that hooks have changed cannot be referred
        // to.
        let results = message.content.iter().filter_map(|block| match block {
            Block::ToolResult(result) if !result.is_error && !is_marked_changed(result) => {
                Some(result.id.clone())
            }
            _ => None,
        });
        let mut results = results.peekable();
        if results.peek().is_some() {
            Arc::make_mut(&mut self.results).extend(results);
        }
    }

    /// Returns a snapshot.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            prompt: self.session.prompt.clone(),
            head: self.session.head.clone(),
            model: self.model.clone(),
            sent: self.session.namespace.clone(),
            end: self.planner.end(),
            monitor: self.monitor.clone(),
            is_compared: self.is_compared,
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.session.head.id
    }

    pub(crate) fn agent(&self) -> &str {
        &self.session.head.agent
    }

    /// The session that delegated to this one, or from which it was forked.
    pub(crate) fn parent(&self) -> Option<&str> {
        self.session.head.parent.as_deref()
    }

    pub(crate) fn prompt(&self) -> &Prompt {
        &self.session.prompt
    }

    /// Digest of everything before the next message of the user: the sent prompt, the summary with which the next
    /// message begins, and the changes that it brings.
    pub(crate) fn prefix(&self) -> Digest {
        let sent = self.canonical_prompt().tip().map(|id| id.0);
        let sent = sent.unwrap_or_else(|| Digest::sha256(&[]));
        let sent = match self.summary() {
            Some(summary) => Digest::sha256_of_parts(&[sent.as_bytes(), summary.as_bytes()]),
            None => sent,
        };
        let pending = self.pending_changes(&self.session.prompt);
        match serde_json::to_vec(&pending) {
            Ok(pending_json) if !pending.is_empty() => {
                Digest::sha256_of_parts(&[sent.as_bytes(), b"changes", &pending_json])
            }
            _ => sent,
        }
    }

    /// The prompt in the form that keys of stored answers use.
    pub(crate) fn canonical_prompt(&self) -> Cow<'_, Prompt> {
        canonical_prompt::prompt(&self.session.prompt, &self.model)
    }

    /// The messages, for hooks that read them.
    pub(crate) fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// The output format that answers must have.
    pub(crate) fn output_format(&self) -> Option<OutputFormat> {
        self.model.parameters().output.clone()
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// IDs of all tool calls.
    pub(crate) fn calls(&self) -> &BTreeSet<String> {
        &self.calls
    }

    /// True if the provider accepts tool calls in this conversation.
    pub(crate) fn accepts_calls(&self) -> bool {
        self.has_tools || !self.model.wire().request_rules().needs_tools_for_calls
    }

    /// IDs of the calls whose results are in the conversation verbatim.
    pub(crate) fn results(&self) -> Arc<BTreeSet<String>> {
        Arc::clone(&self.results)
    }

    /// Sets the title of the session to `about`, shortened; it is stored with the next message.
    pub(crate) fn set_title(&mut self, about: &str) {
        self.session.head.title = Some(shorten(about));
    }

    /// Appends a message durably.
    pub(crate) async fn append(&mut self, message: Message) -> Result<(), Error> {
        let notes = self.session.head.notes.clone();
        self.append_all(vec![message], notes).await
    }

    /// Appends messages durably: all of them and the notes in one write, or nothing. Content that the
    /// provider would refuse is adapted first.
    async fn append_all(
        &mut self,
        messages: Vec<Message>,
        notes: Map<String, Value>,
    ) -> Result<(), Error> {
        let before = || self.session.prompt.messages();
        let messages = adapted(&self.model, messages, before).await;
        if self.session.head.title.is_none() {
            let first = messages.iter().find(|message| message.role == Role::User);
            self.session.head.title = first.map(title);
        }
        let rendered = rendered(&self.model, messages)?;
        let mut attempts = 1;
        loop {
            match self.session.append_all(&rendered, notes.clone()).await {
                Ok(()) => break,
                Err(error) if error.is_retryable && attempts < MAX_WRITE_ATTEMPTS => attempts += 1,
                Err(error) => return Err(error.into()),
            }
        }
        // After the write: hooks must not read a message that is not stored.
        for (message, _) in &rendered {
            self.record(message);
        }
        Ok(())
    }

    /// Holds the newest message until it is sent.
    pub(crate) fn hold(&mut self, message: Option<Message>) {
        self.held = message;
    }

    /// Adds text to the held message, if there is one.
    pub(crate) fn add_to_held(&mut self, text: String) {
        if let Some(held) = &mut self.held {
            held.content.push(Block::text(text));
        }
    }

    /// The held message.
    pub(crate) fn held(&self) -> Option<&Message> {
        self.held.as_ref()
    }

    /// Takes the held message. The caller must append it; otherwise it is lost.
    fn release(&mut self) -> Option<Message> {
        self.held.take()
    }

    /// Returns the messages of the conversation with the held one, and the number of unsent messages at the
    /// end.
    pub(crate) fn with_held(&self) -> (Vec<Arc<Message>>, usize) {
        let mut messages = self.session.prompt.messages();
        messages.extend(self.held.clone().map(Arc::new));
        let unsent = self.unsent() + usize::from(self.held.is_some());
        (messages, unsent)
    }

    /// The number of unsent messages at the end of the session.
    fn unsent(&self) -> usize {
        unsent::unsent(&self.session.head.notes)
    }

    /// Appends the held message, to be sent now. `rewritten` replaces it and the unsent messages before it.
    pub(crate) async fn append_held(
        &mut self,
        rewritten: Option<Vec<Message>>,
    ) -> Result<(), Error> {
        let Some(held) = self.release() else {
            return Ok(());
        };
        let Some(mut rewritten) = rewritten else {
            return self.append_to_send(held).await;
        };
        let unsent = self.unsent();
        if unsent == 0 {
            return self.append_to_send(rewritten.pop().unwrap_or(held)).await;
        }
        let sent = self.session.prompt.without_last(unsent);
        let mut rewritten = adapted(&self.model, rewritten, || sent.messages()).await;
        for message in &mut rewritten {
            SettingChanges::default().note(message);
        }
        if let Some(last) = rewritten.last_mut() {
            self.pending_changes(&sent).note(last);
        }
        let messages = rendered(&self.model, rewritten)?;
        let mut notes = self.session.head.notes.clone();
        unsent::all_sent(&mut notes);
        self.session.amend(unsent, &messages, notes).await?;
        self.rebuild_indexes();
        Ok(())
    }

    async fn append_to_send(&mut self, mut message: Message) -> Result<(), Error> {
        self.pending_changes(&self.session.prompt)
            .note(&mut message);
        let mut notes = self.session.head.notes.clone();
        unsent::all_sent(&mut notes);
        self.append_all(vec![message], notes).await
    }

    /// The changes of tools and effort that the next message after `prompt` brings.
    fn pending_changes(&self, prompt: &Prompt) -> SettingChanges {
        let head = &self.session.head;
        let tools = match (tool_changes::noted(&head.notes), self.model.tool_changes()) {
            (Some(difference), Some(_)) => {
                tool_changes::pending(prompt, self.model.wire(), &difference)
            }
            _ => SettingChanges::default(),
        };
        SettingChanges {
            effort: effort::pending(head, &self.model, prompt),
            ..tools
        }
    }

    /// Appends the held message, which is not sent now.
    pub(crate) async fn append_held_unsent(&mut self) -> Result<(), Error> {
        match self.release() {
            Some(held) => self.append_unsent(held).await,
            None => Ok(()),
        }
    }

    /// Appends a message that is not sent now.
    pub(crate) async fn append_unsent(&mut self, message: Message) -> Result<(), Error> {
        self.append_all_unsent(vec![message]).await
    }

    /// Appends messages that are not sent now: all in one write, or none.
    pub(crate) async fn append_all_unsent(
        &mut self,
        mut messages: Vec<Message>,
    ) -> Result<(), Error> {
        // The message that is sent next brings the changes.
        for message in &mut messages {
            SettingChanges::default().note(message);
        }
        let mut notes = self.session.head.notes.clone();
        unsent::not_sent(&mut notes, self.unsent() + messages.len());
        self.append_all(messages, notes).await
    }

    /// Repairs the conversation after an interrupted turn, so that it can continue: appends the held message,
    /// adds results to calls without results and an answer to an unanswered message. Uses `interrupted` where it
    /// has content. Nothing that was sent is changed.
    pub(crate) async fn repair(&mut self, interrupted: InterruptedTurn) -> Result<(), Error> {
        // The held message first: it may have the results of the open calls, or be the message without an answer.
        self.append_held_unsent().await?;
        if let Tail::OpenCalls(ids) = self.session.tail() {
            self.append_unsent(interrupted.results(ids)).await?;
        }
        // Read again, because the results that were just added need an answer, too.
        if self.session.tail() == Tail::Unanswered {
            self.append_unsent(interrupted.answer()).await?;
        }
        Ok(())
    }

    /// True if the conversation has no messages: none since it began or was restarted.
    pub(crate) fn is_new(&self) -> bool {
        let last = self.session.prompt.last();
        last.is_none_or(|piece| piece.level != Level::Message)
    }

    /// The summary of the conversation before its restart, until the next message is added.
    pub(crate) fn summary(&self) -> Option<&str> {
        let summary = self.session.head.notes.get(SUMMARY_NOTE);
        summary.filter(|_| self.is_new())?.as_str()
    }

    /// Restarts the conversation with a summary, with which the next message begins. Sent tools and system
    /// text are kept.
    pub(crate) async fn restart(&mut self, summary: &str) -> Result<(), Error> {
        let mut notes = self.session.head.notes.clone();
        notes.insert(SUMMARY_NOTE.to_owned(), Value::from(summary));
        unsent::all_sent(&mut notes);
        self.session.restart(notes).await?;
        self.calls.clear();
        self.results = Arc::default();
        self.planner.continue_from(None);
        self.monitor = PrefixMonitor::default();
        Ok(())
    }

    /// Removes the last message of the user and all messages after it, durably. Returns `None` if there is no
    /// such message. The bytes before it are kept, so that the provider reads them from its cache.
    ///
    /// # Errors
    /// The session cannot be stored; it is unchanged.
    pub(crate) async fn retract(&mut self) -> Result<Option<Retracted>, Error> {
        // A held message belongs to an earlier turn whose future was dropped.
        self.hold(None);
        let messages = self.session.prompt.messages();
        let Some(retracted) = Retracted::last_of(&messages) else {
            return Ok(None);
        };
        let removed = retracted.others + 1;
        let mut notes = self.session.head.notes.clone();
        unsent::not_sent(&mut notes, self.unsent().saturating_sub(removed));
        let title = self.session.head.title.clone();
        if removed == messages.len() {
            // The next first message sets the title.
            self.session.head.title = None;
        }
        if let Err(error) = self.session.retract(removed, notes).await {
            self.session.head.title = title;
            return Err(error.into());
        }
        self.rebuild_indexes();
        self.planner.continue_from(None);
        self.monitor = PrefixMonitor::default();
        Ok(Some(retracted))
    }

    /// Describes which tools differ from those of the session; `None` if none.
    pub(crate) fn changed_tools(&self, agent_prompt: &AgentPrompt) -> Option<String> {
        let now = agent_prompt.rendered(&self.model);
        changes::tools(&self.session, self.model.wire(), &now)
    }

    /// Continues with other tools: the next message brings the change, and the provider reads everything before it
    /// from its cache. Returns false, and changes nothing, if the model does not accept this change, or if the system
    /// text changes, too.
    ///
    /// # Errors
    /// The session cannot be stored; it is unchanged.
    pub(crate) async fn change_tools(&mut self, agent_prompt: &AgentPrompt) -> Result<bool, Error> {
        let Some(difference) = self.acceptable_difference(agent_prompt) else {
            return Ok(false);
        };
        let before = self.session.head.notes.clone();
        tool_changes::set_note(&mut self.session.head.notes, &difference);
        if let Err(error) = self.session.save().await {
            self.session.head.notes = before;
            return Err(error.into());
        }
        Ok(true)
    }

    /// Returns the difference between the tools of an agent and those that the session began with, if the next message
    /// can bring it.
    fn acceptable_difference(&self, agent_prompt: &AgentPrompt) -> Option<SettingChanges> {
        let accepted = self.model.tool_changes()?;
        let (prompt, wire) = (&self.session.prompt, self.model.wire());
        let is_unsent = self.is_new() && self.session.totals.answers == 0;
        let now = agent_prompt.rendered(&self.model);
        if is_unsent || !self.has_tools || !changes::is_same_system(prompt, &now) {
            return None;
        }
        let difference = tool_changes::difference(prompt, wire, &agent_prompt.tools);
        let pending = tool_changes::pending(prompt, wire, &difference);
        let offered = tool_changes::offered_names(prompt, wire);
        accepted.accepts(&pending, &offered).then_some(difference)
    }

    /// Replaces tools and system text. The messages are kept; the provider reads all of them anew.
    pub(crate) async fn replace_prompt(&mut self, agent_prompt: &AgentPrompt) -> Result<(), Error> {
        let model = self.model.for_tools(!agent_prompt.tools.is_empty())?;
        let frozen = agent_prompt.rendered(&model);
        changes::check_tools(&self.session, &frozen, model.wire().format())?;
        let target = frozen.target(&self.model);
        let notes = self.session.head.notes.clone();
        tool_changes::clear_note(&mut self.session.head.notes);
        effort::note_first(&mut self.session.head.notes, &model);
        if let Err(error) = self.session.rerender(model.wire(), target).await {
            self.session.head.notes = notes;
            return Err(error.into());
        }
        self.model = model;
        self.has_tools = !frozen.tools.is_empty();
        Ok(())
    }

    /// Continues with another agent: its tools, its system text and its model. The messages are kept, and the
    /// next request begins a prefix of its own. `restricted_by` is the read-only agent for which it works.
    ///
    /// # Errors
    /// The model cannot be found, or the session cannot be stored; it is unchanged.
    pub(crate) async fn switch(
        &mut self,
        dependencies: &Dependencies,
        agent: &AgentDefinition,
        agent_prompt: &AgentPrompt,
        restricted_by: Option<&str>,
    ) -> Result<(), Error> {
        let model = model(dependencies, agent)?.for_tools(!agent_prompt.tools.is_empty())?;
        let frozen = agent_prompt.rendered(&model);
        let said = self.session.prompt.messages().into_iter();
        let mut said: Vec<Message> = said.map(Arc::unwrap_or_clone).collect();
        // A copy, so that an error leaves the held message as it is.
        let mut held = self.held.clone();
        if frozen.tools.is_empty() && model.wire().request_rules().needs_tools_for_calls {
            said = said.into_iter().map(calls_as_text).collect();
            held = held.map(calls_as_text);
        }
        // Another provider may accept fewer media.
        let said = adapted(&model, said, Vec::new).await;
        let prompt = Prompt::begin(&frozen.tools, &frozen.system);
        let head = self.session.head.clone();
        let namespace = self.session.namespace.take();
        self.session.head.agent.clone_from(&agent.name);
        tool_changes::clear_note(&mut self.session.head.notes);
        effort::note_first(&mut self.session.head.notes, &model);
        restriction::note(&mut self.session.head, restricted_by);
        self.session.head.routing_key = routing_key(dependencies, &model, &prompt);
        let target = frozen.target(&model);
        if let Err(error) = self.session.rerender_as(said, model.wire(), target).await {
            (self.session.head, self.session.namespace) = (head, namespace);
            return Err(error.into());
        }
        self.has_tools = !frozen.tools.is_empty();
        self.held = held;
        let plan_context = plan_context(dependencies, agent, &self.session);
        self.planner = BreakpointPlanner::new(&model, plan_context);
        self.monitor = PrefixMonitor::default();
        self.rules = diagnosis::Rules::for_model(&model);
        self.is_counted = true;
        self.is_compared = agent.prefix.diagnostics && model.comparison().is_some();
        self.model = model;
        self.rebuild_indexes();
        Ok(())
    }

    /// The input of a summary: all messages except the newest ones.
    pub(crate) fn summary_input(&self, newest: usize) -> SummaryInput {
        SummaryInput::new(&self.session.prompt, newest)
    }

    /// Renders a request that ends with `instruction`, an instruction about the material. It does not become part of
    /// the conversation.
    pub(crate) fn summary_request_body(
        &self,
        summary_input: &SummaryInput,
        instruction: &str,
    ) -> Result<Bytes, Error> {
        let wire = self.model.wire();
        let prompt = summary_input.prompt(&self.session.prompt, wire, instruction)?;
        let plan = self.planner.plan_one_off(&prompt, summary_input.is_whole());
        let tail = wire.tail(&self.parameters(), true);
        Ok(contiguous(&prompt, wire, &plan, &tail))
    }

    /// Returns the diagnosis of the prefix of the last request, which got this reply; `None` for a first
    /// request.
    pub(crate) fn diagnose(&mut self, reply: &Reply, secret_set: &SecretSet) -> Option<Diagnosis> {
        if reply.message.content.iter().any(Block::is_compaction) {
            // The provider has read a summary in place of what was sent.
            self.planner.continue_from(None);
            self.monitor = PrefixMonitor::default();
            return None;
        }
        self.monitor.answer(reply, &self.rules, secret_set)
    }

    /// Adds the usage and spend of an answer to the session's totals; they are stored with the next message.
    pub(crate) fn add_usage(&mut self, usage: Usage, spent: Spend) {
        self.session.totals.count(usage, spent);
    }

    /// Usage of the last request, in this process or in an earlier one.
    pub(crate) fn last_usage(&self) -> Option<Usage> {
        self.session.last_usage
    }

    /// Sets the usage of the last request; it is stored with the next message.
    pub(crate) fn set_last_usage(&mut self, usage: Option<Usage>) {
        self.session.last_usage = usage;
    }

    /// Returns the body of the next request.
    pub(crate) fn body(&mut self, now: Millis) -> Bytes {
        let (wire, parameters) = (self.model.wire(), self.parameters());
        if let Some(key) = parameters.routing_key()
            && !std::mem::take(&mut self.is_counted)
        {
            self.model.rates().count(key, now);
        }
        let namespace = Namespace::new(wire.format(), &parameters);
        self.session.namespace = Some(namespace.clone());
        let prompt = self.session.prompt.clone();
        let plan = self.planner.next(&prompt, now);
        self.send(SentRequest {
            prompt,
            namespace,
            plan,
            format: wire.format(),
            tail: self.tail(parameters),
            at: Some(now),
        })
    }

    /// Returns the prefix that has expired before a request with `message` is sent, and the lifetime that would have
    /// covered the pause, if the provider has a longer one. Nothing is sent or recorded.
    pub(crate) fn cold_prefix(
        &self,
        message: Message,
        now: Millis,
    ) -> Option<(ColdPrefix, Option<PrefixLifetime>)> {
        let (wire, parameters) = (self.model.wire(), self.parameters());
        let mut prompt = self.session.prompt.clone();
        for (message, pieces) in rendered(&self.model, vec![message]).ok()? {
            prompt = prompt.append(&pieces, message);
        }
        let next = SentRequest {
            plan: self.planner.preview(&prompt, now),
            prompt,
            namespace: Namespace::new(wire.format(), &parameters),
            format: wire.format(),
            tail: self.tail(parameters),
            at: Some(now),
        };
        let cold = self.monitor.cold(&next, &self.rules)?;
        Some((cold, self.planner.lifetime_for(cold.idle)))
    }

    fn send(&mut self, request: SentRequest) -> Bytes {
        let SentRequest {
            prompt, plan, tail, ..
        } = &request;
        let body = contiguous(prompt, self.model.wire(), plan, tail);
        self.monitor.ask(request);
        body
    }

    /// Renders the JSON members after the messages of the next request.
    fn tail(&self, mut parameters: Parameters) -> Bytes {
        if let Some(comparison) = self.model.comparison().filter(|_| self.is_compared) {
            comparison.name(&mut parameters, self.monitor.last_answer());
        }
        self.model.wire().tail(&parameters, true)
    }

    /// Returns the request in flight without the comparison parameter, if `error` refuses that parameter.
    /// Later requests omit it, too.
    pub(crate) fn body_without_comparison(
        &mut self,
        error: &cachalot_model::Error,
    ) -> Option<Bytes> {
        let comparison = self.model.comparison().filter(|_| self.is_compared)?;
        let last_request = self.monitor.last_request()?.clone();
        if !comparison.is_refused_by(error) {
            return None;
        }
        self.is_compared = false;
        let tail = self.tail(self.parameters());
        Some(self.send(SentRequest {
            tail,
            ..last_request
        }))
    }

    /// Returns the request in flight with the current tools and effort at its beginning, if `error` refuses the changes
    /// that messages bring.
    ///
    /// # Errors
    /// The session cannot be stored; it is unchanged.
    pub(crate) async fn body_without_changes(
        &mut self,
        error: &cachalot_model::Error,
        agent_prompt: &AgentPrompt,
        now: Millis,
    ) -> Result<Option<Bytes>, Error> {
        let brings = |message: &Arc<Message>| SettingChanges::noted(message).is_some();
        // Without a message that brings changes, the request is the same with them removed, and so would be the answer.
        if !SettingChanges::are_refused_by(error)
            || !self.session.prompt.messages().iter().any(brings)
        {
            return Ok(None);
        }
        self.replace_prompt(agent_prompt).await?;
        Ok(Some(self.body(now)))
    }

    /// Renders the next request for another model. The session keeps its own model.
    pub(crate) async fn body_for(
        &self,
        model: &Model,
        agent_prompt: &AgentPrompt,
    ) -> Result<Bytes, cachalot_model::Error> {
        let messages = self.session.prompt.messages().into_iter();
        // The request has the current tools and effort.
        let messages = messages.map(SettingChanges::removed_from);
        let messages = messages.map(Arc::unwrap_or_clone).collect();
        let is_last = self.planner.was_last_request();
        self.body_of(model, agent_prompt, messages, is_last).await
    }

    /// Renders a request for a summary that another model writes. It is sent once, and does not become part of the
    /// conversation.
    pub(crate) async fn summary_request_body_for(
        &self,
        model: &Model,
        agent_prompt: &AgentPrompt,
        summary_input: &SummaryInput,
        instruction: &str,
    ) -> Result<Bytes, cachalot_model::Error> {
        let messages = summary_input.messages_before(instruction);
        self.body_of(model, agent_prompt, messages, true).await
    }

    /// Renders a request of these messages to another model, which has read none of them. `is_last` is true if no later
    /// request is expected to begin like it.
    async fn body_of(
        &self,
        model: &Model,
        agent_prompt: &AgentPrompt,
        messages: Vec<Message>,
        is_last: bool,
    ) -> Result<Bytes, cachalot_model::Error> {
        let wire = model.wire();
        let RenderedPrompt { tools, system } = agent_prompt.rendered(model);
        let mut prompt = Prompt::begin(&tools, &system);
        for (message, pieces) in rendered(model, adapted(model, messages, Vec::new).await)? {
            prompt = prompt.append(&pieces, message);
        }
        let head = &self.session.head;
        let mut parameters = parameters(
            head,
            model,
            self.has_tools && !agent_prompt.tools.is_empty(),
        );
        // No message of this request brings another effort.
        let configured = &model.parameters().reasoning;
        parameters.reasoning.clone_from(configured);
        let plan_context = PlanContext {
            is_last,
            ..PlanContext::default()
        };
        let plan = BreakpointPlanner::new(model, plan_context).first(&prompt);
        Ok(contiguous(
            &prompt,
            wire,
            &plan,
            &wire.tail(&parameters, true),
        ))
    }

    /// Returns the notes on the requests so far that were not returned before, one of each kind.
    pub(crate) fn new_notes(&mut self) -> &[Note] {
        self.planner.new_notes()
    }

    fn parameters(&self) -> Parameters {
        parameters(&self.session.head, &self.model, self.has_tools)
    }

    /// Returns a notice of the parameter that has changed since the last request in a way that makes the
    /// provider's cache miss.
    fn changed_parameter(&self) -> Option<String> {
        let before = self.session.namespace.as_ref()?;
        let now = Namespace::new(self.model.wire().format(), &self.parameters());
        let field = before.difference(&now)?;
        Some(format!(
            "`{}` is not what it was in the last request of this session: the provider reads what was sent before as if it were new",
            field.name
        ))
    }

    /// Rebuilds the transcript and the ID sets from the session's messages.
    fn rebuild_indexes(&mut self) {
        self.transcript.clear();
        self.calls.clear();
        self.results = Arc::default();
        for message in self.session.prompt.messages() {
            self.record(&message);
        }
    }

    /// Opens the session in its current state, after another writer has appended to it.
    pub(crate) async fn reopen(
        &self,
        dependencies: &Dependencies,
        agent: &AgentDefinition,
        agent_prompt: &AgentPrompt,
    ) -> Result<(Self, Vec<String>), Error> {
        let id = self.id();
        let opened = dependencies.sessions.open(id).await?;
        // `open` also accepts an abbreviated ID, which may match another session.
        match opened.filter(|session| session.head.id == id) {
            Some(session) => Self::resume(dependencies, agent, agent_prompt, session).await,
            None => Err(Error::new(
                ErrorKind::Session,
                format!("the session `{id}` was removed; begin a new one"),
            )),
        }
    }
}
