//! A conversation with one model: a session, and the pieces to which its messages are rendered once.

mod breakpoints;
mod canonical_prompt;
mod changes;
mod interrupted;
mod reload;
mod retract;
mod snapshot;
mod summary_input;
mod unsent;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::secret::mask_credentials;
use cachalot_core::{Digest, Millis, SecretSet, Spend};
use cachalot_hooks::Transcript;
use cachalot_model::routing::is_routed;
use cachalot_model::wire::Rendered;
use cachalot_model::{
    Block, Format, Message, Model, OutputFormat, Parameters, Reply, Role, ToolDefinition, Usage,
    needs_notes, prepare,
};
use cachalot_prefix::diagnosis::{self, Diagnosis};
use cachalot_prefix::{PrefixMonitor, SentRequest};
use cachalot_prompt::{
    FIVE_MINUTES, Level, Namespace, Note, Plan, PlanContext, Prompt, Session, SessionHead, Target,
    contiguous,
};
use serde_json::{Map, Value};

use crate::definition::AgentDefinition;
use crate::dependencies::Dependencies;
use crate::{Error, ErrorKind, media};
use breakpoints::BreakpointPlanner;

pub(crate) use changes::name as tool_name;
pub(crate) use interrupted::{InterruptedTurn, Progress, results};
pub use retract::Retracted;
pub(crate) use snapshot::Snapshot;
pub(crate) use summary_input::SummaryInput;
pub(crate) use unsent::{mark_changed, validate_rewrite};

/// Characters of the first message that become the title of the session.
const MAX_TITLE_CHARS: usize = 60;

/// Maximum attempts to write a message to a store that is busy.
const MAX_WRITE_ATTEMPTS: u32 = 2;

/// The session note that holds the summary of the conversation before it was restarted.
const SUMMARY_NOTE: &str = "summary";

/// The field that marks a tool result as changed by hooks. It is stored and never sent: no wire format sends
/// fields that begin with `@`.
pub(crate) const CHANGED_FIELD: &str = "@changed";

/// The parts of an agent that a model is shown once per session.
#[derive(Debug, Clone)]
pub(crate) struct AgentPrompt {
    pub(crate) tools: Vec<ToolDefinition>,
    /// System text in tiers, the most stable first: the agent's instruction, then the instructions of its
    /// toolsets. Content that changes from turn to turn is in no tier, but in the newest message.
    pub(crate) system: Vec<String>,
}

impl AgentPrompt {
    /// Renders tools and system text for this model.
    fn rendered(&self, model: &Model) -> RenderedPrompt {
        let wire = model.wire();
        // Each tier ends with a possible cache breakpoint. Where the system text is one of the messages, many
        // models accept only one system message.
        let tiers = match wire.layout().system {
            Some(_) => self.system.clone(),
            None if self.system.is_empty() => Vec::new(),
            None => vec![self.system.join("\n\n")],
        };
        RenderedPrompt {
            tools: self.tools.iter().map(|tool| wire.tool(tool)).collect(),
            system: tiers.iter().map(|text| wire.system(text)).collect(),
        }
    }
}

