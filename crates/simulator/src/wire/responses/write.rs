//! Renders Responses answers.

use serde_json::{Value, json};

use super::super::{RenderContext, RenderedAnswer};
use super::{ResponseParameters, events};
use crate::answer::{Answer, StopReason, TokenCounts};
use crate::ids;

pub(in super::super) fn write(
    answer: &Answer,
    response_parameters: &ResponseParameters,
    render_context: &RenderContext<'_>,
) -> RenderedAnswer {
    let response = response(answer, response_parameters, render_context);
    if render_context.request.is_streamed {
        RenderedAnswer::Events(events::events_of_response(&response))
    } else {
        RenderedAnswer::Whole(response)
    }
}

/// Returns the finished items of the answer.
fn output_items(
    answer: &Answer,
    response_parameters: &ResponseParameters,
    render_context: &RenderContext<'_>,
) -> Vec<Value> {
    let ids = render_context.ids;
    let mut items = Vec::new();
    if let Some(reasoning) = &answer.reasoning {
        items.push(reasoning_item(
            reasoning,
            response_parameters,
            ids.part("rs_", 0),
        ));
    }
    let is_cut = matches!(answer.stop, StopReason::Length | StopReason::Refusal);
    if let Some(text) = &answer.text {
        items.push(json!({
            "id": ids.part("msg_", 0),
            "type": "message",
            "status": if is_cut && answer.calls.is_empty() { "incomplete" } else { "completed" },
            "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": text}],
            "role": "assistant",
        }));
    }
    for (at, call) in answer.calls.iter().enumerate() {
        items.push(json!({
            "id": ids.part("fc_", at),
            "type": "function_call",
            "status": "completed",
            "arguments": call.arguments,
            "call_id": call.id,
            "name": call.name,
        }));
    }
    items
}

fn reasoning_item(reasoning: &str, response_parameters: &ResponseParameters, id: String) -> Value {
    let summary = if response_parameters.has_summary {
        json!([{"type": "summary_text", "text": reasoning}])
    } else {
        json!([])
    };
    let mut item = json!({"id": id, "type": "reasoning", "summary": summary});
    if response_parameters.has_encrypted {
        item["encrypted_content"] = Value::from(ids::encrypted(reasoning));
    }
    item
}

/// Returns the finished response.
pub(crate) fn response(
    answer: &Answer,
    response_parameters: &ResponseParameters,
    render_context: &RenderContext<'_>,
) -> Value {
    let (status, reason) = match answer.stop {
        StopReason::Length => ("incomplete", Some("max_output_tokens")),
        StopReason::Refusal => ("incomplete", Some("content_filter")),
        _ => ("completed", None),
    };
    let created = render_context.now / 1_000;
    let mut response = json!({
        "id": render_context.ids.answer(super::ID_PREFIX),
        "object": "response",
        "created_at": created,
        "status": status,
        "background": false,
        "completed_at": reason.is_none().then_some(created),
        "error": null,
        "incomplete_details": reason.map(|reason| json!({"reason": reason})),
        "service_tier": "default",
        "output": output_items(answer, response_parameters, render_context),
        "usage": usage(&render_context.tokens, response_parameters),
    });
    for (key, value) in &response_parameters.repeated {
        response[key] = value.clone();
    }
    response["service_tier"] = json!("default");
    if let Some(diagnosis) = &render_context.diagnosis {
        response["prompt_cache_diagnostics"] = diagnosis.clone();
    }
    response
}

fn usage(tokens: &TokenCounts, response_parameters: &ResponseParameters) -> Value {
    let mut details = json!({
        "cached_tokens": tokens.read,
        "cache_write_tokens": tokens.written,
    });
    if response_parameters.charges_writes {
        details["cache_write_tokens_details"] =
            json!({"ttl_30m_tokens": tokens.written, "ttl_12h_tokens": 0});
    }
    json!({
        "input_tokens": tokens.input(),
        "input_tokens_details": details,
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input() + tokens.output,
    })
}
