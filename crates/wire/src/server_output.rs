//! Output of tools that a provider has run, in an answer.
//!
//! Such an answer depends on more than its request: it is never stored, even if nothing in the request offered a tool.
//! Kinds of output that a model alone writes are listed; any other one counts as that of a tool.

use cachalot_core::json::is_empty;
use serde_json::Value;

use crate::shared_members::normalized;
use crate::{Block, Extra, Format, Members, Reply, SharedMembers, for_format};

/// Returns the name of the first output in an answer that a tool of the provider may have made.
#[must_use]
pub fn server_output(format: Format, reply: &Reply) -> Option<String> {
    let members = for_format(format).members();
    let mut blocks = reply.message.content.iter();
    blocks
        .find_map(|block| of_block(members, block))
        .or_else(|| of_message(members, &reply.message.extra))
        .or_else(|| of_envelope(members, &reply.extra))
}

fn of_block(members: &Members, block: &Block) -> Option<String> {
    match block {
        Block::Text { extra, .. } => of_text(members, extra),
        Block::ToolUse(call) => of_call(&call.extra),
        Block::Reasoning(_) => None,
        Block::Image(_) => Some("image".to_owned()),
        Block::ToolResult(_) => Some("tool_result".to_owned()),
        Block::Other { verbatim, .. } if members.is_by_member => {
            let is_plain = |name: &str| members.parts.get(name).is_some_and(|part| part.by_model);
            unlisted(verbatim.as_object()?, &is_plain)
        }
        Block::Other { verbatim, .. } => {
            let kind = verbatim.get("type").and_then(Value::as_str);
            if !members.is_by_model(verbatim) {
                Some(kind.unwrap_or("unknown").to_owned())
            } else {
                unknown_part(members, verbatim)
            }
        }
    }
}

/// Returns the type of the first part of an item that no table declares.
fn unknown_part(members: &Members, item: &Value) -> Option<String> {
    let lists = members.part_lists.iter();
    let parts = lists
        .filter_map(|list| item.get(list)?.as_array())
        .flatten();
    let mut kinds = parts.map(|part| part.get("type").and_then(Value::as_str).unwrap_or_default());
    let found = kinds.find(|kind| !members.parts.contains_key(*kind));
    found.map(str::to_owned)
}

/// Judges the members of a text beside its words.
fn of_text(members: &Members, extra: &Extra) -> Option<String> {
    if members.citations.is_empty() {
        return extra.iter().find_map(|(name, value)| trace(name, value));
    }
    let citations = extra.get("citations").and_then(Value::as_array);
    let kinds = citations
        .into_iter()
        .flatten()
        .map(|citation| citation.get("type")?.as_str());
    let is_listed = |kind: &str| members.citations.iter().any(|listed| listed == kind);
    let mut unlisted = kinds.filter(|kind| !kind.is_some_and(is_listed));
    unlisted
        .next()
        .map(|kind| kind.unwrap_or("citations").to_owned())
}

/// Judges the members of a call beside its name and arguments: a tool of the provider may have made the call.
fn of_call(extra: &Extra) -> Option<String> {
    let kind = extra.get("type").and_then(Value::as_str);
    let caller = extra
        .get("caller")
        .and_then(|caller| caller.get("type")?.as_str());
    let unlisted = [
        kind.filter(|kind| *kind != "custom"),
        caller.filter(|caller| *caller != "direct"),
    ];
    unlisted.into_iter().flatten().next().map(str::to_owned)
}

fn of_message(members: &Members, extra: &Extra) -> Option<String> {
    let traced = || extra.iter().find_map(|(name, value)| trace(name, value));
    let is_plain = |name: &str| members.message.iter().any(|listed| listed == name);
    if members.message.is_empty() {
        traced()
    } else {
        unlisted(extra, &is_plain).or_else(traced)
    }
}

/// Judges the members of an answer beside its message.
fn of_envelope(members: &Members, extra: &Extra) -> Option<String> {
    let rules = &members.envelope;
    let is_in = |list: &[String], name: &str| list.iter().any(|listed| listed == name);
    let of_member = |(name, value): (&String, &Value)| {
        let is_traced = rules
            .traced
            .as_ref()
            .is_none_or(|traced| is_in(traced, name));
        let is_named = || is_trace(name) || is_in(&rules.refused, name);
        match is_traced {
            _ if is_in(&rules.plain, name) => None,
            true if !is_in(&rules.refused, name) => trace(name, value),
            _ => (is_named() && !is_empty(value)).then(|| name.clone()),
        }
    };
    extra.iter().find_map(of_member).or_else(|| {
        // The provider has asked a model more than once.
        let steps = extra.get("usage")?.get("iterations")?.as_array()?;
        let mut kinds = steps.iter().filter_map(|step| step.get("type")?.as_str());
        kinds.find(|kind| *kind != "message").map(str::to_owned)
    })
}

