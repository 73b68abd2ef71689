//! Reviews: after a number of turns, a fork reviews the conversation and stores what will be useful later. It
//! runs beside the chat, whose next turns do not wait for it.

mod digest;
mod prompt;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cachalot_model::{Block, Message, Role, Usage};
use cachalot_operation::{AccessRequest, PermissionDecision, ResourceAccess};
use cachalot_tools::{ToolCall, ToolCallResult};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::active_session::{self, ActiveSession};
use crate::chat_state::ChatState;
use crate::conversation::InterruptedTurn;
use crate::definition::{Notify, ReviewDefinition, ReviewKind};
use crate::event::{Event, Listener};
use crate::fork::{Fork, ForkOutcome, ForkSpec, Inherit};
use crate::report::{Stop, UsageTotals};
use crate::{CancellationToken, Chat, Error, ErrorKind, Provenance};

/// Maximum time that a cancelled review may take to end in order.
const GRACE: Duration = Duration::from_secs(2);

/// The result of a review.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviewReport {
    /// The subject of the review.
    pub kind: ReviewKind,
    /// Calls that stored or changed a long-term memory.
    pub memories: u32,
    /// Calls that stored or changed a skill.
    pub skills: u32,
    /// The final text of the review.
    pub text: String,
    /// The reason why it did not complete.
    pub failure: Option<String>,
    /// Its usage.
    pub sum: UsageTotals,
    /// Usage of its first request, if the provider reported it.
    pub first: Option<Usage>,
    /// Usage of the chat's last request before the review; `None` if the review does not inherit all of that
    /// request.
    pub parent: Option<Usage>,
    /// Tools that it called but may not use, without duplicates.
    pub denied: Vec<String>,
    /// The ID of its session; empty if it has none.
    pub session: String,
    /// Duration of the review.
    pub elapsed: Duration,
}

impl ReviewReport {
    fn take(&mut self, fork: ForkOutcome) {
        match fork.ended {
            Ok(ended) => {
                self.failure = match &ended.stop {
                    // The review did what its limits allow.
                    Stop::Iterations(_) | Stop::Repetition(_) => None,
                    Stop::Interrupted => Some("it was cancelled".to_owned()),
                    stop => stop.notice(),
                };
                self.text = ended.text;
            }
            Err(error) => self.failure = Some(error.message),
        }
        self.sum = fork.sum;
        self.first = fork.first;
        self.parent = fork.parent;
        self.denied = fork.denied;
        self.session = fork.session;
    }

    /// A one-word result: `none`, `memory`, `skill`, `memory+skill` or `error`.
    #[must_use]
    pub fn result(&self) -> &'static str {
        match (&self.failure, self.memories, self.skills) {
            (Some(_), _, _) => "error",
            (None, 0, 0) => "none",
            (None, _, 0) => "memory",
            (None, 0, _) => "skill",
            (None, _, _) => "memory+skill",
        }
    }
}

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

    fn is_running(&self) -> bool {
        let running = self.running.as_ref();
        let is_over = |running: &RunningReview| {
            running.task.is_finished() || running.is_over.load(Ordering::Acquire)
        };
        running.is_some_and(|running| !is_over(running))
    }

    /// Waits until no review runs.
    async fn wait(&mut self) {
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
        if let Some(running) = self.running.take() {
            running.task.abort();
        }
    }
}

