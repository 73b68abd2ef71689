//! Renders answers, whole and as events.

use bytes::Bytes;
use serde_json::{Value, json};

use super::ResponseParameters;
use crate::answer::{Answer, StopReason, TokenCounts, pieces};
use crate::ids;
use crate::wire::{AnswerWriter, RenderContext, event};

impl AnswerWriter for ResponseParameters {
    fn whole(&self, context: &RenderContext<'_>) -> Value {
        let mut answer = json!({
            "output": {"message": {"role": "assistant", "content": self.content(context.answer)}},
            "stopReason": stop_reason(&context.answer.stop),
            "usage": usage(&context.tokens),
            "metrics": {"latencyMs": 1},
        });
        self.add_tier(&mut answer, context);
        answer
    }

    fn events(&self, context: &RenderContext<'_>) -> Vec<Bytes> {
        let answer = context.answer;
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
        if let Some(reasoning) = answer.shown_reasoning(self.hides_thinking) {
            let texts = pieces(reasoning).into_iter();
            let mut deltas: Vec<Value> = texts.map(|text| json!({"text": text})).collect();
            if self.is_claude {
                deltas.push(json!({"signature": ids::signature(reasoning)}));
            }
            let deltas = deltas.into_iter();
            let deltas = deltas.map(|delta| json!({"reasoningContent": delta}));
            block(None, deltas.collect());
        }
        if let Some(text) = answer.shown_text() {
            let deltas = pieces(text).into_iter().map(|text| json!({"text": text}));
            block(None, deltas.collect());
        }
        for call in &answer.calls {
            let start = json!({"toolUse": {"toolUseId": call.id, "name": call.name}});
            let pieces = pieces(&call.arguments).into_iter();
            let deltas = pieces.map(|piece| json!({"toolUse": {"input": piece}}));
            block(Some(start), deltas.collect());
        }
        let stop = json!({"stopReason": stop_reason(&answer.stop)});
        let mut metadata = json!({"usage": usage(&context.tokens), "metrics": {"latencyMs": 1}});
        self.add_tier(&mut metadata, context);
        events.extend([("messageStop", stop), ("metadata", metadata)]);
        let events = events.into_iter().map(|(name, mut data)| {
            // Padding hides the length of an event.
            data["p"] = json!("abcdefgh");
            event(name, &data)
        });
        events.collect()
    }
}

impl ResponseParameters {
    fn add_tier(&self, to: &mut Value, context: &RenderContext<'_>) {
        if let Some(tier) = context.scripted.service_tier.or(self.tier.as_deref()) {
            to["serviceTier"] = json!({"type": tier});
        }
    }

    fn content(&self, answer: &Answer) -> Vec<Value> {
        let mut blocks = Vec::new();
        if let Some(reasoning) = answer.shown_reasoning(self.hides_thinking) {
            let mut own = json!({"text": reasoning});
            if self.is_claude {
                own["signature"] = ids::signature(reasoning).into();
            }
            blocks.push(json!({"reasoningContent": {"reasoningText": own}}));
        }
        blocks.extend(answer.shown_text().map(|text| json!({"text": text})));
        for call in &answer.calls {
            blocks.push(json!({"toolUse": {
                "toolUseId": call.id,
                "name": call.name,
                "input": call.input(),
            }}));
        }
        blocks
    }
}

fn stop_reason(stop: &StopReason) -> &'static str {
    match stop {
        StopReason::End => "end_turn",
        StopReason::ToolCalls => "tool_use",
        StopReason::Length => "max_tokens",
        StopReason::Sequence(_) => "stop_sequence",
        StopReason::Refusal => "content_filtered",
    }
}

fn usage(tokens: &TokenCounts) -> Value {
    let written = tokens.input.written + tokens.input.written_1h;
    let mut usage = json!({
        "inputTokens": tokens.input.uncached,
        "outputTokens": tokens.output,
        "totalTokens": tokens.input.total() + tokens.output,
        "cacheReadInputTokens": tokens.input.read,
        "cacheWriteInputTokens": written,
    });
    if written > 0 {
        let details = [
            ("1h", tokens.input.written_1h),
            ("5m", tokens.input.written),
        ]
        .into_iter();
        let details = details.filter(|(_, tokens)| *tokens > 0);
        let details = details.map(|(ttl, tokens)| json!({"ttl": ttl, "inputTokens": tokens}));
        usage["cacheDetails"] = details.collect();
    }
    usage
}
