//! Renders Responses answers.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{AnswerWriter, RenderContext, extend};
use super::{ResponseParameters, events};
use crate::answer::{StopReason, TokenCounts};
use crate::ids::{self, Ids};

impl AnswerWriter for ResponseParameters {
    fn whole(&self, context: &RenderContext<'_>) -> Value {
        let (status, reason) = match context.answer.stop {
            _ if self.is_prewarming => ("completed", None),
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
            "output": self.output_items(context),
            "usage": self.usage(&context.tokens),
        });
        extend(&mut response, &self.repeated);
        let tier = context.scripted.service_tier.unwrap_or(self.tier);
        response["service_tier"] = json!(tier);
        if let Some(searches) = context.scripted.web_searches {
            // All families of tools are reported, with zero counts.
            response["tool_usage"] = json!({
                "image_gen": {
                    "input_tokens": 0,
                    "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
                    "output_tokens": 0,
                    "total_tokens": 0,
                },
                "web_search": {"num_requests": searches},
            });
        }
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
        if self.is_prewarming {
            return Vec::new();
        }
        if self.compacts.is_some() {
            let summary = answer.text.as_deref().unwrap_or_default();
            return vec![compaction(ids, summary)];
        }
        let mut items = Vec::new();
        if self.may_compact && context.scripted.compaction.is_some() {
            items.push(compaction(ids, "A summary of the conversation."));
        }
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
            let mut item = json!({
                "id": ids.part("fc_", at),
                "type": "function_call",
                "status": "completed",
                "arguments": call.arguments,
                "call_id": call.id,
                "name": call.name,
            });
            if let Some(namespace) = self.namespaces.get(&call.name) {
                item["namespace"] = json!(namespace);
            }
            items.push(item);
        }
        items
    }

    fn reasoning_item(&self, reasoning: &str, id: String) -> Value {
        let summary = if self.has_summary {
            json!([{"type": "summary_text", "text": reasoning}])
        } else {
            json!([])
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
            "cache_write_tokens": tokens.input.written + tokens.input.written_12h,
        });
        if self.charges_writes {
            details["cache_write_tokens_details"] = json!({
                "ttl_30m_tokens": tokens.input.written,
                "ttl_12h_tokens": tokens.input.written_12h,
            });
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

/// Renders a compaction of the conversation.
fn compaction(ids: &Ids, summary: &str) -> Value {
    json!({
        "id": ids.part("cmp_", 0),
        "type": "compaction",
        "encrypted_content": ids::encrypted(summary),
    })
}