/// Returns the first member that is neither plain nor empty.
fn unlisted(members: &Extra, is_plain: &impl Fn(&str) -> bool) -> Option<String> {
    let mut members = members.iter().filter(|(name, _)| !name.starts_with('@'));
    let found = members.find(|(name, value)| !is_plain(name) && !is_empty(value));
    found.map(|(name, _)| name.clone())
}

/// Returns the name of a member, or of one in its value, that shows the work of a tool.
fn trace(name: &str, value: &Value) -> Option<String> {
    let repeated = &SharedMembers::built_in().repeated;
    if repeated.iter().any(|listed| listed == name) {
        return None;
    }
    if is_trace(name) && !is_empty(value) {
        return Some(name.to_owned());
    }
    match value {
        Value::Array(items) => items.iter().find_map(|item| trace("", item)),
        Value::Object(members) => members.iter().find_map(|(name, value)| trace(name, value)),
        _ => None,
    }
}

fn is_trace(name: &str) -> bool {
    let name = normalized(name);
    let mut traces = SharedMembers::built_in().traces.iter();
    traces.any(|part| name.contains(part.as_str()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sse::Event;

    fn found(format: Format, answer: &Value) -> Option<String> {
        let reply = for_format(format).reply(answer.to_string().as_bytes());
        server_output(format, &reply.unwrap())
    }

    fn streamed(format: Format, chunks: &[Value]) -> Option<String> {
        let mut reader = for_format(format).reader();
        for chunk in chunks {
            let event = Event {
                name: "message".to_owned(),
                data: chunk.to_string(),
            };
            reader.event(&event).unwrap();
        }
        server_output(format, &reader.finish().unwrap())
    }

    fn responses(output: &Value) -> Value {
        json!({"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": output,
            "background": false, "tools": [{"type": "function", "name": "web_search", "parameters": {"citations": 1}}],
            "metadata": {"search": "x"}, "tool_usage": {"image_gen": {}, "web_search": {"num_requests": 0}},
            "usage": {"input_tokens": 1, "output_tokens": 1}})
    }

    fn messages(content: &Value) -> Value {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
            "stop_reason": "end_turn", "container": null,
            "context_management": {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 3}]},
            "usage": {"input_tokens": 1, "output_tokens": 1, "iterations": [{"type": "message"}],
                "server_tool_use": {"web_search_requests": 0}}})
    }

    fn gemini(part: &Value) -> Value {
        json!({"modelVersion": "m", "candidates": [{"content": {"parts": [part]}, "finishReason": "STOP",
            "groundingMetadata": {}, "citationMetadata": {"citationSources": [{"startIndex": 1, "uri": "https://a.example"}]},
            "safetyRatings": [{"category": "c", "probability": "LOW"}]}]})
    }

    fn chat(message: &Value) -> Value {
        json!({"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop",
            "logprobs": {"content": [{"token": "a", "logprob": -1}]}, "content_filter_results": {"hate": {"filtered": false}}}],
            "citations": null, "search_results": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "num_sources_used": 0}})
    }

    fn chat_chunk(text: &str) -> Value {
        json!({"id": "c", "model": "m", "choices": [
            {"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]})
    }

    #[test]
    fn answers_of_the_model_alone_are_plain() {
        let text = json!({"type": "message", "id": "m", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "x", "annotations": [], "logprobs": []}]});
        for item in [
            text,
            json!({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"}),
            json!({"type": "function_call", "id": "f", "call_id": "c", "name": "web_search", "arguments": "{}"}),
            json!({"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"}),
            json!({"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {}}),
        ] {
            assert_eq!(
                found(Format::Responses, &responses(&json!([item]))),
                None,
                "{item}"
            );
        }
        for block in [
            json!({"type": "text", "text": "x", "citations": [{"type": "page_location"}, {"type": "search_result_location"}]}),
            json!({"type": "thinking", "thinking": "x", "signature": "s"}),
            json!({"type": "redacted_thinking", "data": "d"}),
            json!({"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "direct"}}),
        ] {
            assert_eq!(
                found(Format::Messages, &messages(&json!([block]))),
                None,
                "{block}"
            );
        }
        for part in [
            json!({"text": "x"}),
            json!({"text": "x", "thought": true, "thoughtSignature": "s"}),
            json!({"functionCall": {"name": "f", "args": {"search": 1}}, "thoughtSignature": "s"}),
            json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}}),
        ] {
            assert_eq!(found(Format::Gemini, &gemini(&part)), None, "{part}");
        }
        for message in [
            json!({"role": "assistant", "content": "x", "annotations": [], "refusal": null, "reasoning": "r"}),
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "web_search", "arguments": "{}"}},
                {"id": "d", "type": "custom", "custom": {"name": "g", "input": "x"}}]}),
            json!({"role": "assistant", "content": [{"type": "text", "text": "x"}]}),
        ] {
            assert_eq!(found(Format::Chat, &chat(&message)), None, "{message}");
        }
    }

    #[test]
    fn output_that_is_not_listed_is_found() {
        for kind in [
            "web_search_call",
            "file_search_call",
            "code_interpreter_call",
            "image_generation_call",
            "mcp_call",
            "mcp_list_tools",
            "shell_call_output",
            "tool_search_call",
            "tool_search_output",
            "program",
            "program_output",
            "compaction",
            "something_new",
        ] {
            let answer = responses(&json!([{"type": kind, "id": "x"}]));
            assert_eq!(found(Format::Responses, &answer).as_deref(), Some(kind));
        }
        let cited = json!([{"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "x", "annotations": [{"type": "url_citation", "url": "https://a.example"}]}]}]);
        assert!(found(Format::Responses, &responses(&cited)).is_some());
        let mut counted = responses(&json!([]));
        counted["tool_usage"]["web_search"]["num_requests"] = json!(1);
        assert!(found(Format::Responses, &counted).is_some());
        for block in [
            json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
            json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}),
            json!({"type": "code_execution_tool_result"}),
            json!({"type": "mcp_tool_use", "id": "s", "name": "f"}),
            json!({"type": "container_upload", "file_id": "f"}),
            json!({"type": "text", "text": "x", "citations": [{"type": "web_search_result_location"}]}),
            json!({"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "code_execution_20250825"}}),
            json!({"type": "something_new"}),
        ] {
            assert!(
                found(Format::Messages, &messages(&json!([block]))).is_some(),
                "{block}"
            );
        }
        for (pointer, value) in [
            ("/container", json!({"id": "c"})),
            ("/usage/server_tool_use/web_search_requests", json!(1)),
            ("/usage/iterations/0/type", json!("advisor_message")),
        ] {
            let mut answer = messages(&json!([{"type": "text", "text": "x"}]));
            *answer.pointer_mut(pointer).unwrap() = value;
            assert!(found(Format::Messages, &answer).is_some(), "{pointer}");
        }
        for part in [
            json!({"executableCode": {"language": "PYTHON", "code": "1"}}),
            json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
            json!({"toolCall": {"toolType": "GOOGLE_SEARCH"}}),
            json!({"fileData": {"fileUri": "files/x"}}),
        ] {
            assert!(found(Format::Gemini, &gemini(&part)).is_some(), "{part}");
        }
        for (member, value) in [
            ("groundingMetadata", json!({"webSearchQueries": ["x"]})),
            (
                "urlContextMetadata",
                json!({"urlMetadata": [{"retrievedUrl": "https://a.example"}]}),
            ),
        ] {
            let mut answer = gemini(&json!({"text": "x"}));
            answer["candidates"][0][member] = value;
            assert_eq!(found(Format::Gemini, &answer).as_deref(), Some(member));
        }
        // A later part of a stream says nothing more.
        for (member, value) in [
            ("groundingMetadata", json!({"webSearchQueries": ["x"]})),
            (
                "groundingMetadata",
                json!({"groundingChunks": [{"web": {}}, {"web": {"uri": "x"}}]}),
            ),
        ] {
            let mut first = gemini(&json!({"text": "x"}));
            first["candidates"][0][member] = value;
            let chunks = [first, gemini(&json!({"text": "y"}))];
            assert_eq!(streamed(Format::Gemini, &chunks).as_deref(), Some(member));
        }
        let mut first = chat_chunk("x");
        first["citations"] = json!(["https://a.example"]);
        let mut second = chat_chunk("y");
        second["citations"] = json!([]);
        assert!(streamed(Format::Chat, &[first, second]).is_some());
        for message in [
            json!({"content": "x", "annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.example"}}]}),
            json!({"content": "x", "executed_tools": [{"type": "search"}]}),
            json!({"content": "x", "context": {"citations": [{"content": "x"}]}}),
            json!({"content": "x", "provider_specific_fields": {"citations": [1]}}),
            json!({"content": [{"type": "reference", "reference_ids": [1]}]}),
            json!({"content": null, "tool_calls": [{"id": "c", "type": "builtin_function", "function": {"name": "$web_search", "arguments": "{}"}}]}),
        ] {
            assert!(found(Format::Chat, &chat(&message)).is_some(), "{message}");
        }
        let mut searched = chat(&json!({"content": "x"}));
        searched["search_results"] = json!([{"url": "https://a.example"}]);
        assert!(found(Format::Chat, &searched).is_some());
    }
}
