//! Renders answers, whole and as events.

use serde_json::{Value, json};

use super::ResponseParameters;
use crate::answer::{Answer, StopReason, TokenCounts, pieces};
use crate::ids;
use crate::wire::{RenderContext, RenderedAnswer, event};

pub(in crate::wire) fn write(
    answer: &Answer,
    response_parameters: &ResponseParameters,
    render_context: &RenderContext<'_>,
) -> RenderedAnswer {
    let stop = match &answer.stop {
        StopReason::End => "end_turn",
        StopReason::ToolCalls => "tool_use",
        StopReason::Length => "max_tokens",
        StopReason::Sequence(_) => "stop_sequence",
        StopReason::Refusal => "content_filtered",
    };
    let usage = usage(&render_context.tokens);
    let metrics = json!({"latencyMs": 1});
    if !render_context.request.is_streamed {
        return RenderedAnswer::Whole(json!({
            "output": {"message": {"role": "assistant", "content": content(answer, response_parameters)}},
            "stopReason": stop,
            "usage": usage,
            "metrics": metrics,
        }));
    }
    let mut events = vec![("messageStart", json!({"role": "assistant"}))];
    let mut index = 0;
    let mut block = |start: Option<Value>, deltas: Vec<Value>| {
        if let Some(start) = start {
            let start = json!({"contentBlockIndex": index, "start": start});
            events.push(("contentBlockStart", start));
        }
        for delta in deltas {
            let delta = json!({"contentBlockIndex": index, "delta": delta});
            events.push(("contentBlockDelta", delta));
        }
        events.push(("contentBlockStop", json!({"contentBlockIndex": index})));
        index += 1;
    };
    if let Some(reasoning) = shown(answer, response_parameters) {
        let texts = pieces(reasoning).into_iter();
        let mut deltas: Vec<Value> = texts.map(|text| json!({"text": text})).collect();
        if response_parameters.is_claude {
            deltas.push(json!({"signature": ids::signature(reasoning)}));
        }
        let deltas = deltas.into_iter();
        let deltas = deltas.map(|delta| json!({"reasoningContent": delta}));
        block(None, deltas.collect());
    }
    if let Some(text) = text(answer) {
        let deltas = pieces(text).into_iter().map(|text| json!({"text": text}));
        block(None, deltas.collect());
    }
    for call in &answer.calls {
        let start = json!({"toolUse": {"toolUseId": call.id, "name": call.name}});
        let pieces = pieces(&call.arguments).into_iter();
        let deltas = pieces.map(|piece| json!({"toolUse": {"input": piece}}));
        block(Some(start), deltas.collect());
    }
    events.push(("messageStop", json!({"stopReason": stop})));
    events.push(("metadata", json!({"usage": usage, "metrics": metrics})));
    let events = events.into_iter().map(|(name, mut data)| {
        // Padding hides the length of an event.
        data["p"] = json!("abcdefgh");
        event(name, &data)
    });
    RenderedAnswer::Events(events.collect())
}

/// Returns the visible reasoning; empty if only its signature is visible.
fn shown<'a>(answer: &'a Answer, response_parameters: &ResponseParameters) -> Option<&'a str> {
    let reasoning = answer.reasoning.as_deref()?;
    Some(if response_parameters.hides_thinking {
        ""
    } else {
        reasoning
    })
}

fn text(answer: &Answer) -> Option<&str> {
    answer.text.as_deref().filter(|text| !text.is_empty())
}

fn content(answer: &Answer, response_parameters: &ResponseParameters) -> Vec<Value> {
    let mut blocks = Vec::new();
    if let Some(reasoning) = shown(answer, response_parameters) {
        let mut own = json!({"text": reasoning});
        if response_parameters.is_claude {
            own["signature"] = ids::signature(reasoning).into();
        }
        blocks.push(json!({"reasoningContent": {"reasoningText": own}}));
    }
    blocks.extend(text(answer).map(|text| json!({"text": text})));
    for call in &answer.calls {
        let input: Option<Value> = serde_json::from_str(&call.arguments).ok();
        let input = input.filter(Value::is_object);
        blocks.push(json!({"toolUse": {
            "toolUseId": call.id,
            "name": call.name,
            "input": input.unwrap_or_else(|| json!({})),
        }}));
    }
    blocks
}

fn usage(tokens: &TokenCounts) -> Value {
    let written = tokens.written + tokens.written_1h;
    let mut usage = json!({
        "inputTokens": tokens.uncached,
        "outputTokens": tokens.output,
        "totalTokens": tokens.input() + tokens.output,
        "cacheReadInputTokens": tokens.read,
        "cacheWriteInputTokens": written,
    });
    if written > 0 {
        let details = [("1h", tokens.written_1h), ("5m", tokens.written)].into_iter();
        let details = details.filter(|(_, tokens)| *tokens > 0);
        let details = details.map(|(ttl, tokens)| json!({"ttl": ttl, "inputTokens": tokens}));
        usage["cacheDetails"] = details.collect();
    }
    usage
}
