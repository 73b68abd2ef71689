//! Renders Responses answers.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{AnswerWriter, RenderContext, extend};
use super::{ResponseParameters, events};
use crate::answer::{StopReason, TokenCounts};
use crate::ids;

impl AnswerWriter for ResponseParameters {
    fn whole(&self, context: &RenderContext<'_>) -> Value {
        let (status, reason) = match context.answer.stop {
            StopReason::Length => ("incomplete", Some("max_output_tokens")),
            StopReason::Refusal => ("incomplete", Some("content_filter")),
            _ => ("completed", None),
        };
        let created = context.now / 1_000;
        let mut response = json!({
            "id": context.ids.answer(super::ID_PREFIX),
            "object": "response",
            "created_at": created,
            "status": status,
            "background": false,
            "completed_at": reason.is_none().then_some(created),
            "error": null,
            "incomplete_details": reason.map(|reason| json!({"reason": reason})),
            "service_tier": "default",
            "output": self.output_items(context),
            "usage": self.usage(&context.tokens),
        });
        extend(&mut response, &self.repeated);
        response["service_tier"] = json!("default");
        if let Some(diagnosis) = &context.diagnosis {
            response["prompt_cache_diagnostics"] = diagnosis.clone();
        }
        response
    }

    fn events(&self, context: &RenderContext<'_>) -> Vec<Bytes> {
        events::events_of_response(&self.whole(context))
    }
}

impl ResponseParameters {
    /// Returns the finished items of the answer.
    fn output_items(&self, context: &RenderContext<'_>) -> Vec<Value> {
        let (answer, ids) = (context.answer, context.ids);
        let mut items = Vec::new();
        if let Some(reasoning) = &answer.reasoning {
            items.push(self.reasoning_item(reasoning, ids.part("rs_", 0)));
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

    fn reasoning_item(&self, reasoning: &str, id: String) -> Value {
        let summary = match self.has_summary {
            true => json!([{"type": "summary_text", "text": reasoning}]),
            false => json!([]),
        };
        let mut item = json!({"id": id, "type": "reasoning", "summary": summary});
        if self.has_encrypted {
            item["encrypted_content"] = Value::from(ids::encrypted(reasoning));
        }
        item
    }

    fn usage(&self, tokens: &TokenCounts) -> Value {
        let mut details = json!({
            "cached_tokens": tokens.input.read,
            "cache_write_tokens": tokens.input.written,
        });
        if self.charges_writes {
            details["cache_write_tokens_details"] =
                json!({"ttl_30m_tokens": tokens.input.written, "ttl_12h_tokens": 0});
        }
        json!({
            "input_tokens": tokens.input.total(),
            "input_tokens_details": details,
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
            "total_tokens": tokens.input.total() + tokens.output,
        })
    }
}