impl Chat {
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
        if self.active_session().conversation.is_new() {
            return refused("nothing was said yet that could be reviewed");
        }
        let definition = self.agent().review.clone().unwrap_or_default();
        let review = Review::new(self, &definition, focus)?;
        let cancel = CancellationToken::default();
        let is_over = Arc::new(AtomicBool::new(false));
        self.reviews = Reviews {
            running: Some(RunningReview {
                task: tokio::spawn(review.run(cancel.clone(), Arc::clone(&is_over))),
                cancel,
                is_over,
            }),
            completed: 0,
        };
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
    pub(crate) fn completed_turn(&mut self) {
        let completed = self.reviews.completed.saturating_add(1);
        self.reviews.completed = completed;
        let turns = self
            .agent()
            .review
            .as_ref()
            .map(|review| review.every_turns);
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
            self.shared().warn(&self.agent().name, &warning);
            // The turn is answered, and hooks may be slow: do not wait for them.
            let hook_emitter = self.active_session().hook_emitter.clone();
            tokio::spawn(async move { hook_emitter.notify("warning", None, &warning).await });
        }
    }

    /// Warns of settings that prevent reviews from working.
    pub(crate) async fn check_review(&self) {
        let Some(review) = &self.agent().review else {
            return;
        };
        let model = review.model.as_ref().map(|model| model.name.as_str());
        let model = model.unwrap_or(&self.agent().model);
        // A model that does not exist is reported when it is called.
        let found = self.shared().dependencies.models.find(model);
        let options = found.map_or_else(|_| Vec::new(), |model| model.server_tools());
        if !options.is_empty() {
            let warning = active_session::server_tools_message("the review", model, &options);
            self.active_session().hook_emitter.warn(&warning).await;
        }
        for warning in warnings(review, self.active_session(), self.shared()) {
            self.active_session().hook_emitter.warn(&warning).await;
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

fn warnings(
    review: &ReviewDefinition,
    active_session: &ActiveSession,
    shared: &ChatState,
) -> Vec<String> {
    let (allowed, missing) = tools(review, active_session);
    let named = if review.tools.is_some() {
        missing
    } else {
        Vec::new()
    };
    let mut warnings: Vec<String> = named
        .iter()
        .map(|tool| {
            format!("the review may use `{tool}`, which the agent does not have: correct `review.tools`, or give the agent that tool")
        })
        .collect();
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
    };
    let judged = shared
        .team
        .permissions
        .judge(&operation, &shared.dependencies.tools.workspace);
    judged != PermissionDecision::Allow
}

/// Returns the tools that a review may use, and the listed ones that the agent lacks.
fn tools(review: &ReviewDefinition, active_session: &ActiveSession) -> (Vec<String>, Vec<String>) {
    let known = active_session.toolbox.definitions();
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

/// A review that is ready to run.
struct Review {
    fork: Fork,
    message: String,
    listener: Arc<ReviewListener>,
    agent: String,
    kind: ReviewKind,
    notify: Notify,
    inherit: Inherit,
}

impl Review {
    fn new(chat: &Chat, definition: &ReviewDefinition, focus: Option<&str>) -> Result<Self, Error> {
        let active_session = chat.active_session();
        let (tools, _) = tools(definition, active_session);
        let mut fork = chat.fork(ForkSpec {
            holder: "the review".to_owned(),
            tools: Some(tools),
            // By default, a review may only make calls that need no approval.
            approved: definition.tools.is_some(),
            inherit: definition.inherit,
            max_iterations: definition.max_iterations,
            max_input_tokens: definition.max_input_tokens,
            max_output_tokens: None,
        })?;
        if let Some(model) = &definition.model {
            fork = fork.with_model(&model.name)?;
        }
        let instruction = prompt::message(definition.kind, focus);
        let message = match fork.inherited_parts() {
            Inherit::None => {
                let said = digest::digest(&active_session.conversation.prompt().messages());
                format!("{said}\n{instruction}")
            }
            Inherit::Full | Inherit::Prompt | Inherit::Session => instruction,
        };
        let inherit = fork.inherited_parts();
        let listener = Arc::new(ReviewListener::new(Arc::clone(
            &chat.shared().dependencies.listener,
        )));
        Ok(Self {
            inherit,
            fork: fork.with_listener(Arc::clone(&listener) as _),
            message,
            listener,
            agent: chat.agent().name.clone(),
            kind: definition.kind,
            notify: definition.notify,
        })
    }

    /// Runs the review to its end and reports it.
    async fn run(self, cancel: CancellationToken, is_over: Arc<AtomicBool>) {
        let began = Instant::now();
        let outcome = self.fork.outcome(&self.message, &cancel).await;
        let (memories, skills) = self.listener.counts();
        let mut report = ReviewReport {
            kind: self.kind,
            memories,
            skills,
            text: String::new(),
            failure: None,
            sum: UsageTotals::default(),
            first: None,
            parent: None,
            denied: Vec::new(),
            session: String::new(),
            elapsed: began.elapsed(),
        };
        report.take(outcome);
        // The chat's usage is no reference for a review that does not inherit its whole prompt.
        report.parent = report.parent.filter(|_| self.inherit == Inherit::Full);
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
