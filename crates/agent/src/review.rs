//! Reviews: after a number of turns, a fork reviews the conversation and stores what will be useful later. It
//! runs beside the chat, whose next turns do not wait for it.

mod digest;
mod prompt;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cachalot_model::{Block, Message, Role};
use cachalot_operation::{AccessRequest, PermissionDecision, ResourceAccess};
use cachalot_tools::{ToolCall, ToolCallResult};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::active_session::{self, ActiveSession};
use crate::chat_state::ChatState;
use crate::conversation::InterruptedTurn;
use crate::definition::{AgentDefinition, Notify, ReviewDefinition, ReviewKind};
use crate::event::{Event, Listener};
use crate::fork::{Fork, ForkSpec};
use crate::report::Stop;
use crate::review_report::ReviewReport;
use crate::turn::TurnOutcome;
use crate::{CancellationToken, Error, Inherit, Provenance};

/// Maximum time that a cancelled review may take to end in order.
const GRACE: Duration = Duration::from_secs(2);

/// The reviews of a chat; at most one runs at a time.
#[derive(Default)]
pub(crate) struct Reviews {
    running: Option<RunningReview>,
    /// Turns completed since the last review, as far as known.
    completed: u32,
}

struct RunningReview {
    task: JoinHandle<()>,
    cancel: CancellationToken,
    /// Set before the end of the review is reported, so that a listener may start the next one at once.
    is_over: Arc<AtomicBool>,
}

impl Reviews {
    /// Continues the count from the turns of a resumed session, assuming that a review started after every
    /// `every_turns` turns in the other process.
    pub(crate) fn from_session(
        definition: Option<&ReviewDefinition>,
        active_session: &ActiveSession,
    ) -> Self {
        let turns = definition.map_or(0, |review| review.every_turns);
        Self {
            running: None,
            completed: match turns {
                0 => 0,
                turns => completed_turns(&active_session.conversation.prompt().messages()) % turns,
            },
        }
    }

    /// Resets the count for a new session.
    pub(crate) fn reset(&mut self) {
        self.completed = 0;
    }

    /// True if a review is running.
    pub(crate) fn is_running(&self) -> bool {
        let running = self.running.as_ref();
        let is_over = |running: &RunningReview| {
            running.task.is_finished() || running.is_over.load(Ordering::Acquire)
        };
        running.is_some_and(|running| !is_over(running))
    }

    /// Runs a review in the background, and begins to count from 0. No review may be running.
    pub(crate) fn start(&mut self, review: Review) {
        let cancel = CancellationToken::default();
        let is_over = Arc::new(AtomicBool::new(false));
        *self = Self {
            running: Some(RunningReview {
                task: tokio::spawn(review.run(cancel.clone(), Arc::clone(&is_over))),
                cancel,
                is_over,
            }),
            completed: 0,
        };
    }

    /// Counts a completed turn. Returns the number of turns since the last review.
    pub(crate) fn count_turn(&mut self) -> u32 {
        self.completed = self.completed.saturating_add(1);
        self.completed
    }

    /// Waits until no review runs.
    pub(crate) async fn wait(&mut self) {
        if let Some(running) = &mut self.running {
            // A review that panicked has ended, too.
            let _ = (&mut running.task).await;
        }
        self.running = None;
    }

    /// Cancels the running review.
    pub(crate) async fn cancel(&mut self) {
        if let Some(running) = &self.running {
            running.cancel.cancel();
        }
        let _ = tokio::time::timeout(GRACE, self.wait()).await;
        // `wait` leaves nothing here if the review ended in time.
        if let Some(running) = self.running.take() {
            running.task.abort();
        }
    }
}

/// Number of turns that a model completed since the session began or was restarted with a summary.
fn completed_turns(messages: &[Arc<Message>]) -> u32 {
    let (mut completed, mut is_open) = (0_u32, false);
    for message in messages {
        if digest::is_user_message(message) {
            is_open = true;
        } else if is_open && is_final_answer(message) {
            is_open = false;
            completed = completed.saturating_add(1);
        }
    }
    completed
}

