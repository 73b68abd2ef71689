//! Renders chat answers, whole and as chunks.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{AnswerWriter, RenderContext, data};
use super::{ResponseParameters, own_name};
use crate::answer::{Answer, AnsweredCall, StopReason, TokenCounts, pieces};

impl AnswerWriter for ResponseParameters {
    fn whole(&self, context: &RenderContext<'_>) -> Value {
        let answer = context.answer;
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
                message["tool_calls"] = calls(context, index).iter().map(call).collect();
            }
            json!({
                "index": index,
                "message": message,
                "logprobs": null,
                "finish_reason": finish_reason(&answer.stop),
            })
        };
        let mut completion = self.head("chat.completion", context);
        completion["choices"] = (0..self.choices).map(choice).collect();
        completion["usage"] = self.usage(&context.tokens);
        completion
    }

    fn events(&self, context: &RenderContext<'_>) -> Vec<Bytes> {
        let chunk = |index: usize, delta: Value, finish_reason: Option<&str>| {
            let mut chunk = self.head("chat.completion.chunk", context);
            chunk["choices"] = json!([{
                "index": index,
                "delta": delta,
                "logprobs": null,
                "finish_reason": finish_reason,
            }]);
            if self.has_usage_chunk {
                chunk["usage"] = Value::Null;
            }
            data(&chunk)
        };
        let mut events = Vec::new();
        for index in 0..self.choices {
            let deltas = deltas(context.answer, &calls(context, index));
            events.extend(deltas.into_iter().map(|delta| chunk(index, delta, None)));
            let finish_reason = finish_reason(&context.answer.stop);
            events.push(chunk(index, json!({}), Some(finish_reason)));
        }
        if self.has_usage_chunk {
            let mut last = self.head("chat.completion.chunk", context);
            last["choices"] = json!([]);
            last["usage"] = self.usage(&context.tokens);
            events.push(data(&last));
        }
        events.push(Bytes::from_static(b"data: [DONE]\n\n"));
        events
    }
}

impl ResponseParameters {
    fn head(&self, object: &str, context: &RenderContext<'_>) -> Value {
        json!({
            "id": context.ids.answer("chatcmpl-"),
            "object": object,
            "created": context.now / 1_000,
            "model": self.model,
            "service_tier": context.scripted.service_tier.unwrap_or(self.tier),
            "system_fingerprint": "fp_simulator",
        })
    }

    fn usage(&self, tokens: &TokenCounts) -> Value {
        let mut prompt = json!({"cached_tokens": tokens.input.read, "audio_tokens": 0});
        let written = tokens.input.total() - tokens.input.read - tokens.input.uncached;
        if self.charges_writes || written > 0 {
            prompt["cache_write_tokens"] = Value::from(written);
        }
        let mut usage = json!({
            "prompt_tokens": tokens.input.total(),
            "completion_tokens": tokens.output,
            "total_tokens": tokens.input.total() + tokens.output,
            "prompt_tokens_details": prompt,
            "completion_tokens_details": {
                "reasoning_tokens": tokens.reasoning,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        });
        // https://api-docs.deepseek.com/guides/kv_cache
        if own_name(&self.model).starts_with("deepseek-") {
            usage["prompt_cache_hit_tokens"] = Value::from(tokens.input.read);
            usage["prompt_cache_miss_tokens"] =
                Value::from(tokens.input.total() - tokens.input.read);
        }
        usage
    }
}

/// Returns the calls of a choice. All choices are equal except for the ids of their calls.
fn calls(context: &RenderContext<'_>, index: usize) -> Vec<AnsweredCall> {
    let mut calls = context.answer.calls.clone();
    if index > 0 {
        let first = index * calls.len();
        for (at, call) in calls.iter_mut().enumerate() {
            call.id = context.ids.part("call_", first + at);
        }
    }
    calls
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

/// Returns the deltas of a choice.
fn deltas(answer: &Answer, calls: &[AnsweredCall]) -> Vec<Value> {
    let mut deltas = vec![json!({"role": "assistant", "content": "", "refusal": null})];
    for piece in pieces(answer.reasoning.as_deref().unwrap_or_default()) {
        deltas.push(json!({"reasoning_content": piece}));
    }
    for piece in pieces(answer.text.as_deref().unwrap_or_default()) {
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
