//! Message threads: conversations that the provider stores between turns, so that a request sends only the
//! new messages. <https://platform.claude.com/docs/en/build-with-claude/message-threads>
//!
//! Not simulated: fields that must stay the same across the turns of a thread
//! (`thread_fingerprint_mismatch`), and settings that threads do not support.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use cachalot_core::{Digest, Millis};

use super::super::{ApiError, Object, ValidationContext, refuse, text_of};
use super::{no_dictionary, required_at, unknown_tag};

/// The beta that every request of a thread must name.
const BETA: &str = "message-threads-2026-08-12";

/// Time that a thread is stored after its last request.
const LIFETIME: Millis = 5 * 60 * 1_000;

/// Maximum number of stored turns; the oldest are evicted first.
const MAX_TURNS: usize = 10_000;

/// Fields that a thread keeps from the request that created it.
const KEPT_FIELDS: [&str; 2] = ["system", "tools"];

/// Id of an answer, with the namespace of the key that received it.
type Id = (Digest, String);

/// The stored threads, by the answer that the next turn continues.
#[derive(Debug, Clone, Default)]
pub(crate) struct Threads {
    known: HashMap<Id, ThreadState>,
    /// Oldest first.
    order: VecDeque<Id>,
}

#[derive(Debug, Clone)]
enum ThreadState {
    StoredConversation(StoredConversation),
    /// A request that continues it is in progress.
    InFlight(StoredConversation),
    Continued,
}

/// A conversation.
#[derive(Debug, Clone)]
struct StoredConversation {
    /// The fields in [`KEPT_FIELDS`] that were given.
    kept: Object,
    messages: Vec<Value>,
    since: Millis,
}

/// The turn of a thread that a request is.
#[derive(Debug, Clone)]
pub(crate) struct ThreadTurn {
    /// The answer that it continues; `None` if it creates the thread.
    pub(crate) previous: Option<String>,
    kept: Object,
    messages: Vec<Value>,
}

/// A request of a thread.
pub(super) struct CompletedRequest {
    /// The equivalent request without a thread: with the whole conversation.
    pub(super) request: Object,
    pub(super) turn: ThreadTurn,
}

/// Returns the request with the whole conversation; `None` if it does not belong to a thread.
pub(super) fn whole_request(
    request: &Object,
    validation: &ValidationContext<'_>,
) -> Result<Option<CompletedRequest>, ApiError> {
    let thread = match request.get("thread") {
        None | Some(Value::Null) => return Ok(None),
        Some(_) if !has_beta(validation) && !validation.accepts_unknown => {
            return refuse("thread: Extra inputs are not permitted");
        }
        Some(Value::Object(thread)) => thread,
        Some(_) => return no_dictionary("thread"),
    };
    let mut whole_request = request.clone();
    whole_request.shift_remove("thread");
    let previous = match text_of(thread, "type") {
        "create" => None,
        "continue" => {
            let id = required_at("thread.continue", thread, "previous_message_id")?;
            let (threads, namespace) = (validation.threads, validation.namespace);
            let stored = threads.stored_conversation(namespace, id, validation.now)?;
            let mut kept = KEPT_FIELDS.iter();
            if let Some(field) = kept.find(|field| request.contains_key(**field)) {
                return refuse(format!(
                    "{field}: a thread keeps the value that it was created with; leave it out of a \
                     request that continues the thread"
                ));
            }
            whole_request.extend(stored.kept.clone());
            // Markers apply only to the turn that sets them.
            let mut messages: Vec<Value> = stored.messages.iter().map(unmarked).collect();
            if let Some(Value::Array(new)) = request.get("messages") {
                messages.extend(new.iter().cloned());
                whole_request.insert("messages".to_owned(), messages.into());
            }
            Some(id.to_owned())
        }
        other => return unknown_tag("thread", other, "'continue', 'create'"),
    };
    let kept = KEPT_FIELDS
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), whole_request.get(*field)?.clone())));
    let messages = whole_request.get("messages").and_then(Value::as_array);
    let turn = ThreadTurn {
        previous,
        kept: kept.collect(),
        messages: messages.cloned().unwrap_or_default(),
    };
    Ok(Some(CompletedRequest {
        request: whole_request,
        turn,
    }))
}

