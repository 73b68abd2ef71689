//! Renders Messages answers, whole and as events.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{AnswerWriter, RenderContext, event, extend};
use super::{ID_PREFIX, ResponseParameters};
use crate::answer::{Answer, StopReason, TokenCounts, pieces};
use crate::ids;

impl AnswerWriter for ResponseParameters {
    fn whole(&self, context: &RenderContext<'_>) -> Value {
        let mut message = self.head(context);
        message["content"] = Value::from(self.content(context.answer));
        extend(&mut message, &self.stop(context.answer));
        message["usage"] = self.usage(&context.tokens, context.tokens.output);
        message
    }

    fn events(&self, context: &RenderContext<'_>) -> Vec<Bytes> {
        let (answer, tokens) = (context.answer, &context.tokens);
        let mut begun = self.head(context);
        // The output count at this point is that of the first token.
        begun["usage"] = self.usage(tokens, tokens.output.min(1));
        let mut events = vec![typed("message_start", json!({"message": begun}))];
        let mut arguments = answer.calls.iter().map(|call| call.arguments.as_str());
        for (at, block) in self.content(answer).iter().enumerate() {
            let raw = match block["type"].as_str() {
                Some("tool_use") => arguments.next(),
                _ => None,
            };
            content_block(&mut events, at, block, raw);
            if at == 0 {
                events.insert(2, typed("ping", json!({})));
            }
        }
        let mut last = self.usage(tokens, tokens.output);
        if let Some(fields) = last.as_object_mut() {
            fields.retain(|key, _| key != "cache_creation" && key != "service_tier");
        }
        let delta = json!({"delta": self.stop(answer), "usage": last});
        events.push(typed("message_delta", delta));
        events.push(typed("message_stop", json!({})));
        events
    }
}

impl ResponseParameters {
    fn head(&self, context: &RenderContext<'_>) -> Value {
        let mut head = json!({
            "id": context.ids.answer(ID_PREFIX),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
        });
        if let Some(diagnosis) = &context.diagnosis {
            head["diagnostics"] = diagnosis.clone();
        }
        head
    }

    fn stop(&self, answer: &Answer) -> Value {
        let (reason, sequence) = match &answer.stop {
            _ if self.is_prewarming => ("max_tokens", None),
            StopReason::End => ("end_turn", None),
            StopReason::ToolCalls => ("tool_use", None),
            StopReason::Length => ("max_tokens", None),
            StopReason::Refusal => ("refusal", None),
            StopReason::Sequence(sequence) => ("stop_sequence", Some(sequence)),
        };
        json!({"stop_reason": reason, "stop_sequence": sequence})
    }

    /// Returns the blocks of the answer.
    pub(crate) fn content(&self, answer: &Answer) -> Vec<Value> {
        if self.is_prewarming {
            return Vec::new();
        }
        let mut blocks = Vec::new();
        if let Some(shown) = answer.shown_reasoning(self.hides_thinking) {
            blocks.push(json!({
                "type": "thinking",
                "thinking": shown,
                "signature": ids::signature(shown),
            }));
        }
        if let Some(text) = answer.shown_text() {
            blocks.push(json!({"type": "text", "text": text}));
        }
        for call in &answer.calls {
            blocks.push(json!({
                "type": "tool_use",
                "id": call.id,
                "name": call.name,
                "input": call.input(),
            }));
        }
        blocks
    }

    fn usage(&self, tokens: &TokenCounts, output: u64) -> Value {
        let mut usage = json!({
            "input_tokens": tokens.input.uncached,
            "cache_creation_input_tokens": tokens.input.written + tokens.input.written_1h,
            "cache_read_input_tokens": tokens.input.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": tokens.input.written,
                "ephemeral_1h_input_tokens": tokens.input.written_1h,
            },
            "output_tokens": output,
            "service_tier": "standard",
        });
        if self.thinks {
            let thinking = tokens.reasoning.min(output);
            usage["output_tokens_details"] = json!({"thinking_tokens": thinking});
        }
        usage
    }
}

/// Renders an event, whose data begins with its name.
fn typed(name: &str, fields: Value) -> Bytes {
    let mut data = json!({"type": name});
    extend(&mut data, &fields);
    event(name, &data)
}

/// Appends the events of a block. `raw` is the text of a tool call's arguments in the script.
fn content_block(events: &mut Vec<Bytes>, at: usize, block: &Value, raw: Option<&str>) {
    let mut begun = block.clone();
    let mut deltas = Vec::new();
    match block["type"].as_str() {
        Some("thinking") => {
            extend(&mut begun, &json!({"thinking": "", "signature": ""}));
            for piece in pieces(block["thinking"].as_str().unwrap_or_default()) {
                deltas.push(json!({"type": "thinking_delta", "thinking": piece}));
            }
            deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
        }
        Some("text") => {
            begun["text"] = json!("");
            for piece in pieces(block["text"].as_str().unwrap_or_default()) {
                deltas.push(json!({"type": "text_delta", "text": piece}));
            }
        }
        _ => {
            begun["input"] = json!({});
            let pieces = pieces(raw.unwrap_or_default());
            for piece in [""].into_iter().chain(pieces) {
                deltas.push(json!({"type": "input_json_delta", "partial_json": piece}));
            }
        }
    }
    let start = json!({"index": at, "content_block": begun});
    events.push(typed("content_block_start", start));
    let deltas = deltas
        .into_iter()
        .map(|delta| json!({"index": at, "delta": delta}));
    events.extend(deltas.map(|delta| typed("content_block_delta", delta)));
    events.push(typed("content_block_stop", json!({"index": at})));
}