/// True if the message is a complete answer of a model without tool calls.
fn is_final_answer(message: &Message) -> bool {
    let is_call = |block: &Block| matches!(block, Block::ToolUse(_));
    message.role == Role::Assistant
        && !message.content.iter().any(is_call)
        && Provenance::from_message(message).is_none()
        && !InterruptedTurn::is_placeholder(message)
}

/// Returns warnings of settings that prevent the reviews of an agent from working.
pub(crate) fn warnings(
    agent: &AgentDefinition,
    active_session: &ActiveSession,
    shared: &ChatState,
) -> Vec<String> {
    let Some(review) = &agent.review else {
        return Vec::new();
    };
    let model = review.model.as_ref().map(|model| model.name.as_str());
    let model = model.unwrap_or(&agent.model);
    // A model that does not exist is reported when it is called.
    let found = shared.dependencies.models.find(model);
    let options = found.map_or_else(|_| Vec::new(), |model| model.server_tools());
    let mut warnings = Vec::new();
    if !options.is_empty() {
        let message = active_session::server_tools_message("the review", model, &options);
        warnings.push(message);
    }
    let (allowed, missing) = tools(review, active_session);
    let named = if review.tools.is_some() {
        missing
    } else {
        Vec::new()
    };
    warnings.extend(named.iter().map(|tool| {
        format!("the review may use `{tool}`, which the agent does not have: correct `review.tools`, or give the agent that tool")
    }));
    let mut storing = allowed.iter().filter(|tool| stored_kind(tool).is_some());
    if review.tools.is_none() && storing.clone().next().is_some() {
        if storing.all(|tool| needs_approval(tool, shared)) {
            warnings.push(
                "a review keeps only what the agent may keep without being asked about, and here that is nothing: allow `memory` under `permissions.allow`, or list it in `review.tools`"
                    .to_owned(),
            );
        }
    } else if storing.next().is_none() {
        warnings.push(
            "a review could keep nothing here: the agent needs `memory` or `skill_manage` among its tools, and its review among those that it may use"
                .to_owned(),
        );
    }
    warnings
}

/// True if a call of this storing tool would need the user's approval.
fn needs_approval(tool: &str, shared: &ChatState) -> bool {
    let arguments = serde_json::Map::from_iter([("action".to_owned(), Value::from("store"))]);
    let operation = AccessRequest {
        tool,
        read_only: false,
        arguments: &arguments,
        resource_access: &ResourceAccess::default(),
        sandboxed: false,
    };
    let judged = shared
        .team
        .permissions
        .judge(&operation, &shared.dependencies.tools.workspace);
    judged != PermissionDecision::Allow
}

/// Returns the tools that a review may use, and the listed ones that the agent lacks.
fn tools(review: &ReviewDefinition, active_session: &ActiveSession) -> (Vec<String>, Vec<String>) {
    let known = active_session.tools.toolbox.definitions();
    let is_known = |name: &&str| known.iter().any(|tool| tool.name == **name);
    let (allowed, missing): (Vec<&str>, Vec<&str>) = review.tools().into_iter().partition(is_known);
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    (owned(allowed), owned(missing))
}

/// The kind of content that a tool stores.
fn stored_kind(tool: &str) -> Option<ReviewKind> {
    match tool {
        "memory" => Some(ReviewKind::Memory),
        "skill_manage" => Some(ReviewKind::Skill),
        _ => None,
    }
}

/// The fork that a review runs on.
pub(crate) fn fork_spec(review: &ReviewDefinition, active_session: &ActiveSession) -> ForkSpec {
    let (tools, _) = tools(review, active_session);
    ForkSpec {
        holder: "the review".to_owned(),
        tools: Some(tools),
        // By default, a review may only make calls that need no approval.
        approved: review.tools.is_some(),
        inherit: review.inherit,
        max_iterations: review.max_iterations,
        max_input_tokens: review.max_input_tokens,
        max_output_tokens: None,
    }
}

/// A review that is ready to run.
pub(crate) struct Review {
    fork: Fork,
    message: String,
    listener: Arc<ReviewListener>,
    agent: String,
    kind: ReviewKind,
    notify: Notify,
    inherit: Inherit,
}