/// Rendered tools and system text.
struct RenderedPrompt {
    tools: Vec<Rendered>,
    system: Vec<Rendered>,
}

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
    /// Begins a new session. Tools and system text are rendered now and never again.
    pub(crate) async fn begin(
        dependencies: &Dependencies,
        agent: &AgentDefinition,
        agent_prompt: &AgentPrompt,
        id: String,
        parent: Option<String>,
    ) -> Result<Self, Error> {
        let model = model(dependencies, agent)?.for_tools(!agent_prompt.tools.is_empty())?;
        let mut head = head(dependencies, agent, &model, id, parent);
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
        let session = dependencies.sessions.create_from(head, prompt).await;
        let session = session.map_err(|error| Error::session(&error))?;
        let mut this = Self::from_session(dependencies, agent, session, model);
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
            notices.extend(changes::prompt(&session.prompt, &frozen));
            session.head.base_url = Some(model.base_url().to_owned());
            let mut this = Self::from_session(dependencies, agent, session, model);
            this.planner.resume(this.session.saved_at());
            this.monitor = resumed_monitor(&this.session, &this.planner);
            notices.extend(this.changed_parameter());
            return Ok((this, notices));
        }
        notices.push(format!(
            "the session was held with {}/{}, and goes on with {}/{}: everything is sent anew",
            head.provider,
            head.model,
            model.provider(),
            model.name()
        ));
        changes::check_tools(&session, &frozen, model.wire().format())?;
        let monitor = match head.format == model.wire().format() {
            true => resumed_monitor(
                &session,
                &BreakpointPlanner::new(&model, PlanContext::default()),
            ),
            false => PrefixMonitor::default(),
        };
        let target = Target {
            provider: model.provider(),
            model: model.name(),
            base_url: Some(model.base_url()),
            tools: &frozen.tools,
            system: &frozen.system,
        };
        // Another provider may accept fewer media.
        let said = session.prompt.messages().into_iter();
        let said = said.map(Arc::unwrap_or_clone).collect();
        let mut said = media::fit_to_limits(said, Vec::new, model.media()).await;
        prepare(model.wire().format(), &[], &mut said);
        session
            .rerender_as(said, model.wire(), target)
            .await
            .map_err(|error| Error::session(&error))?;
        let mut this = Self::from_session(dependencies, agent, session, model);
        this.monitor = monitor;
        Ok((this, notices))
    }

    fn from_session(
        dependencies: &Dependencies,
        agent: &AgentDefinition,
        session: Session,
        model: Model,
    ) -> Self {
        let plan_context = PlanContext {
            // A delegating agent does not pause between requests as a human does.
            human_paced: dependencies.human_paced && session.head.parent.is_none(),
            keep: agent.prefix.keep,
            ..PlanContext::default()
        };
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
            Block::ToolResult(result)
                if !result.is_error && !result.extra.contains_key(CHANGED_FIELD) =>
            {
                Some(result.id.clone())
            }
            _ => None,
        });
        let mut results = results.peekable();
        if results.peek().is_some() {
            Arc::make_mut(&mut self.results).extend(results);
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.session.head.id
    }

    pub(crate) fn agent(&self) -> &str {
        &self.session.head.agent
    }

    pub(crate) fn prompt(&self) -> &Prompt {
        &self.session.prompt
    }

    /// Digest of everything before the next message of the user: the sent prompt, and the summary with which
    /// the next message begins.
    pub(crate) fn prefix(&self) -> Digest {
        let sent = self.canonical_prompt().tip().map(|id| id.0);
        let sent = sent.unwrap_or_else(|| Digest::sha256(&[]));
        match self.summary() {
            Some(summary) => Digest::sha256_of_parts(&[sent.as_bytes(), summary.as_bytes()]),
            None => sent,
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
        self.has_tools || !needs_tools_for_calls(self.model.wire().format())
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
        let mut messages = media::fit_to_limits(messages, before, self.model.media()).await;
        let format = self.model.wire().format();
        if needs_notes(format) {
            prepare(format, &self.session.prompt.messages(), &mut messages);
        }
        let mut rendered = Vec::with_capacity(messages.len());
        for message in messages {
            if self.session.head.title.is_none() && message.role == Role::User {
                self.session.head.title = Some(title(&message));
            }
            let pieces = self.model.wire().message(&message)?;
            rendered.push((Arc::new(message), pieces));
        }
        let mut attempts = 1;
        loop {
            match self.session.append_all(&rendered, notes.clone()).await {
                Ok(()) => break,
                Err(error) if error.is_retryable && attempts < MAX_WRITE_ATTEMPTS => attempts += 1,
                Err(error) => return Err(Error::session(&error)),
            }
        }
        for (message, _) in &rendered {
            self.record(message);
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
        let restarted = self.session.restart(notes).await;
        restarted.map_err(|error| Error::session(&error))?;
        self.calls.clear();
        self.results = Arc::default();
        self.planner.continue_from(None);
        self.monitor = PrefixMonitor::default();
        Ok(())
    }

    /// Returns the diagnosis of the prefix of the last request, which got this reply; `None` for a first
    /// request.
    pub(crate) fn diagnose(&mut self, reply: &Reply, secret_set: &SecretSet) -> Option<Diagnosis> {
        self.monitor.answer(reply, &self.rules, secret_set)
    }

    /// Adds the usage and spend of an answer to the session's totals; they are stored with the next message.
    pub(crate) fn add_usage(&mut self, usage: Usage, spent: Spend) {
        self.session.totals.count(usage, spent);
    }

    /// Returns the body of the next request.
    pub(crate) fn body(&mut self, now: Millis) -> Bytes {
        let (wire, parameters) = (self.model.wire(), self.parameters());
        if let Some(key) = parameters.routing_key()
            && !std::mem::take(&mut self.is_counted)
        {
            self.model.rates().count(key, now);
        }
        let namespace = Namespace::of(wire.format(), &parameters);
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
        let asked = self.monitor.asked()?.clone();
        if !comparison.is_refused_by(error) {
            return None;
        }
        self.is_compared = false;
        let tail = self.tail(self.parameters());
        Some(self.send(SentRequest { tail, ..asked }))
    }

    /// Renders the next request for another model. The session keeps its own model.
    pub(crate) async fn body_for(
        &self,
        model: &Model,
        agent_prompt: &AgentPrompt,
    ) -> Result<Bytes, cachalot_model::Error> {
        let wire = model.wire();
        let RenderedPrompt { tools, system } = agent_prompt.rendered(model);
        let messages = self.session.prompt.messages().into_iter();
        let messages = messages.map(Arc::unwrap_or_clone).collect();
        let mut prompt = Prompt::begin(&tools, &system);
        let mut messages = media::fit_to_limits(messages, Vec::new, model.media()).await;
        prepare(wire.format(), &[], &mut messages);
        for message in messages {
            let pieces = wire.message(&message)?;
            prompt = prompt.append(&pieces, Arc::new(message));
        }
        let head = &self.session.head;
        let parameters = parameters(
            head,
            model,
            self.has_tools && !agent_prompt.tools.is_empty(),
        );
        let plan_context = PlanContext {
            is_last: self.planner.was_last_request(),
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

    fn render_body(&self, prompt: &Prompt, plan: &Plan, parameters: &Parameters) -> Bytes {
        let wire = self.model.wire();
        contiguous(prompt, wire, plan, &wire.tail(parameters, true))
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
        let now = Namespace::of(self.model.wire().format(), &self.parameters());
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
        let opened = dependencies.sessions.open(id).await;
        let opened = opened.map_err(|error| Error::session(&error))?;
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

/// The routing key of a new session: the same for all sessions with these tools and this system text. `None`
/// if the provider routes without one.
fn routing_key(dependencies: &Dependencies, model: &Model, prompt: &Prompt) -> Option<String> {
    let shared = prompt.tip().filter(|_| is_routed(model.provider()))?;
    Some(model.rates().assign(shared.0, dependencies.clock.now()))
}

/// Returns true if the same agent has sent the same tools and system text within the last five minutes: a
/// request could have read them from the provider's cache, so later ones may, too.
async fn is_repeated(dependencies: &Dependencies, head: &SessionHead, prompt: &Prompt) -> bool {
    let found = dependencies
        .sessions
        .has_recent(head, prompt, FIVE_MINUTES)
        .await;
    // An error affects the price of the request only, not the answer.
    found.unwrap_or(false)
}

/// The parameters of a session's requests.
fn parameters(head: &SessionHead, model: &Model, has_tools: bool) -> Parameters {
    let mut parameters = head.routed(model.parameters());
    if !has_tools {
        // Providers refuse tool parameters in a request without tools.
        parameters.parallel_tool_calls = None;
        parameters.tool_choice = None;
    }
    parameters
}

/// The metadata of a new session.
fn head(
    dependencies: &Dependencies,
    agent: &AgentDefinition,
    model: &Model,
    id: String,
    parent: Option<String>,
) -> SessionHead {
    SessionHead {
        workspace: Some(workspace(dependencies)),
        base_url: Some(model.base_url().to_owned()),
        parent,
        ..SessionHead::new(
            id,
            &agent.name,
            model.provider(),
            model.name(),
            model.wire().format(),
        )
    }
}

/// A monitor for a session whose last request was sent by another process; that request ends before the last
/// answer.
fn resumed_monitor(session: &Session, planner: &BreakpointPlanner) -> PrefixMonitor {
    let messages = session.prompt.messages();
    let is_answer = |message: &Arc<Message>| message.role == Role::Assistant;
    let answer = messages.iter().rposition(is_answer);
    let (Some(last), Some(namespace)) = (answer, session.namespace.clone()) else {
        return PrefixMonitor::default();
    };
    let prompt = session.prompt.without_last(messages.len() - last);
    PrefixMonitor::resumed(SentRequest {
        // A single-turn session may have set no breakpoint; then there is nothing to read.
        plan: match session.totals.provider_keeps_prefix() {
            true => planner.first(&prompt),
            false => Plan::none(),
        },
        prompt,
        namespace,
        format: session.head.format,
        tail: Bytes::from_static(b"}"),
        // The session was saved after its answer arrived; the lifetime of the provider's cache starts
        // slightly earlier.
        at: Some(session.saved_at()),
    })
}

/// The agent's model, checked to be ready for calls.
fn model(dependencies: &Dependencies, agent: &AgentDefinition) -> Result<Model, Error> {
    let model = dependencies.models.find(&agent.model)?;
    model.ready()?;
    Ok(model)
}

/// The model in the wire format of the session, if the session can continue in that format.
fn continue_in_format(session: &Session, model: &Model) -> Option<Model> {
    let head = &session.head;
    let is_same = (head.provider.as_str(), head.model.as_str()) == (model.provider(), model.name());
    // All servers support Chat Completions; another server may not support other formats.
    let is_known =
        head.format == Format::Chat || head.base_url.as_deref() == Some(model.base_url());
    let same = is_same.then(|| model.continuing(head.format))?;
    let tools = snapshot::has_tools(&session.prompt);
    let same = same.for_tools(tools).ok()?;
    (is_known && same.wire().format() == head.format).then_some(same)
}

fn workspace(dependencies: &Dependencies) -> String {
    dependencies.tools.workspace.root().display().to_string()
}

/// True if the format requires tools in a request that contains tool calls.
fn needs_tools_for_calls(format: Format) -> bool {
    matches!(format, Format::Messages | Format::Converse)
}

/// The beginning of a message, with credentials masked.
fn title(message: &Message) -> String {
    match message.content.first() {
        Some(Block::Text { text, .. }) => shorten(text),
        _ => String::new(),
    }
}

fn shorten(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = mask_credentials(&line);
    let mut title: String = line.chars().take(MAX_TITLE_CHARS).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    title
}
