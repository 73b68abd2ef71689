//! Recorders of events and of approval requests.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use cachalot_agent::{
    Approval, ApprovalRequest, Approver, CancellationToken, Event, Listener, Provenance,
    ReviewReport,
};
use cachalot_core::Cost;
use cachalot_hooks::input::PermissionMode;
use cachalot_model::Block;
use cachalot_tools::{CallOutcome, ToolCallResult};

/// A recorded event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Note {
    Asked(String, u32),
    Text(String, String),
    Reasoning(String),
    Answered(String, Cost),
    Began(String),
    EndedCall(EndedCall),
    Noted(String),
    Warning(String, String),
    Synthetic(Provenance),
    Compacted(u64, String),
    Switched(String, String),
    Reviewed(Box<ReviewReport>),
    Fork(String, Box<Note>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndedCall {
    pub(crate) agent: String,
    pub(crate) tool: String,
    pub(crate) how: CallOutcome,
    pub(crate) is_error: bool,
    pub(crate) text: String,
}

type Reaction = Box<dyn Fn(&Note) + Send + Sync>;

/// Records events, and runs an optional reaction.
#[derive(Default)]
pub(crate) struct EventRecorder {
    notes: Mutex<Vec<Note>>,
    reaction: Mutex<Option<Reaction>>,
}

impl EventRecorder {
    pub(crate) fn notes(&self) -> Vec<Note> {
        self.notes.lock().unwrap().clone()
    }

    pub(crate) fn ended(&self) -> Vec<EndedCall> {
        let ended = |note| match note {
            Note::EndedCall(ended) => Some(ended),
            _ => None,
        };
        self.notes().into_iter().filter_map(ended).collect()
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let warning = |note| match note {
            Note::Warning(_, message) => Some(message),
            _ => None,
        };
        self.notes().into_iter().filter_map(warning).collect()
    }

    /// The streamed text.
    pub(crate) fn shown(&self) -> String {
        let text = |note| match note {
            Note::Text(_, text) => Some(text),
            _ => None,
        };
        self.notes().into_iter().filter_map(text).collect()
    }

    /// Cancels when an event matches.
    pub(crate) fn cancel_when(
        &self,
        cancel: &CancellationToken,
        when: impl Fn(&Note) -> bool + Send + Sync + 'static,
    ) {
        let cancel = cancel.clone();
        self.react(move |note| {
            if when(note) {
                cancel.cancel();
            }
        });
    }

    pub(crate) fn react(&self, reaction: impl Fn(&Note) + Send + Sync + 'static) {
        *self.reaction.lock().unwrap() = Some(Box::new(reaction));
    }
}

impl Listener for EventRecorder {
    fn on_event(&self, event: &Event<'_>) {
        let note = note(event);
        self.notes.lock().unwrap().push(note.clone());
        if let Some(reaction) = &*self.reaction.lock().unwrap() {
            reaction(&note);
        }
    }
}

fn note(event: &Event<'_>) -> Note {
    let owned = |text: &str| text.to_owned();
    match event {
        Event::ModelCallStarted { agent, iteration } => Note::Asked(owned(agent), *iteration),
        Event::Text { agent, text } => Note::Text(owned(agent), owned(text)),
        Event::Reasoning { text, .. } => Note::Reasoning(owned(text)),
        Event::ModelCallEnded { agent, cost, .. } => Note::Answered(owned(agent), *cost),
        Event::ToolStarted { call, .. } => Note::Began(call.name.clone()),
        Event::ToolEnded { agent, answer } => Note::EndedCall(EndedCall {
            agent: owned(agent),
            tool: answer.call.name.clone(),
            how: answer.outcome.clone(),
            is_error: answer.output.is_error,
            text: text_of(answer),
        }),
        Event::Synthetic { provenance, .. } => Note::Synthetic((*provenance).clone()),
        Event::AgentSwitched { agent, from } => Note::Switched(owned(from), owned(agent)),
        Event::Compacted {
            tokens, summary, ..
        } => Note::Compacted(*tokens, owned(summary)),
        Event::Reviewed { report, .. } => Note::Reviewed(Box::new((*report).clone())),
        Event::Fork { holder, event } => Note::Fork(owned(holder), Box::new(self::note(event))),
        Event::Note { message, .. } => Note::Noted(owned(message)),
        Event::Warning { agent, message } => Note::Warning(owned(agent), owned(message)),
    }
}

fn text_of(answer: &ToolCallResult) -> String {
    let text = |block: &Block| match block {
        Block::Text { text, .. } => text.clone(),
        _ => String::new(),
    };
    answer.output.content.iter().map(text).collect()
}

/// A recorded approval request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) agent: String,
    pub(crate) tool: String,
    pub(crate) arguments: serde_json::Value,
    pub(crate) rule: Option<String>,
    pub(crate) why: Option<String>,
    /// The concern about the call.
    pub(crate) concern: Option<String>,
    pub(crate) pattern: Option<String>,
    pub(crate) doubt: Option<String>,
}

/// Gives the scripted answers to approval requests, and refuses without one.
#[derive(Default)]
pub(crate) struct ScriptedApprover {
    next: Mutex<VecDeque<Approval>>,
    asked: Mutex<Vec<Asked>>,
    /// Cancelled instead of an answer.
    cancel: Mutex<Option<CancellationToken>>,
    /// The number of open requests, and its maximum.
    at_once: Mutex<(usize, usize)>,
    mode: Mutex<PermissionMode>,
}

impl ScriptedApprover {
    pub(crate) fn give(&self, answers: impl IntoIterator<Item = Approval>) {
        self.next.lock().unwrap().extend(answers);
    }

    pub(crate) fn set_mode(&self, mode: PermissionMode) {
        *self.mode.lock().unwrap() = mode;
    }

    pub(crate) fn cancel_instead(&self, cancel: &CancellationToken) {
        *self.cancel.lock().unwrap() = Some(cancel.clone());
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The maximum number of requests that were open concurrently.
    pub(crate) fn most_at_once(&self) -> usize {
        self.at_once.lock().unwrap().1
    }
}

#[async_trait]
impl Approver for ScriptedApprover {
    fn mode(&self) -> PermissionMode {
        *self.mode.lock().unwrap()
    }

    async fn approve(&self, question: &ApprovalRequest<'_>) -> Approval {
        self.asked.lock().unwrap().push(Asked {
            agent: question.agent.to_owned(),
            tool: question.call.name.clone(),
            arguments: question.arguments.clone().into(),
            rule: question.rule.map(str::to_owned),
            why: question.why.map(str::to_owned),
            concern: question.concern.map(ToString::to_string),
            pattern: question.pattern.map(str::to_owned),
            doubt: question.doubt.map(str::to_owned),
        });
        let cancel = self.cancel.lock().unwrap().take();
        if let Some(cancel) = cancel {
            cancel.cancel();
            std::future::pending::<()>().await;
        }
        {
            let mut at_once = self.at_once.lock().unwrap();
            at_once.0 += 1;
            at_once.1 = at_once.1.max(at_once.0);
        }
        tokio::task::yield_now().await;
        self.at_once.lock().unwrap().0 -= 1;
        let next = self.next.lock().unwrap().pop_front();
        next.unwrap_or(Approval::No(None))
    }
}
