//! Events of a turn as JSON, one document per line (`--output-format stream-json`).

use std::sync::Arc;

use cachalot_agent::{Event, Listener};
use cachalot_core::Cost;
use cachalot_model::Block;
use serde_json::{Value, json};

use super::show::Show;
use super::sum::dollars;
use super::words;
use crate::command_error::Result;
use crate::render;

/// Prints each event on stdout, and passes it on.
pub(super) struct EventStream {
    next: Arc<Show>,
}

impl EventStream {
    /// Creates the listener. `next` receives every event.
    pub(super) fn new(next: Arc<Show>) -> Self {
        Self { next }
    }
}

impl Listener for EventStream {
    fn on_event(&self, event: &Event<'_>) {
        if let Some(document) = document(event) {
            // If the reader is gone, the chat ends when it prints its result.
            let _ = print(&document);
        }
        self.next.on_event(event);
    }
}

/// Prints the last event: the document of `--output-format json`.
///
/// # Errors
/// Stdout accepts no more output.
pub(crate) fn print_done(document: Value) -> Result<()> {
    print(&render::with_members(json!({"event": "done"}), document))
}

fn print(document: &Value) -> Result<()> {
    render::out(&format!("{document}\n"))
}

/// Returns the text of a result; images are left out.
fn text(content: &[Block]) -> String {
    let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
    texts.join("\n")
}

/// Returns the document of an event; `None` for events that are of interest on a terminal only.
fn document(event: &Event<'_>) -> Option<Value> {
    Some(match event {
        Event::ModelCallStarted { agent, iteration } => {
            json!({"event": "model_call_started", "agent": agent, "iteration": iteration})
        }
        Event::Text { agent, text } => json!({"event": "text", "agent": agent, "text": text}),
        Event::Reasoning { agent, text } => {
            json!({"event": "reasoning", "agent": agent, "text": text})
        }
        Event::ModelCallEnded {
            agent,
            usage,
            cost,
            elapsed,
            request,
        } => json!({
            "event": "model_call_ended",
            "agent": agent,
            "session": request.session,
            "model": format!("{}/{}", request.provider, request.model),
            "input_tokens": usage.map(|usage| usage.total_input()),
            "cached_input_tokens": usage.map(|usage| usage.cache_read),
            "output_tokens": usage.map(|usage| usage.output),
            "dollars": dollars(Cost::clone(cost)),
            "ms": elapsed.as_secs_f64() * 1_000.0,
        }),
        Event::ToolStarted { agent, call, .. } => json!({
            "event": "tool_started",
            "agent": agent,
            "id": call.id,
            "tool": call.name,
            "arguments": serde_json::from_str::<Value>(&call.arguments)
                .unwrap_or_else(|_| call.arguments.clone().into()),
        }),
        Event::ToolEnded { agent, answer } => json!({
            "event": "tool_ended",
            "agent": agent,
            "id": answer.call.id,
            "tool": answer.call.name,
            "outcome": answer.outcome.to_string(),
            "is_error": answer.output.is_error,
            "output": text(&answer.output.content),
            "ms": answer.elapsed.as_secs_f64() * 1_000.0,
        }),
        Event::Synthetic { agent, provenance } => json!({
            "event": "answered_by_hook", "agent": agent, "by": words::synthetic(provenance),
        }),
        Event::Compacted {
            agent,
            tokens,
            summary,
        } => json!({
            "event": "compacted", "agent": agent, "tokens": tokens, "summary": summary,
        }),
        Event::AgentSwitched { agent, from } => {
            json!({"event": "agent_switched", "agent": agent, "from": from})
        }
        Event::Warning { agent, message } => {
            json!({"event": "warning", "agent": agent, "message": message})
        }
        Event::Fork { holder, event } => {
            let mut inner = document(event)?;
            inner["fork"] = (*holder).into();
            inner
        }
        Event::Reviewed { .. } | Event::Note { .. } => return None,
    })
}
