//! Renders answers.

use bytes::Bytes;
use serde_json::{Value, json};

use super::content::{signature, signed_call};
use super::{ResponseParameters, generation};
use crate::answer::{Answer, AnsweredCall, StopReason, TokenCounts, pieces};
use crate::wire::{RenderContext, RenderedAnswer, data};

pub(in crate::wire) fn write(
    answer: &Answer,
    response_parameters: &ResponseParameters,
    render_context: &RenderContext<'_>,
) -> RenderedAnswer {
    let parts = parts(
        answer,
        response_parameters,
        render_context.request.is_streamed,
    );
    let finish = match answer.stop {
        StopReason::End | StopReason::ToolCalls | StopReason::Sequence(_) => "STOP",
        StopReason::Length => "MAX_TOKENS",
        StopReason::Refusal => "SAFETY",
    };
    let response = |parts: Vec<Value>, finish: Option<&str>, tokens: &TokenCounts| {
        let mut candidate = json!({"index": 0});
        if !parts.is_empty() {
            candidate["content"] = json!({"role": "model", "parts": parts});
        }
        if let Some(finish) = finish {
            candidate["finishReason"] = finish.into();
        }
        json!({
            "candidates": [candidate],
            "usageMetadata": usage(tokens, finish.is_some()),
            "modelVersion": response_parameters.model,
            "responseId": render_context.ids.answer("resp-"),
        })
    };
    if !render_context.request.is_streamed {
        return RenderedAnswer::Whole(response(parts, Some(finish), &render_context.tokens));
    }
    let mut parts = parts.into_iter().peekable();
    let mut events: Vec<Bytes> = Vec::new();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none().then_some(finish);
        events.push(data(&response(vec![part], last, &render_context.tokens)));
    }
    if events.is_empty() {
        events.push(data(&response(
            Vec::new(),
            Some(finish),
            &render_context.tokens,
        )));
    }
    RenderedAnswer::Events(events)
}

/// Returns thoughts, text and calls as parts. The signature is on the first call, or else on the last part;
/// a stream sends the latter signature in a separate part.
fn parts(
    answer: &Answer,
    response_parameters: &ResponseParameters,
    is_streamed: bool,
) -> Vec<Value> {
    let mut parts = Vec::new();
    let split = |text: &str| -> Vec<String> {
        match is_streamed {
            true => pieces(text).into_iter().map(str::to_owned).collect(),
            false => vec![text.to_owned()],
        }
    };
    for piece in answer.reasoning.as_deref().map(split).unwrap_or_default() {
        parts.push(json!({"text": piece, "thought": true}));
    }
    for piece in answer.text.as_deref().map(split).unwrap_or_default() {
        parts.push(json!({"text": piece}));
    }
    let signs = generation(&response_parameters.model).is_none_or(|number| number >= 3);
    for (at, call) in answer.calls.iter().enumerate() {
        let mut part = json!({"functionCall": function(call, response_parameters)});
        if signs && at == 0 {
            let signature = signature(&signed_call(&part["functionCall"]));
            part["thoughtSignature"] = signature.into();
        }
        parts.push(part);
    }
    if signs && answer.calls.is_empty() && answer.stop != StopReason::Refusal {
        let text = json!(answer.text);
        match parts.last_mut().filter(|_| !is_streamed) {
            Some(last) => last["thoughtSignature"] = signature(&text).into(),
            None => parts.push(json!({"text": "", "thoughtSignature": signature(&text)})),
        }
    }
    parts
}

fn function(call: &AnsweredCall, response_parameters: &ResponseParameters) -> Value {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
    let mut function = json!({"name": call.name, "args": arguments});
    // Calls have ids from Gemini 3 on.
    if generation(&response_parameters.model).is_some_and(|number| number >= 3) {
        function["id"] = call.id.as_str().into();
    }
    function
}

/// Renders the usage; a chunk before the last one does not count the output.
fn usage(tokens: &TokenCounts, is_last: bool) -> Value {
    let mut usage = json!({
        "promptTokenCount": tokens.input(),
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens.input()}],
        "totalTokenCount": tokens.input(),
    });
    if tokens.read > 0 {
        usage["cachedContentTokenCount"] = tokens.read.into();
    }
    if is_last {
        usage["candidatesTokenCount"] = (tokens.output - tokens.reasoning).into();
        usage["totalTokenCount"] = (tokens.input() + tokens.output).into();
        if tokens.reasoning > 0 {
            usage["thoughtsTokenCount"] = tokens.reasoning.into();
        }
    }
    usage
}
