//! Renders Messages answers, whole and as events.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{RenderContext, RenderedAnswer, event};
use super::{ID_PREFIX, ResponseParameters};
use crate::answer::{Answer, StopReason, TokenCounts, pieces};
use crate::ids;

pub(in super::super) fn write(
    answer: &Answer,
    response_parameters: &ResponseParameters,
    render_context: &RenderContext<'_>,
) -> RenderedAnswer {
    if render_context.request.is_streamed {
        RenderedAnswer::Events(events(answer, response_parameters, render_context))
    } else {
        let mut message = head(response_parameters, render_context);
        message["content"] = Value::from(content(answer, response_parameters));
        let (reason, sequence) = stop(answer, response_parameters);
        message["stop_reason"] = json!(reason);
        message["stop_sequence"] = json!(sequence);
        message["usage"] = usage(
            &render_context.tokens,
            response_parameters,
            render_context.tokens.output,
        );
        RenderedAnswer::Whole(message)
    }
}

fn head(response_parameters: &ResponseParameters, render_context: &RenderContext<'_>) -> Value {
    let mut head = json!({
        "id": render_context.ids.answer(ID_PREFIX),
        "type": "message",
        "role": "assistant",
        "model": response_parameters.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    });
    if let Some(diagnosis) = &render_context.diagnosis {
        head["diagnostics"] = diagnosis.clone();
    }
    head
}

fn stop<'a>(
    answer: &'a Answer,
    response_parameters: &ResponseParameters,
) -> (&'static str, Option<&'a str>) {
    match &answer.stop {
        _ if response_parameters.is_prewarming => ("max_tokens", None),
        StopReason::End => ("end_turn", None),
        StopReason::ToolCalls => ("tool_use", None),
        StopReason::Length => ("max_tokens", None),
        StopReason::Refusal => ("refusal", None),
        StopReason::Sequence(sequence) => ("stop_sequence", Some(sequence)),
    }
}

/// Returns the blocks of the answer.
pub(crate) fn content(answer: &Answer, response_parameters: &ResponseParameters) -> Vec<Value> {
    if response_parameters.is_prewarming {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    if let Some(reasoning) = &answer.reasoning {
        let shown = if response_parameters.hides_thinking {
            ""
        } else {
            reasoning
        };
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

fn usage(tokens: &TokenCounts, response_parameters: &ResponseParameters, output: u64) -> Value {
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
    if response_parameters.thinks {
        let thinking = tokens.reasoning.min(output);
        usage["output_tokens_details"] = json!({"thinking_tokens": thinking});
    }
    usage
}

fn events(
    answer: &Answer,
    response_parameters: &ResponseParameters,
    render_context: &RenderContext<'_>,
) -> Vec<Bytes> {
    let mut begun = head(response_parameters, render_context);
    // The output count at this point is that of the first token.
    begun["usage"] = usage(
        &render_context.tokens,
        response_parameters,
        render_context.tokens.output.min(1),
    );
    let start = json!({"type": "message_start", "message": begun});
    let mut events = vec![event("message_start", &start)];
    let arguments = answer.calls.iter().map(|call| call.arguments.as_str());
    let mut arguments = arguments;
    for (at, block) in content(answer, response_parameters).iter().enumerate() {
        let raw = match block["type"].as_str() {
            Some("tool_use") => arguments.next(),
            _ => None,
        };
        content_block(&mut events, at, block, raw);
        if at == 0 {
            events.insert(2, event("ping", &json!({"type": "ping"})));
        }
    }
    let (reason, sequence) = stop(answer, response_parameters);
    let tokens = &render_context.tokens;
    let mut last = usage(tokens, response_parameters, tokens.output);
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
