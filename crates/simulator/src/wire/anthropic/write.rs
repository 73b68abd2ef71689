//! Renders Messages answers, whole and as events.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{AnswerWriter, RenderContext, event, extend};
use super::{ID_PREFIX, ResponseParameters};
use crate::answer::{Answer, InputTokens, StopReason, pieces};
use crate::ids;

impl AnswerWriter for ResponseParameters {
    fn whole(&self, context: &RenderContext<'_>) -> Value {
        let mut message = self.head(context);
        message["content"] = Value::from(self.content(context));
        extend(&mut message, &self.stop(context.answer));
        message["usage"] = self.usage(context, context.tokens.output);
        extend(&mut message["usage"], &self.charged_work(context));
        message
    }

    fn events(&self, context: &RenderContext<'_>) -> Vec<Bytes> {
        let (answer, tokens) = (context.answer, &context.tokens);
        let mut begun = self.head(context);
        // The output count at this point is that of the first token.
        begun["usage"] = self.usage(context, tokens.output.min(1));
        let mut events = vec![typed("message_start", json!({"message": begun}))];
        let mut arguments = answer.calls.iter().map(|call| call.arguments.as_str());
        for (at, block) in self.content(context).iter().enumerate() {
            let raw = match block["type"].as_str() {
                Some("tool_use") => arguments.next(),
                _ => None,
            };
            content_block(&mut events, at, block, raw);
            if at == 0 {
                events.insert(2, typed("ping", json!({})));
            }
        }
        let mut last = self.usage(context, tokens.output);
        if let Some(fields) = last.as_object_mut() {
            fields.retain(|key, _| !ONLY_AT_START.contains(&key.as_str()));
        }
        extend(&mut last, &self.charged_work(context));
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
            StopReason::End if self.is_compacting => ("compaction", None),
            StopReason::End => ("end_turn", None),
            StopReason::ToolCalls => ("tool_use", None),
            StopReason::Length => ("max_tokens", None),
            StopReason::Refusal => ("refusal", None),
            StopReason::Sequence(sequence) => ("stop_sequence", Some(sequence)),
        };
        json!({"stop_reason": reason, "stop_sequence": sequence})
    }

    /// Returns the blocks of the answer.
    pub(crate) fn content(&self, context: &RenderContext<'_>) -> Vec<Value> {
        let answer = context.answer;
        if self.is_prewarming {
            return Vec::new();
        }
        if self.is_compacting {
            return vec![compaction(answer.text.as_deref().unwrap_or_default())];
        }
        let mut blocks = Vec::new();
        if self.may_compact && context.scripted.compaction.is_some() {
            blocks.push(compaction("A summary of the conversation."));
        }
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

    fn usage(&self, context: &RenderContext<'_>, output: u64) -> Value {
        let (tokens, scripted) = (&context.tokens, &context.scripted);
        let mut usage = counts(&tokens.input, output);
        usage["service_tier"] = json!(scripted.service_tier.unwrap_or("standard"));
        let reported = [
            ("inference_geo", scripted.inference_geo, &self.inference_geo),
            ("speed", scripted.speed, &self.speed),
        ];
        for (key, scripted, asked) in reported {
            if let Some(value) = scripted.or(asked.as_deref()) {
                usage[key] = json!(value);
            }
        }
        if self.thinks {
            let thinking = tokens.reasoning.min(output);
            usage["output_tokens_details"] = json!({"thinking_tokens": thinking});
        }
        usage
    }

    /// Returns the members of the final usage that count work beside the answer.
    fn charged_work(&self, context: &RenderContext<'_>) -> Value {
        let scripted = &context.scripted;
        let mut usage = json!({});
        if let Some(searches) = scripted.web_searches {
            usage["server_tool_use"] =
                json!({"web_search_requests": searches, "web_fetch_requests": 0});
        }
        if let Some(compaction) = &scripted.compaction {
            let input = InputTokens {
                uncached: compaction.input,
                read: compaction.cache_read,
                written: compaction.cache_write,
                ..InputTokens::default()
            };
            let mut compacting = counts(&input, compaction.output);
            compacting["type"] = json!("compaction");
            let mut answering = counts(&context.tokens.input, context.tokens.output);
            answering["type"] = json!("message");
            answering["model"] = json!(self.model);
            usage["iterations"] = json!([compacting, answering]);
        }
        usage
    }
}

/// Renders a compaction of the conversation.
fn compaction(summary: &str) -> Value {
    json!({
        "type": "compaction",
        "content": summary,
        "encrypted_content": null,
        "signature": ids::signature(summary),
    })
}

/// Members of the usage that only the first event of a stream has.
const ONLY_AT_START: [&str; 4] = ["cache_creation", "inference_geo", "service_tier", "speed"];

/// Renders the counts of a request or of one iteration of it.
fn counts(input: &InputTokens, output: u64) -> Value {
    json!({
        "input_tokens": input.uncached,
        "cache_creation_input_tokens": input.written + input.written_1h,
        "cache_read_input_tokens": input.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": input.written,
            "ephemeral_1h_input_tokens": input.written_1h,
        },
        "output_tokens": output,
    })
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
        Some("compaction") => {
            let summary = begun["content"].take();
            deltas.push(json!({"type": "compaction_delta", "content": summary}));
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
