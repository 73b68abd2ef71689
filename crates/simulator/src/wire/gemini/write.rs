//! Renders answers.

use bytes::Bytes;
use serde_json::{Value, json};

use super::content::{signature, signed_call};
use super::{ResponseParameters, generation};
use crate::answer::{Answer, AnsweredCall, StopReason, TokenCounts, pieces};
use crate::wire::{AnswerWriter, RenderContext, data};

impl AnswerWriter for ResponseParameters {
    fn whole(&self, context: &RenderContext<'_>) -> Value {
        self.response(self.parts(context.answer, false), true, context)
    }

    fn events(&self, context: &RenderContext<'_>) -> Vec<Bytes> {
        let mut parts = self.parts(context.answer, true).into_iter().peekable();
        let mut events = Vec::new();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            events.push(data(&self.response(vec![part], is_last, context)));
        }
        if events.is_empty() {
            events.push(data(&self.response(Vec::new(), true, context)));
        }
        events
    }
}

impl ResponseParameters {
    /// Renders a whole answer or a chunk. Only the last one has a reason for its end.
    fn response(&self, parts: Vec<Value>, is_last: bool, context: &RenderContext<'_>) -> Value {
        let mut candidate = json!({"index": 0});
        if !parts.is_empty() {
            candidate["content"] = json!({"role": "model", "parts": parts});
        }
        if is_last {
            let finish = match context.answer.stop {
                StopReason::End | StopReason::ToolCalls | StopReason::Sequence(_) => "STOP",
                StopReason::Length => "MAX_TOKENS",
                StopReason::Refusal => "SAFETY",
            };
            candidate["finishReason"] = finish.into();
            if let Some(searches) = context.scripted.web_searches {
                let queries = (1..=searches).map(|number| format!("query {number}"));
                let queries: Vec<String> = queries.collect();
                candidate["groundingMetadata"] = json!({"webSearchQueries": queries});
            }
        }
        let mut usage = usage(&context.tokens, is_last);
        if let Some(tier) = context.scripted.service_tier.or(self.tier.as_deref()) {
            usage["serviceTier"] = tier.into();
        }
        json!({
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": self.model,
            "responseId": context.ids.answer("resp-"),
        })
    }

    /// Returns thoughts, text and calls as parts. The signature is on the first call, or else on the last part;
    /// a stream sends the latter signature in a separate part.
    fn parts(&self, answer: &Answer, is_streamed: bool) -> Vec<Value> {
        let mut parts = Vec::new();
        let split = |text: &str| -> Vec<String> {
            if is_streamed {
                pieces(text).into_iter().map(str::to_owned).collect()
            } else {
                vec![text.to_owned()]
            }
        };
        for piece in answer.reasoning.as_deref().map(split).unwrap_or_default() {
            parts.push(json!({"text": piece, "thought": true}));
        }
        for piece in answer.text.as_deref().map(split).unwrap_or_default() {
            parts.push(json!({"text": piece}));
        }
        let signs = generation(&self.model).is_none_or(|number| number >= 3);
        for (at, call) in answer.calls.iter().enumerate() {
            let mut part = json!({"functionCall": self.function(call)});
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

    fn function(&self, call: &AnsweredCall) -> Value {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
        let mut function = json!({"name": call.name, "args": arguments});
        // Calls have ids from Gemini 3 on.
        if generation(&self.model).is_some_and(|number| number >= 3) {
            function["id"] = call.id.as_str().into();
        }
        function
    }
}

/// Renders the usage; a chunk before the last one does not count the output.
fn usage(tokens: &TokenCounts, is_last: bool) -> Value {
    let mut usage = json!({
        "promptTokenCount": tokens.input.total(),
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens.input.total()}],
        "totalTokenCount": tokens.input.total(),
    });
    if tokens.input.read > 0 {
        usage["cachedContentTokenCount"] = tokens.input.read.into();
    }
    if is_last {
        usage["candidatesTokenCount"] = (tokens.output - tokens.reasoning).into();
        usage["totalTokenCount"] = (tokens.input.total() + tokens.output).into();
        if tokens.reasoning > 0 {
            usage["thoughtsTokenCount"] = tokens.reasoning.into();
        }
    }
    usage
}