impl Review {
    /// Creates a review of the conversation of `active_session` by `fork`, a fork of it that was created with
    /// [`fork_spec`]. `focus` is a subject to emphasize.
    ///
    /// # Errors
    /// The model of the review does not exist, or its API key is missing.
    pub(crate) fn new(
        mut fork: Fork,
        definition: &ReviewDefinition,
        focus: Option<&str>,
        active_session: &ActiveSession,
        listener: &Arc<dyn Listener>,
    ) -> Result<Self, Error> {
        if let Some(model) = &definition.model {
            fork = fork.with_model(&model.name)?;
        }
        let conversation = &active_session.conversation;
        let instruction = prompt::message(definition.kind, focus);
        let inherit = fork.inherited_parts();
        let message = match inherit {
            Inherit::None => {
                let said = digest::digest(&conversation.prompt().messages());
                format!("{said}\n{instruction}")
            }
            Inherit::Full | Inherit::Prompt | Inherit::Session => instruction,
        };
        let listener = Arc::new(ReviewListener::new(Arc::clone(listener)));
        Ok(Self {
            inherit,
            fork: fork.with_listener(Arc::clone(&listener) as _),
            message,
            listener,
            agent: conversation.agent().to_owned(),
            kind: definition.kind,
            notify: definition.notify,
        })
    }

    /// Runs the review to its end and reports it.
    async fn run(self, cancel: CancellationToken, is_over: Arc<AtomicBool>) {
        let began = Instant::now();
        let outcome = self.fork.outcome(&self.message, &cancel).await;
        let (memories, skills) = self.listener.counts();
        let (text, failure) = text_and_failure(outcome.ended);
        let report = ReviewReport {
            kind: self.kind,
            memories,
            skills,
            text,
            failure,
            sum: outcome.sum,
            first: outcome.first,
            // The chat's usage is no reference for a review that does not inherit its whole prompt.
            parent: outcome.parent.filter(|_| self.inherit == Inherit::Full),
            denied: outcome.denied,
            session: outcome.session,
            elapsed: began.elapsed(),
        };
        // Before the report: with it, the next review may start.
        is_over.store(true, Ordering::Release);
        if self.notify != Notify::Off || report.failure.is_some() {
            self.listener.outer.on_event(&Event::Reviewed {
                agent: &self.agent,
                report: &report,
                notify: self.notify,
            });
        }
    }
}

/// The text of a review, and the reason if it did not complete.
fn text_and_failure(ended: Result<TurnOutcome, Error>) -> (String, Option<String>) {
    match ended {
        Ok(ended) => {
            let failure = match &ended.stop {
                // The review did what its limits allow.
                Stop::Iterations(_) | Stop::Repetition(_) => None,
                Stop::Interrupted => Some("it was cancelled".to_owned()),
                stop => stop.notice(),
            };
            (ended.text, failure)
        }
        Err(error) => (String::new(), Some(error.message)),
    }
}

/// Counts what a review stores, and forwards its events.
struct ReviewListener {
    outer: Arc<dyn Listener>,
    memories: AtomicU32,
    skills: AtomicU32,
}

impl ReviewListener {
    fn new(outer: Arc<dyn Listener>) -> Self {
        Self {
            outer,
            memories: AtomicU32::new(0),
            skills: AtomicU32::new(0),
        }
    }

    fn counts(&self) -> (u32, u32) {
        let count = |counter: &AtomicU32| counter.load(Ordering::SeqCst);
        (count(&self.memories), count(&self.skills))
    }

    fn count_stored(&self, answer: &ToolCallResult) {
        if answer.output.is_error {
            return;
        }
        let counter = match stored_kind(&answer.call.name) {
            Some(ReviewKind::Memory) if !is_search(&answer.call) => &self.memories,
            Some(ReviewKind::Skill) => &self.skills,
            _ => return,
        };
        counter.fetch_add(1, Ordering::SeqCst);
    }
}

impl Listener for ReviewListener {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::Fork { event, .. } = event
            && let Event::ToolEnded { answer, .. } = event
        {
            self.count_stored(answer);
        }
        self.outer.on_event(event);
    }
}

/// True if a call of `memory` only searches.
fn is_search(call: &ToolCall) -> bool {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    arguments.get("action").and_then(Value::as_str) == Some("search")
}
