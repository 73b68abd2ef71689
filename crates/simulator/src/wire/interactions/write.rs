//! Renders interactions, whole and as events.

use bytes::Bytes;
use cachalot_core::clock::iso8601;
use serde_json::{Value, json};

use super::super::{AnswerWriter, ApiError, RenderContext, event, extend, gemini};
use super::ResponseParameters;
use crate::answer::{Answer, StopReason, pieces};

/// Prefix of the id of an interaction.
const ID_PREFIX: &str = "v1_";

impl AnswerWriter for ResponseParameters {
    fn whole(&self, context: &RenderContext<'_>) -> Value {
        let mut interaction = self.head(context, status(context.answer));
        interaction["steps"] = json!(steps(context.answer));
        interaction["usage"] = usage(context);
        interaction
    }

    fn events(&self, context: &RenderContext<'_>) -> Vec<Bytes> {
        let mut events = Events::default();
        let begun = self.head(context, "in_progress");
        let id = begun["id"].clone();
        events.push("interaction.created", json!({"interaction": begun}));
        let update = json!({"interaction_id": id, "status": "in_progress"});
        events.push("interaction.status_update", update);
        let mut arguments = context
            .answer
            .calls
            .iter()
            .map(|call| call.arguments.as_str());
        for (index, step) in steps(context.answer).iter().enumerate() {
            let raw = match step["type"].as_str() {
                Some("function_call") => arguments.next(),
                _ => None,
            };
            events.step(index, step, raw.unwrap_or_default());
        }
        // The steps have been sent.
        let mut ended = self.head(context, status(context.answer));
        ended["usage"] = usage(context);
        events.push("interaction.completed", json!({"interaction": ended}));
        events
            .list
            .push(Bytes::from_static(b"event: done\ndata: [DONE]\n\n"));
        events.list
    }
}

impl ResponseParameters {
    fn head(&self, context: &RenderContext<'_>, status: &str) -> Value {
        let now = iso8601(context.now);
        let now = format!("{}Z", now.get(..19).unwrap_or_default());
        let mut head = json!({
            "id": context.ids.answer(ID_PREFIX),
            "object": "interaction",
            "model": self.model,
            "status": status,
            "created": now,
            "updated": now,
        });
        if let Some(tier) = context.scripted.service_tier.or(self.tier.as_deref()) {
            head["service_tier"] = tier.into();
        }
        if let Some(previous) = &self.previous {
            head["previous_interaction_id"] = previous.as_str().into();
        }
        head
    }
}

fn status(answer: &Answer) -> &'static str {
    match answer.stop {
        StopReason::ToolCalls => "requires_action",
        StopReason::Length => "incomplete",
        StopReason::Refusal => "failed",
        StopReason::End | StopReason::Sequence(_) => "completed",
    }
}

/// Returns the steps of the answer.
fn steps(answer: &Answer) -> Vec<Value> {
    let mut steps = Vec::new();
    if let Some(reasoning) = &answer.reasoning {
        steps.push(json!({
            "type": "thought",
            "signature": gemini::signature(&json!(reasoning)),
            "summary": [{"type": "text", "text": reasoning}],
        }));
    }
    if let Some(text) = answer.shown_text() {
        steps.push(json!({"type": "model_output", "content": [{"type": "text", "text": text}]}));
    }
    for call in &answer.calls {
        steps.push(json!({
            "type": "function_call",
            "id": call.id,
            "name": call.name,
            "arguments": call.input(),
        }));
    }
    steps
}

fn usage(context: &RenderContext<'_>) -> Value {
    let (tokens, scripted) = (&context.tokens, &context.scripted);
    let input = tokens.input.total();
    let output = tokens.output - tokens.reasoning;
    let mut usage = json!({
        "total_input_tokens": input,
        "input_tokens_by_modality": [{"modality": "text", "tokens": input}],
        "total_cached_tokens": tokens.input.read,
        "total_output_tokens": output,
        "output_tokens_by_modality": [{"modality": "text", "tokens": output}],
        "total_thought_tokens": tokens.reasoning,
        "total_tool_use_tokens": 0,
        "total_tokens": input + tokens.output,
    });
    if let Some(searches) = scripted.web_searches {
        usage["grounding_tool_count"] = json!([{"type": "google_search", "count": searches}]);
    }
    usage
}

/// Events with ids.
#[derive(Default)]
struct Events {
    list: Vec<Bytes>,
}

impl Events {
    fn push(&mut self, kind: &str, fields: Value) {
        let mut data = fields;
        let number = format!("event_{}", self.list.len());
        extend(&mut data, &json!({"event_type": kind, "event_id": number}));
        self.list.push(event(kind, &data));
    }

    /// Appends the events of a step. `raw` is the text of a call's arguments in the script.
    fn step(&mut self, index: usize, step: &Value, raw: &str) {
        let mut begun = json!({"type": step["type"]});
        let mut deltas = Vec::new();
        match step["type"].as_str() {
            Some("thought") => {
                for piece in pieces(text(&step["summary"])) {
                    let content = json!({"type": "text", "text": piece});
                    deltas.push(json!({"type": "thought_summary", "content": content}));
                }
                let signature = &step["signature"];
                deltas.push(json!({"type": "thought_signature", "signature": signature}));
            }
            Some("function_call") => {
                let named = json!({"id": step["id"], "name": step["name"], "arguments": {}});
                extend(&mut begun, &named);
                for piece in pieces(raw) {
                    deltas.push(json!({"type": "arguments_delta", "arguments": piece}));
                }
            }
            _ => {
                for piece in pieces(text(&step["content"])) {
                    deltas.push(json!({"type": "text", "text": piece}));
                }
            }
        }
        self.push("step.start", json!({"index": index, "step": begun}));
        for delta in deltas {
            self.push("step.delta", json!({"index": index, "delta": delta}));
        }
        self.push("step.stop", json!({"index": index}));
    }
}

/// Returns the text of the first of `contents`.
fn text(contents: &Value) -> &str {
    contents[0]["text"].as_str().unwrap_or_default()
}

/// Renders an error within a stream.
pub(in super::super) fn error_event(refusal: &ApiError) -> Bytes {
    let mut data = gemini::error(refusal);
    data["event_type"] = json!("error");
    event("error", &data)
}
