//! Renders Messages answers, whole and as events.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{Making, Rendered, event};
use super::{Form, ID_PREFIX};
use crate::answer::{Answer, Stop, Tokens, pieces};
use crate::ids;

pub(in super::super) fn write(answer: &Answer, form: &Form, making: &Making<'_>) -> Rendered {
    if making.request.is_streamed {
        Rendered::Events(events(answer, form, making))
    } else {
        let mut message = head(form, making);
        message["content"] = Value::from(content(answer, form));
        let (reason, sequence) = stop(answer, form);
        message["stop_reason"] = json!(reason);
        message["stop_sequence"] = json!(sequence);
        message["usage"] = usage(&making.tokens, form, making.tokens.output);
        Rendered::Whole(message)
    }
}

fn head(form: &Form, making: &Making<'_>) -> Value {
    let mut head = json!({
        "id": making.ids.answer(ID_PREFIX),
        "type": "message",
        "role": "assistant",
        "model": form.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    });
    if let Some(diagnosis) = &making.diagnosis {
        head["diagnostics"] = diagnosis.clone();
    }
    head
}

fn stop<'a>(answer: &'a Answer, form: &Form) -> (&'static str, Option<&'a str>) {
    match &answer.stop {
        _ if form.is_prewarming => ("max_tokens", None),
        Stop::End => ("end_turn", None),
        Stop::ToolCalls => ("tool_use", None),
        Stop::Length => ("max_tokens", None),
        Stop::Refusal => ("refusal", None),
        Stop::Sequence(sequence) => ("stop_sequence", Some(sequence)),
    }
}

/// Returns the blocks of the answer.
pub(crate) fn content(answer: &Answer, form: &Form) -> Vec<Value> {
    if form.is_prewarming {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    if let Some(reasoning) = &answer.reasoning {
        let shown = if form.hides_thinking { "" } else { reasoning };
        blocks.push(json!({
            "type": "thinking",
            "thinking": shown,
            "signature": ids::signature(shown),
        }));
    }
    if let Some(text) = answer.text.as_deref().filter(|text| !text.is_empty()) {
        blocks.push(json!({"type": "text", "text": text}));
    }
    for call in &answer.calls {
        let input: Option<Value> = serde_json::from_str(&call.arguments).ok();
        blocks.push(json!({
            "type": "tool_use",
            "id": call.id,
            "name": call.name,
            "input": input.filter(Value::is_object).unwrap_or_else(|| json!({})),
        }));
    }
    blocks
}

fn usage(tokens: &Tokens, form: &Form, output: u64) -> Value {
    let mut usage = json!({
        "input_tokens": tokens.uncached,
        "cache_creation_input_tokens": tokens.written + tokens.written_1h,
        "cache_read_input_tokens": tokens.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.written,
            "ephemeral_1h_input_tokens": tokens.written_1h,
        },
        "output_tokens": output,
        "service_tier": "standard",
    });
    if form.thinks {
        let thinking = tokens.reasoning.min(output);
        usage["output_tokens_details"] = json!({"thinking_tokens": thinking});
    }
    usage
}

fn events(answer: &Answer, form: &Form, making: &Making<'_>) -> Vec<Bytes> {
    let mut begun = head(form, making);
    // The output count at this point is that of the first token.
    begun["usage"] = usage(&making.tokens, form, making.tokens.output.min(1));
    let start = json!({"type": "message_start", "message": begun});
    let mut events = vec![event("message_start", &start)];
    let arguments = answer.calls.iter().map(|call| call.arguments.as_str());
    let mut arguments = arguments;
    for (at, block) in content(answer, form).iter().enumerate() {
        let raw = match block["type"].as_str() {
            Some("tool_use") => arguments.next(),
            _ => None,
        };
        content_block(&mut events, at, block, raw);
        if at == 0 {
            events.insert(2, event("ping", &json!({"type": "ping"})));
        }
    }
    let (reason, sequence) = stop(answer, form);
    let tokens = &making.tokens;
    let mut last = usage(tokens, form, tokens.output);
    if let Some(fields) = last.as_object_mut() {
        fields.retain(|key, _| key != "cache_creation" && key != "service_tier");
    }
    let delta = json!({
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": sequence},
        "usage": last,
    });
    events.push(event("message_delta", &delta));
    events.push(event("message_stop", &json!({"type": "message_stop"})));
    events
}

/// Appends the events of a block. `raw` is the text of a tool call's arguments in the script.
fn content_block(events: &mut Vec<Bytes>, at: usize, block: &Value, raw: Option<&str>) {
    let mut begun = block.clone();
    let mut deltas = Vec::new();
    match block["type"].as_str() {
        Some("thinking") => {
            begun["thinking"] = json!("");
            begun["signature"] = json!("");
            let thinking = block["thinking"].as_str().unwrap_or_default();
            for piece in pieces(thinking) {
                deltas.push(json!({"type": "thinking_delta", "thinking": piece}));
            }
            deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
        }
        Some("text") => {
            begun["text"] = json!("");
            let text = block["text"].as_str().unwrap_or_default();
            for piece in pieces(text) {
                deltas.push(json!({"type": "text_delta", "text": piece}));
            }
        }
        _ => {
            begun["input"] = json!({});
            deltas.push(json!({"type": "input_json_delta", "partial_json": ""}));
            for piece in pieces(raw.unwrap_or_default()) {
                deltas.push(json!({"type": "input_json_delta", "partial_json": piece}));
            }
        }
    }
    let start = json!({"type": "content_block_start", "index": at, "content_block": begun});
    events.push(event("content_block_start", &start));
    for delta in deltas {
        let delta = json!({"type": "content_block_delta", "index": at, "delta": delta});
        events.push(event("content_block_delta", &delta));
    }
    let end = json!({"type": "content_block_stop", "index": at});
    events.push(event("content_block_stop", &end));
}
