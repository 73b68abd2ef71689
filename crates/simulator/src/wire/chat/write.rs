//! Renders chat answers, whole and as chunks.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{RenderContext, RenderedAnswer, data};
use super::ResponseParameters;
use crate::answer::{Answer, AnsweredCall, StopReason, TokenCounts, pieces};

pub(in super::super) fn write(
    answer: &Answer,
    response_parameters: &ResponseParameters,
    render_context: &RenderContext<'_>,
) -> RenderedAnswer {
    if render_context.request.is_streamed {
        RenderedAnswer::Events(chunks(answer, response_parameters, render_context))
    } else {
        RenderedAnswer::Whole(whole(answer, response_parameters, render_context))
    }
}

fn whole(
    answer: &Answer,
    response_parameters: &ResponseParameters,
    render_context: &RenderContext<'_>,
) -> Value {
    let mut message = json!({
        "role": "assistant",
        "content": answer.text,
        "refusal": null,
        "annotations": [],
    });
    if let Some(reasoning) = &answer.reasoning {
        message["reasoning_content"] = Value::from(reasoning.as_str());
    }
    let choice = |index: usize| {
        let mut message = message.clone();
        if !answer.calls.is_empty() {
            message["tool_calls"] = calls(answer, index, render_context)
                .iter()
                .map(call)
                .collect();
        }
        json!({
            "index": index,
            "message": message,
            "logprobs": null,
            "finish_reason": finish_reason(&answer.stop),
        })
    };
    let mut completion = head("chat.completion", response_parameters, render_context);
    completion["choices"] = (0..response_parameters.choices).map(choice).collect();
    completion["usage"] = usage(&render_context.tokens, response_parameters);
    completion
}

/// Returns the calls of a choice. All choices are equal except for the ids of their calls.
fn calls(answer: &Answer, index: usize, render_context: &RenderContext<'_>) -> Vec<AnsweredCall> {
    let mut calls = answer.calls.clone();
    if index > 0 {
        let first = index * calls.len();
        for (at, call) in calls.iter_mut().enumerate() {
            call.id = render_context.ids.part("call_", first + at);
        }
    }
    calls
}

fn head(
    object: &str,
    response_parameters: &ResponseParameters,
    render_context: &RenderContext<'_>,
) -> Value {
    json!({
        "id": render_context.ids.answer("chatcmpl-"),
        "object": object,
        "created": render_context.now / 1_000,
        "model": response_parameters.model,
        "service_tier": "default",
        "system_fingerprint": "fp_simulator",
    })
}

fn call(call: &AnsweredCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    })
}

fn finish_reason(stop: &StopReason) -> &'static str {
    match stop {
        StopReason::End | StopReason::Sequence(_) => "stop",
        StopReason::ToolCalls => "tool_calls",
        StopReason::Length => "length",
        StopReason::Refusal => "content_filter",
    }
}

fn usage(tokens: &TokenCounts, response_parameters: &ResponseParameters) -> Value {
    let mut prompt = json!({"cached_tokens": tokens.read, "audio_tokens": 0});
    let written = tokens.written + tokens.written_1h;
    if response_parameters.charges_writes || written > 0 {
        prompt["cache_write_tokens"] = Value::from(written);
    }
    let mut usage = json!({
        "prompt_tokens": tokens.input(),
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input() + tokens.output,
        "prompt_tokens_details": prompt,
        "completion_tokens_details": {
            "reasoning_tokens": tokens.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    });
    // https://api-docs.deepseek.com/guides/kv_cache
    if is_deepseek_model(&response_parameters.model) {
        usage["prompt_cache_hit_tokens"] = Value::from(tokens.read);
        usage["prompt_cache_miss_tokens"] = Value::from(tokens.input() - tokens.read);
    }
    usage
}

fn is_deepseek_model(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.starts_with("deepseek-")
}

fn chunks(
    answer: &Answer,
    response_parameters: &ResponseParameters,
    render_context: &RenderContext<'_>,
) -> Vec<Bytes> {
    let chunk = |index: usize, delta: Value, finish_reason: Option<&str>| {
        let mut chunk = head("chat.completion.chunk", response_parameters, render_context);
        chunk["choices"] = json!([{
            "index": index,
            "delta": delta,
            "logprobs": null,
            "finish_reason": finish_reason,
        }]);
        if response_parameters.has_usage_chunk {
            chunk["usage"] = Value::Null;
        }
        data(&chunk)
    };
    let mut events = Vec::new();
    for index in 0..response_parameters.choices {
        let deltas = deltas(answer, &calls(answer, index, render_context));
        events.extend(deltas.into_iter().map(|delta| chunk(index, delta, None)));
        events.push(chunk(index, json!({}), Some(finish_reason(&answer.stop))));
    }
    if response_parameters.has_usage_chunk {
        let mut last = head("chat.completion.chunk", response_parameters, render_context);
        last["choices"] = json!([]);
        last["usage"] = usage(&render_context.tokens, response_parameters);
        events.push(data(&last));
    }
    events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    events
}

/// Returns the deltas of a choice.
fn deltas(answer: &Answer, calls: &[AnsweredCall]) -> Vec<Value> {
    let mut deltas = vec![json!({"role": "assistant", "content": "", "refusal": null})];
    for piece in answer.reasoning.as_deref().map(pieces).unwrap_or_default() {
        deltas.push(json!({"reasoning_content": piece}));
    }
    for piece in answer.text.as_deref().map(pieces).unwrap_or_default() {
        deltas.push(json!({"content": piece}));
    }
    for (at, call) in calls.iter().enumerate() {
        deltas.push(json!({"tool_calls": [{
            "index": at,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }]}));
        for piece in pieces(&call.arguments) {
            let function = json!({"arguments": piece});
            deltas.push(json!({"tool_calls": [{"index": at, "function": function}]}));
        }
    }
    deltas
}