fn has_beta(validation: &ValidationContext<'_>) -> bool {
    let named = validation.headers.get_all("anthropic-beta").iter();
    let mut betas = named.filter_map(|value| value.to_str().ok());
    betas.any(|betas| betas.split(',').any(|beta| beta.trim() == BETA))
}

/// Returns a message without the markers of its blocks.
fn unmarked(message: &Value) -> Value {
    let mut message = message.clone();
    if let Some(Value::Array(blocks)) = message.get_mut("content") {
        for block in blocks.iter_mut().filter_map(Value::as_object_mut) {
            block.shift_remove("cache_control");
        }
    }
    message
}

impl Threads {
    /// Returns the conversation up to an answer.
    fn stored_conversation(
        &self,
        namespace: Digest,
        id: &str,
        now: Millis,
    ) -> Result<&StoredConversation, ApiError> {
        let refusal = |message: &str, code| Err(ApiError::invalid(message).error_code(code));
        match self.known.get(&(namespace, id.to_owned())) {
            Some(ThreadState::StoredConversation(stored_conversation))
                if now - stored_conversation.since < LIFETIME =>
            {
                Ok(stored_conversation)
            }
            Some(ThreadState::InFlight(_)) => refusal(
                "thread: another request is still continuing from this `previous_message_id`",
                "thread_continue_in_flight",
            ),
            Some(ThreadState::Continued) => refusal(
                "thread: the response that `previous_message_id` names has already been continued",
                "thread_already_continued",
            ),
            Some(ThreadState::StoredConversation(_)) | None => Err(ApiError::invalid(
                "thread: no usable thread state was found for `previous_message_id`",
            )
            .status(404)
            .error_code("thread_not_found")),
        }
    }

    /// Marks an answer as being continued.
    pub(crate) fn begin(&mut self, namespace: Digest, id: &str) {
        self.change(namespace, id, |state| match state {
            ThreadState::StoredConversation(stored_conversation) => {
                ThreadState::InFlight(stored_conversation)
            }
            other => other,
        });
    }

    /// Removes the mark if the request got no answer.
    pub(crate) fn release(&mut self, namespace: Digest, id: &str) {
        self.change(namespace, id, |state| match state {
            ThreadState::InFlight(stored_conversation) => {
                ThreadState::StoredConversation(stored_conversation)
            }
            other => other,
        });
    }

    fn change(&mut self, namespace: Digest, id: &str, to: impl FnOnce(ThreadState) -> ThreadState) {
        if let Some(state) = self.known.get_mut(&(namespace, id.to_owned())) {
            *state = to(std::mem::replace(state, ThreadState::Continued));
        }
    }

    /// Stores a turn that ended with the answer `id`, whose blocks are `content`.
    pub(crate) fn store(
        &mut self,
        namespace: Digest,
        turn: &ThreadTurn,
        id: String,
        content: Vec<Value>,
        now: Millis,
    ) {
        if let Some(previous) = &turn.previous {
            self.change(namespace, previous, |_| ThreadState::Continued);
        }
        if content.is_empty() {
            return;
        }
        let mut messages = turn.messages.clone();
        messages.push(serde_json::json!({"role": "assistant", "content": content}));
        let stored_conversation = StoredConversation {
            kept: turn.kept.clone(),
            messages,
            since: now,
        };
        let id = (namespace, id);
        self.order.push_back(id.clone());
        self.known
            .insert(id, ThreadState::StoredConversation(stored_conversation));
        if self.order.len() > MAX_TURNS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}
